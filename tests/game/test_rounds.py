"""Rounds of games under several constraints or against several observers: prices that prove, and policies that meet all."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.game.test_records import prepared, random_pairs
from tests.problem.test_constraints import make_problem
from veil.common.clock import Clock
from veil.engine.compile import build
from veil.engine.return_range import threshold
from veil.game.pairs import FullHistory, make_pairs
from veil.game.records import RecordBits
from veil.game.rounds import OwnBits, Rounds

_ENERGY, _SAFE = veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")


def rounds_of(limits: Any = (_ENERGY, _SAFE), seed: int = 3, gap: float = 1e-3) -> Rounds:
    problem = make_problem(limits, seed, horizon=2)
    pairs = make_pairs(build(problem), FullHistory())
    return Rounds(problem, pairs, OwnBits(pairs), threshold(problem), gap)


@pytest.mark.parametrize("limits", [(), (_ENERGY,), (_SAFE,), (_ENERGY, _SAFE)])
def test_rounds_close_the_gap_with_a_policy_that_meets_everything(limits: Any):
    for seed in range(3, 6):
        rounds = rounds_of(limits, seed)
        assert rounds.run(500, Clock()) == "gap reached", seed
        found = rounds.result("gap reached", 2.5)
        assert (found.lower, found.upper) == (pytest.approx(rounds.lower, abs=1e-9), rounds.upper)
        assert 0 <= found.upper - found.lower <= 1e-3
        assert len(found.prices) == len(limits)
        assert min(found.prices, default=0.0) >= 0
        policy = found.policy()
        assert veil.opacity(rounds.problem, policy).bits == pytest.approx(found.lower, abs=1e-9)
        assert all(one.met for one in veil.constraint_values(rounds.problem, policy)), seed
        assert veil.expected_return(rounds.problem, policy) >= (found.threshold or 0.0)


def test_there_is_a_policy_that_meets_everything_from_the_beginning():
    rounds = rounds_of()
    assert rounds.lower > 0
    before = rounds.lower
    assert rounds.run(500, Clock(0.0)) == "time limit"  # after one game
    assert rounds.games == 1
    policy = rounds.result("time limit", 0.0).policy()
    assert rounds.lower >= before
    assert all(one.met for one in veil.constraint_values(rounds.problem, policy))


def test_rounds_end_with_the_caller():
    rounds = rounds_of()
    assert rounds.run(500, Clock(stop=lambda: True)) == "stop requested"
    assert rounds.games == 1


def test_weights_of_a_game_sum_to_one_and_small_ones_are_left_out():
    problem = random_pairs(1)
    pairs, _, records = prepared(problem)
    for given, proving in (([0.6, 0.2], [0.75, 0.25]), ([2.0, 1e-10], [1.0, 0.0])):
        rounds = Rounds(problem, pairs, RecordBits(pairs, records, np.zeros(0)), None, 1e-2)
        rounds.weights = np.array(given)
        rounds.play(5, Clock())
        np.testing.assert_allclose(rounds.proving, proving, rtol=1e-12)
