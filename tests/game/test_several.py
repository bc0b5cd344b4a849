"""The game under several constraints: against a convex solver on the occupancies with history, and as a method of solve."""

import numpy as np
import pytest

import veil
from tests.game.plain_game import PlainGame
from tests.problem.test_constraints import make_problem
from tests.seeds import seeds
from veil.common.clock import Clock
from veil.engine.feasibility import best_mixture, further_targets
from veil.engine.return_range import threshold
from veil.game.several import solve_constrained_game


def random_problem(seed: int) -> veil.Problem:
    """Two or three constraints that can be met together."""
    rng = np.random.default_rng([seed, 11])
    while True:
        shares = rng.integers(20, 80, size=3)
        limits = (
            veil.Return(max=f"{shares[0]}%", reward="energy"),
            veil.Probability(("G !s2", "F (s2 & X s1)", "s1 U s3")[seed % 3], f"{shares[1]}%"),
        )
        given = None if seed % 4 == 0 else f"{shares[2]}%"
        problem = make_problem(limits[seed % 5 == 0 :], int(rng.integers(10**6)), 1 + seed % 3, min_return=given)
        if best_mixture(problem).slack.min() > 1e-3:
            return problem


@pytest.mark.parametrize("seed", seeds(12, 200))
def test_agreement_with_a_general_convex_solver(seed: int):
    problem = random_problem(seed)
    optimum = PlainGame.of(problem).convex_optimum(threshold(problem), further_targets(problem))
    found = solve_constrained_game(problem, gap=1e-3, clock=Clock()).game
    assert found.upper - found.lower <= 2e-3
    assert found.lower - 1e-6 <= optimum <= found.upper + 1e-6
    policy = found.policy(problem)
    assert all(one.met for one in veil.constraint_values(problem, policy))
    assert veil.opacity(problem, policy).bits == pytest.approx(found.lower, abs=1e-9)


def test_the_game_as_a_method_keeps_all_constraints_and_has_their_prices():
    problem = make_problem([veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")], 3)
    game, timed = veil.solve(problem, "game", "history"), veil.solve(problem, memory="timed", certificate=False)
    assert game.feasible
    assert game.status is veil.Status.CONVERGED
    assert all(one.met for one in game.constraints)
    assert timed.opacity.bits <= game.upper_bits + 1e-9
    assert game.opacity.bits <= game.upper_bits
    assert all(one.price_bits > 0 for one in game.constraints[1:])
    assert game.certificate is None
    assert "certificates cover min_return alone" in game.certificate_note


def test_a_limit_ends_it_with_bounds_and_a_feasible_policy():
    problem = make_problem([veil.Return(max="40%", reward="energy")], 3)
    found = veil.solve(problem, "game", "history", iterations=1, certificate=False)
    assert found.feasible
    assert found.opacity.bits <= found.upper_bits + 1e-9
