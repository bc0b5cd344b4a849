"""Thresholds on the return: numbers, percentages, and what is refused."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.seeds import looped


def problem(min_return: Any) -> veil.Problem:
    model = veil.Model(np.full((2, 2, 2), 0.5), [0.0, 1.0], 0)
    return veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), 3, min_return)


@looped(
    ("given", "kept"),
    [
        ("80%", "80%"),
        ("80 %", "80%"),
        (" 80.0% ", "80%"),
        ("12.5%", "12.5%"),
        (".5%", "0.5%"),
        ("0%", "0%"),
        ("-0%", "0%"),
        ("100%", "100%"),
        ("33.333333333333336%", "33.333333333333336%"),
        ("0.00001%", "0.00001%"),
        (1, 1.0),
        (-0.25, -0.25),
        (np.float64(0.3), 0.3),
        (None, None),
    ],
)
def test_a_threshold_is_kept_in_one_form(given: Any, kept: Any):
    found = problem(given)
    assert found.min_return == kept
    assert type(found.min_return) is type(kept)
    assert found.replace(horizon=2).min_return == kept  # what is kept is accepted again


@looped("given", ["120%", "-1%", "100.0001%"])
def test_a_percentage_outside_the_range_is_refused(given: str):
    with pytest.raises(veil.InputError, match="expected a percentage from 0% to 100%") as caught:
        problem(given)
    assert repr(given) in str(caught.value)
    assert "smallest to the largest attainable return" in str(caught.value)


@looped("given", ["80", "0.3", "%", "nan%", "inf%", "1e1%", "8_0%", "80%%", "most", "", "80 percent"])
def test_other_words_are_refused(given: str):
    with pytest.raises(veil.InputError, match="a percentage such as '80%'") as caught:
        problem(given)
    assert f"min_return is {given!r}" in str(caught.value)


@looped("given", [True, [0.3], b"80%", float("nan"), float("inf")])
def test_other_things_are_refused(given: Any):
    with pytest.raises(veil.InputError, match=r"number or None, or a percentage such as '80%'"):
        problem(given)


def test_the_threshold_is_shown():
    assert repr(problem("80 %")).endswith("horizon 3, return ≥ 80%)")
    assert repr(problem(0.3)).endswith("horizon 3, return ≥ 0.3)")
    assert repr(problem(0.0)).endswith("horizon 3, return ≥ 0)")
    assert repr(problem(None)).endswith("horizon 3)")
