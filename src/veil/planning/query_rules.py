"""Rules that choose a query from a belief: greedy ones, and those that look ahead along a greedy one; what each is left with.

A rule that looks one query ahead and follows the greedy rule from there is never worse than the greedy rule.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock
from .belief_steps import BeliefSteps

_SAME = 12  # decimals to which normalised beliefs are equal, and share a row
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


def greedy_rule(steps: BeliefSteps) -> Rule:
    """Ask what leaves least for the next time that counts, and costs least."""

    def rule(time: int, beliefs: Rows, clock: Clock) -> Int[np.ndarray, " k"]:
        return _scores(steps, time, beliefs, steps.left_by(time, beliefs)).argmin(axis=1)

    return _in_batches(steps, rule)


def rollout_rule(steps: BeliefSteps, base: Rule, depth: int) -> Rule:
    """Ask what leaves least if another rule follows for some steps, and nothing more is learned after them."""

    def rule(time: int, beliefs: Rows, clock: Clock) -> Int[np.ndarray, " k"]:
        after = steps.after_each(time, beliefs)
        rows = after.reshape(-1, after.shape[2])
        left = steps.unknown(time + 1, rows)
        left = left + to_go(steps, base, time + 1, rows, depth, clock)
        return _scores(steps, time, beliefs, left.reshape(after.shape[:2])).argmin(axis=1)

    return _in_batches(steps, rule)


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
        actions = rule(time, beliefs, clock)
        paid, place, events, after = steps.taken(time, beliefs, actions)
        total += float(paid.sum()) + float(steps.unknown(time + 1, after).sum())
        same = np.round(after / after.sum(axis=1, keepdims=True), _SAME) + 0.0
        _, first, number = np.unique(same, axis=0, return_index=True, return_inverse=True)
        following = np.full((len(beliefs), steps.num_events), -1)
        following[place, events] = number.ravel()
        layers.append(Layer(actions, following))
        beliefs = np.zeros((len(first), after.shape[1]))
        np.add.at(beliefs, number.ravel(), after)
    return Followed(total, nodes, tuple(layers))


def simulate(steps: BeliefSteps, rule: Rule, runs: int, seed: int, clock: Clock) -> tuple[float, float] | None:
    """The mean of what a rule leaves in drawn runs, and its standard error: unbiased. None if the time is over before."""
    generator = np.random.default_rng(seed)
    starts = np.array([row for _, row in steps.starts])
    chance = starts.sum(axis=1)
    drawn = generator.choice(len(starts), size=runs, p=chance / chance.sum())
    rows = starts[drawn] / chance[drawn, None]
    total = steps.unknown(0, rows)
    for time in range(steps.last):
        if clock.left <= 0:
            return None
        distinct, number = np.unique(np.round(rows, _SAME) + 0.0, axis=0, return_inverse=True)
        number = number.ravel()
        first = np.zeros(len(distinct), dtype=int)
        first[number[::-1]] = np.arange(runs)[::-1]
        chosen = rule(time, rows[first], clock)
        paid, place, _, after = steps.taken(time, rows[first], chosen)
        total += paid[number]
        mass = after.sum(axis=1)
        begin = np.searchsorted(place, np.arange(len(distinct) + 1))
        pick = generator.random(runs)
        ends = np.cumsum(mass)
        base = np.concatenate([[0.0], ends])[begin[number]]
        span = np.concatenate([[0.0], ends])[begin[number + 1]] - base
        at = np.clip(np.searchsorted(ends, base + pick * span, side="right"), begin[number], begin[number + 1] - 1)
        rows = after[at] / mass[at, None]
        total += steps.unknown(time + 1, rows)
    return float(total.mean()), float(total.std(ddof=1) / np.sqrt(runs))


def _in_batches(steps: BeliefSteps, rule: Rule) -> Rule:
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
    found = steps.paid_each(time, beliefs)
    np.add.at(found.T, steps.answers.action, left.T)
    return found
