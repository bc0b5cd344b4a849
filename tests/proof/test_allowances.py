"""The verifier's allowances for rounding are the ones that `src/veil/proof/README.md` derives: frozen for many small problems.

A smaller allowance might prove what is false, and by so little that no search for a false claim would find it. So the numbers
that the derivation was checked with are kept. `python -m tests.proof.test_allowances` writes them anew, which needs a new
derivation first.
"""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.game.test_records import random_pairs
from tests.proof.cases import constrained, noisy_problem, random_policy, tiny_problem, with_path
from tests.proof.exact import ExactProblem, best_response
from tests.proof.reading import (
    CheckedProblem,
    Witness,
    checked_for,
    checked_pairs,
    policy_values,
    read_policy,
    rule_bound,
)
from tests.proof.test_percentages import random_range
from veil.common.clock import UNLIMITED
from veil.engine.feasibility import other_targets
from veil.game.solve import solve_game
from veil.proof.arithmetic import FLOOR
from veil.proof.attainable import attainable, rounding_of
from veil.proof.certify import certify
from veil.proof.described import described
from veil.proof.feasibility import after_horizon
from veil.proof.forward import MOST_MOVES, ForwardPass
from veil.proof.sampling import Sampler

_FILE = Path(__file__).parent / "data" / "allowances.json"
_SEEDS = range(24)
_KINDS = ("markov", "timed", "states", "zones", "controller", "observations", "history", "told")  # as they were frozen


def problem_of(seed: int) -> veil.Problem:
    """Small problems: some with constraints, some with a path as secret."""
    problem = constrained(tiny_problem(seed), seed) if seed % 2 else tiny_problem(seed)
    return with_path(problem, seed) if seed % 4 == 3 and len(problem.models) == 1 else problem


def forward(seed: int) -> list[float]:
    """What passes of a policy of any kind allow for: with all histories, few of them, no rare ones, and in a window."""
    problem = problem_of(seed)
    policy, checked = random_policy(problem, _KINDS[seed % len(_KINDS)], seed), CheckedProblem(problem)
    found = list[float]()
    for below, merge in ((FLOOR, 0), (FLOOR, 2), (0.01, 0)):
        one = ForwardPass(
            checked, read_policy(checked, policy), UNLIMITED, MOST_MOVES, apart=True, below=below, merge=merge
        )
        one.go(problem.horizon)
        one.bits()
        found += [one.roundings, one.most_in_a_step, one.defect, one.lost, one.relative_error()]
        found += [number for total in one.sums for number in (total.weighted, total.left_out)]
    time = checked.secret_time
    for window in ((-1, problem.horizon + 1), (time - 1, time + 1)):
        values = policy_values(checked, policy, window, FLOOR, None)
        found += [values.return_error, *(one.error for one in values.others)]
    return found


def backward(seed: int) -> float:
    """By how much the bound of an observer's rule is above what exact arithmetic finds."""
    problem = tiny_problem(seed)
    game, rng = solve_game(problem, iterations=3, gap=0), np.random.default_rng(seed)
    values = len(problem.secret_values)
    costs = rng.integers(3, 9, size=(game.graph.sizes[-1], values)) / 2 + values
    price = float(rng.integers(0, 3)) / 2
    graph = game.graph.first, game.graph.following
    found = rule_bound(CheckedProblem(problem), Witness(*graph, costs, price, "all"), (0.5,), None)
    return float(Fraction(found) - best_response(ExactProblem(problem), *graph, costs, price, 0.5))


def widened(seed: int) -> float:
    """By how much the bound grows with a defect of the probabilities: for constraints, paths, several observers, a delay."""
    kind, names = seed % 4, ("own", "p0")
    problem = (constrained(tiny_problem(seed), seed), with_path(noisy_problem(seed), seed), random_pairs(seed),
               noisy_problem(seed))[kind]  # fmt: skip
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(
        problem.replace(min_return=None), policy, 0.0, hide="own, p0" if kind == 2 else "own", progress=False
    )
    assert proof.bounds[0] is not None
    witness, bounds = proof.bounds[0], (None, *(one.bound for one in other_targets(problem)))
    checked = checked_pairs(problem, names) if len(witness.rules) > 1 else CheckedProblem(problem, delay=kind == 3)
    first = rule_bound(checked, witness, bounds, None)
    checked.defect += 2.0**-20
    return rule_bound(checked, witness, bounds, None) - first


def ranges(seed: int) -> list[float]:
    """The errors of the ends of what policies can reach, what two computations of these may differ by, and the error of a
    policy's return: also without end, of large offsets, and of several models."""
    problem = random_range(seed)
    if seed % 3 == 0 and problem.return_over == "horizon":
        problem = problem.replace(constraints=[veil.Return(max="40%")])
    checked, values = CheckedProblem(problem), after_horizon(problem)
    found = [attainable(checked, paid, values).error for paid in checked.paid]
    found += [rounding_of(checked, paid) for paid in checked.paid]
    policy = veil.MarkovPolicy.uniform(problem)
    if seed % 2 == 0 and problem.horizon:
        policy = veil.TimedPolicy(np.stack([np.asarray(policy)] * problem.horizon))
    return [*found, policy_values(checked, policy, (-1, problem.horizon + 1), FLOOR, values).return_error]


def drawn(seed: int) -> list[float]:
    """The errors of draws, and the ends of what a run can pay."""
    problem = problem_of(seed)
    policy = random_policy(problem, _KINDS[seed % len(_KINDS)], seed)
    sampler = Sampler(checked_for(problem, policy), described(problem, policy))
    ends = [end for number in range(len(sampler.problem.paid)) for end in sampler.range(number)]
    return [sampler.eta, sampler.error - 1e-12, *ends]


def computed() -> dict[str, list[list[float]]]:
    return {
        "forward": [forward(seed) for seed in _SEEDS],
        "backward": [[backward(seed)] for seed in _SEEDS],
        "widened": [[widened(seed)] for seed in _SEEDS],
        "ranges": [ranges(seed) for seed in _SEEDS],
        "drawn": [drawn(seed) for seed in _SEEDS],
    }


@pytest.fixture(scope="module")
def frozen() -> dict[str, list[list[float]]]:
    return json.loads(_FILE.read_text("utf-8"))


@pytest.mark.parametrize("seed", _SEEDS)
def test_allowances_of_a_policy(frozen: dict[str, list[list[float]]], seed: int):
    """Roundings, what is left out, and the errors of returns."""
    assert forward(seed) == pytest.approx(frozen["forward"][seed], rel=1e-6, abs=0)
    assert ranges(seed) == pytest.approx(frozen["ranges"][seed], rel=1e-6, abs=0)
    assert drawn(seed) == pytest.approx(frozen["drawn"][seed], rel=1e-6, abs=0)


@pytest.mark.parametrize("seed", _SEEDS)
def test_allowances_of_a_rule(frozen: dict[str, list[list[float]]], seed: int):
    """Up to the rounding errors of the bound itself, which are the smaller part; those of a defect nearly exactly."""
    assert [backward(seed)] == pytest.approx(frozen["backward"][seed], rel=0.03, abs=0)
    assert [widened(seed)] == pytest.approx(frozen["widened"][seed], rel=1e-6, abs=0)


if __name__ == "__main__":
    _FILE.write_text(json.dumps(computed(), indent=1) + "\n", "utf-8")
