"""Which of several tables a search goes on with: what they are worth once feasible, and which have found the same optimum."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from .values import Values

_ALIKE = 1e-3  # starts whose bits, and returns in units of their range, differ by less have found the same optimum


_ONE_BASIN = 0.01  # ends that differ by less, in what they are worth and in returns, are of one basin


def basins(ends: Float[np.ndarray, "n 2"]) -> list[float]:
    """What the starts of a search were worth in each of the different places where they ended, the best first."""
    found = list[np.ndarray]()
    for end in ends[np.argsort(-ends[:, 0], kind="stable")]:
        if all(np.abs(end - other).max() > _ONE_BASIN for other in found):
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


def distinct(values: Values, worth: Float[np.ndarray, " B"], unit: float) -> Int[np.ndarray, " B"]:
    """The tables in the order of what they are worth; those that are as good as a better one come last."""
    order = np.argsort(-worth, kind="stable")
    marks = np.column_stack([values.bits, values.returns / unit])
    first: list[int] = []
    for index in order.tolist():
        if all(np.abs(marks[index] - marks[other]).max() > _ALIKE for other in first):
            first.append(index)
    return np.array(first + [index for index in order.tolist() if index not in first])
