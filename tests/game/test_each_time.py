"""The game of bits at every time: against a convex solver, where it is one of the last time alone, and as a method."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.game.cases import grown
from tests.game.plain_game import PlainGame
from tests.proof.plain import code, saved
from tests.random_problems import distributions
from tests.seeds import in_blocks
from veil.engine.return_range import threshold
from veil.game.enclose import enclose
from veil.proof.claims import ProvenBound


def random_problem(seed: int, horizon: int = 2) -> veil.Problem:
    """Three states, two actions, noisy observations; groups or a set of states at every time, some times without weight."""
    rng = np.random.default_rng([seed, 31])
    model = veil.Model(distributions(rng, 3, 2, 3), rng.uniform(size=(3, 2)), distributions(rng, 3))
    observer = veil.Observer(distributions(rng, 3, 2), sees_actions=seed % 5 == 1)
    weights = None if seed % 3 else [*rng.integers(0, 3, size=horizon), 1.0]
    groups = {"a": [0], "b": [1], "c": [2]}
    secret = veil.StateNow(groups=groups, weights=weights) if seed % 2 else veil.StateNow([0], weights=weights)
    return veil.Problem(model, observer, secret, horizon, None if seed % 4 == 0 else "60%")


@in_blocks(4, 40)
def test_the_optimum_of_a_general_convex_solver(seed: int, tmp_path: Path):
    problem = random_problem(seed)
    optimum = PlainGame.of(problem).convex_optimum(threshold(problem))
    found = enclose(problem, gap=1e-4)
    assert found.gap <= 1e-4
    assert found.lower - 1e-6 <= optimum <= found.upper + 1e-6
    policy = found.policy(problem)
    assert veil.opacity(problem, policy, "exact").bits == pytest.approx(found.lower, abs=1e-9)
    proof = veil.certify(problem, policy, game=found, progress=False)
    assert proof.lower - 1e-6 <= optimum <= proof.upper + 1e-6
    assert proof.gap <= 1.1e-4
    veil.verify(proof, problem, policy)
    assert code(saved(tmp_path / "result", problem, policy, proof)) == 0
    few = replace(proof, bounds=tuple(cheaper(one) for one in proof.bounds))
    with pytest.raises(veil.CertificateError):
        veil.verify(few, problem, policy)


def cheaper(bound: ProvenBound) -> ProvenBound:
    """The same bound from rules that cost a tenth less at every time: their guesses sum to more than one."""
    rules = [replace(one, each=tuple(0.9 * costs for costs in one.each)) for one in bound.rules]
    return replace(bound, upper=0.9 * bound.upper, rules=tuple(rules))


@in_blocks(2, 10)
def test_no_policy_that_is_known_exceeds_the_bound(seed: int):
    problem = random_problem(seed, horizon=3).replace(min_return=None)
    rng = np.random.default_rng(seed)
    upper = enclose(problem, gap=1e-3).upper
    short = grown(problem, gap=1e-3)
    assert short.upper >= upper - 1e-3
    for _ in range(5):
        policy = veil.TimedPolicy(rng.dirichlet(np.ones(2) * rng.choice([0.2, 1.0]), size=(3, 3)))
        assert veil.opacity(problem, policy, "exact").bits <= min(upper, short.upper) + 1e-9


@pytest.mark.parametrize("name", ["paper-last-state", "paper-initial-state"])
def test_all_weight_on_the_last_time_is_the_last_state(name: str):
    problem = veil.gallery.load(name, horizon=4, min_return="80%").replace(secret=veil.LastState([1, 2]))
    every = problem.replace(secret=veil.StateNow([1, 2], weights=[0, 0, 0, 0, 1]))
    one, other = (enclose(each, gap=1e-4) for each in (problem, every))
    assert other.lower == pytest.approx(one.lower, abs=2e-4)
    assert other.upper == pytest.approx(one.upper, abs=2e-4)


def test_it_is_a_method_of_solve():
    problem = random_problem(1)
    found = veil.solve(problem, "game", "history", gap=1e-3, progress=False, certificate=False)
    timed = veil.solve(problem, memory="timed", starts=1, iterations=5, progress=False, certificate=False)
    assert found.status is veil.Status.CONVERGED
    assert found.opacity.method == "exact"
    assert timed.opacity.bits <= found.upper_bits + 1e-9
    assert found.opacity.bits <= found.upper_bits <= found.opacity.bits + 1e-3 + 1e-9
    assert found.opacity.prior_bits == pytest.approx(veil.opacity(problem, found.policy, "exact").prior_bits, abs=1e-9)
    assert veil.expected_return(problem, found.policy) >= (found.threshold or 0.0) - 1e-9


def test_where_the_tree_does_not_fit_the_observer_remembers_more_and_more_events():
    problem = random_problem(2, horizon=12)
    found = enclose(problem, gap=0.02, memory_bytes=2**20)
    assert found.games[0].graph.kind.startswith("the last")
    assert found.lower == 0
    assert found.upper < 0.99


def test_an_observer_without_a_clock_holds_strings():
    problem = random_problem(2)
    observer = veil.Observer(problem.observer.emissions, untimed=True, silent=0)
    problem = problem.replace(observer=observer, agent_sees="state+observations")
    found = enclose(problem, gap=1e-4)
    assert found.games[0].graph.kind.startswith("the string")
    assert veil.opacity(problem, found.policy(problem), "exact").bits >= found.lower - 1e-9
