"""What observers of every kind receive, by following all runs one by one; the kinds of observers to try."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import veil

STATES, ACTIONS = 3, 2
NAMES = ("nothing", "one", "two", "both")
SENSORS = {"first": {"one": "nothing", "both": "two"}, "second": {"two": "nothing", "both": "one"}}
MASKS = ("none", *SENSORS)

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no start": {"sees_initial": False},
    "actions": {"sees_actions": True},
    "end": {"times": "end"},
    "times": {"times": [0, 2]},
    "later": {"times": [1]},
    "at": {"emissions_at": [1]},
    "start": {"emissions_at": [0]},
    "steps": {"steps": True},
    "steps and start": {"steps": True, "emissions_at": [0, 2]},
    "untimed": {"untimed": True},
    "untimed end": {"untimed": True, "times": "end", "emissions_at": [0]},
    "untimed steps": {"untimed": True, "steps": True, "sees_initial": False},
}


def distributions(rng: np.random.Generator, *shape: int) -> np.ndarray:
    found = rng.uniform(0.05, 1, shape) * (rng.random(shape) < 0.8) + 1e-3
    return found / found.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Watcher:
    """An observer as its arguments, read here without veil."""

    table: np.ndarray
    at: dict[int, np.ndarray]
    times: Any = None
    sees_actions: bool = False
    sees_initial: bool = True
    untimed: bool = False

    @classmethod
    def make(cls, kind: str, rng: np.random.Generator, size: int = 4) -> "Watcher":
        given = dict(KINDS[kind])
        steps = (ACTIONS,) if given.pop("steps", False) else ()
        at = {t: distributions(rng, *(steps if t else ()), STATES, size) for t in given.pop("emissions_at", [])}
        return cls(distributions(rng, *steps, STATES, size), at, **given)

    def observer(self, prefix: str = "", sensors: bool = True) -> veil.Observer:
        def named(name: str) -> str:
            return prefix + name

        muted = {
            prefix + sensor: {named(one): named(other) for one, other in muting.items()}
            for sensor, muting in SENSORS.items()
        }
        return veil.Observer(
            self.table,
            [named(name) for name in NAMES[: self.table.shape[-1]]],
            self.sees_actions,
            self.sees_initial,
            silent=named("nothing"),
            sensors=muted if sensors else None,
            times=self.times,
            emissions_at=self.at or None,
            untimed=self.untimed,
        )

    def receives(self, time: int, horizon: int, state: int, action: int, mask: str = "none") -> list[tuple[Any, float]]:
        """Each reading and its probability; one who receives nothing at a time is silent then."""
        steps = self.table.ndim == 3
        if time == 0 and (not self.sees_initial or (steps and 0 not in self.at)):
            return [("nothing", 1.0)]
        if self.times is not None and not (time == horizon if self.times == "end" else time in self.times):
            return [("nothing", 1.0)]
        table = self.at.get(time, self.table)
        row = table[action, state] if table.ndim == 3 else table[state]
        muting = SENSORS.get(mask, {})
        return [(muting.get(name, name), float(chance)) for name, chance in zip(NAMES, row, strict=False)]


class Unmasked(Watcher):
    """The same observer, whose sensors no mask concerns."""

    def receives(self, time: int, horizon: int, state: int, action: int, mask: str = "none") -> list[tuple[Any, float]]:
        """See `Watcher`."""
        return super().receives(time, horizon, state, action)


@dataclass(frozen=True)
class Garbled(Watcher):
    """The same observer behind a channel, which every reading passes."""

    channel: np.ndarray = field(default_factory=lambda: np.eye(4))

    def receives(self, time: int, horizon: int, state: int, action: int, mask: str = "none") -> list[tuple[Any, float]]:
        """See `Watcher`."""
        found: dict[str, float] = defaultdict(float)
        began = time or (self.sees_initial and (self.table.ndim == 2 or 0 in self.at))
        for name, chance in super().receives(time, horizon, state, action, mask):
            for other, passed in zip(NAMES, self.channel[NAMES.index(name)], strict=False):
                found[other if began else "nothing"] += chance * passed
        return list(found.items())


def runs(
    problem: veil.Problem, table: np.ndarray, masked: bool = False
) -> Iterator[tuple[list[int], list[int], list[str], float]]:
    """States, actions, masks in force and probability of every run; rows of `table` are states, or states with masks."""
    model, count = problem.model, len(MASKS) if masked else 1
    for states in itertools.product(range(STATES), repeat=problem.horizon + 1):
        for choices in itertools.product(range(ACTIONS * count), repeat=problem.horizon):
            weight, mask, masks = float(model.initial[states[0]]), 0, ["none"]
            for before, choice, after in zip(states, choices, states[1:], strict=False):
                action, following = divmod(choice, count)
                weight *= table[before * count + mask, choice] * model.transitions[before, action, after]
                mask = following
                masks.append(MASKS[mask])
            yield list(states), [choice // count for choice in choices], masks, weight


def seen(
    watchers: list[Watcher],
    horizon: int,
    states: list[int],
    actions: list[int],
    masks: list[str],
    visible: bool = False,
) -> Iterable[tuple[tuple[Any, ...], float]]:
    """What observers who share all of it hold after a run, and its probability; the first sees masks if `visible`."""
    acts = any(one.sees_actions for one in watchers)
    clock = not all(one.untimed for one in watchers)
    steps = []
    for time, state in enumerate(states):
        action = actions[time - 1] if time else -1
        parts = []
        for number, one in enumerate(watchers):
            mask = masks[time] if number == 0 else "none"
            found = one.receives(time, horizon, state, action, mask)
            if visible and number == 0:
                given = one.times is None or (time == horizon if one.times == "end" else time in one.times)
                shown = mask if given else "none"
                found = [((reading, shown), chance) for reading, chance in found]
            parts.append(found)
        told = (action, masks[time] if visible else None) if acts and time else None
        steps.append(
            [
                ((told, *(reading for reading, _ in one)), math.prod(chance for _, chance in one))
                for one in itertools.product(*parts)
            ]
        )
    silent = (None, "nothing", ("nothing", "none"))
    for one in itertools.product(*steps):
        events = [event for event, _ in one]
        held = events if clock else [event for event in events if not all(part in silent for part in event)]
        yield tuple(held), math.prod(chance for _, chance in one)


def hidden_bits(joint: dict[tuple[Any, Any], float]) -> float:
    """`H(Z|Y)` of weights by (z, y)."""
    total = defaultdict(float)
    for (_, events), weight in joint.items():
        total[events] += weight
    return -math.fsum(w * math.log2(w / total[events]) for (_, events), w in joint.items() if w > 0)


def bits(
    problem: veil.Problem, table: np.ndarray, watchers: list[Watcher], masked: bool = False, visible: bool = False
) -> float:
    """What is hidden of "is the last state state 0" from observers who share all that they see."""
    joint: dict[tuple[Any, Any], float] = defaultdict(float)
    for states, actions, masks, weight in runs(problem, table, masked):
        for held, chance in seen(watchers, problem.horizon, states, actions, masks, visible):
            joint[states[-1] == 0, held] += weight * chance
    return hidden_bits(joint)


def model(rng: np.random.Generator) -> veil.Model:
    return veil.Model(
        distributions(rng, STATES, ACTIONS, STATES), rng.normal(size=(STATES, ACTIONS)), distributions(rng, STATES)
    )
