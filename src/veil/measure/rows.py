"""Rows of the joint table `P(z,y)`, each by its possible values only, and what an observer is worth after each sequence."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.logs import log2_or_zero

_AT_ONCE = 2**22  # numbers of a dense product made at a time


@dataclass(frozen=True, eq=False)
class Rows:
    """Observation sequences y with `P(z,y) = weight(y) · value` for the values z that are possible after each.

    Row i has the entries `indptr[i]` to `indptr[i+1]` of `value` and `column`; no row is empty. A function of rows below
    returns `f(value)` for each row, homogeneous of degree one, so that its sum over all sequences is `weight @ f`.
    """

    weight: Float[np.ndarray, " n"]
    value: Float[np.ndarray, " m"]
    column: Int[np.ndarray, " m"]
    indptr: Int[np.ndarray, " n+1"]

    @staticmethod
    def of_joint(joint: Float[np.ndarray, "n Z"]) -> tuple["Rows", Int[np.ndarray, " k"]]:
        """The rows of a dense table that are not zero, and their numbers in it."""
        row, column = np.nonzero(joint)
        count = np.bincount(row, minlength=len(joint))
        kept = np.flatnonzero(count)
        indptr = np.concatenate([[0], np.cumsum(count[kept])])
        return Rows(np.ones(len(kept)), joint[row, column], column, indptr), kept

    def __len__(self) -> int:
        return len(self.weight)

    @property
    def begin(self) -> Int[np.ndarray, " n"]:
        """The first entry of each row."""
        return self.indptr[:-1]

    @cached_property
    def owner(self) -> Int[np.ndarray, " m"]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.indptr))

    def sums(self, values: Float[np.ndarray, " m"]) -> Float[np.ndarray, " n"]:
        """The sum over the entries of each row, one after the other."""
        return np.bincount(self.owner, weights=values, minlength=len(self))

    @cached_property
    def total(self) -> Float[np.ndarray, " n"]:
        """`Σ_z value`; times the weight, the probability of the sequence."""
        return self.sums(self.value)

    @cached_property
    def posterior(self) -> Float[np.ndarray, " m"]:
        """`P(z|y)` of each entry."""
        return self.value / self.total[self.owner]

    def entries(self, row: int) -> tuple[Int[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """The possible values after one sequence and their posterior probabilities."""
        span = slice(int(self.indptr[row]), int(self.indptr[row + 1]))
        return self.column[span], self.posterior[span]


RowFunction = Callable[[Rows], np.ndarray]


def entropy(rows: Rows) -> Float[np.ndarray, " n"]:
    """`-Σ_z value log2 P(z|y)`: the share of each row in `H(Z|Y)`."""
    return rows.sums(-rows.value * log2_or_zero(rows.posterior))


def best_guess(rows: Rows) -> Float[np.ndarray, " n"]:
    """`max_z value`: the share of each row in the Bayes vulnerability."""
    return np.maximum.reduceat(rows.value, rows.begin)


def guesses(rows: Rows) -> Float[np.ndarray, " n"]:
    """`Σ_i i · value_(i)` in descending order: the share of each row in the guessing entropy."""
    order = np.lexsort((-rows.value, rows.owner))
    turn = np.arange(1, len(order) + 1) - rows.begin[rows.owner]
    return rows.sums(rows.value[order] * turn)


def norm(order: float) -> RowFunction:
    """`(Σ_z value^α)^{1/α}` for an order α, which Arimoto's conditional Rényi entropy averages."""

    def found(rows: Rows) -> Float[np.ndarray, " n"]:
        largest = best_guess(rows)
        if np.isinf(order):
            return largest
        # The largest entry is taken out first: powers of small numbers underflow.
        return largest * rows.sums((rows.value / largest[rows.owner]) ** order) ** (1 / order)

    return found


def best_gain(gain: Float[np.ndarray, "W Z"]) -> RowFunction:
    """`max_w Σ_z gain(w,z) value`: the share of each row in the g-vulnerability."""

    def found(rows: Rows) -> Float[np.ndarray, " n"]:
        table = sp.csr_array((rows.value, rows.column, rows.indptr), shape=(len(rows), gain.shape[1]))
        step = max(1, _AT_ONCE // len(gain))
        parts = [(table[begin : begin + step] @ gain.T).max(axis=1) for begin in range(0, len(rows), step)]
        return np.concatenate(parts)

    return found


def likeliest(prior: Float[np.ndarray, " Z"]) -> RowFunction:
    """`max_z value / P(z)`: the share of each row in `Σ_y max_z P(y|z)`, whose logarithm is the maximal leakage."""

    def found(rows: Rows) -> Float[np.ndarray, " n"]:
        return np.maximum.reduceat(rows.value / prior[rows.column], rows.begin)

    return found


def gained_bits(rows: Rows, prior: Float[np.ndarray, " Z"]) -> Float[np.ndarray, " n"]:
    """`KL(P(z|y) || P(z))` of each row: what a sequence tells. Not multiplied by its probability."""
    posterior = rows.posterior
    return rows.sums(posterior * (log2_or_zero(posterior) - log2_or_zero(prior)[rows.column]))
