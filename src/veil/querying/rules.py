"""Rules that choose a query from a belief: greedy ones, and those that look ahead along a greedy one; what each is left with.

A rule that looks one query ahead and follows the greedy rule from there is never worse than the greedy rule.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock, Progress
from ..engine.sampling import RowDraws
from .beliefs import BeliefSteps, alike

_WIDTH = 4  # queries that a rule looks ahead of
_MOST_NUMBERS = 2**25  # of the beliefs of a batch: 256 MiB

Rows = Float[np.ndarray, "k n"]
Rule = Callable[[int, Rows, Clock], Int[np.ndarray, " k"]]


@dataclass(frozen=True, eq=False)
class Layer:
    """The beliefs of a time that a rule leads to: the action of each, and the number of the next after each event, or -1."""

    action: Int[np.ndarray, " k"]
    following: Int[np.ndarray, "k E"]


@dataclass(frozen=True, eq=False)
class Followed:
    """What a rule leaves, exactly: `value`, in bits and price; the first `nodes` by event; and its layers."""

    value: float
    nodes: dict[int, int]
    layers: tuple[Layer, ...]


def reached(phase: str, lower: float, upper: float, clock: Clock) -> Progress:
    """How far a part of a search is, by its seconds."""
    seconds = clock.spent
    of = clock.time_limit if math.isfinite(clock.time_limit) else seconds
    return Progress(phase, int(10 * seconds), int(10 * of), lower, math.nan, math.nan, seconds, upper)


def greedy_rule(steps: BeliefSteps) -> Rule:
    """Ask what leaves least for the next time that counts, and costs least."""

    def rule(time: int, beliefs: Rows, clock: Clock) -> Int[np.ndarray, " k"]:
        return _scores(steps, time, beliefs, steps.left_by(time, beliefs)).argmin(axis=1)

    return in_batches(steps, rule)


def rollout_rule(steps: BeliefSteps, base: Rule, depth: int) -> Rule:
    """Of the few best queries by the greedy rule, and that of another rule, ask what leaves least if the other rule follows.

    **Arguments:** `depth`: for how many steps, after which nothing more is learned.
    """

    def rule(time: int, beliefs: Rows, clock: Clock) -> Int[np.ndarray, " k"]:
        order = _scores(steps, time, beliefs, steps.left_by(time, beliefs)).argsort(axis=1, kind="stable")
        tried, other = order[:, :_WIDTH], base(time, beliefs, clock)
        missed = ~(tried == other[:, None]).any(axis=1)
        tried[missed, -1] = other[missed]
        count, width = tried.shape
        total, place, _, after = steps.taken(time, np.repeat(beliefs, width, axis=0), tried.ravel())
        left = steps.unknown(time + 1, after) + to_go(steps, base, time + 1, after, depth, clock)
        np.add.at(total, place, left)
        return tried[np.arange(count), total.reshape(count, width).argmin(axis=1)]

    return in_batches(steps, rule)


def to_go(
    steps: BeliefSteps, rule: Rule, time: int, beliefs: Rows, depth: int, clock: Clock
) -> Float[np.ndarray, " k"]:
    """What still counts after each belief if a rule is followed for some steps, and nothing more is learned after them."""
    total = np.zeros(len(beliefs))
    owner = np.flatnonzero(beliefs.any(axis=1))
    rows = beliefs[owner]
    for step in range(time, min(time + depth, steps.last)):
        actions = rule(step, rows, clock)
        paid, place, events, after = steps.taken(step, rows, actions)
        del events
        np.add.at(total, owner, paid)
        owner, rows = owner[place], after
        np.add.at(total, owner, steps.unknown(step + 1, rows))
    end = min(time + depth, steps.last)
    if end < steps.last and len(rows):
        np.add.at(total, owner, steps.blind(end, rows))
    return total


def follow(steps: BeliefSteps, rule: Rule, clock: Clock, most: int = 100_000) -> Followed | None:
    """What a rule leaves, over all answers; None if the beliefs are too many, or the time is over."""
    beliefs = np.array([row for _, row in steps.starts])
    total, nodes = float(steps.unknown(0, beliefs).sum()), {event: n for n, (event, _) in enumerate(steps.starts)}
    layers = []
    for time in range(steps.last):
        if clock.left <= 0 or len(beliefs) > most:
            return None
        clock.report(reached("rules", 0.0, math.nan, clock))
        actions = rule(time, beliefs, clock)
        paid, place, events, after = steps.taken(time, beliefs, actions)
        total += float(paid.sum()) + float(steps.unknown(time + 1, after).sum())
        first, number = alike(after / after.sum(axis=1, keepdims=True))
        following = np.full((len(beliefs), steps.num_events), -1)
        following[place, events] = number
        layers.append(Layer(actions, following))
        beliefs = np.zeros((len(first), after.shape[1]))
        np.add.at(beliefs, number, after)
    return Followed(total, nodes, tuple(layers))


@dataclass(frozen=True, eq=False)
class Draws:
    """The chance in some runs: the same for every rule, so that rules are compared run by run.

    `first (n)`: the hidden state and event of time 0, as a place in the opening; `moves`, `answers (T, n)`: uniform numbers.
    """

    first: Float[np.ndarray, " n"]
    moves: Float[np.ndarray, "T n"]
    answers: Float[np.ndarray, "T n"]

    @classmethod
    def of(cls, steps: BeliefSteps, runs: int, seed: int | list[int]) -> "Draws":
        """The chance of so many runs."""
        generator = np.random.default_rng(seed)
        return cls(generator.random(runs), generator.random((steps.last, runs)), generator.random((steps.last, runs)))


def simulate(
    steps: BeliefSteps, rule: Rule, draws: Draws, clock: Clock, *, apart: bool = False
) -> Float[np.ndarray, " n"]:
    """What a rule leaves in each of some runs: its mean is unbiased. Raises `OutOfTime`.

    **Arguments:** `apart`: ask the rule about each run, also about those with equal beliefs.
    """
    hidden = steps.hidden
    x, event = np.nonzero(hidden.root)
    begun = _place_of(np.cumsum(hidden.root[x, event]), draws.first)
    x, event = x[begun], event[begun]
    starts = {number: row / row.sum() for number, row in steps.starts}
    rows = np.array([starts[number] for number in event.tolist()])
    total, stacked, actions = steps.unknown(0, rows), RowDraws(hidden.kernel.stacked), hidden.kernel.num_actions
    for time in range(steps.last):
        clock.check()
        clock.report(reached("runs", 0.0, math.nan, clock))
        first, number = 2 * (np.arange(len(rows)),) if apart else alike(rows)
        chosen = rule(time, rows[first], clock)
        paid, place, events, after = steps.taken(time, rows[first], chosen)
        total += paid[number]
        action = chosen[number]
        x = stacked.draw(x * actions + action, draws.moves[time])
        shown = steps.answers.shown[:, x] * (steps.answers.action[:, None] == action)
        sums = np.cumsum(shown, axis=0)
        answer = (sums <= draws.answers[time] * sums[-1]).sum(axis=0)
        event = steps.answers.event[answer]
        key = np.searchsorted(place * steps.num_events + events, number * steps.num_events + event)
        rows = after[key] / after[key].sum(axis=1, keepdims=True)
        total += steps.unknown(time + 1, rows)
    return total


def _place_of(sums: Float[np.ndarray, " m"], uniform: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    return np.minimum(np.searchsorted(sums, uniform * sums[-1], side="right"), len(sums) - 1)


def in_batches(steps: BeliefSteps, rule: Rule) -> Rule:
    """A rule that is asked for so many beliefs at a time that what follows them fits the memory."""

    def batched(time: int, beliefs: Rows, clock: Clock) -> Int[np.ndarray, " k"]:
        width = max(1, beliefs.shape[1] * steps.widening(time)) * len(steps.answers.action)
        size = max(1, _MOST_NUMBERS // width)
        found = []
        for begin in range(0, len(beliefs), size):
            clock.check()
            found.append(rule(time, beliefs[begin : begin + size], clock))
        return np.concatenate(found) if found else np.zeros(0, dtype=int)

    return batched


def _scores(steps: BeliefSteps, time: int, beliefs: Rows, left: Float[np.ndarray, "k K"]) -> Float[np.ndarray, "k A"]:
    """For each action what is left after it, and what it costs."""
    found = steps.paid(time, beliefs)
    np.add.at(found.T, steps.answers.action, left.T)
    return found
