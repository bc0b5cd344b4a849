"""The verifier's conditional entropies of weighted rows, and what merging histories costs, with bounds on rounding errors."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..common.merging import merge_beliefs
from ..common.plain_logs import log2_of_count, log2_or_zero
from .arithmetic import UNIT, Numbers, group


class Entropy(NamedTuple):
    """A conditional entropy as it was computed, a bound on its rounding error, and how many weights were added for an entry."""

    bits: float
    error: float
    together: int


def conditional_entropy(
    mass: Float[np.ndarray, " n"], value: Numbers, *given: Numbers, most: int | None = None
) -> Entropy:
    """`H(value|given)` of weighted rows, in bits; `most`: how many values there are, where that is known."""
    index, number = group(*given, value)
    joint, row = np.bincount(number, mass), group(*(column[index] for column in given))[1]
    total = np.bincount(row, joint)
    found = math.fsum(-joint * log2_or_zero(joint / total[row]))
    most = int(np.bincount(row).max(initial=1)) if most is None else most
    error = 1.5 * (most + 2) * UNIT * math.fsum(joint) + 12 * UNIT * found
    return Entropy(found, error, int(np.bincount(number).max(initial=1)))


def merge_histories(
    history: Numbers, code: Numbers, mass: Float[np.ndarray, " n"], most: int, eta: float
) -> tuple[Numbers, float]:
    """A cluster for each history, at most `most` of them, and an upper bound on the bits that merging may cost.

    The charge is `Σ_h P(h) KL(belief of h ‖ belief of its cluster)`, rounded up: what the observer would know more about
    anything that follows from the hidden state if it told the histories of a cluster apart.

    **Arguments:** entries `P(history, hidden state) = mass` in the order of `history`, which is numbered without gaps;
    `code`: the number of the hidden state; `eta`: a bound on the relative error of each mass.

    Example: two histories of mass 1/2 each with beliefs (0.9, 0.1) and (0.8, 0.2) have four entries; with `most` = 1 both
    are cluster 0, and the charge is `½ KL((0.9, 0.1) ‖ (0.85, 0.15)) + ½ KL((0.8, 0.2) ‖ (0.85, 0.15)) ≈ 0.0144` bits.
    """
    total = np.bincount(history, mass)
    if len(total) <= most:
        return history, 0.0
    belief = mass / total[history]
    merged = merge_beliefs(history, code, mass, most)[history]
    _, number = group(merged, code)
    together, around = np.bincount(number, mass)[number], np.bincount(merged, mass)[merged]
    terms = mass * log2_or_zero(belief / (together / around))
    # Sums of at most n weights are behind each ratio, two of them for the cluster and one for the history.
    weight = math.fsum(mass.tolist())
    error = UNIT * ((5 * len(terms) + 16) * weight + 16 * math.fsum(np.abs(terms).tolist()))
    # The charge is a difference of two entropies of the code, each of which moves by as much as the weights may.
    error += 2.1 * eta * weight * log2_of_count(int(code.max()) + 2)
    return merged, max(0.0, math.fsum(terms.tolist())) + error


def bits_of(joint: Float[np.ndarray, "... z"]) -> Float[np.ndarray, "..."]:
    """`Σ_z p_z log2(Σp / p_z)` of each row."""
    total = joint.sum(axis=-1, keepdims=True)
    share = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
    return np.maximum(0.0, -(joint * log2_or_zero(share)).sum(axis=-1))
