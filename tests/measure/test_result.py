"""The answer: what it says of itself."""

import numpy as np
import pytest

import veil
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


def test_the_interval_of_a_sample_is_that_of_the_normal_law_within_the_bounds():
    found = Opacity(0.5, 0.3, 0.9, prior_bits=1.0, method="sampled", num_sequences=10, std_error=0.1)
    assert found.interval(0.5) == pytest.approx((0.5 - 0.067449, 0.5 + 0.067449), abs=1e-6)
    assert found.interval() == pytest.approx((0.5 - 0.195996, 0.5 + 0.195996), abs=1e-6)
    assert found.interval(0.999) == (pytest.approx(0.3), pytest.approx(0.829053, abs=1e-6))
    assert found.interval(1 - 1e-12) == (0.3, 0.9)
    bracket = Opacity(0.25, 0.25, 0.5, prior_bits=1.0, method="bracket", num_sequences=2)
    assert bracket.interval(0.5) == (0.25, 0.5)
    for confidence in (0.0, 1.0, -0.1, 1.1):
        with pytest.raises(veil.InputError, match=r"confidence is .*, expected a probability between 0 and 1"):
            found.interval(confidence)


def test_numbers_of_facts():
    exact = Opacity(0.25, 0.25, 0.25, prior_bits=1.0, method="exact", num_sequences=1234)
    assert exact.facts() == [
        ("hidden", "0.250000 of 1.000000 bits (exact, 1,234 sequences)"),
        ("leaked", "0.750000 bits"),
    ]
    bracket = Opacity(1 / 3, 1 / 3, 2 / 3, prior_bits=1.0, method="bracket", num_sequences=2)
    assert bracket.facts()[0][1].startswith("0.333333 … 0.666667 of")  # rounded outward
    sampled = Opacity(0.25, 0.0, 1.0, prior_bits=1.0, method="sampled", num_sequences=9, std_error=0.012345)
    assert sampled.facts()[0][1].startswith("0.250000 ± 0.012 of")


def test_a_secret_that_is_certain_leaves_nothing_to_hide():
    model = veil.Model(np.eye(2)[:, None], np.zeros((2, 1)), [1, 0])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState([1]), 2)
    for method in ("exact", "bracket", "sampled"):
        found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method)
        assert dict(found.facts()) == {"hidden": "nothing to hide: the secret is certain before anything is observed"}
