"""The answer: what it says of itself."""

import pytest

from veil.measure.result import Opacity


def test_what_leaks_is_what_does_not_stay_hidden():
    found = Opacity(bits=0.25, lower=0.25, upper=0.25, prior_bits=1.0, method="exact", num_sequences=7)
    assert found.leakage_bits == 0.75
    assert found.std_error == 0
    text = str(found)
    for part in ("0.25", "exact", "7 sequences", "0.75"):
        assert part in text


def test_rounding_does_not_leak_less_than_nothing():
    found = Opacity(1 + 1e-15, 1 + 1e-15, 1 + 1e-15, prior_bits=1.0, method="exact", num_sequences=1)
    assert found.leakage_bits == 0


def test_a_bracket_shows_both_ends():
    found = Opacity(bits=0.25, lower=0.25, upper=0.5, prior_bits=1.0, method="bracket", num_sequences=1_000_000)
    text = str(found)
    for part in ("0.25", "0.5", "bracket", "1,000,000"):
        assert part in text


def test_an_answer_cannot_be_changed():
    found = Opacity(bits=0.25, lower=0.25, upper=0.25, prior_bits=1.0, method="exact", num_sequences=7)
    with pytest.raises(AttributeError):
        found.bits = 1.0  # type: ignore[misc]
