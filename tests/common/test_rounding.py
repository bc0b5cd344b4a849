"""Rounding for people: outward, by no more than one unit of the last digit, and exact where the number is."""

import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.seeds import looped
from veil.common.rounding import lower_text, upper_text


@given(st.floats(-1e6, 1e6), st.integers(0, 8))
@settings(derandomize=True, max_examples=500, deadline=None)
def test_texts_enclose_the_number_by_one_unit_at_most(value: float, digits: int):
    low, high = lower_text(value, digits), upper_text(value, digits)
    assert float(low) <= value <= float(high)
    assert Fraction(high) - Fraction(low) <= Fraction(1, 10**digits)


@looped(
    ("value", "low", "high"),
    [
        (0.5, "0.5000", "0.5000"),
        (0.1, "0.1000", "0.1000"),  # the number that 0.1 reads as
        (math.nextafter(0.1, 1), "0.1000", "0.1001"),
        (math.nextafter(0.1, 0), "0.0999", "0.1000"),
        (0.5 + 2.0**-40, "0.5000", "0.5001"),  # a true ceiling: no excess is too small to count
        (1.0 - 2.0**-40, "0.9999", "1.0000"),
        (0.0, "0.0000", "0.0000"),
        (-0.0, "0.0000", "0.0000"),
        (-1e-9, "-0.0001", "0.0000"),
        (2.99999, "2.9999", "3.0000"),
        (math.inf, "∞", "∞"),
        (-math.inf, "−∞", "−∞"),
        (math.nan, "–", "–"),
    ],
)
def test_known_values(value: float, low: str, high: str):
    assert (lower_text(value), upper_text(value)) == (low, high)


def test_more_digits():
    assert (lower_text(2 / 3, 6), upper_text(2 / 3, 6)) == ("0.666666", "0.666667")
