"""Rows of probabilities as other programs write them: a sum that misses 1 in the last digits is corrected, and noted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.checks import SUM_TOLERANCE

K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class Rescaled:
    """Rows after the correction: the values, the sums before it, which rows miss 1 by too much, and what was corrected.

    `values` are unchanged where a row is wrong. `count` rows were divided by their sum; `worst` is the most that one missed.
    """

    values: Float[np.ndarray, " n"]
    sums: Float[np.ndarray, " R"]
    wrong: Bool[np.ndarray, " R"]
    count: int
    worst: float


def rescaled(row: Int[np.ndarray, " n"], values: Float[np.ndarray, " n"], num_rows: int, tolerance: float) -> Rescaled:
    """Divide each row whose sum misses 1 by at most `tolerance` by that sum.

    **Arguments:** `row`, the row of each value; sums within 1e-9 of 1 are left as they are, as everywhere in veil.
    """
    sums = np.bincount(row, weights=values, minlength=num_rows)
    miss = np.abs(sums - 1)
    wrong = ~(miss <= max(tolerance, SUM_TOLERANCE))
    near = (miss > SUM_TOLERANCE) & ~wrong
    if wrong.any() or not near.any():
        return Rescaled(values, sums, wrong, 0, 0.0)
    return Rescaled(values / np.where(near, sums, 1.0)[row], sums, wrong, int(near.sum()), float(miss[near].max()))


def rescaling_note(what: str, count: int, worst: float) -> list[str]:
    """The note on rows that were corrected, in a list; an empty list where there were none."""
    return [f"{count:,} {what}s missed 1 by up to {worst:.2g} and were divided by their sums"] if count else []


def normalised(weights: Mapping[K, float]) -> dict[K, float]:
    """Weights as probabilities: as they are where they sum to 1, else divided by their sum."""
    total = sum(weights.values())
    exact = abs(total - 1) <= SUM_TOLERANCE
    return {key: weight if exact else weight / total for key, weight in weights.items()}
