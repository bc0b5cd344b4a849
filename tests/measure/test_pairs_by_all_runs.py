"""Pairs whose observers differ in every feature from the problem's own: against a list of all runs of the problem."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest

import veil
from tests.seeds import blocks
from veil.problem.secrets.secret import Secret

STATES, ACTIONS, HORIZON = 3, 2, 2
FEATURES = (
    "plain", "untimed", "untimed, other silence", "times", "end", "emissions_at", "late start",
    "actions", "on actions", "on actions, seen", "untimed times", "untimed late start", "together",
)  # fmt: skip
SECRETS = ("last", "at", "initial", "visited", "path", "automaton")


@dataclass(frozen=True)
class Watcher:
    """An observer, and what it sees by its definition: `tables[t][a][s]` is the distribution of the observation."""

    observer: veil.Observer
    tables: list[np.ndarray]
    names: tuple[str, ...]
    sees_first: bool = True
    sees_actions: bool = False
    erased: int | None = None

    def sequences(self, states: tuple[int, ...], actions: tuple[int, ...]) -> Iterator[tuple[tuple, float]]:
        """What it may write down of a run, and how likely that is."""
        times = range(0 if self.sees_first else 1, len(states))
        laws = [self.tables[t][actions[t - 1] if t else 0][states[t]] for t in times]
        for seen in product(*(np.flatnonzero(law).tolist() for law in laws)):
            chance = float(np.prod([law[o] for law, o in zip(laws, seen, strict=True)]))
            written = [
                (f"a{actions[t - 1]}", self.names[o]) if self.sees_actions and t else self.names[o]
                for t, o in zip(times, seen, strict=True)
                if o != self.erased
            ]
            yield tuple(written), chance


def emissions(rng: np.random.Generator, *shape: int, symbols: int = 3) -> np.ndarray:
    """Random rows, of which some entries are zero."""
    table = rng.dirichlet(np.ones(symbols), size=shape) * (rng.random((*shape, symbols)) < 0.8)
    table[..., rng.integers(symbols)] += 0.1
    return table / table.sum(axis=-1, keepdims=True)


def watcher(feature: str, rng: np.random.Generator) -> Watcher:
    """A random observer with one of the features."""
    names = ("o0", "o1", "o2")
    if feature.startswith("on actions"):
        table, seen = emissions(rng, ACTIONS, STATES), feature.endswith("seen")
        observer = veil.Observer(table, sees_actions=seen, silent=0)
        return Watcher(observer, [table] * (HORIZON + 1), names, sees_first=False, sees_actions=seen)
    if feature == "together":
        one, two = emissions(rng, STATES, symbols=2), emissions(rng, STATES, symbols=2)
        table = np.einsum("so,sp->sop", one, two).reshape(STATES, 4)
        names = tuple(f"o{o} & o{p}" for o in range(2) for p in range(2))
        observer = veil.Together(veil.Observer(one, silent=0), veil.Observer(two, silent=1))
        return Watcher(observer, [np.stack([table] * ACTIONS)] * (HORIZON + 1), names)
    table = emissions(rng, STATES)
    tables = [np.stack([table] * ACTIONS)] * (HORIZON + 1)
    silent = int(rng.integers(1, 3))
    if feature == "plain":
        return Watcher(veil.Observer(table), tables, names)
    if feature == "untimed":
        return Watcher(veil.Observer(table, silent=0, untimed=True), tables, names, erased=0)
    if feature == "untimed, other silence":
        return Watcher(veil.Observer(table, silent=silent, untimed=True), tables, names, erased=silent)
    if feature == "untimed late start":
        observer = veil.Observer(table, silent=silent, untimed=True, sees_initial=False)
        return Watcher(observer, tables, names, sees_first=False, erased=silent)
    if feature == "late start":
        return Watcher(veil.Observer(table, sees_initial=False), tables, names, sees_first=False)
    if feature == "actions":
        return Watcher(veil.Observer(table, sees_actions=True, silent=silent), tables, names, sees_actions=True)
    if feature == "emissions_at":
        other = emissions(rng, STATES)
        tables = [tables[0], np.stack([other] * ACTIONS), *tables[2:]]
        return Watcher(veil.Observer(table, emissions_at={1: other}), tables, names)
    times = (HORIZON,) if feature == "end" else (0, 2)
    nothing = np.eye(3)[np.full((ACTIONS, STATES), silent)]
    tables = [one if t in times else nothing for t, one in enumerate(tables)]
    erases = feature.startswith("untimed")
    observer = veil.Observer(table, silent=silent, times="end" if feature == "end" else times, untimed=erases)
    return Watcher(observer, tables, names, erased=silent if erases else None)


def secret(kind: str) -> Secret:
    """A secret of a kind; `value_of` says what it is."""
    if kind == "automaton":
        step = {("even", "x"): "odd", ("odd", "x"): "even", ("even", "y"): "even", ("odd", "y"): "odd"}
        return veil.Automaton(step, "even", ["odd"], {1: "x"}, default_label="y")
    made = {
        "last": lambda: veil.LastState({1}),
        "at": lambda: veil.StateAt(1, {2}),
        "initial": lambda: veil.InitialState(),
        "visited": lambda: veil.Visited({"two": {2}}),
        "path": lambda: veil.Trajectory(),
    }
    return made[kind]()


def value_of(kind: str, states: tuple[int, ...]) -> object:
    """The value of a secret in a run, by its definition."""
    return {
        "last": states[-1] == 1,
        "at": states[1] == 2,
        "initial": states[0],
        "visited": 2 in states,
        "path": states,
        "automaton": states.count(1) % 2,
    }[kind]


@dataclass
class World:
    """A random model and policy with the probability of every run."""

    rng: np.random.Generator
    timed: bool = False
    runs: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = self.rng
        steps = rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS)) * (rng.random((STATES, ACTIONS, STATES)) < 0.7)
        steps[..., 0] += 0.05
        steps /= steps.sum(axis=-1, keepdims=True)
        start = rng.dirichlet(np.ones(STATES))
        self.rewards = rng.normal(size=(STATES, ACTIONS))
        self.model = veil.Model(steps, self.rewards, start)
        table = rng.dirichlet(np.ones(ACTIONS), size=(HORIZON, STATES))
        self.policy = veil.TimedPolicy(table) if self.timed else veil.MarkovPolicy(table[0])
        for states in product(range(STATES), repeat=HORIZON + 1):
            for actions in product(range(ACTIONS), repeat=HORIZON):
                chance = start[states[0]]
                for t, a in enumerate(actions):
                    chance *= table[t if self.timed else 0, states[t], a] * steps[states[t], a, states[t + 1]]
                if chance:
                    self.runs[states, actions] = float(chance)

    def joint(self, watching: Watcher, kind: str) -> dict[tuple, dict[object, float]]:
        """`P(y, z)` by adding up all runs."""
        found: dict[tuple, dict[object, float]] = {}
        for (states, actions), chance in self.runs.items():
            value = value_of(kind, states)
            for written, likely in watching.sequences(states, actions):
                row = found.setdefault(written, {})
                row[value] = row.get(value, 0.0) + chance * likely
        return found


def hidden_bits(joint: dict[tuple, dict[object, float]]) -> float:
    """`H(Z|Y)`."""
    return sum(-p * np.log2(p / sum(row.values())) for row in joint.values() for p in row.values() if p)


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("block", blocks(7, 130, 13))
def test_a_pair_is_worth_what_all_runs_say(block: range, feature: str):
    """Value, table and return, for own observers of every feature beside it, and with another secret or the same."""
    for seed in block:
        rng = np.random.default_rng([seed, FEATURES.index(feature)])
        world = World(rng, timed=bool(seed % 2))
        own, foe = watcher(FEATURES[(seed + FEATURES.index(feature)) % len(FEATURES)], rng), watcher(feature, rng)
        kind, other = SECRETS[seed % 5], SECRETS[(seed // 2) % 6]
        pairs = [
            veil.Pair("foe", observer=foe.observer, secret=secret(other)),
            veil.Pair("asks", secret=secret(other)),
        ]
        problem = veil.Problem(world.model, own.observer, secret(kind), HORIZON, pairs=pairs)
        asked = {"own": (own, kind), "foe": (foe, other), "asks": (own, other)}
        for name, (watching, question) in asked.items():
            where = f"seed {seed}, pair {name}: {watching.observer!r}, {question}"
            joint = world.joint(watching, question)
            found = veil.opacity(problem, world.policy, "exact", pair=name)
            assert found.bits == pytest.approx(hidden_bits(joint), abs=1e-10), where
            assert found.num_sequences == len(joint), where
            table = veil.measures.joint_table(problem, world.policy, pair=name)
            weights = dict(zip(table.sequences, table.probabilities.sum(axis=1), strict=True))
            wanted = {written: sum(row.values()) for written, row in joint.items()}
            assert weights == pytest.approx(wanted, abs=1e-12), where
            guessed = veil.measures.quantities(problem, world.policy, "exact", pair=name).guess_probability.posterior
            assert guessed == pytest.approx(sum(max(row.values()) for row in joint.values()), abs=1e-12), where
            bounds = veil.opacity(problem, world.policy, "bracket", pair=name)
            assert bounds.lower - 1e-10 <= found.bits <= bounds.upper + 1e-10, where
            if not watching.observer.untimed:
                assert bounds.width < 1e-3, where
        earned = sum(p * sum(world.rewards[s, a] for s, a in zip(*run, strict=False)) for run, p in world.runs.items())
        assert veil.expected_return(problem, world.policy) == pytest.approx(earned, abs=1e-12), f"seed {seed}"
