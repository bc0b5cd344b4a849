"""Observers: each as veil's object and as a plain table of what it receives."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import veil

from .runs import Watcher

OBSERVERS = (
    "plain",
    "sees actions",
    "no first",
    "on steps",
    "times",
    "end",
    "other emissions",
    "untimed",
    "untimed on steps",
    "times and actions",
    "sensors",
    "together",
    "together, one untimed",
    "together, untimed",
    "together, times",
    "together, one first",
)

Rows = list[list[float]]


@dataclass(frozen=True, eq=False)
class Seen:
    """An observer in both forms, and what each of its sensors shows when it is off: `muted[sensor](observation)`."""

    observer: Any
    watcher: Watcher
    muted: dict[str, Callable[[Any], Any]]
    quiet: Any = None  # what is received at a time at which nothing is
    receives: Callable[[int], bool] = lambda time: True  # whether anything is received at a time


def random_observer(kind: str, rng: random.Random, states: int, horizon: int, prefix: str, sensors: bool) -> Seen:
    """An observer of a kind; with `sensors` it has some that can be switched off."""
    match kind:
        case "together":
            parts = [rng.choice(("plain", "plain", "sees actions", "on steps")), "plain"]
            if parts[0] == "on steps":
                parts[1] = rng.choice(("on steps", "no first"))
        case "together, one untimed":
            parts = ["untimed", "plain"]
        case "together, untimed":
            parts = ["untimed", "untimed"]
        case "together, times":
            parts = [rng.choice(("times", "end", "other emissions")), "plain"]
        case "together, one first":
            parts = ["plain", rng.choice(("no first", "on steps"))]
        case _:
            return _single(kind, rng, states, horizon, prefix, sensors)
    return _together([
        _single(part, rng, states, horizon, prefix + letter, sensors, symbols=2)
        for part, letter in zip(parts, "uv", strict=True)
    ])  # fmt: skip


def _rows(rng: random.Random, states: int, symbols: int) -> Rows:
    """A distribution for each state; zeros keep the number of sequences small."""
    rows = []
    for _ in range(states):
        support = rng.sample(range(symbols), rng.choice((1, 2, 2)))
        row = [0.0] * symbols
        shares = [rng.randint(1, 8) for _ in support]
        for o, share in zip(support, shares, strict=True):
            row[o] = share / sum(shares)
        rows.append(row)
    return rows


def _single(
    kind: str, rng: random.Random, states: int, horizon: int, prefix: str, sensors: bool, symbols: int | None = None
) -> Seen:
    symbols = symbols or rng.choice((2, 3))
    actions = kind in ("sees actions", "times and actions")
    on_steps = kind in ("on steps", "untimed on steps")
    untimed = kind.startswith("untimed")
    first = kind != "no first" and not on_steps
    names = [f"{prefix}{o}" for o in range(symbols)]
    # The silent observation is not always the first, so that one observer's is not mistaken for another's.
    silent = rng.randrange(symbols) if untimed or rng.random() < 0.5 else None
    table: list[Rows] = [_rows(rng, states, symbols) for _ in range(2 if on_steps else 1)]
    other: dict[int, list[Rows]] = {}
    times: Any = None
    if kind in ("times", "times and actions"):
        times = sorted(rng.sample(range(horizon + 1), rng.randint(1, horizon)))
    elif kind == "end":
        times = "end"
    elif kind == "other emissions":
        for time in rng.sample(range(horizon + 1), rng.randint(1, 2)):
            other[time] = [_rows(rng, states, symbols)]
    muting: dict[str, dict[int, int]] = {}
    if sensors or kind == "sensors":
        rest = symbols - 1 if silent is None else silent
        others = [o for o in range(symbols) if o != rest]
        muting = {f"{prefix}cam": {others[0]: rest}}
        if len(others) > 1:
            muting[f"{prefix}mic"] = {others[1]: rest}
    observer = veil.Observer(
        table if on_steps else table[0],
        names,
        sees_actions=actions,
        sees_initial=kind != "no first",
        silent=None if silent is None else names[silent],
        sensors={name: {names[o]: names[r] for o, r in pairs.items()} for name, pairs in muting.items()},
        times=times,
        emissions_at={time: one[0] for time, one in other.items()} or None,
        untimed=untimed,
    )
    quiet = symbols if silent is None else silent  # what is shown at times at which nothing is received

    def receives(time: int) -> bool:
        return times is None or (time == horizon if times == "end" else time in times)

    def shows(time: int, action: int, state: int) -> dict[Any, float] | None:
        if time == 0 and not first:
            return None
        if not receives(time):
            return {quiet: 1.0}
        row = other.get(time, table)[action if on_steps else 0][state]
        return {o: p for o, p in enumerate(row) if p}

    def name(o: int) -> str:
        return names[o] if o < symbols else "unobserved"

    muted = {sensor: (lambda o, pairs=pairs: pairs.get(o, o)) for sensor, pairs in muting.items()}
    return Seen(observer, Watcher(shows, name, actions, untimed, lambda o: o == silent), muted, quiet, receives)


def _together(parts: list[Seen]) -> Seen:
    """Observers who share what they see: the observation is the tuple of theirs; a step is silent if all are."""
    watchers = [part.watcher for part in parts]

    def shows(time: int, action: int, state: int) -> dict[Any, float] | None:
        shown = [watcher.shows(time, action, state) for watcher in watchers]
        if all(one is None for one in shown):
            return None
        found: dict[Any, float] = {(): 1.0}
        for one, part in zip(shown, parts, strict=True):
            # Who receives nothing at time 0, when another does, adds that it is silent.
            found = {(*o, new): p * q for o, p in found.items() for new, q in (one or {part.quiet: 1.0}).items()}
        return found

    def name(o: tuple) -> str:
        return " & ".join(watcher.name(one) for one, watcher in zip(o, watchers, strict=True))

    def is_silent(o: tuple) -> bool:
        return all(watcher.is_silent(one) for one, watcher in zip(o, watchers, strict=True))

    muted = {
        sensor: (lambda o, n=n, mute=mute: tuple(mute(one) if i == n else one for i, one in enumerate(o)))
        for n, part in enumerate(parts)
        for sensor, mute in part.muted.items()
    }  # fmt: skip
    watcher = Watcher(shows, name, any(w.sees_actions for w in watchers), all(w.untimed for w in watchers), is_silent)
    return Seen(_Together([part.observer for part in parts]), watcher, muted)


@dataclass(frozen=True)
class _Together:
    """Observers to be joined by `veil.Together` when the problem is built, so that a refusal counts as one."""

    parts: list[Any]

    def make(self) -> Any:
        return veil.Together(*self.parts)


def observer_of(seen: Seen) -> Any:
    """Veil's observer."""
    return seen.observer.make() if isinstance(seen.observer, _Together) else seen.observer


