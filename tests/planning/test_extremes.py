"""Problems at the edges of what is allowed: no decisions, no threshold, huge rewards. An answer or a clear error."""

import time
import warnings
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from tests.planning.test_pairs import two_sensors

FAST: Any = {"certificate": False, "progress": False, "iterations": 8}


@pytest.mark.parametrize(
    "options", [pytest.param({}, marks=pytest.mark.slow), {"memory": "timed"}, {"hide": "own, other"}], ids=str
)
def test_pairs_are_searched_on_samples_without_a_threshold(options: dict[str, Any]):
    problem = two_sensors(0, min=0.3).replace(min_return=None)
    solution = veil.solve(problem, evaluation="sampled", **FAST, **options)
    assert solution.feasible
    assert solution.pairs[0].bits >= 0.3


@pytest.mark.parametrize("evaluation", ["exact", "sampled", "bracket"])
def test_a_problem_without_decisions_is_answered(evaluation: Any):
    problem = two_sensors(0).replace(pairs=[], horizon=0)
    wanted = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "exact").bits
    for memory in ("markov", "timed"):
        for per_start in (False, True):
            solution = veil.solve(problem, evaluation=evaluation, memory=memory, per_start=per_start, **FAST)
            assert solution.opacity.bits == wanted, (memory, per_start)
            assert solution.feasible, (memory, per_start)
            assert solution.status.name == "CONVERGED", (memory, per_start)


def test_a_problem_without_decisions_is_answered_by_features_and_over_an_infinite_horizon():
    problem = two_sensors(0).replace(pairs=[], horizon=0, min_return=None)
    wanted = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "exact").bits
    assert veil.solve(problem, features="one-hot", **FAST).opacity.bits == wanted
    model = problem.model
    endless = problem.replace(
        model=veil.Model(model.matrices, model.rewards, model.initial, 0.9), return_over="infinite", min_return="50%"
    )
    solution = veil.solve(endless, evaluation="sampled", **FAST)
    assert (solution.opacity.bits, solution.feasible) == (wanted, True)


def test_a_long_horizon_keeps_the_time_limit():
    """The stationary policy of largest return is sought within its share, also over few states."""
    problem = random_problem(12).replace(horizon=2000, min_return="70%")
    begun = time.process_time()
    solution = veil.solve(problem, time_limit=1.0, certificate=False, progress=False)
    assert time.process_time() - begun < 3.0
    assert solution.feasible


def paying(largest: float) -> veil.Problem:
    plain = two_sensors(0).replace(pairs=[])
    rewards = plain.model.rewards / plain.model.rewards.max() * largest
    return plain.replace(model=veil.Model(plain.model.matrices, rewards, plain.model.initial))


@pytest.mark.parametrize("largest", [1e160, 1e270])
@pytest.mark.parametrize(
    "options", [{}, {"evaluation": "sampled"}, {"method": "game"}, {"method": "primal-dual"}], ids=str
)
def test_huge_rewards_give_an_answer(largest: float, options: dict[str, Any]):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = veil.solve(paying(largest), **FAST, **options)
    assert solution.feasible
    assert np.isfinite(solution.expected_return)
