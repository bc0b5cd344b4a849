"""Exact values: what is refused before the work starts, budgets, and the smallest problems."""

import math
import re

import numpy as np
import pytest

import veil
from tests.oracle import evaluate
from tests.random_problems import random_case
from tests.seeds import in_blocks, looped
from veil.measure.exact import Budget


def false_alarms(horizon: int = 10, secret=None) -> tuple[veil.Problem, veil.MarkovPolicy]:
    problem = veil.gallery.load("paper-false-alarms", horizon=horizon)
    if secret is not None:
        problem = problem.replace(secret=secret)
    return problem, veil.MarkovPolicy.uniform(problem)


# Refusals


def test_too_large_a_tree_is_refused_before_the_work_starts():
    problem, policy = false_alarms()
    with pytest.raises(veil.TooLargeError) as caught:
        veil.opacity(problem, policy, method="exact", time_limit=1.0)
    message = str(caught.value)
    assert "48,828,125 observation sequences" in message
    assert "36 hidden states and 10 steps" in message
    assert "the budget is 1 s" in message  # forecast: the work has not started
    for remedy in ("method='bracket'", "method='sampled'", "method='auto'", "merge_tolerance=", "a shorter horizon",
                   "time_limit="):  # fmt: skip
        assert remedy in message
    with pytest.raises(veil.TooLargeError, match="48,828,125"):
        veil.opacity_gradient(problem, np.zeros((36, 5)), method="exact", time_limit=1.0)


def test_the_remedies_that_the_message_names_are_accepted():
    problem, policy = false_alarms(horizon=6)
    with pytest.raises(veil.TooLargeError) as caught:
        veil.opacity(problem, policy, method="exact", time_limit=1e-4)
    named = re.findall(r"method='(\w+)'", str(caught.value))
    assert sorted(named) == ["auto", "bracket", "sampled"]
    for method in named:
        found = veil.opacity(problem, policy, method=method)
        assert found.method in ("exact", "bracket", "sampled")
    tolerance = float(re.findall(r"merge_tolerance=([\d.e-]+)", str(caught.value))[0])
    assert veil.opacity(problem, policy, method="exact", merge_tolerance=tolerance, time_limit=100).bits > 0


def test_a_count_that_is_only_a_bound_is_said_to_be_one():
    problem, policy = false_alarms(horizon=60)
    with pytest.raises(veil.TooLargeError, match=r"needs more than .* observation sequences"):
        veil.opacity(problem, policy, method="exact")


@pytest.mark.slow
def test_too_much_memory_is_refused_with_the_memory_as_remedy():
    """A secret in the middle: the enumerated side of the split has to be kept."""
    problem, policy = false_alarms(12, veil.StateAt(6, {0, 1}))
    with pytest.raises(veil.TooLargeError, match=r"[GM]iB where the budget is .* memory_bytes="):
        veil.opacity(problem, policy, method="exact", memory_bytes=2**20, time_limit=math.inf)


# Budgets


@looped(
    ("options", "expected"),
    [
        ({"memory_bytes": 2**20 - 1}, "memory_bytes is 1048575, expected at least"),
        ({"memory_bytes": -1}, "memory_bytes is -1"),
        ({"memory_bytes": math.nan}, "memory_bytes is nan"),
        ({"memory_bytes": "2 GiB"}, "memory_bytes is '2 GiB'"),
        ({"time_limit": 0}, "time_limit is 0, expected seconds above 0"),
        ({"time_limit": -3.0}, "time_limit is -3.0"),
        ({"time_limit": math.nan}, "time_limit is nan"),
        ({"time_limit": "1 h"}, "time_limit is '1 h'"),
        ({"merge_tolerance": -1e-9}, "merge_tolerance is -1e-09, expected a number in"),
        ({"merge_tolerance": 1.0}, "merge_tolerance is 1.0"),
        ({"merge_tolerance": math.nan}, "merge_tolerance is nan"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(options: dict, expected: str):
    with pytest.raises(veil.InputError, match=re.escape(expected)):
        Budget(**options)
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match=re.escape(expected)):
        veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact", **options)


# No decisions at all


@looped("sees_initial", [True, False])
@looped(
    ("secret", "prior"),
    [(veil.LastState({0}), 1.0), (veil.StateAt(0, {1, 2}), 1.0), (veil.InitialState(), 1.5)],
)
def test_no_decisions(secret, prior: float, sees_initial: bool):
    """Starts 1/2, 1/4, 1/4; state 1 shows itself, states 0 and 2 look alike: 3/4 · h(1/3) bits are left."""
    model = veil.Model(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), [0.5, 0.25, 0.25])
    observer = veil.Observer([[1, 0], [0, 1], [1, 0]], sees_initial=sees_initial)
    problem = veil.Problem(model, observer, secret, horizon=0)
    expected = 0.75 * math.log2(3) - 0.5 if sees_initial else prior
    for policy in (veil.MarkovPolicy.uniform(problem), veil.TimedPolicy(np.zeros((0, 3, 2)))):
        found = veil.opacity(problem, policy, method="exact")
        assert found.bits == pytest.approx(expected, abs=1e-15)
        assert found.prior_bits == pytest.approx(prior, abs=1e-15)
        assert found.num_sequences == (2 if sees_initial else 1)
        assert veil.expected_return(problem, policy) == 0
    for theta in (np.zeros((3, 2)), np.zeros((0, 3, 2))):
        value, gradient = veil.opacity_gradient(problem, theta)
        assert value.bits == pytest.approx(expected, abs=1e-15)
        assert gradient.shape == theta.shape
        assert not gradient.any()


# A long horizon


def forgetful(horizon: int) -> veil.Problem:
    """Everything is forgotten at each step and seen at each step: one belief a time, 3^(T+1) sequences."""
    model = veil.Model(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), np.full(3, 1 / 3))
    return veil.Problem(model, veil.Observer(np.eye(3)), veil.LastState({0}), horizon)


def test_merging_reaches_a_horizon_of_thousands():
    problem = forgetful(1_500)
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method="exact", merge_tolerance=1e-9)
    assert found.bits == 0
    assert found.prior_bits == pytest.approx(0.9182958340544896, abs=1e-12)


@in_blocks(30, 400)
def test_merging_keeps_the_value_of_the_oracle_in_its_bracket(seed: int):
    """Merged histories hide more, never less, and the bracket says how much at most."""
    case = random_case(500_000 + seed)
    answer = evaluate(case.spec)
    for tolerance in (1e-9, 0.05, 0.5):
        found = veil.opacity(case.problem, case.policy, method="exact", merge_tolerance=tolerance)
        assert found.lower - 1e-12 <= answer.bits <= found.upper + 1e-12, tolerance
        assert found.lower == found.bits
        # Histories of a different future may be merged: what one of them can go on with is then counted for both.
        assert found.num_sequences >= answer.num_sequences, tolerance
        assert found.upper - found.lower <= 1e-9 or tolerance > 1e-9
