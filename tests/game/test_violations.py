"""No violations: on random small problems no policy known exceeds the game's upper bound, and its own policy keeps the lower.

Values of policies come from elsewhere: those of tables from the oracle in exact fractions or from exact enumeration, those
of history policies from plain dictionaries.
"""

import random
from dataclasses import dataclass

import numpy as np
import pytest

import veil
from tests import oracle
from tests.game.plain_game import play_history
from tests.random_problems import random_spec, to_policy, to_problem
from tests.seeds import in_blocks
from veil.engine.compile import build
from veil.game.pairs import FullHistory, LastEvents, make_pairs
from veil.game.solve import GameResult, solve_game
from veil.planning.policy_class import make_space

ROUNDING = 1e-9
_RANDOM_POLICIES = 4


@dataclass
class Found:
    """One problem: what the game says, and the policies with enough return that are known, each with its opacity."""

    problem: veil.Problem
    result: GameResult
    policies: list[tuple[str, float]]


def examine(seed: int, search: bool = False) -> Found:
    """Play the game of one random problem and evaluate every policy known in it.

    The threshold is the return of the problem's own random policy, so that one policy at least has enough.
    """
    rng = random.Random(f"violations {seed}")
    while True:
        spec = random_spec(rng, work=600)
        problem = to_problem(spec, rng)
        if make_pairs(build(problem), FullHistory()).num_pairs <= 2000:
            break
    policy = to_policy(spec, problem)
    threshold = float(oracle.expected_return(spec)) - ROUNDING / 10 if rng.random() < 0.8 else None
    memory = LastEvents(rng.randint(0, 2)) if rng.random() < 0.2 else FullHistory()
    result = solve_game(problem, memory, threshold=threshold, gap=5e-3, iterations=60)
    policies = [("own", oracle.evaluate(spec).bits)]
    own, gained = play_history(problem, result.policy())
    assert threshold is None or gained >= threshold - ROUNDING
    assert gained == pytest.approx(result.expected_return, abs=1e-9)
    policies.append(("game", own))
    policies += drawn(problem, policy, threshold, np.random.default_rng(seed))
    if search and problem.horizon > 0:
        asked = problem.replace(min_return=threshold)
        for kind in ("markov", "timed"):
            found = veil.solve(
                asked, memory=kind, starts=2, iterations=40, time_limit=5.0, progress=False, certificate=False
            )
            if found.feasible:
                policies.append((kind, found.opacity.bits))
    return Found(problem, result, policies)


def drawn(problem: veil.Problem, policy, threshold: float | None, rng: np.random.Generator) -> list[tuple[str, float]]:
    """Random policies, with and without a clock, some near the problem's own; those that have enough return."""
    found = []
    for number in range(_RANDOM_POLICIES):
        space = make_space(problem, ("markov", "timed")[number % 2])
        table = space.softmax(rng.normal(size=space.shape) * rng.choice([0.5, 2.0, 8.0]))
        if number > 1 and table.shape == policy.table.shape:
            table = 0.2 * table + 0.8 * policy.table
        other = space.policy(table)
        if threshold is None or veil.expected_return(problem, other) >= threshold:
            found.append(("drawn", veil.opacity(problem, other, "exact").bits))
    return found


def check(found: Found) -> None:
    """The bounds hold for everything that is known."""
    result = found.result
    own = dict(found.policies)["game"]
    if result.graph.is_tree:
        assert result.lower == pytest.approx(own, abs=ROUNDING)
    else:
        assert own <= result.lower + ROUNDING  # the observer who remembers all knows more than one who forgets
    for name, bits in found.policies:
        assert bits <= result.upper + ROUNDING, f"{name} hides {bits}, and the game says at most {result.upper}"


@in_blocks(20, 60)
def test_no_violations(seed):
    check(examine(seed, search=seed % 10 == 0))


@pytest.mark.slow
def test_no_violations_in_five_thousand_problems():
    for seed in range(60, 5060):
        check(examine(seed, search=seed % 100 == 0))
