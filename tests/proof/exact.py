"""Exact rational arithmetic on the numbers that a problem and a policy hold, each row divided by its sum; slow, for tests.

It walks over (what was seen, x, value of the secret, the player's own memory) in dictionaries and shares nothing with the
verifier but the meaning of the problem's arrays. Policies are asked through a function of (time, history of events, states).
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

import veil
from veil.policy.history import HistoryPolicy

Path = tuple[tuple[int, ...], tuple[int, ...]]  # the events so far, the x so far
Choice = Callable[[int, Path, int], list[Fraction]]  # (time, path, value of the secret or -1) -> probabilities


def normalised(row) -> list[Fraction]:
    numbers = [Fraction(float(value)) for value in row]
    total = sum(numbers)
    return [number / total for number in numbers] if total else numbers


class ExactProblem:
    """A problem in fractions."""

    def __init__(self, problem: veil.Problem):
        table, observer = problem.secret_table, problem.observer
        self.problem, self.table, self.horizon = problem, table, problem.horizon
        self.memories, self.states, self.actions = len(table.memory_names), problem.num_states, problem.num_actions
        self.discount = Fraction(float(problem.discount))
        self.transitions = [[[normalised(one.transitions[s, a]) for a in range(self.actions)] for s in range(self.states)]
                            for one in problem.models]  # fmt: skip
        shown = observer.emissions if observer.on_actions else np.stack([observer.emissions] * self.actions)
        self.emissions = [[normalised(row) for row in part] for part in shown]

    def parts(self, x: int) -> tuple[int, int, int]:
        return x // self.states // self.memories, x // self.states % self.memories, x % self.states

    def value(self, time: int, x: int, z: int) -> int:
        if time != self.table.time:
            return z
        k, m, s = self.parts(x)
        return int(self.table.label[k if len(self.table.label) > 1 else 0, m, s])

    def final(self, states: tuple[int, ...], z: int) -> object:
        """The value of the secret of a run: z, or all that a path shows."""
        shown = self.table.path
        return z if shown is None else tuple(int(shown[x % self.states]) for x in states)

    def starts(self) -> Iterator[tuple[int, int, Fraction]]:
        weights = normalised([1.0] if self.table.weights is None else self.table.weights)
        for k, one in enumerate(self.problem.models):
            for s, chance in enumerate(normalised(one.initial)):
                x = (k * self.memories + int(self.table.memory_start[s])) * self.states + s
                shown = self.emissions[0][s] if self.problem.observer.sees_first else [Fraction(1)]
                for event, seen in enumerate(shown):
                    if weights[k] * chance * seen:
                        yield x, event, weights[k] * chance * seen

    def moves(self, x: int, action: int) -> Iterator[tuple[int, int, Fraction]]:
        k, m, s = self.parts(x)
        for n, chance in enumerate(self.transitions[k][s][action]):
            y = (k * self.memories + int(self.table.memory_step[m, n])) * self.states + n
            for o, seen in enumerate(self.emissions[action][n]):
                if chance * seen:
                    shift = action * len(self.emissions[0][0]) if self.problem.observer.sees_actions else 0
                    yield y, o + shift, chance * seen

    def reward(self, x: int, action: int, further: int | None = None) -> Fraction:
        k, _, s = self.parts(x)
        if further is None:
            return Fraction(float(self.problem.models[k].rewards[s, action]))
        quantity = self.problem.quantities[self.problem.others[further].quantity]
        return Fraction(float(quantity.paid[k, s, action]))

    def last(self, x: int, further: int | None = None) -> Fraction:
        k, m, s = self.parts(x)
        if further is None:
            return Fraction(float(self.problem.models[k].terminal_rewards[s]))
        last = self.problem.channels[0].terminals[self.problem.others[further].quantity]
        return Fraction(float(last[k, m, s]))

    def quantities(self) -> list[tuple[int | None, Fraction]]:
        """The return and the further constraints by their numbers, each with its discount."""
        about = [self.problem.quantities[one.quantity] for one in self.problem.others]
        others = [(number, Fraction(float(one.discount))) for number, one in enumerate(about)]
        return [(None, self.discount), *others]


Run = tuple[list[int], list[int], int, Fraction]
"""The events, the states, the value of the secret, the probability."""


def runs(exact: ExactProblem, table: list[list[Fraction]]) -> Iterator[Run]:
    """Every run under a stationary table over hidden states and actions."""
    here = [([event], [x], exact.value(0, x, 0), mass) for x, event, mass in exact.starts()]
    for time in range(exact.horizon):
        here = [
            ([*seen, event], [*states, y], exact.value(time + 1, y, z), mass * share * chance)
            for seen, states, z, mass in here
            for action, share in enumerate(table[states[-1]])
            for y, event, chance in exact.moves(states[-1], action)
        ]
    yield from here


def chooser(problem: veil.Problem, policy) -> Choice:
    """A policy as a function of the path, straight from what its class says; not for memories other than histories."""
    known: dict[bytes, list[Fraction]] = {}

    def node_of(policy: HistoryPolicy, seen: tuple[int, ...], states: tuple[int, ...]) -> int:
        node = -1
        for time, (event, x) in enumerate(zip(seen, states, strict=True)):
            node = int(policy.following[time - 1][node, event] if time else policy.first[event])
            if policy.told is not None and time == policy.told_at:
                node = int(policy.told[node, x])
        return node

    def choose(time: int, path: Path, z: int) -> list[Fraction]:
        seen, states = path
        if isinstance(policy, HistoryPolicy):
            row = policy.decisions[time].find(node_of(policy, seen, states), states[-1], z)
            assert row is not None
            values = policy.decisions[time].probabilities[row]
        else:
            cell = states[-1] if problem.secret_table.agent_knows else states[-1] % problem.num_states
            values = policy.table[time if policy.timed else 0][cell]
        key = values.tobytes()
        if key not in known:
            known[key] = normalised(values)
        return known[key]

    return choose


def play(exact: ExactProblem, choose: Choice) -> tuple[Decimal, Fraction]:
    """`H(Z|Y)` to fifty digits, and the expected return exactly."""
    bits, values = play_all(exact, choose)
    return bits, values[0]


def play_all(exact: ExactProblem, choose: Choice) -> tuple[Decimal, list[Fraction]]:
    """`H(Z|Y)` to fifty digits, and the return and the quantity of every further constraint exactly."""
    joint, gained = played(exact, choose)
    return entropy(joint), gained


def played(exact: ExactProblem, choose: Choice) -> tuple[dict[tuple[int, ...], dict[object, Fraction]], list[Fraction]]:
    """The probability of each value of the secret with each sequence of events, and all quantities."""
    here: dict[tuple[Path, int], Fraction] = {}
    for x, event, mass in exact.starts():
        key = (((event,), (x,)), exact.value(0, x, -1))
        here[key] = here.get(key, Fraction(0)) + mass
    quantities = exact.quantities()
    gained = [Fraction(0)] * len(quantities)
    for time in range(exact.horizon):
        after: dict[tuple[Path, int], Fraction] = {}
        for ((seen, states), z), mass in here.items():
            for action, share in enumerate(choose(time, (seen, states), z)):
                if not share:
                    continue
                for place, (number, discount) in enumerate(quantities):
                    gained[place] += discount**time * mass * share * exact.reward(states[-1], action, number)
                for y, event, chance in exact.moves(states[-1], action):
                    key = (((*seen, event), (*states, y)), exact.value(time + 1, y, z))
                    after[key] = after.get(key, Fraction(0)) + mass * share * chance
        here = after
    joint: dict[tuple[int, ...], dict[object, Fraction]] = {}
    for ((seen, states), z), mass in here.items():
        for place, (number, discount) in enumerate(quantities):
            gained[place] += discount**exact.horizon * mass * exact.last(states[-1], number)
        row, value = joint.setdefault(seen, {}), exact.final(states, z)
        row[value] = row.get(value, Fraction(0)) + mass
    return joint, gained


def entropy(joint: Mapping[tuple[int, ...], Mapping[Any, Fraction]]) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        bits = Decimal(0)
        for row in joint.values():
            total = sum(row.values())
            for mass in row.values():
                ratio = total / mass
                part = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()
                bits += Decimal(mass.numerator) / Decimal(mass.denominator) * part
        return bits / Decimal(2).ln()


def best_response(exact: ExactProblem, first, following, costs, price: float, threshold: float | None) -> Fraction:
    """`max_π E[w + λ (G − δ)]` exactly; the costs must be finite where something can be reached."""
    price_exact = Fraction(float(price))

    def value(time: int, node: int, x: int, z: int, known: dict) -> Fraction:
        key = (time, node, x, z)
        if key not in known:
            if time == exact.horizon:
                known[key] = Fraction(float(costs[node, z])) + price_exact * exact.discount**time * exact.last(x)
            else:
                k, _, s = exact.parts(x)
                known[key] = max(
                    price_exact * exact.discount**time * exact.reward(x, a)
                    + sum(
                        (chance * value(time + 1, int(following[time][node, event]), y, exact.value(time + 1, y, z), known)
                         for y, event, chance in exact.moves(x, a)),
                        Fraction(0),
                    )
                    for a in range(exact.actions)
                    if exact.problem.models[k].available[s, a]
                )  # fmt: skip
        return known[key]

    known: dict = {}
    total = sum(
        (mass * value(0, int(first[event]), x, exact.value(0, x, -1), known) for x, event, mass in exact.starts()),
        Fraction(0),
    )
    return total - (price_exact * Fraction(float(threshold)) if threshold is not None else 0)