def masked(seen: Seen, sensors: list[str], visible: bool) -> Watcher:
    """The watcher over states with masks: state `s · M + m`, action `a · M + m'`; mask 0 is none."""
    base, count = seen.watcher, len(sensors) + 1

    def shows(time: int, action: int, state: int) -> dict[Any, float] | None:
        mask = state % count
        shown = base.shows(time, action // count, state // count)
        if shown is None:
            return None
        if not seen.receives(time):  # no observation comes, so that none shows the mask
            return {(seen.quiet, 0) if visible else seen.quiet: 1.0}
        found: dict[Any, float] = {}
        for o, p in shown.items():
            left = o if mask == 0 else seen.muted[sensors[mask - 1]](o)
            left = (left, mask) if visible else left
            found[left] = found.get(left, 0.0) + p
        return found

    def name(o: Any) -> str:
        return f"{base.name(o[0])}/{['none', *sensors][o[1]]}" if visible else base.name(o)

    def is_silent(o: Any) -> bool:
        return base.is_silent(o[0]) and o[1] == 0 if visible else base.is_silent(o)

    return Watcher(shows, name, base.sees_actions, base.untimed, is_silent)


def mapped(base: Watcher, change: Callable[[Any], Any]) -> Watcher:
    """The watcher who receives other observations instead of its own."""

    def shows(time: int, action: int, state: int) -> dict[Any, float] | None:
        shown = base.shows(time, action, state)
        if shown is None:
            return None
        found: dict[Any, float] = {}
        for o, p in shown.items():
            found[change(o)] = found.get(change(o), 0.0) + p
        return found

    return Watcher(shows, base.name, base.sees_actions, base.untimed, base.is_silent)
