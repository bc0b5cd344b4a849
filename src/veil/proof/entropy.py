"""The verifier's conditional entropies of weighted rows, with bounds on their rounding errors."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..common.plain_logs import log2_or_zero
from .arithmetic import UNIT, group


class Entropy(NamedTuple):
    """A conditional entropy as it was computed, a bound on its rounding error, and how many weights were added for an entry."""

    bits: float
    error: float
    together: int


def conditional_entropy(
    mass: Float[np.ndarray, " n"], value: Int[np.ndarray, " n"], *given: Int[np.ndarray, " n"], most: int | None = None
) -> Entropy:
    """`H(value|given)` of weighted rows, in bits; `most`: how many values there are, where that is known."""
    index, number = group(*given, value)
    joint, row = np.bincount(number, mass), group(*(column[index] for column in given))[1]
    total = np.bincount(row, joint)
    found = math.fsum(-joint * log2_or_zero(joint / total[row]))
    most = int(np.bincount(row).max(initial=1)) if most is None else most
    error = 1.5 * (most + 2) * UNIT * math.fsum(joint) + 12 * UNIT * found
    return Entropy(found, error, int(np.bincount(number).max(initial=1)))
