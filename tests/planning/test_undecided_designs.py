"""Designs that leave no policy, that cannot be told apart, or whose sensors cannot be muted in any order."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.test_design import random_problem


@pytest.mark.parametrize("goal", ["opaque", "transparent"])
def test_a_bound_on_a_pair_that_no_design_can_meet_is_infeasible(goal: Any):
    problem = random_problem(0).replace(pairs=[veil.Pair("x", veil.Observer(np.eye(3)), min=0.5)])
    with pytest.raises(veil.InfeasibleError, match="no policy meets the constraints"):
        veil.design_sensors(problem, 1, goal=goal)


def test_sensors_are_placed_only_as_far_as_a_policy_can_keep_the_bound_of_a_pair():
    problem = random_problem(0).replace(pairs=[veil.Pair("x", secret=veil.InitialState(), min=1.5)])
    found = veil.design_sensors(problem, 1, goal="transparent")
    assert found.muted == ("a", "b", "c")
    assert found.decided
    assert found.solution.feasible
    assert found.lower_bits <= found.upper_bits


def test_a_design_that_the_time_does_not_decide_says_so():
    rng = np.random.default_rng(5)
    states, names = 40, tuple("abcd")
    model = veil.Model(rng.dirichlet(np.full(states, 0.2), size=(states, 2)), np.zeros((states, 2)), np.eye(states)[0])
    emissions = np.zeros((states, 5))
    emissions[np.arange(states), rng.integers(1, 5, states)] = 0.5
    emissions[:, 0] = 1 - emissions.sum(axis=1)
    observer = veil.Observer(emissions, ["nothing", *names], sensors={name: {name: "nothing"} for name in names})
    problem = veil.Problem(model, observer, veil.LastState(range(states // 2)), 30)
    found = veil.design_sensors(problem, 2, time_limit=1.0)
    assert not found.decided
    assert found.summary().startswith("undecided")


def test_a_design_that_is_proven_best_is_decided():
    found = veil.design_sensors(random_problem(2), 1)
    assert found.decided
    assert "undecided" not in found.summary()


def test_sensors_whose_order_matters_are_refused():
    """Muting `second` alone hides everything, muting `first` before it nothing."""
    emissions = np.eye(3)[[1, 2]]
    sensors = {"first": {1: 0}, "second": {2: 1}}
    model = veil.Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(emissions, sensors=sensors), veil.LastState([0]), 1)
    with pytest.raises(veil.InputError, match="'first' and then 'second'"):
        veil.design_sensors(problem, 2)
    assert veil.design_sensors(problem, 1, sensors=["second"]).lower_bits == pytest.approx(1.0, abs=1e-3)
