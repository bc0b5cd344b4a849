"""Whether the observer ever becomes sure: against all runs, samples, and yes-or-no opacity by brute force."""

import itertools
from typing import Literal

import numpy as np
import pytest

import veil
from tests.seeds import in_blocks
from veil.measure.measures import certainty, disclosure


def random_problem(seed: int, sharp: bool = False) -> tuple[veil.Problem, veil.TimedPolicy]:
    """A small problem with a secret of some kind; with `sharp` many probabilities are zero."""
    rng = np.random.default_rng(seed)
    states, horizon = int(rng.integers(2, 4)), int(rng.integers(1, 4))

    def spread(*shape: int) -> np.ndarray:
        rows = rng.integers(0, 4, size=(*shape,)) * (rng.random(shape) < 0.6) if sharp else rng.random(shape)
        rows = rows.astype(float)
        rows[..., 0] += rows.sum(axis=-1) == 0
        return rows / rows.sum(axis=-1, keepdims=True)

    model = veil.Model(spread(states, 2, states), np.zeros((states, 2)), spread(states))
    observer = veil.Observer(spread(states, 2), sees_actions=seed % 4 == 1)
    secret = [veil.LastState([0]), veil.InitialState({"a": [0], "b": list(range(1, states))}), veil.StateAt(1, [0]),
              veil.Visited({"a": [1]})][seed % 4 if not sharp else (seed // 2) % 4]  # fmt: skip
    problem = veil.Problem(model, observer, secret, horizon)
    return problem, veil.TimedPolicy(rng.dirichlet(np.ones(2), size=(horizon, states)))


def all_runs(problem: veil.Problem, table: np.ndarray) -> dict[tuple, dict[int, float]]:
    """`P(z, y)` by what is seen."""
    model, observer, horizon, secret = problem.model, problem.observer, problem.horizon, problem.secret_table
    moves = np.stack([one.toarray() for one in model.matrices])
    joint: dict[tuple, dict[int, float]] = {}
    for path in itertools.product(range(model.num_states), repeat=horizon + 1):
        memory, value = int(secret.memory_start[path[0]]), -1
        for t, s in enumerate(path):
            memory = int(secret.memory_step[memory, s]) if t else memory
            value = int(secret.label[0, memory, s]) if t == secret.time else value
        for actions in itertools.product(range(2), repeat=horizon):
            chance = float(model.initial[path[0]])
            for t, a in enumerate(actions):
                chance *= table[t, path[t], a] * moves[a, path[t], path[t + 1]]
            for seen in itertools.product(range(2), repeat=horizon + 1) if chance else ():
                weight = chance * np.prod([observer.emissions[s, o] for s, o in zip(path, seen, strict=True)])
                if weight:
                    key = tuple(
                        (o, actions[t - 1] if t and observer.sees_actions else None) for t, o in enumerate(seen)
                    )
                    row = joint.setdefault(key, {})
                    row[value] = row.get(value, 0.0) + weight
    return joint


def posterior(joint: dict, prefix: tuple) -> dict[int, float]:
    sums: dict[int, float] = {}
    for y, row in joint.items():
        if y[: len(prefix)] == prefix:
            for z, p in row.items():
                sums[z] = sums.get(z, 0.0) + p
    total = sum(sums.values())
    return {z: p / total for z, p in sums.items()}


@in_blocks(20, 1000)
def test_equals_all_runs(seed: int):
    problem, policy = random_problem(seed)
    joint = all_runs(problem, policy.table)
    known = {y: [posterior(joint, y[: t + 1]) for t in range(len(y))] for y in joint}
    asked: tuple[tuple[float, Literal["truth", "any"]], ...] = ((0.6, "truth"), (0.8, "any"))
    for level, of in asked:
        expected = np.zeros(problem.horizon + 1)
        for y, row in joint.items():
            for t in range(len(y)):
                sure = {z for one in known[y][: t + 1] for z, p in one.items() if p >= level}
                expected[t] += sum(p for z, p in row.items() if (z in sure if of == "truth" else sure))
        found = disclosure(problem, policy, level, "exact", of=of)
        np.testing.assert_allclose(found.over_time, expected, atol=1e-12)
        assert found.probability == found.over_time[-1]


def test_a_sample_is_within_its_error():
    for seed in range(4):
        problem, policy = random_problem(seed)
        for of in ("truth", "any"):
            exact = disclosure(problem, policy, 0.6, "exact", of=of)
            found = disclosure(problem, policy, 0.6, "sampled", of=of, sequences=4000)
            assert found.probability == pytest.approx(exact.probability, abs=5 * found.std_error + 1e-9)


@in_blocks(40, 2000, size=40)
def test_never_certain_is_decided_as_by_all_runs(seed: int):
    problem, policy = random_problem(seed, sharp=True)
    joint = all_runs(problem, policy.table)
    certain = [
        (y[: t + 1], next(iter(one)))
        for y in joint
        for t in range(len(y))
        if len(one := {z for other, row in joint.items() if other[: t + 1] == y[: t + 1] for z in row}) == 1
    ]
    found = certainty(problem, policy)
    assert found.never == (not certain)
    exact = disclosure(problem, policy, 1.0, "exact", of="any")
    assert found.never == (exact.probability == 0)
    if not found.never:
        assert len(found.sequence) == min(len(prefix) for prefix, _ in certain)
        assert found.value in {problem.secret_values[int(z)] for _, z in certain}


def test_what_is_wrong_is_said():
    problem, policy = random_problem(0)
    with pytest.raises(veil.InputError, match=r"(?s)level is 0, expected .*of is .none."):
        disclosure(problem, policy, 0, of="none")  # type: ignore[arg-type]
    with pytest.raises(veil.InputError, match="has a value at every time"):
        disclosure(problem.replace(secret=veil.StateNow([0])), policy)
    blind = problem.observer.replace(silent=0, untimed=True, sees_actions=False)
    with pytest.raises(veil.InputError, match="no clock"):
        certainty(problem.replace(observer=blind), policy)
