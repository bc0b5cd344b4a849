"""Which of several tables a search goes on with: what they are worth once feasible, and which have found the same optimum."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int

from .policy_class import Space
from .solution import TOLD_BITS
from .values import Values

T = TypeVar("T")

# Tables that decide otherwise in less than this share of all decisions tend to the same optimum: on the later grid 0.00 to 0.07
# for those that end at the same, 0.14 to 0.55 for the others.
_ALIKE = 0.1


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


def without_gradients(values: list[Values]) -> Values:
    """Several evaluations as one, without gradients."""
    bare = list[Values]()
    for one in values:
        none = np.zeros((len(one.score), 0))
        bare.append(replace(one, score_gradient=none, slack_gradient=none))
    return bare[0] if len(bare) == 1 else Values.joined(bare)


def worth(values: Values, multiplier: Float[np.ndarray, "B K"]) -> Float[np.ndarray, " B"]:
    """What tables are worth once they are feasible: violations are charged above their prices."""
    return values.score + np.sum(np.minimum(values.slack, 0.0) * (1.0 + 2 * multiplier), axis=1)


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
