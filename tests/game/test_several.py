"""The game under several constraints: against a convex solver on the occupancies with history, and as a method of solve."""

import re
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.game.cases import grown
from tests.game.plain_game import PlainGame
from tests.problem.test_constraints import make_problem
from tests.proof.plain import code, saved
from tests.seeds import in_blocks
from veil.common.clock import Clock
from veil.engine.feasibility import best_mixture, other_targets
from veil.engine.return_range import threshold
from veil.game.bounds import Bounds
from veil.game.enclose import enclose
from veil.game.solve import solve_game


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


@in_blocks(3, 200)
def test_certificates_hold_the_optimum_of_a_general_convex_solver(seed: int, tmp_path: Path):
    """Both verifiers accept the certificate of the game, every constraint is proven, and the optimum lies inside."""
    problem = random_problem(seed)
    optimum = PlainGame.of(problem).convex_optimum(threshold(problem), other_targets(problem))
    found = solve_game(problem, gap=1e-3, clock=Clock())
    policy = found.policy()
    assert veil.opacity(problem, policy).bits == pytest.approx(found.lower, abs=1e-9)
    proof = veil.certify(problem, policy, game=Bounds.of(found), progress=False)
    assert proof.gap <= 2e-3
    assert proof.lower - 1e-6 <= optimum <= proof.upper + 1e-6
    assert proof.feasible
    assert all(one.met for one in proof.constraints)
    assert proof.prices == found.prices
    veil.verify(proof, problem, policy)
    assert code(saved(tmp_path / "result", problem, policy, proof)) == 0


@pytest.mark.slow
def test_the_game_as_a_method_keeps_all_constraints_and_has_their_prices():
    problem = make_problem([veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")], 3, horizon=3)
    game = veil.solve(problem, "game", "history")
    timed = veil.solve(problem, memory="timed", certificate=False, iterations=30)
    assert game.feasible
    assert game.status is veil.Status.CONVERGED
    assert all(one.met for one in game.constraints)
    assert timed.opacity.bits <= game.upper_bits + 1e-9
    assert game.opacity.bits <= game.upper_bits
    assert all(one.price_bits > 0 for one in game.constraints[1:])
    proof = game.certificate
    assert proof is not None
    assert proof.feasible
    assert [one.text for one in proof.constraints] == [
        f"{one.name} {one.relation} {one.bound!r}" for one in game.constraints[1:]
    ]
    assert timed.opacity.bits <= proof.upper
    for one in proof.constraints:
        stated = re.search(rf"{re.escape(one.name)} {one.relation} ([\d.e+-]*\d)", proof.claim)
        assert stated is not None
        assert float(stated[1]) == pytest.approx(one.bound, rel=1e-8)  # rounded outward
        assert f"{one.name} is at " in proof.claim


@pytest.mark.slow
def test_automata_enclose_it_where_the_tree_does_not_fit():
    limits = [veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")]
    small = make_problem(limits, 3, horizon=3)
    tree = solve_game(small, gap=1e-3, clock=Clock())
    found = grown(small, gap=0.03)
    assert found.gap <= 0.03
    assert found.lower <= tree.upper
    assert tree.lower <= found.upper
    long = make_problem(limits, 3, horizon=12)
    game = found.policy(small)
    proof = veil.certify(small, game, game=found, progress=False)
    assert proof.feasible
    assert any(price > 0 for price in proof.prices)
    veil.verify(proof, small, game)
    with pytest.raises(veil.TooLargeError):
        solve_game(long, memory_bytes=2**20, clock=Clock())
    few = enclose(long, gap=0.5, memory_bytes=2**24)
    assert few.gap <= 0.5


def test_a_limit_ends_it_with_bounds_and_a_feasible_policy():
    problem = make_problem([veil.Return(max="40%", reward="energy")], 3)
    found = veil.solve(problem, "game", "history", iterations=1, certificate=False)
    assert found.feasible
    assert found.opacity.bits <= found.upper_bits + 1e-9
