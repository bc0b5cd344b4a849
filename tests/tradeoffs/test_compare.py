"""The table of policy classes: nested, bounded, and honest about what was not searched."""

from typing import Any

import pytest

import veil
from tests.planning.small_problems import random_problem, tiny_problem


@pytest.fixture(scope="module")
def compared() -> Any:
    return veil.compare(random_problem(1))


def test_classes_are_nested_and_bounded(compared: Any):
    words = [row.policy_class for row in compared.rows]
    assert words[:2] == ["stationary Markov policies", "time-dependent policies"]
    assert len(words) == 4
    assert words[2] == "policies with memory of the last state and a clock"
    assert compared.failed == ()
    bits = [row.opacity.bits for row in compared.rows]
    assert bits == sorted(bits)
    assert bits[-1] <= compared.upper_bits
    assert compared.upper_bits - bits[-1] < 0.01
    for row in compared.rows:
        assert row.feasible
        assert row.expected_return >= (compared.threshold or 0)
        assert row.opacity.bits == pytest.approx(veil.opacity(random_problem(1), row.policy, "exact").bits, abs=1e-9)


def test_the_summary_is_a_table(compared: Any):
    lines = compared.summary().splitlines()
    assert lines[0].split() == ["class", "bits", "return", "seconds", "status"]
    for row, line in zip(compared.rows, lines[1:], strict=False):
        assert line.startswith(row.policy_class)
        assert f"{row.opacity.bits:.4f}" in line
        assert ("from a smaller class" in line) == row.from_smaller_class
    assert lines[5].startswith("Proven upper bound over all policies: ")


def test_the_same_seed_gives_the_same_rows_and_no_proof_is_made_where_none_is_asked_for():
    first, again = (
        veil.compare(tiny_problem(2), memories=("markov", "timed"), certificate=False, seed=7) for _ in range(2)
    )
    for one, other in zip(first.rows, again.rows, strict=True):
        assert one.policy == other.policy
    assert first.upper_bits == float("inf")
    assert "Proven" not in first.summary()


def test_a_class_does_not_take_the_policy_of_one_that_it_does_not_contain():
    """With the larger class first: the row of the smaller one is its own, though it hides less."""
    found = veil.compare(random_problem(1), memories=("timed", "markov"), certificate=False)
    assert [row.policy_class for row in found.rows] == ["time-dependent policies", "stationary Markov policies"]
    assert [type(row.policy) for row in found.rows] == [veil.TimedPolicy, veil.MarkovPolicy]
    assert not found.rows[1].from_smaller_class
    assert all(row.feasible for row in found.rows)
    assert found.rows[1].opacity.bits < found.rows[0].opacity.bits


def test_a_class_that_cannot_be_searched_is_listed_and_the_others_go_on():
    blind = veil.ObservationMemory(1)  # the agent does not see the observations
    found = veil.compare(random_problem(1), memories=("markov", blind), certificate=False)
    assert [row.policy_class for row in found.rows] == ["stationary Markov policies"]
    ((name, why),) = found.failed
    assert name == str(blind)
    assert "does not see the observations" in why
    assert f"Not searched: {name}: {why}" in found.summary()
    with pytest.raises(veil.InputError, match="does not see the observations"):
        veil.compare(random_problem(1), memories=(blind,), certificate=False)


def test_the_searches_report_their_progress():
    reports: list[object] = []
    veil.compare(random_problem(0), memories=("markov",), time_limit=2.0, progress=reports.append)
    assert reports


def test_time_is_shared():
    found = veil.compare(random_problem(0), memories=("markov", "timed"), time_limit=0.0)
    assert [row.status.name for row in found.rows] == ["NOT_SEARCHED", "NOT_SEARCHED"]
    assert all(row.doubts for row in found.rows)
    assert f"time-dependent policies: {found.rows[1].doubts[0]}" in found.summary()


@pytest.mark.parametrize("memories", [(), ("markov", "clock"), ["markov"], "markov", (1, "markov")])
def test_wrong_classes_are_refused(memories: Any):
    with pytest.raises(veil.InputError, match="memories"):
        veil.compare(random_problem(0), memories=memories)
