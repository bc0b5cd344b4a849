"""Values of an objective for many tables: score, slacks of the bounds, their gradients, multipliers; and which table is better.

What several tables are worth once feasible, and which have found the same optimum, decides with which a search goes on.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from .backend import Tables
from .policy_class import Space
from .solution import TOLD_BITS

T = TypeVar("T")

GAP_BITS = 1e-5
"""Of the best first-order change, below which a policy is called stationary; and the precision of a share. By judgement."""
TOLERANCE_BITS = 1e-3
"""The same, below which an answer is called converged: what it gains after that is of this size. By judgement."""
STILL = 1e-9
"""Bits, beyond rounding errors of the return, that are no gain, and slack that no sum in another order takes: by judgement."""

# Tables that decide otherwise in less than this share of all decisions tend to the same optimum: on the later grid 0.00 to 0.07
# for those that end at the same, 0.14 to 0.55 for the others.
_ALIKE = 0.1


@dataclass(frozen=True, eq=False)
class Values:
    """One evaluation of B tables. A table is feasible where all of its K slacks are 0 or more.

    `score` is maximised; slacks are in units of the range of the bounded quantity, so that multipliers of different
    problems are of one size. `bits` of the own channel and `returns` are in their own units. The multipliers of the first
    `num_least` slacks are weights that sum to one. Gradients are empty where they were not asked for.
    """

    score: Float[np.ndarray, " B"]
    slack: Float[np.ndarray, "B K"]
    bits: Float[np.ndarray, " B"]
    returns: Float[np.ndarray, " B"]
    score_gradient: Any
    slack_gradient: Any
    num_least: int = 0

    def multipliers(self, before: Float[np.ndarray, "B K"], penalty: float) -> Float[np.ndarray, "B K"]:
        """Those that the augmented Lagrangian takes over: `max(0, μ − ρ s)`, or the weights nearest to `μ − ρ s`."""
        return possible_multipliers(before - penalty * self.slack, self.num_least)

    def merit(self, multiplier: Float[np.ndarray, "B K"], penalty: float) -> Float[np.ndarray, " B"]:
        """The augmented Lagrangian: `score + min_p Σ_k p_k s_k + (p_k − μ_k)² / 2ρ` over possible multipliers p."""
        new, count = self.multipliers(multiplier, penalty), self.num_least
        found = self.score - np.sum((new**2 - multiplier**2)[:, count:], axis=1) / (2 * penalty)
        if count:
            moved = (new - multiplier)[:, :count]
            found = found + np.sum(new[:, :count] * self.slack[:, :count] + moved**2 / (2 * penalty), axis=1)
        return found

    def lagrangian_gradient(self, multiplier: Float[np.ndarray, "B K"]) -> Tables:
        """`∂score + Σ_k multiplier_k ∂s_k`."""
        return self.score_gradient + np.einsum("bk,bktca->btca", multiplier, self.slack_gradient)

    @property
    def feasible(self) -> np.ndarray:
        """Which tables meet every bound, `(B,)`; no tolerance."""
        return np.all(self.slack >= 0, axis=1)

    def as_good(self, tolerance: float = 0.0) -> Int[np.ndarray, " n"]:
        """The tables that are as good as the best, but for `tolerance`.

        Feasible tables come first and are compared by score; without any, tables are compared by their worst slack.
        """
        feasible = np.flatnonzero(self.feasible)
        if len(feasible):
            return feasible[self.score[feasible] >= self.score[feasible].max() - tolerance]
        worst = self.slack.min(axis=1)
        return np.flatnonzero(worst >= worst.max() - tolerance)

    @property
    def best(self) -> int:
        """The first of the best tables."""
        return int(self.as_good()[0])

    def part(self, chosen: np.ndarray) -> "Values":
        """Some of the tables."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in _ARRAYS})

    def worth(self, multiplier: Float[np.ndarray, "B K"]) -> Float[np.ndarray, " B"]:
        """What the tables are worth once they are feasible: violations are charged above their prices."""
        return self.score + np.sum(np.minimum(self.slack, 0.0) * (1.0 + 2 * multiplier), axis=1)

    @property
    def bare(self) -> "Values":
        """Without gradients."""
        none = np.zeros((len(self.score), 0))
        return replace(self, score_gradient=none, slack_gradient=none)

    @staticmethod
    def joined(parts: "Sequence[Values]") -> "Values":
        """Of all the tables of several evaluations."""
        return replace(parts[0], **{n: np.concatenate([getattr(part, n) for part in parts]) for n in _ARRAYS})


_ARRAYS = ("score", "slack", "bits", "returns", "score_gradient", "slack_gradient")


def possible_multipliers(moved: Float[np.ndarray, "B K"], num_least: int) -> Float[np.ndarray, "B K"]:
    """The nearest possible multipliers: 0 or more, the first `num_least` weights that sum to one."""
    found = np.maximum(0.0, moved)
    if num_least:
        found[:, :num_least] = nearest_weights(moved[:, :num_least])
    return found


def nearest_weights(points: Float[np.ndarray, "B n"]) -> Float[np.ndarray, "B n"]:
    """The nearest point of the simplex, `w ≥ 0` and `Σ w = 1`, to each point: `max(0, x − t)` with t by sorting."""
    falling = -np.sort(-points, axis=1)
    shift = (np.cumsum(falling, axis=1) - 1) / np.arange(1, points.shape[1] + 1)
    last = np.sum(falling > shift, axis=1) - 1
    return np.maximum(0.0, points - shift[np.arange(len(points)), last][:, None])


def unlike(items: Iterable[T], alike: Callable[[T, T], bool]) -> Iterator[T]:
    """The items in their order, without those that are like one before them."""
    kept = list[T]()
    for item in items:
        if not any(alike(item, other) for other in kept):
            kept.append(item)
            yield item


def different(tables: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Tables without repetitions."""
    return list(unlike(tables, np.array_equal))


def basins(ends: Float[np.ndarray, "n 2"]) -> list[float]:
    """What the starts of a search were worth in each of the different places where they ended, the best first.

    Ends in one place differ by less than is worth telling, in bits and as a share of the range of returns.
    """
    falling = ends[np.argsort(-ends[:, 0], kind="stable")]
    return [float(end[0]) for end in unlike(falling, lambda one, other: np.abs(one - other).max() <= TOLD_BITS)]


def distinct(space: Space, tables: Iterable[Any], worth: Float[np.ndarray, " B"]) -> Int[np.ndarray, " B"]:
    """The tables in the order of what they are worth; those that decide like a better one come last.

    On a device they are not told apart: a pass on the host would take longer than a round.
    """
    order = np.argsort(-worth, kind="stable")
    if space.on_device is not None:
        return order
    flows = [space.visits(table)[:, :, None] * table for table in tables]
    most = _ALIKE * (2 * max(1, space.hidden.horizon))
    first = list(unlike(order.tolist(), lambda one, other: np.abs(flows[one] - flows[other]).sum() <= most))
    return np.array(first + [index for index in order.tolist() if index not in first])
