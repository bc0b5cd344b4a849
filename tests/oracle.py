"""The oracle: a brute-force evaluator in exact integer arithmetic, for tests only.

It shares nothing with `veil.engine`: no messages that are split at the time of the secret, no backward pass, no floats.
It walks over all observation sequences depth first and carries, for every way to be somewhere, an integer weight on
(model that runs, state of the automaton, value of the secret once it is settled, state of the model). Every
probability is an integer numerator over one common denominator, `unit`, so weights of the same depth share a
denominator and arithmetic stays exact and fast; fractions appear only in what is handed out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal

Event = int | tuple[int, int]  # an observation; or (action, observation) where the observer sees actions
Hidden = tuple[int, int, int, int]  # (model, automaton state, value of the secret or -1 while it is open, state)
OPEN = -1


@dataclass(frozen=True)
class ModelSpec:
    """One model in integers: `transitions[s][a][s']` and `initial[s]` over `unit`, rewards over `REWARD_UNIT`."""

    transitions: list[list[list[int]]]
    initial: list[int]
    rewards: list[list[int]]
    terminal: list[int]


REWARD_UNIT = 10


@dataclass(frozen=True)
class SecretSpec:
    """A secret by its definition; only the fields of its kind are used."""

    kind: Literal["last", "at", "initial", "automaton", "automaton_state", "model"]
    states: frozenset[int] = frozenset()
    time: int = 0
    groups: tuple[tuple[int, ...], ...] | None = None  # the members of each group; initial without: every start its own
    step: tuple[tuple[int, ...], ...] = ()  # automaton: step[q][letter], it starts in q = 0 before it reads s_0
    letters: tuple[int, ...] = ()  # automaton: the letter of each state
    accepting: frozenset[int] = frozenset()
    weights: tuple[int, ...] = ()  # model: prior of each model, over `unit`
    agent_knows: bool = False


@dataclass(frozen=True)
class Spec:
    """A problem with a policy, in integers.

    `emissions` is `[s][o]`, or `[a][s][o]` where `on_actions`. `policy[t][known * S + s][a]`, one table if Markov, T if
    timed; `known` is the automaton's state or the model's index if the agent knows it, else 0.
    """

    unit: int
    models: tuple[ModelSpec, ...]
    available: list[list[bool]]
    discount: Fraction
    emissions: list
    on_actions: bool
    sees_actions: bool
    sees_initial: bool
    secret: SecretSpec
    horizon: int
    policy: list[list[list[int]]]
    timed: bool
    emissions_at: dict[int, list] = field(default_factory=dict)  # tables like `emissions` that hold at single times

    def emissions_of(self, time: int) -> list:
        """The table of emissions that holds at a time."""
        return self.emissions_at.get(time, self.emissions)

    @property
    def num_states(self) -> int:
        return len(self.available)

    @property
    def num_actions(self) -> int:
        return len(self.available[0])

    @property
    def num_observations(self) -> int:
        return len(self.emissions[0][0]) if self.on_actions else len(self.emissions[0])

    @property
    def sees_first(self) -> bool:
        return self.sees_initial and not self.on_actions

    @property
    def num_values(self) -> int:
        if self.secret.kind == "initial":
            return len(self.starts if self.secret.groups is None else self.secret.groups)
        if self.secret.kind in ("last", "at") and self.secret.groups is not None:
            inside = {s for members in self.secret.groups for s in members}
            return len(self.secret.groups) + (len(inside) < self.num_states)
        if self.secret.kind == "automaton_state":
            return len(self.secret.step)
        return len(self.models) if self.secret.kind == "model" else 2

    @property
    def starts(self) -> list[int]:
        return [s for s, weight in enumerate(self.models[0].initial) if weight]


@dataclass(frozen=True)
class Answer:
    """What the oracle finds: `weights[y][z] / denominator` is `P(z, y)`, for every y with a positive probability."""

    weights: dict[tuple[Event, ...], dict[int, int]]
    denominator: int
    num_values: int
    expected_return: Fraction

    @property
    def num_sequences(self) -> int:
        return len(self.weights)

    @cached_property
    def joint(self) -> dict[tuple[Event, ...], dict[int, Fraction]]:
        """The joint table in fractions."""
        total = self.denominator
        return {y: {z: Fraction(w, total) for z, w in row.items()} for y, row in self.weights.items()}

    def erased(self, silent: Event) -> "Answer":
        """The answer for an observer who does not notice one of the events: sequences that then agree are one."""
        weights: dict[tuple[Event, ...], dict[int, int]] = {}
        for sequence, row in self.weights.items():
            target = weights.setdefault(tuple(event for event in sequence if event != silent), {})
            for z, weight in row.items():
                target[z] = target.get(z, 0) + weight
        return Answer(weights, self.denominator, self.num_values, self.expected_return)

    @cached_property
    def bits(self) -> float:
        """`H(Z|Y)`, rounded only in the logarithm of each ratio and in the last sum."""
        return math.fsum(_bits(row.values(), self.denominator) for row in self.weights.values())

    @cached_property
    def prior_bits(self) -> float:
        """`H(Z)`."""
        totals = [sum(row.get(z, 0) for row in self.weights.values()) for z in range(self.num_values)]
        return _bits([w for w in totals if w], self.denominator)

    def posteriors(self, sequence: tuple[Event, ...]) -> Iterator[list[Fraction]]:
        """`P(z | y_0 … y_t)` after each event of a sequence: the joint table summed over how it may go on."""
        for length in range(1, len(sequence) + 1):
            rows = [row for y, row in self.weights.items() if y[:length] == sequence[:length]]
            totals = [sum(row.get(z, 0) for row in rows) for z in range(self.num_values)]
            yield [Fraction(w, sum(totals)) for w in totals]


def _bits(weights, denominator: int) -> float:
    """`Σ_z w_z/D · log2(Σw / w_z)`; the quotients of integers are rounded correctly, however long they are."""
    total = sum(weights)
    return math.fsum(w / denominator * math.log2(total / w) for w in weights)


def evaluate(spec: Spec) -> Answer:
    """The joint table of secret and observations, and the expected return over the horizon, exactly."""
    walker = Walker(spec)
    depth = 3 * spec.horizon + 2 + int(spec.sees_first)  # a policy, a transition and an emission each step
    table: dict[tuple[Event, ...], dict[int, int]] = {}
    if spec.sees_first:
        for first in range(spec.num_observations):
            shown = spec.emissions_of(0)
            seen = {x: w * shown[x[3]][first] for x, w in walker.start.items() if shown[x[3]][first]}
            if seen:
                walker.visit(0, seen, (first,), table)
    else:
        walker.visit(0, walker.start, (), table)
    return Answer(table, spec.unit**depth, spec.num_values, expected_return(spec))


class Walker:
    """The ways to be somewhere, and the steps between them."""

    def __init__(self, spec: Spec):
        self.spec = spec
        self.start: dict[Hidden, int] = {}
        for k, model in enumerate(spec.models):
            prior = spec.secret.weights[k] if spec.secret.kind == "model" else spec.unit
            for s, weight in enumerate(model.initial):
                if weight * prior:
                    q = read(spec, 0, s)
                    self.start[k, q, self.settle(0, k, q, s, OPEN), s] = weight * prior
        self.known_moves: dict[tuple[int, Hidden], list[tuple[Event, Hidden, int]]] = {}

    def visit(self, time: int, here: dict[Hidden, int], seen: tuple[Event, ...], table: dict) -> None:
        """Go through every continuation of one sequence, given the weights of all ways to have produced it."""
        if time == self.spec.horizon:
            row: dict[int, int] = {}
            for (_, _, z, _), weight in here.items():
                row[z] = row.get(z, 0) + weight
            assert OPEN not in row
            table[seen] = row
            return
        following: dict[Event, dict[Hidden, int]] = {}
        for x, weight in here.items():
            for event, target, factor in self.moves(time, x):
                bucket = following.setdefault(event, {})
                bucket[target] = bucket.get(target, 0) + weight * factor
        for event, there in following.items():
            self.visit(time + 1, there, (*seen, event), table)

    def moves(self, time: int, x: Hidden) -> list[tuple[Event, Hidden, int]]:
        """All (event, next hidden state, weight) of one step, actions summed out where nobody sees them."""
        if (time, x) not in self.known_moves:
            spec, (k, q, z, s) = self.spec, x
            found: dict[tuple[Event, Hidden], int] = {}
            shown = spec.emissions_of(time + 1)
            for a, chance in enumerate(policy_row(spec, time, k, q, s)):
                for n, probability in enumerate(spec.models[k].transitions[s][a]):
                    if not chance * probability:
                        continue
                    p = read(spec, q, n)
                    target = (k, p, self.settle(time + 1, k, p, n, z), n)
                    for o, emission in enumerate(shown[a][n] if spec.on_actions else shown[n]):
                        if emission:
                            key = ((a, o) if spec.sees_actions else o, target)
                            found[key] = found.get(key, 0) + chance * probability * emission
            self.known_moves[time, x] = [(event, target, weight) for (event, target), weight in found.items()]
        return self.known_moves[time, x]

    def settle(self, time: int, k: int, q: int, s: int, z: int) -> int:
        """The value of the secret once it can be told, straight from its definition."""
        secret = self.spec.secret
        if (secret.kind == "last" and time == self.spec.horizon) or (secret.kind == "at" and time == secret.time):
            if secret.groups is None:
                return int(s in secret.states)
            return next((n for n, members in enumerate(secret.groups) if s in members), len(secret.groups))
        if secret.kind == "automaton_state" and time == self.spec.horizon:
            return q
        if secret.kind == "automaton" and time == self.spec.horizon:
            return int(q in secret.accepting)
        if secret.kind == "model":
            return k
        if secret.kind == "initial" and time == 0:
            if secret.groups is None:
                return self.spec.starts.index(s)
            return next(number for number, members in enumerate(secret.groups) if s in members)
        return z


def read(spec: Spec, q: int, s: int) -> int:
    """The automaton's state after it reads the letter of s; 0 where there is no automaton."""
    return spec.secret.step[q][spec.secret.letters[s]] if spec.secret.kind.startswith("automaton") else 0


