"""Bounds from histories that are merged by their beliefs: more and more of them kept apart, until the bounds are narrow.

Let C_t be a cluster of the histories up to t, a function of C_{t-1} and the event E_t, and `c_t = I(X_t; C_{t-1}, E_t | C_t)`
what merging takes from the observer about the hidden state. It takes no more about anything that follows. So

    H(Z|C_T) − Σ_t c_t                     ≤  H(Z|Y)          ≤  H(Z|C_T),
    H(E_0) + Σ_t H(E_{t+1}|C_t) − Σ_t c_t  ≤  H(E_0 … E_T)    ≤  H(E_0) + Σ_t H(E_{t+1}|C_t).

The same clusters give valid bounds for every policy, so the gradient of a lower bound is that for clusters that stay.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import OutOfTime
from ..common.errors import TooLargeError
from ..common.logs import entropy_bits, log2_or_zero, mean_log_ratio_bits
from ..common.merging import merge_beliefs
from ..common.numbering import number_keys, ragged
from ..engine.backends.sparse_steps import SparseStep, SparseSteps
from ..engine.chain import Chain, Slopes
from ..engine.kernel import num_columns, num_rows
from .exact import Budget

_FIRST_MOST = 512  # histories that are kept apart, at first
_LARGEST_MOST = 2**15
_NOTHING = 1e-9  # bits that merging costs where it merged the same beliefs alone: more histories would not help
_ENTRY_BYTES = 150  # of a step, with its sorting
_ENTRY_SECONDS = 4e-7

Gradient = Float[np.ndarray, "T C A"]


@dataclass(frozen=True)
class Merged:
    """Bounds on a number of bits, and the most histories that were kept apart at a time.

    `end`: the gradient of the lower bound, computed within a budget when it is called; `words`: where the bounds come from, if
    not from merged histories.
    """

    lower: float
    upper: float
    num_sequences: int
    end: Callable[[Budget], Gradient] | None = None
    words: str = ""

    @property
    def width(self) -> float:
        """How far the bounds are apart."""
        return self.upper - self.lower

    @property
    def text(self) -> str:
        """Where the bounds come from, in words."""
        return (
            self.words
            or f"histories with nearly the same belief were merged, at most {self.num_sequences:,} kept apart"
        )

    def lower_gradient(self, chain: Chain, budget: Budget) -> tuple[Gradient, str]:
        """The gradient of the lower bound in the policy's table, and what there is to say of it."""
        return (np.zeros(chain.table.shape) if self.end is None else self.end(budget)), ""


def keep_apart(bounds: Callable[[int], Merged], best: Merged, budget: Budget, width: float) -> Iterator[Merged]:
    """Yield better and better bounds within a budget, beginning with what is known before.

    **Arguments:** `bounds`: those for at most so many histories that are kept apart at a time; it raises `OutOfTime` or
    `TooLargeError` if it cannot end. `best`: what is known before; `width`: bits between the bounds that are wanted.
    """
    yield best
    clock, most = budget.clock, _FIRST_MOST
    while True:
        begin = clock.spent
        try:
            found = bounds(most)
        except (OutOfTime, TooLargeError):
            return
        end = found.end if found.lower >= best.lower else best.end
        lower = max(best.lower, found.lower)
        upper = max(lower, min(best.upper, found.upper))
        best = Merged(lower, upper, max(best.num_sequences, found.num_sequences), end)
        yield best
        # Twice as many histories take up to three times as long.
        late = 3 * (clock.spent - begin) > clock.left
        if best.width <= max(width, _NOTHING) or late or most >= _LARGEST_MOST:
            return
        most *= 2


class _Level(NamedTuple):
    """One step: the clusters before it, their extensions as entries (cluster and event, column), and the clusters after it.

    `number`: the history of each entry; `cluster`: where each history goes; None at the last step.
    """

    messages: sp.csr_array
    entry: sp.csr_array
    number: Int[np.ndarray, " m"]
    cluster: Int[np.ndarray, " h"] | None


