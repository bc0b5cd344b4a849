"""Which of several tables a search goes on with: what they are worth once feasible, and which have found the same optimum."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .policy_class import Space
from .solution import TOLD_BITS
from .values import Values

# Tables that decide otherwise in less than this share of all decisions tend to the same optimum: on the later grid 0.00 to 0.07
# for those that end at the same, 0.14 to 0.55 for the others.
_ALIKE = 0.1


def basins(ends: Float[np.ndarray, "n 2"]) -> list[float]:
    """What the starts of a search were worth in each of the different places where they ended, the best first.

    Ends in one place differ by less than is worth telling, in bits and as a share of the range of returns.
    """
    found = list[np.ndarray]()
    for end in ends[np.argsort(-ends[:, 0], kind="stable")]:
        if all(np.abs(end - other).max() > TOLD_BITS for other in found):
            found.append(end)
    return [float(end[0]) for end in found]


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
    length, first = 2 * max(1, space.hidden.horizon), list[int]()
    for index in order.tolist():
        if all(np.abs(flows[index] - flows[other]).sum() > _ALIKE * length for other in first):
            first.append(index)
    return np.array(first + [index for index in order.tolist() if index not in first])
