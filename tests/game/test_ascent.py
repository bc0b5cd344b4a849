"""The search at given prices: how fast it closes the gap, what it reports, and what its result repairs."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of
from veil.game.pairs import LastEvents
from veil.game.solve import game_of_policy, solve_game


def two_states(
    secret: Any,
    horizon: int = 1,
    emission: Any = ((1.0, 0.0), (0.0, 1.0)),
    start: Any = (1.0, 0.0),
    reward: Any = (0.0, 1.0),
) -> veil.Problem:
    """Two states, between which each action chooses with its own odds; the second action is paid."""
    moves = np.array([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.2, 0.8]]])
    model = veil.Model(moves, np.array([reward, reward]), np.array(start))
    return veil.Problem(model, veil.Observer(np.array(emission)), secret, horizon, agent_sees="state+observations")


def test_a_gap_that_is_zero_from_the_start_is_reached_without_a_search():
    """Nothing is shown, and the two values are equally likely under every policy: both bounds are exactly 1."""
    result = solve_game(two_states(veil.InitialState(), 1, ((1.0,), (1.0,)), (0.5, 0.5)), gap=0.0)
    assert (result.lower, result.upper, result.iterations, result.stopped) == (1.0, 1.0, 0, "gap reached")


# What a result says.


def test_a_policy_that_was_not_searched_has_the_bound_of_its_own_posterior():
    """No multiplier of return is below what any policy attains, and the policy's own entropy is the lower bound."""
    problem = veil.gallery.load("paper-last-state", horizon=4).replace(min_return="60%")
    game = solve_game(problem, LastEvents(1), gap=1e-2)
    agent = agent_of(problem, LastEvents(1))
    found = game_of_policy(agent, game.tables, game)
    assert found.lower == pytest.approx(game.lower, abs=1e-9)
    assert found.upper >= game.lower
    assert (found.iterations, found.history) == (game.iterations, game.history)


# Units.


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_the_unit_of_return_changes_nothing(scale: float):
    """The bounds stay, multipliers are in bits per unit; where the largest return is asked for, and where less is."""
    problem = veil.gallery.load("paper-last-state", horizon=6)
    model = problem.model
    scaled = problem.replace(model=veil.Model(model.matrices, scale * model.rewards, model.initial, model.discount))
    for share, gap in ((1.0, 2e-3), (0.8, 1e-2)):
        one, other = (
            solve_game(each, threshold=share * veil.max_return(each), gap=gap, iterations=200)
            for each in (problem.replace(min_return=None), scaled.replace(min_return=None))
        )
        assert one.stopped == other.stopped == "gap reached"
        assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper), abs=gap)
        assert other.multiplier * scale == pytest.approx(one.multiplier, rel=0.2)
        assert other.expected_return >= share * veil.max_return(scaled) - 1e-12 * scale
        assert abs(one.iterations - other.iterations) <= 10
