"""The table of policy classes."""

from dataclasses import replace
from typing import Any

import pytest

import veil
from tests.planning.small_problems import random_problem
from veil.planning import compare as module


def test_classes_are_nested_and_bounded():
    problem = random_problem(1)
    found = veil.compare(problem)
    words = [row.policy_class for row in found.rows]
    assert words[0] == "stationary Markov policies"
    assert words[1] == "time-dependent policies"
    assert len(words) == 4
    bits = [row.opacity.bits for row in found.rows]
    assert bits == sorted(bits)
    assert bits[-1] <= found.upper_bits
    for row in found.rows:
        assert row.feasible
        assert row.expected_return >= (found.threshold or 0)
        assert f"{row.opacity.bits:.4f}" in found.summary()
    assert "Proven upper bound" in found.summary()


def test_a_class_that_ends_lower_has_the_policy_of_the_smaller_one():
    row = module.compare(random_problem(2), memories=("markov",), certificate=False).rows[0]
    lower = replace(row, feasible=False, policy_class="larger")
    kept = module._at_least(lower, row)
    assert kept.policy == row.policy
    assert kept.policy_class == "larger"
    assert kept.from_smaller_class
    assert kept.feasible


def test_what_cannot_be_searched_is_listed(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise veil.TooLargeError("too many histories")

    monkeypatch.setattr(module, "solve", refuse)
    with pytest.raises(veil.TooLargeError):
        veil.compare(random_problem(0), memories=("markov",))


@pytest.mark.parametrize("memories", [(), ("markov", "clock"), ["markov"]])
def test_wrong_classes_are_refused(memories: Any):
    with pytest.raises(veil.InputError, match="memories"):
        veil.compare(random_problem(0), memories=memories)


def test_time_is_shared():
    found = veil.compare(random_problem(0), memories=("markov", "timed"), time_limit=0.0)
    assert [row.status.name for row in found.rows] == ["NOT_SEARCHED", "NOT_SEARCHED"]
