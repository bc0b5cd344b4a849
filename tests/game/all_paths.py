"""What a history policy hides in each pair, by all paths one by one: for tests only, from the policy's own arrays."""

import math
from collections import Counter
from itertools import product

import numpy as np

import veil
from veil.problem.apart import apart


def hidden_bits(problem: veil.Problem, policy: veil.HistoryPolicy) -> dict[str, float]:
    """`H(Z_j|Y_j)` of every pair, for one model and observers who see time 0.

    Each observer receives its own observations, independently given the state; one without an observer of its own has those
    of the problem.
    """
    paths = _Paths(problem, policy)
    paths.begin()
    return {name: _entropy(table) for name, table in paths.tables.items()}


class _Paths:
    def __init__(self, problem: veil.Problem, policy: veil.HistoryPolicy):
        self.problem, self.policy, self.model = problem, policy, problem.model
        self.chances = np.stack([one.toarray() for one in self.model.matrices])
        self.names = ["own", *(one.name for one in problem.pairs)]
        self.observer = {"own": problem.observer} | {one.name: one.observer for one in problem.pairs if one.observer}
        self.seen_by = {"own": "own"} | {one.name: one.name if one.observer else "own" for one in problem.pairs}
        self.secret = {name: problem.only(name).secret_table for name in self.names}
        self.known = apart(problem, policy.sees).joint.secret_table  # whose memory the rows are for
        self.tables: dict[str, Counter[tuple[tuple[int, ...], int]]] = {name: Counter() for name in self.names}
        views = policy.views or {"own": (np.arange(len(policy.first)), np.arange(policy.following[0].shape[1]))}
        self.watched = list(views)
        self.numbers = [
            {key: number for number, key in enumerate(zip(*(view[late].tolist() for view in views.values()), strict=True))}
            for late in (0, 1)
        ]  # fmt: skip

    def begin(self) -> None:
        for state, chance in enumerate(self.model.initial.tolist()):
            for seen, part in self.emitted(state, None):
                node = self.policy.first[self.numbers[0][tuple(seen[self.seen_by[name]] for name in self.watched)]]
                memory = [int(one.memory_start[state]) for one in (self.known, *self.secret.values())]
                begun = {name: (event,) for name, event in seen.items()}
                self.go(0, state, memory, int(node), {}, chance * part, begun)

    def emitted(self, state: int, action: int | None) -> list[tuple[dict[str, int], float]]:
        """What all observers receive in a state, with the probability of it."""
        rows = [one.matrices[0].toarray()[state] for one in self.observer.values()]
        found = []
        for seen in product(*(range(len(row)) for row in rows)):
            chance = math.prod(float(row[one]) for row, one in zip(rows, seen, strict=True))
            shift = [
                0 if action is None or not one.sees_actions else action * one.num_observations
                for one in self.observer.values()
            ]
            events = [one + more for one, more in zip(seen, shift, strict=True)]
            found += [(dict(zip(self.observer, events, strict=True)), chance)] if chance else []
        return found

    def go(
        self,
        time: int,
        state: int,
        memory: list[int],
        node: int,
        values: dict[str, int],
        mass: float,
        seen: dict[str, tuple[int, ...]],
    ) -> None:
        for (name, table), mine in zip(self.secret.items(), memory[1:], strict=True):
            if time == table.time:
                values = values | {name: int(table.label[0, mine, state])}
        if time == self.problem.horizon:
            for name in self.names:
                self.tables[name][seen[self.seen_by[name]], values[name]] += mass  # type: ignore[assignment]
            return
        rows = self.policy.decisions[time]
        value = values[self.watched[0]] if time >= self.known.time else -1
        row = rows.find(node, memory[0] * self.problem.num_states + state, value)
        assert row is not None
        for action, share in enumerate(rows.probabilities[row].tolist()):
            for after in np.flatnonzero(self.chances[action, state]).tolist() if share else ():
                moved = mass * share * float(self.chances[action, state, after])
                tables = (self.known, *self.secret.values())
                later = [int(one.memory_step[mine, after]) for one, mine in zip(tables, memory, strict=True)]
                for events, part in self.emitted(after, action):
                    key = tuple(events[self.seen_by[name]] for name in self.watched)
                    there = int(self.policy.following[time][node, self.numbers[1][key]])
                    longer = {name: (*past, events[name]) for name, past in seen.items()}
                    self.go(time + 1, after, later, there, values, moved * part, longer)


def _entropy(table: Counter[tuple[tuple[int, ...], int]]) -> float:
    total: Counter[tuple[int, ...]] = Counter()
    for (history, _), mass in table.items():
        total[history] += mass
    return sum(-mass * math.log2(mass / total[history]) for (history, _), mass in table.items() if mass > 0)