class MergedPass:
    """One pass forward with at most so many clusters of histories.

    **Attributes:** `value_bits`: `H(Z|C_T)`; `event_bits`: `H(E_0) + Σ_t H(E_{t+1}|C_t)`; `lost_bits`: `Σ_t c_t`; `rows`: the
    most clusters at a time.

    Cost: for each step the clusters times the transitions out of what they leave possible.

    **Raises:** `OutOfTime`; `TooLargeError` if a step does not fit the memory.
    """

    def __init__(self, chain: Chain, most: int, budget: Budget):
        self.chain, self._budget, self._levels = chain, budget, list[_Level]()
        self._steps, hidden = SparseSteps(chain), chain.hidden
        messages = self._first()
        chance = np.asarray(messages.sum(axis=1)).ravel()
        self.event_bits, self.lost_bits, self.rows = float(entropy_bits(chance)), 0.0, len(chance)
        for time in range(hidden.horizon):
            messages = self._extend(messages, time, most)
        self._last = messages
        total = np.asarray(messages.sum(axis=1)).ravel()[_owner(messages)]
        self.value_bits = mean_log_ratio_bits(messages.data, total, messages.data)

    def value(self) -> Merged:
        """Bounds on `H(Z|Y)`."""
        return Merged(
            self.value_bits - self.lost_bits, self.value_bits, self.rows, partial(self.gradient, value=1.0, lost=-1.0)
        )

    def events(self) -> Merged:
        """Bounds on `H(E_0 … E_T)`, the entropy of the event sequences."""
        return Merged(
            self.event_bits - self.lost_bits, self.event_bits, self.rows, partial(self.gradient, events=1.0, lost=-1.0)
        )

    def _first(self) -> sp.csr_array:
        """A row for each first event that is possible; for a horizon of 0 over values, else over columns."""
        hidden, columns = self.chain.hidden, self._steps.columns(0)
        table = sp.coo_array(hidden.first[columns.state])
        column, mass = table.row, table.data * self._steps.first_chance[table.row]
        size = len(columns)
        if hidden.horizon == 0:
            assert columns.value is not None
            column, size = columns.value[column], hidden.num_values
        positive = mass > 0
        _, event = number_keys(table.col[positive])
        return _summed(event, column[positive], mass[positive], size)

    def _extend(self, messages: sp.csr_array, time: int, most: int) -> sp.csr_array:
        """Each cluster by each event, merged unless it is the last one."""
        budget, step, hidden = self._budget, self._steps.step(time), self.chain.hidden
        budget.clock.check()
        count = int(step.degree[messages.indices].sum())
        if count * _ENTRY_BYTES > budget.memory_bytes:
            raise TooLargeError(f"a step has {count:,} entries, which do not fit the memory")
        budget.clock.check(ahead=count * _ENTRY_SECONDS)
        found = sp.csr_array(messages @ step.matrix)
        found.sort_indices()
        before, mass = _owner(found), found.data
        keys, number = number_keys(before * hidden.num_events + step.event[found.indices])
        arrived, mother = np.bincount(number, weights=mass), keys // hidden.num_events
        self.event_bits += mean_log_ratio_bits(arrived, np.bincount(mother, weights=arrived)[mother], arrived)
        column = step.column[found.indices]
        if time + 1 == hidden.horizon:
            self._levels.append(_Level(messages, found, number, None))
            return _summed(number, column, mass, hidden.num_values)
        cluster = merge_beliefs(number, column, mass, most)
        self._levels.append(_Level(messages, found, number, cluster))
        after = _summed(cluster[number], column, mass, len(self._steps.columns(time + 1)))
        together = np.bincount(cluster, weights=arrived)[cluster]
        mean = _at(after, cluster[number], column)
        self.lost_bits += max(0.0, mean_log_ratio_bits(mass, mass / arrived[number], mean / together[number]))
        self.rows = max(self.rows, num_rows(after))
        return after

    def gradient(self, budget: Budget, *, value: float = 0.0, events: float = 0.0, lost: float = 0.0) -> Gradient:
        """The gradient in the policy's table of `value · value_bits + events · event_bits + lost · lost_bits`."""
        slopes, after = Slopes(self.chain), self._last
        total = np.asarray(after.sum(axis=1)).ravel()[_owner(after)]
        pulled = sp.csr_array(
            (value * log2_or_zero(total / after.data), after.indices, after.indptr), shape=after.shape
        )
        for time in range(len(self._levels) - 1, -1, -1):
            budget.clock.check()
            level, step = self._levels[time], self._steps.step(time)
            found, number, cluster, mass = level.entry, level.number, level.cluster, level.entry.data
            column = step.column[found.indices]
            place = number if cluster is None else cluster[number]
            slope = _at(pulled, place, column)
            arrived = np.bincount(number, weights=mass)[number]
            mother = np.asarray(level.messages.sum(axis=1)).ravel()[_owner(found)]
            slope += events * log2_or_zero(mother / arrived)
            if cluster is not None:
                together, mean = np.bincount(place, weights=mass)[place], _at(after, place, column)
                slope += lost * log2_or_zero((mass / arrived) / (mean / together))
            after = level.messages
            pulled = self._pull(slopes, time, step, level, slope)
        return slopes.table()

    def _pull(self, slopes: Slopes, time: int, step: SparseStep, level: _Level, slope: np.ndarray) -> sp.csr_array:
        """From gradients in the entries after a step to those in the messages before it and in the step's matrix."""
        messages, found, matrix = level.messages, level.entry, step.matrix
        degree = step.degree[messages.indices]
        owner = np.repeat(np.arange(len(degree)), degree)
        entry = ragged(matrix.indptr[messages.indices], degree)
        pulled = sp.csr_array((slope, found.indices, found.indptr), shape=found.shape)
        each = _at(pulled, _owner(messages)[owner], matrix.indices[entry])
        inside = np.bincount(entry, weights=messages.data[owner] * each, minlength=matrix.nnz)
        self._steps.add_slopes(slopes, time, inside)
        back = np.bincount(owner, weights=matrix.data[entry] * each, minlength=messages.nnz)
        return sp.csr_array((back, messages.indices, messages.indptr), shape=messages.shape)


def _summed(row: np.ndarray, column: np.ndarray, mass: np.ndarray, width: int) -> sp.csr_array:
    """A table of sums; each row in order."""
    table = sp.csr_array(sp.coo_array((mass, (row, column)), shape=(int(row.max(initial=-1)) + 1, width)))
    table.sum_duplicates()
    return table


def _owner(table: sp.csr_array) -> Int[np.ndarray, " m"]:
    """The row of each entry."""
    return np.repeat(np.arange(num_rows(table), dtype=np.int64), np.diff(table.indptr))


def _at(table: sp.csr_array, row: np.ndarray, column: np.ndarray) -> Float[np.ndarray, " m"]:
    """Entries of a table with sorted rows; 0 where none is stored."""
    width = np.int64(num_columns(table))
    key, wanted = _owner(table) * width + table.indices, row * width + column
    place = np.minimum(np.searchsorted(key, wanted), len(key) - 1)
    return np.where(key[place] == wanted, table.data[place], 0.0)
