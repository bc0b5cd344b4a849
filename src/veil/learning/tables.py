"""Tables of probabilities estimated from counts: Dirichlet posteriors of their rows, with means, intervals and draws."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int
from scipy.special import betaincinv

from ..common.logs import natural_log
from ..common.values import Value


@dataclass(frozen=True, eq=False, repr=False)
class Interval(Value):
    """An estimated probability with its credible interval.

    **Attributes:** `part`: `"start"`, `"transition"`, `"emission"` or `"choice"`; `given`: the state, or state and action,
    that it is for; `value`: the next state, observation or action; `count`: how often it was seen, expected where states
    are hidden; `probability`: the mean of the posterior; `low`, `high`: the equal-tailed interval, NaN where states are
    hidden.
    """

    part: str
    given: str
    value: str
    count: float
    probability: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Table:
    """The posterior of some rows of a table `(R, K)`: row r is Dirichlet with `weight = count + prior` on its support.

    Entries are listed by row; a row that was never seen is not there, and keeps the value that it has elsewhere.
    """

    part: str
    shape: tuple[int, int]
    row: Int[np.ndarray, " e"]
    column: Int[np.ndarray, " e"]
    count: Float[np.ndarray, " e"]
    prior: float

    @staticmethod
    def of(part: str, counts: sp.csr_array, allowed: sp.csr_array | None, prior: float) -> "Table":
        """The posterior after counts `(R, K)`; the support of a row is what was seen and what is `allowed` (not zero)."""
        seen = sp.csr_array(counts != 0)
        support = seen if allowed is None else sp.csr_array(seen + sp.csr_array(allowed != 0))
        full = np.asarray(counts.sum(axis=1)).ravel() > 0
        entries = sp.coo_array(support)
        row, column = entries.coords
        kept = full[row]
        row, column = row[kept], column[kept]
        order = np.lexsort((column, row))
        row, column = row[order].astype(np.int64), column[order].astype(np.int64)
        count = np.asarray(counts[row, column], dtype=float).ravel()
        return Table(part, (int(counts.shape[0]), int(counts.shape[1])), row, column, count, prior)  # pyright: ignore[reportOptionalSubscript]

    @cached_property
    def rows(self) -> Bool[np.ndarray, " R"]:
        """Which rows were estimated."""
        found = np.zeros(self.shape[0], dtype=bool)
        found[self.row] = True
        return found

    @property
    def weight(self) -> Float[np.ndarray, " e"]:
        """The parameters of the Dirichlet distributions."""
        return self.count + self.prior

    def mean(self) -> Float[np.ndarray, " e"]:
        """The posterior mean of each entry."""
        return self._normalised(self.weight)

    def resampled(self, generator: np.random.Generator) -> "Table":
        """The posterior after other counts: as many as each row has, drawn from the means.

        A multinomial draw is one binomial draw after the other, of all rows at once.
        """
        share, size = self.mean(), self._totals(self.count)
        place = np.arange(len(self.row)) - np.searchsorted(
            self.row, self.row
        )  # within the row: entries are listed by row
        left, rest, count = size.round().astype(np.int64), np.ones(self.shape[0]), np.zeros(len(self.row))
        for number in range(int(place.max(initial=-1)) + 1):
            here = np.flatnonzero(place == number)
            row = self.row[here]
            chance = np.where(self._is_last[here], 1.0, np.minimum(share[here] / np.maximum(rest[row], 1e-300), 1.0))
            count[here] = generator.binomial(left[row], chance)
            left[row] -= count[here].astype(np.int64)
            rest[row] = np.maximum(rest[row] - share[here], 0.0)
        return replace(self, count=count)

    @cached_property
    def _is_last(self) -> Bool[np.ndarray, " e"]:
        return np.append(self.row[1:] != self.row[:-1], True)

    def ends(self, confidence: float) -> tuple[Float[np.ndarray, " e"], Float[np.ndarray, " e"]]:
        """The ends of the equal-tailed interval of each entry, whose marginal is a Beta distribution."""
        rest = self._totals(self.weight)[self.row] - self.weight
        sure = np.bincount(self.row, minlength=self.shape[0])[self.row] == 1  # the only entry of its row
        tail = (1 - confidence) / 2
        low, high = (betaincinv(self.weight, np.where(sure, 1.0, rest), share) for share in (tail, 1 - tail))
        return np.where(sure, 1.0, low), np.where(sure, 1.0, high)

    def log_likelihood(self) -> float:
        """`Σ n ln p`: of what was counted, under the posterior mean."""
        seen = self.count > 0
        return float(self.count[seen] @ natural_log(self.mean()[seen]))

    def log_prior(self, values: Float[np.ndarray, " e"]) -> float:
        """`prior · Σ ln p`: what expectation maximisation adds to the log-likelihood."""
        return self.prior * float(natural_log(values).sum())

    def into(self, base: sp.csr_array | None, values: Float[np.ndarray, " e"]) -> sp.csr_array:
        """The whole table: the estimated rows with these values, the others from `base`, or empty."""
        found = sp.csr_array((values, (self.row, self.column)), shape=self.shape)
        return found if base is None else sp.csr_array(sp.diags_array((~self.rows).astype(float)) @ base + found)

    def intervals(
        self, confidence: float | None, given: Callable[[int], str], value: Callable[[int], str]
    ) -> Iterator[Interval]:
        """Each entry with its names, and its interval unless the confidence is None."""
        low, high = np.full((2, len(self.row)), np.nan) if confidence is None else self.ends(confidence)
        for row, column, *numbers in zip(self.row, self.column, self.count, self.mean(), low, high, strict=True):
            yield Interval(self.part, given(int(row)), value(int(column)), *map(float, numbers))

    def _totals(self, values: np.ndarray) -> Float[np.ndarray, " R"]:
        return np.bincount(self.row, values, minlength=self.shape[0])

    def _normalised(self, values: np.ndarray) -> np.ndarray:
        return values / self._totals(values)[self.row]
