"""Mixtures: a private coin chooses one of several tables for the whole run; by brute force over all runs."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.paths import all_runs, entropy, merged
from tests.planning.small_problems import FEW, tiny_problem
from tests.seeds import looped
from veil.policy.recall import recall

SEEDS = range(4)


def small(seed: int) -> veil.Problem:
    return tiny_problem(seed, states=3, horizon=3)


def random_policies(problem: veil.Problem, count: int, seed: int, *, timed: bool) -> list[veil.Policy]:
    """Policies that differ, with some actions that are never taken."""
    rng, shape = np.random.default_rng(seed), problem.available.shape
    shape = (problem.horizon, *shape) if timed else shape
    make = veil.TimedPolicy if timed else veil.MarkovPolicy
    return [make.softmax(3 * rng.normal(size=shape), problem) for _ in range(count)]


def bits(problem: veil.Problem, policies: Sequence[veil.Policy], weights: Sequence[float]) -> float:
    """`H(Z|Y)` of the weighted sum of the laws of all runs under each policy."""
    total: dict[tuple[object, object], float] = {}
    marked = {problem.model.states.find(state) for state in problem.secret.states}  # type: ignore[attr-defined]
    for policy, weight in zip(policies, weights, strict=True):
        table = policy.on(problem).table  # type: ignore[attr-defined]
        runs = all_runs(problem, lambda path, _, table=table: table[min(len(path) - 1, len(table) - 1), path[-1]])
        for (path, seen), chance in runs.items():
            key = path[-1] in marked, seen
            total[key] = total.get(key, 0.0) + weight * chance
    return entropy(list(total.values())) - entropy(merged(total, lambda _, seen: seen))


@looped(("seed", "timed"), [(seed, timed) for seed in SEEDS for timed in (False, True)])
def test_a_mixture_hides_what_the_sum_of_the_laws_hides(seed: int, timed: bool):
    problem, weights = small(seed), [0.5, 0.2, 0.3]
    policies = random_policies(problem, 3, seed, timed=timed)
    mixture = veil.MemoryPolicy.mixture(problem, list(zip(policies, weights, strict=True)))
    assert mixture.memory == veil.Mixture(3, clock=timed)
    assert veil.opacity(problem, mixture).bits == pytest.approx(bits(problem, policies, weights), abs=1e-12)
    earned = [veil.expected_return(problem, one) for one in policies]
    assert veil.expected_return(problem, mixture) == pytest.approx(np.dot(weights, earned), abs=1e-12)


def switching(horizon: int = 6) -> veil.Problem:
    """Two states that can be entered at will, seen dimly."""
    model = veil.Model(np.stack([[[1, 0], [0, 1]]] * 2).astype(float), np.zeros((2, 2)), [1, 0])
    return veil.Problem(model, veil.Observer([[0.7, 0.3], [0.3, 0.7]]), veil.LastState({0}), horizon)


def coin(problem: veil.Problem) -> veil.MemoryPolicy:
    """Always the first action with probability 0.3, else always the second."""
    always = [veil.MarkovPolicy(np.eye(2)[[action, action]]) for action in range(2)]
    return veil.MemoryPolicy.mixture(problem, [(always[0], 0.3), (always[1], 0.7)])


def test_the_coin_is_tossed_once_by_every_player(tmp_path: Path):
    problem = switching()
    policy, counts, exported = coin(problem), Counter[int](), Counter[str]()
    namespace: dict[str, Any] = {"__name__": "robot"}
    exec(veil.export_player(policy, problem, tmp_path / "robot.py").read_text(), namespace)
    for seed in range(400):
        own, other = policy.player(problem, seed=seed), namespace["Player"](seed=seed)
        state = name = 0
        chosen, called = [], []
        for _ in range(problem.horizon):
            state = own.act(state)
            chosen.append(state)
            called.append(other.step(problem.model.states[name]))
            name = problem.model.actions.find(called[-1])
        assert len(set(chosen)) == len(set(called)) == 1
        counts[chosen[0]] += 1
        exported[called[0]] += 1
    assert counts[0] / 400 == pytest.approx(0.3, abs=0.08)
    assert exported[problem.model.actions[0]] / 400 == pytest.approx(0.3, abs=0.08)


def test_the_table_stays():
    problem = switching()
    rows = recall(problem, veil.Mixture(2))
    assert rows.cell_names == (
        "s0 (coin not tossed)", "s0 (table 1)", "s0 (table 2)", "s1 (table 1)", "s1 (table 2)",
    )  # fmt: skip
    assert rows.action_names[:3] == ("a0, to coin not tossed", "a0, to table 1", "a0, to table 2")
    np.testing.assert_array_equal(rows.available[0], [False, True, True] * 2)
    np.testing.assert_array_equal(rows.available[1], [False, True, False] * 2)
    wrong = veil.MemoryPolicy.uniform(problem, veil.Mixture(2)).probabilities.copy()
    wrong[1] = wrong[2]
    with pytest.raises(veil.InputError, match="a0, to table 2"):
        veil.opacity(problem, veil.MemoryPolicy(veil.Mixture(2), wrong))


@looped("seed", SEEDS)
def test_smaller_classes_act_the_same_in_a_mixture(seed: int):
    problem = small(seed)
    two = veil.MemoryPolicy.mixture(problem, [(one, 0.5) for one in random_policies(problem, 2, seed, timed=False)])
    for policy in (two, veil.MarkovPolicy.uniform(problem)):
        for memory in (veil.Mixture(3), veil.Mixture(3, clock=True)):
            lifted = veil.MemoryPolicy.lift(problem, memory, policy)
            assert veil.opacity(problem, lifted).bits == pytest.approx(veil.opacity(problem, policy).bits, abs=1e-12)
    with pytest.raises(veil.InputError, match="use a larger memory"):
        veil.MemoryPolicy.lift(problem, veil.Mixture(1), two)


@looped("seed", SEEDS[:2])
def test_a_search_finds_at_least_what_one_table_hides_with_a_certificate(seed: int, tmp_path: Path):
    problem = small(seed)
    single = veil.solve(problem, **FEW)
    solution = veil.solve(problem, memory=veil.Mixture(2), progress=False, iterations=300)
    assert solution.feasible
    assert solution.opacity.bits >= single.opacity.bits - 1e-9
    assert solution.certificate is not None
    assert solution.certificate.lower <= solution.opacity.bits <= solution.certificate.upper
    assert veil.verify(solution.certificate, problem, solution.policy)
    solution.save(tmp_path / f"{seed}")
    assert veil.load_policy(tmp_path / f"{seed}" / "policy.safetensors") == solution.policy


@looped(
    ("make", "message"),
    [
        (lambda problem: veil.Mixture(0), "tables is 0, expected a whole number, from 1 to 1,000"),
        (lambda problem: veil.MemoryPolicy.mixture(problem, [(veil.MarkovPolicy.uniform(problem), 0.4)]), "sum to 0.4"),
        (lambda problem: veil.MemoryPolicy.mixture(problem, [(coin(problem), 1.0)]), "expected a MarkovPolicy"),
        (lambda problem: veil.MemoryPolicy.mixture(problem, [("uniform", -1.0)]), "2 defects"),  # type: ignore[list-item]
    ],
)
def test_what_is_no_mixture_is_refused(make, message: str):
    with pytest.raises(veil.InputError, match=message):
        make(switching())