def policy_row(spec: Spec, time: int, k: int, q: int, s: int) -> list[int]:
    """The agent's choice in what it can tell apart."""
    known = (k if spec.secret.kind == "model" else q) if spec.secret.agent_knows else 0
    return spec.policy[time if spec.timed else 0][known * spec.num_states + s]


def expected_return(spec: Spec) -> Fraction:
    """`E[Σ_{t<T} γ^t R(s_t,a_t) + γ^T R_T(s_T)]` by pushing the law of (model, automaton state, state) forward."""
    unit, total, factor = spec.unit, Fraction(0), Fraction(1)
    law: dict[tuple[int, int, int], int] = {}
    for k, model in enumerate(spec.models):
        prior = spec.secret.weights[k] if spec.secret.kind == "model" else unit
        for s, weight in enumerate(model.initial):
            law[k, read(spec, 0, s), s] = weight * prior
    scale = unit**2
    for time in range(spec.horizon):
        following: dict[tuple[int, int, int], int] = {}
        gain = 0
        for (k, q, s), weight in law.items():
            for a, chance in enumerate(policy_row(spec, time, k, q, s)):
                gain += weight * chance * spec.models[k].rewards[s][a]
                for n, probability in enumerate(spec.models[k].transitions[s][a]):
                    if weight * chance * probability:
                        target = (k, read(spec, q, n), n)
                        following[target] = following.get(target, 0) + weight * chance * probability
        total += factor * Fraction(gain, scale * unit * REWARD_UNIT)
        law, scale, factor = following, scale * unit**2, factor * spec.discount
    last = sum(weight * spec.models[k].terminal[s] for (k, _, s), weight in law.items())
    return total + factor * Fraction(last, scale * REWARD_UNIT)
