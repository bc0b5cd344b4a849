"""The oracle: every run of a small world with its probability, in plain Python; nothing of veil is imported.

A run is `(k, s_0 … s_T)`, the model and the states, with what each observer received. Weights may be complex: the
derivative of any result along a direction is then its imaginary part over the size of the step, without rounding.
"""

import cmath
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Event = Any  # an observation, (action, observation), a tuple of those of several observers, or None if nothing comes
Weight = Any  # float or complex
Path = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class World:
    """Models over the same states; `base` is the state before masks were added, the state itself without masks."""

    horizon: int
    states: list[str]
    actions: list[str]
    moves: list[list[list[dict[int, float]]]]  # [model][state][action] -> {next state: probability}
    initial: list[dict[int, float]]
    weights: list[float]
    rewards: dict[str, list[list[list[float]]]]  # name -> [model][state][action]
    terminal: dict[str, list[list[float]]]
    discount: float
    available: list[list[bool]]
    base: list[int]


@dataclass(frozen=True, eq=False)
class Watcher:
    """What an observer receives: `shows(time, action, state)` has the probability of each observation; None: nothing comes.

    `name(observation)` is the observation as veil writes it. `is_silent(observation)` matters without a clock (`untimed`).
    """

    shows: Callable[[int, int, int], dict[Any, float] | None]
    name: Callable[[Any], str]
    sees_actions: bool = False
    untimed: bool = False
    is_silent: Callable[[Any], bool] = lambda observation: False

    def events(self, time: int, action: int, state: int) -> list[tuple[Event, float]]:
        """The events of a time with their probabilities; at time 0 there is no action."""
        shown = self.shows(time, action, state)
        if shown is None:
            return [(None, 1.0)]
        pairs = shown.items()
        if self.sees_actions and time > 0:
            return [((action, o), p) for o, p in pairs if p]
        return [(o, p) for o, p in pairs if p]

    def held(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """What the observer knows after these events: all of them, or without a clock those that are not silent."""
        if not self.untimed:
            return events
        return tuple(event for event in events if event is not None and not self.is_silent(event))

    def written(self, event: Event, actions: list[str], time: int) -> Any:
        """An event as veil writes it."""
        if self.sees_actions and time > 0:
            return actions[event[0]], self.name(event[1])
        return self.name(event)


Choose = Callable[[int, int, Path, int, tuple[tuple[Event, ...], ...]], Iterable[tuple[int, int, Weight]]]
"""`choose(time, model, path, node, events of all watchers)`: (action, next node, probability) of every choice."""


@dataclass(frozen=True, eq=False)
class Runs:
    """All runs: `weight[k, path, events]`, events of each watcher, and the expected sum of each reward.

    `earned[k, path, events]`: what the first reward adds up to in these runs, times their weight.
    """

    world: World
    watchers: tuple[Watcher, ...]
    weight: dict[tuple[int, Path, tuple[tuple[Event, ...], ...]], Weight]
    returns: dict[str, Weight]
    earned: dict[tuple[int, Path, tuple[tuple[Event, ...], ...]], Weight]

    def joint(
        self, value: Callable[[int, Path], Any], watcher: int = 0, length: int | None = None
    ) -> dict[tuple, dict[Any, Weight]]:
        """`P(z, y)` as rows by what the observer holds; after the first `length` times if that is given."""
        table: dict[tuple, dict[Any, Weight]] = {}
        seen = self.watchers[watcher]
        for (k, path, events), weight in self.weight.items():
            row = table.setdefault(seen.held(events[watcher][:length]), {})
            z = value(k, path)
            row[z] = row.get(z, 0.0) + weight
        return table

    def probability(self, holds: Callable[[int, Path], bool]) -> Weight:
        """The probability that a run has a property."""
        return sum((weight for (k, path, _), weight in self.weight.items() if holds(k, path)), 0.0)


def all_runs(world: World, choose: Choose, watchers: tuple[Watcher, ...]) -> Runs:
    """Every run under a policy."""
    here: dict[tuple, tuple[Weight, Weight]] = {}  # the weight, and that times what was earned so far
    first = next(iter(world.rewards))
    for k, weight in enumerate(world.weights):
        for s, start in world.initial[k].items():
            for events, chance in _together(watchers, 0, -1, s):
                if weight * start * chance:
                    key = (k, (s,), 0, tuple((event,) for event in events))
                    here[key] = here.get(key, (0.0, 0.0))[0] + weight * start * chance, 0.0
    returns = dict.fromkeys(world.rewards, 0.0)
    for time in range(world.horizon):
        factor = world.discount**time
        after: dict[tuple, tuple[Weight, Weight]] = {}
        for (k, path, node, seen), (weight, earned) in here.items():
            state = path[-1]
            for action, following, chance in choose(time, k, path, node, seen):
                if not chance:
                    continue
                taken = weight * chance
                paid = earned * chance + factor * taken * world.rewards[first][k][state][action]
                for name in returns:
                    returns[name] += factor * taken * world.rewards[name][k][state][action]
                for reached, move in world.moves[k][state][action].items():
                    for events, shown in _together(watchers, time + 1, action, reached):
                        more = tuple((*old, new) for old, new in zip(seen, events, strict=True))
                        key = (k, (*path, reached), following, more)
                        before = after.get(key, (0.0, 0.0))
                        after[key] = before[0] + taken * move * shown, before[1] + paid * move * shown
        here = after
    last = world.discount**world.horizon
    final, sums = dict[tuple, Weight](), dict[tuple, Weight]()
    for (k, path, _, seen), (weight, earned) in here.items():
        for name in returns:
            returns[name] += last * weight * world.terminal[name][k][path[-1]]
        key = k, path, seen
        final[key] = final.get(key, 0.0) + weight
        sums[key] = sums.get(key, 0.0) + earned + last * weight * world.terminal[first][k][path[-1]]
    return Runs(world, watchers, final, returns, sums)


def _together(
    watchers: tuple[Watcher, ...], time: int, action: int, state: int
) -> Iterator[tuple[tuple[Event, ...], float]]:
    found: list[tuple[tuple[Event, ...], float]] = [((), 1.0)]
    for watcher in watchers:
        found = [
            ((*old, event), chance * p) for old, chance in found for event, p in watcher.events(time, action, state)
        ]
    yield from found


def log2(number: Weight) -> Weight:
    """The logarithm, also of a complex number."""
    return cmath.log(number) / math.log(2) if isinstance(number, complex) else math.log2(number)


def row_bits(row: dict[Any, Weight]) -> Weight:
    """`−Σ_z p_z log2(p_z / Σp)` of one row of a joint table."""
    total = sum(row.values())
    return -sum((p * log2(p / total) for p in row.values() if p), 0.0)


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint table `P(z, y)` and all that can be read from it."""

    rows: dict[tuple, dict[Any, Weight]]
    values: list[Any] = field(default_factory=list)

    @cached_property
    def prior(self) -> dict[Any, Weight]:
        """`P(z)`."""
        total: dict[Any, Weight] = {}
        for row in self.rows.values():
            for z, p in row.items():
                total[z] = total.get(z, 0.0) + p
        return total

    @cached_property
    def bits(self) -> Weight:
        """`H(Z|Y)`."""
        return sum((row_bits(row) for row in self.rows.values()), 0.0)

    @property
    def prior_bits(self) -> Weight:
        """`H(Z)`."""
        return row_bits(self.prior)

    @cached_property
    def spread_bits(self) -> float:
        """The standard deviation of `H(Z|Y=y)` over the sequences y."""
        terms = [(sum(row.values()), row_bits(row)) for row in self.rows.values()]
        return math.sqrt(max(0.0, sum(h * h / p for p, h in terms if p) - self.bits**2))

    def posterior(self, y: tuple) -> dict[Any, float]:
        """`P(z|y)`."""
        row = self.rows[y]
        total = sum(row.values())
        return {z: p / total for z, p in row.items()}

    @property
    def guess(self) -> float:
        """`Σ_y max_z P(z,y)`."""
        return sum(max(row.values()) for row in self.rows.values())

    @property
    def guesses(self) -> float:
        """The expected number of guesses in the best order."""
        return sum(
            place * p for row in self.rows.values() for place, p in enumerate(sorted(row.values(), reverse=True), 1)
        )

    @property
    def channel_sum(self) -> float:
        """`Σ_y max_z P(y|z)`."""
        return sum(max(p / self.prior[z] for z, p in row.items() if p) for row in self.rows.values())

    def renyi(self, order: float) -> float:
        """Arimoto's `H_α(Z|Y)`."""
        norm = sum(sum(p**order for p in row.values()) ** (1 / order) for row in self.rows.values())
        return order / (1 - order) * math.log2(norm)

    def loss(self, believed: "Joint", doubt: float) -> float:
        """`E[−log2 q(Z|Y)]` of an observer whose rule is the posterior of another table, with doubt over all `values`."""
        prior = believed.prior
        total = 0.0
        for y, row in self.rows.items():
            known = believed.rows.get(y)
            rule = prior if known is None else {z: p / sum(known.values()) for z, p in known.items()}
            for z, p in row.items():
                q = rule.get(z, 0.0)
                if known is None and not doubt:
                    q = 0.0
                q = (1 - doubt) * q + doubt / len(self.values)
                if p:
                    total += math.inf if q == 0 else -p * math.log2(q)
        return total


@dataclass(frozen=True, eq=False)
class EachJoint(Joint):
    """The rows `w_t P(z_t, y_0 … y_t)` of all times; `before`: `Σ_t w_t H(Z_t)`."""

    before: Weight = 0.0

    @property
    def prior_bits(self) -> Weight:
        """`Σ_t w_t H(Z_t)`."""
        return self.before
