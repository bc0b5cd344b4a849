"""How far rounding may move the return of a policy: the distance that searches keep from a threshold."""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from ..common.exact import centre_of
from .problem import Problem

_UNIT = 2.0**-53


def return_rounding(problem: Problem, quantity: int = 0) -> float:
    """A bound on the error of a return, or another quantity, that is evaluated in floats, by the engine or by the verifier.

    With rewards less their centre of at most `r`, terminal ones of at most `r_T`, and `n` the largest number of terms that a
    step adds up, the error is at most `4 (n u + ρ) (r Σ_t (t + 1) γ^t + r_T (T + 1) γ^T)`, where ρ is the largest
    deviation of a row of the model from one; sums of the centres add a few roundings of themselves. Over an infinite
    horizon the first sum is `1 / (1 − γ)²`.
    """
    one, last = problem.quantities[quantity], problem.channels[0].terminals[quantity]
    return rounding_of(problem, one.paid, last, one.discount)


def rounding_of(problem: Problem, rewards: np.ndarray, last: np.ndarray, discount: float) -> float:
    """The bound of `return_rounding` for other rewards, in any order, with a discount of their own."""
    models, horizon = problem.models, problem.horizon
    tables = [matrix for model in models for matrix in model.matrices]
    shown = problem.observer.all_matrices
    into = max(int(np.bincount(np.concatenate([one.indices for one in model.matrices])).max()) for model in models)
    terms = (16 + problem.num_actions + into + _longest(tables)) * _longest(shown)
    defect = max(_defect(table) for table in (*tables, *shown))
    shift, last_shift = centre_of(rewards), centre_of(last)
    spread, last_spread = float(np.abs(rewards - shift).max()), float(np.abs(last - last_shift).max())
    if problem.return_over == "infinite":
        size, centres = spread / (1 - discount) ** 2, abs(shift) / (1 - discount)
    else:
        powers = discount ** np.arange(horizon + 1)
        size = spread * float(powers[:-1] @ np.arange(1, horizon + 1)) + last_spread * (horizon + 1) * float(powers[-1])
        centres = abs(shift) * float(powers[:-1].sum()) + abs(last_shift) * float(powers[-1])
    return 4 * (terms * _UNIT + defect) * size + 16 * _UNIT * (centres + size)


def _longest(tables: Sequence[sp.csr_array]) -> int:
    """The most entries of one row."""
    return max(int(np.diff(table.indptr).max(initial=1)) for table in tables)


def _defect(table: sp.csr_array) -> float:
    """How far the sum of a row is from one; rows without entries, of actions that are not available, count as none."""
    degree = np.diff(table.indptr)
    sums = np.bincount(np.repeat(np.arange(len(degree)), degree), table.data, len(degree))
    return float(np.abs(sums[degree > 0] - 1).max(initial=0))
