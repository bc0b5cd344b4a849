"""Rounding errors of the verifier: how large they can be, and what is refused. `README.md` derives the formulas."""

import math

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from ..common.verdicts import CertificateError

Numbers = Int[np.ndarray, " n"]
UNIT = 2.0**-53  # u: half a unit in the last place of 1
FLOOR = 2.0**-900  # below it products lose digits: a problem is refused, a path of a policy is left out and counted
TINY = 2.0**-1000  # above what one factor below the normal range, 2^-1022, can lose
LARGEST = 2.0**900  # of a number in a problem or a certificate: sums and products of such numbers stay finite
_LARGEST_DEFECT = 1e-6  # of a sum of probabilities that should be one: a larger one is an error in the data
LARGEST_KEY = 2**62  # product of sizes up to which one 64-bit integer numbers a combination


def gamma(count: float) -> float:
    """`γ_n = n u / (1 − n u)`, the relative error of n roundings, and one percent more for evaluating it."""
    return 1.01 * count * UNIT / (1 - count * UNIT)


def require(good: "bool | np.bool_ | np.ndarray", message: str) -> None:
    """Raise `CertificateError` unless everything is true."""
    if not np.all(good):
        raise CertificateError(message)


def discount_power(discount: float, steps: int) -> tuple[float, float]:
    """`γ^t` and a bound on what it leaves out: below 2^-900, where products lose digits, it counts as 0."""
    power = math.pow(discount, steps)
    return (power, 0.0) if power >= FLOOR or discount == 0 else (0.0, 1.01 * FLOOR)


def defect_of(sums: np.ndarray, length: int, what: str) -> float:
    """ρ: a bound on `|Σ p − 1|` for distributions of at most that length, whose computed sums are given.

    **Raises:** `CertificateError` where it is above 1e-6.
    """
    found = float(np.abs(sums - 1).max(initial=0)) + gamma(length + 1)
    require(found < _LARGEST_DEFECT, f"{what}: a distribution sums to one only within {found:.3g}")
    return found


def group(*columns: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct rows of a table given by its columns of numbers ≥ 0.

    **Returns:** for each distinct row, in lexicographic order, the index of one that is equal to it; and for each row the
    number of its kind. Example: the columns (1, 0, 1) and (5, 5, 5) give the indices (1, 0) and the numbers (1, 0, 1).
    """
    key, size = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        width = int(column.max(initial=0)) + 1
        if size * width >= LARGEST_KEY:
            key, column = (np.unique(part, return_inverse=True)[1].ravel() for part in (key, column))
            size, width = int(key.max(initial=0)) + 1, int(column.max(initial=0)) + 1
        key, size = key * width + column, size * width
    order = np.argsort(key, kind="stable")
    fresh = np.diff(key[order], prepend=-1) != 0
    number = np.empty(len(key), dtype=np.int64)
    number[order] = np.cumsum(fresh) - 1
    return order[fresh], number


def by_event(
    event: Numbers, row: Numbers, column: Numbers, chance: np.ndarray, shape: tuple[int, int]
) -> dict[int, sp.csr_array]:
    """For each event the matrix of its entries."""
    order = np.argsort(event, kind="stable")
    kinds, begins = np.unique(event[order], return_index=True)
    parts = zip(kinds.tolist(), np.split(order, begins[1:]), strict=True)
    return {kind: sp.csr_array((chance[part], (row[part], column[part])), shape=shape) for kind, part in parts}
