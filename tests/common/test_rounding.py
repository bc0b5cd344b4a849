"""Proven numbers rounded outward: never on the wrong side, never further than one unit of the last digit."""

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from veil.common.rounding import at_least, at_most


def test_by_hand():
    assert (at_least(0.12349), at_most(0.12341)) == ("0.1234", "0.1235")
    assert (at_least(0.5), at_most(0.5)) == ("0.5000", "0.5000")
    assert (at_least(0.1), at_most(0.1)) == ("0.1000", "0.1001")  # the float64 nearest to 0.1 is a little above it
    assert (at_least(-1e-9), at_most(-1e-9)) == ("-0.0001", "0.0000")
    assert (at_least(1e-9), at_most(1e-9)) == ("0.0000", "0.0001")
    assert (at_least(2 / 3, 6), at_most(2 / 3, 6)) == ("0.666666", "0.666667")
    assert (at_least(math.inf), at_most(-math.inf)) == ("inf", "-inf")


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 12))
def test_outward_and_tight(value: float, digits: int):
    low, high = Fraction(at_least(value, digits)), Fraction(at_most(value, digits))
    unit = Fraction(1, 10**digits)
    assert low <= Fraction(value) <= high
    assert Fraction(value) - low < unit
    assert high - Fraction(value) < unit
