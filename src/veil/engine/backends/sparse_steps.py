"""Steps of a chain between the states that can occur at each time, as matrices for rows with sparse support.

A column of messages at time t is a hidden state that can occur then, together with the value of the secret once it is
settled. A step leads from these columns to pairs (state, event), ordered by event, so that the row of a history falls
into the rows of its continuations where the event changes. The last step leads to pairs (value of the secret, event).
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ...common.numbering import number_keys, ragged
from ..chain import Chain, Slopes
from ..kernel import DenseKernel, num_columns, num_rows
from ..written import need_clock


@dataclass(frozen=True, eq=False)
class Columns:
    """What the columns of messages at one time stand for: hidden states, and values of the secret once settled."""

    state: Int[np.ndarray, " n"]
    value: Int[np.ndarray, " n"] | None

    def __len__(self) -> int:
        return len(self.state)


@dataclass(frozen=True, eq=False)
class SparseStep:
    """One step from n columns to p pairs: `matrix[i, j]` is the probability of pair j after column i.

    Pair j is event `event[j]` in column `column[j]` of the next time; the columns of the last time are the values of the
    secret. Entry k of the matrix comes from entry `origin[k]` of the transitions, times `chance[c][k]` in emitter c, which
    holds the emission and, where the secret is settled, its label.
    """

    matrix: sp.csr_array
    event: Int[np.ndarray, " p"]
    column: Int[np.ndarray, " p"]
    origin: Int[np.ndarray, " m"]
    chance: list[Float[np.ndarray, " m"]]
    degree: Int[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class _Table:
    """Entries of several matrices of one pattern: `data[c]` of emitter c; `place` numbers them in a larger array."""

    indptr: np.ndarray
    indices: np.ndarray
    data: list[np.ndarray]
    place: np.ndarray | None

    def rows(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """All entries of some rows, in order: the position of the row among the chosen ones, and the entry."""
        degree = (self.indptr[1:] - self.indptr[:-1])[chosen]
        owner = np.repeat(np.arange(len(chosen), dtype=np.int32), degree)
        return owner, ragged(self.indptr[chosen], degree)


class SparseSteps:
    """The steps of a chain, made as a walk asks for them. Cost of one: linear in the transitions that can occur then."""

    def __init__(self, chain: Chain):
        self.chain = chain
        hidden = chain.hidden
        need_clock(hidden.written)
        self._emission = _shared([emitter.table for emitter in hidden.emitters])
        self._transitions: dict[int, _Table] = {}
        self._steps: dict[int, SparseStep] = {}
        self._labels = _shared([hidden.labels])
        states, settled = np.flatnonzero(hidden.start > 0), None
        self.first_chance = np.ones(len(states))
        if hidden.split_time == 0:
            owner, label = self._labels.rows(states)
            states, settled = states[owner], self._labels.indices[label]
            self.first_chance = self._labels.data[0][label]
        self._columns: list[Columns] = [Columns(states, settled)]

    def columns(self, time: int) -> Columns:
        """The columns of a time whose step has been made before."""
        return self._columns[time]

    def step(self, time: int) -> SparseStep:
        """The step from `time` to the next."""
        if time not in self._steps:
            self._steps[time] = self._make(time)
        return self._steps[time]

    def add_slopes(self, slopes: Slopes, time: int, slope: Float[np.ndarray, " m"]) -> None:
        """Add the gradient in the entries of a step's matrix to the gradients in the transitions of each emitter."""
        step, table = self._steps[time], self._pattern(time)
        kernel = self.chain.hidden.kernel
        for number, chance in enumerate(step.chance):
            inside = np.bincount(step.origin, weights=slope * chance, minlength=len(table.indices))
            if table.place is not None:
                outer = np.zeros(kernel.num_entries)
                outer[table.place] = inside
                inside = outer
            if isinstance(kernel, DenseKernel):
                inside = inside.reshape(kernel.num_states, kernel.num_states)
            slopes.add_outer(time, number, inside)

    def _pattern(self, time: int) -> _Table:
        """The transitions of a time that have positive probability."""
        key = 0 if self.chain.stationary else time
        if key not in self._transitions:
            self._transitions[key] = _positive(self.chain, time)
        return self._transitions[key]

    def _make(self, time: int) -> SparseStep:
        hidden, before = self.chain.hidden, self._columns[time]
        table = self._pattern(time)
        owner, entry = table.rows(before.state)
        target, value = table.indices[entry], before.value
        factor = None
        if time + 1 == hidden.split_time:
            chosen, label = self._labels.rows(target)
            owner, entry, target = owner[chosen], entry[chosen], target[chosen]
            value, factor = self._labels.indices[label], self._labels.data[0][label]
        elif value is not None:
            value = value[owner]
        after, number = _number_columns(target, value, hidden.num_states)
        last = time + 1 == hidden.horizon
        if not last and time + 1 == len(self._columns):
            self._columns.append(after)
        pairs = self._pairs(after, last)
        spread, local = pairs.of(number)
        if spread is not None:
            owner, entry = owner[spread], entry[spread]
            factor = None if factor is None else factor[spread]
        if pairs.emitted is None:
            chance = [np.ones(len(local))]
        else:
            chance = [data[pairs.emitted[local]] for data in self._emission.data]
        if factor is not None:
            chance = [one * factor for one in chance]
        weight = chance[0] * table.data[0][entry]
        for one, data in zip(chance[1:], table.data[1:], strict=True):
            weight += one * data[entry]
        pair = pairs.number[local]
        positive = np.flatnonzero(weight > 0)
        if len(positive) < len(weight):
            weight, pair, owner, entry = weight[positive], pair[positive], owner[positive], entry[positive]
            chance = [one[positive] for one in chance]
        degree = np.bincount(owner, minlength=len(before))
        indptr = np.concatenate([[0], np.cumsum(degree)])
        matrix = sp.csr_array((weight, pair, indptr), shape=(len(before), len(pairs.event)))
        return SparseStep(matrix, pairs.event, pairs.column, entry, chance, degree)

    def _pairs(self, after: Columns, last: bool) -> "_Pairs":
        """What the columns of the next time emit, numbered by event; at the last time by event and value."""
        hidden, emission = self.chain.hidden, self._emission
        if last and hidden.reveals_last and len(hidden.emitters) == 1:
            # Who is told x_T learns nothing more from what it emits.
            owner, emitted = np.arange(len(after)), None
            event = after.state.astype(np.int64)
        else:
            owner, emitted = emission.rows(after.state)
            event = emission.indices[emitted]
            if last and hidden.reveals_last:
                event = event.astype(np.int64) * hidden.num_states + after.state[owner]
        begin = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(after)))])
        if last:
            assert after.value is not None
            keys, number = number_keys(event.astype(np.int64) * hidden.num_values + after.value[owner])
            event, column = np.divmod(keys, hidden.num_values)
            return _Pairs(begin, emitted, number.astype(np.int32), event, column.astype(np.int32))
        order = np.argsort(event, kind="stable")
        number = np.empty(len(order), dtype=np.int32)
        number[order] = np.arange(len(order), dtype=np.int32)
        return _Pairs(begin, emitted, number, event[order], owner[order])


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs (column, event): those of column u from `begin[u]` on, emitted by entry `emitted`, numbered `number`.

    Pair j of the numbering has `event[j]` and `column[j]`. `emitted` is None where each column is an event of its own.
    """

    begin: np.ndarray
    emitted: np.ndarray | None
    number: np.ndarray
    event: np.ndarray
    column: np.ndarray

    def of(self, columns: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        """All pairs of some columns: the position of the column (None: one pair each) and the pair."""
        degrees = np.diff(self.begin)
        if (degrees == 1).all():
            return None, columns
        degree = degrees[columns]
        spread = np.repeat(np.arange(len(columns), dtype=np.int64), degree)
        return spread, ragged(self.begin[:-1][columns], degree)


def _number_columns(state: np.ndarray, value: np.ndarray | None, num_states: int) -> tuple[Columns, np.ndarray]:
    """The different columns in order, and the number of each entry's column."""
    if value is None:
        keys, number = number_keys(state)
        return Columns(keys, None), number
    keys, number = number_keys(value.astype(np.int64) * num_states + state)
    found, state = np.divmod(keys, num_states)
    return Columns(state, found), number


def _positive(chain: Chain, time: int) -> _Table:
    """The entries of the transitions that are positive in some emitter."""
    matrices, kernel = chain.matrices(time), chain.hidden.kernel
    if isinstance(kernel, DenseKernel):
        place = np.flatnonzero(np.logical_or.reduce([matrix > 0 for matrix in matrices]))
        row, column = np.divmod(place, kernel.num_states)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=kernel.num_states))])
        return _Table(indptr, column, [np.asarray(matrix).ravel()[place] for matrix in matrices], place)
    tables = [sp.csr_array(matrix) for matrix in matrices]
    indptr, indices, data = tables[0].indptr, tables[0].indices, [np.asarray(table.data) for table in tables]
    positive = np.logical_or.reduce([one > 0 for one in data])
    if positive.all():
        return _Table(indptr, indices, data, None)
    place = np.flatnonzero(positive)
    indptr = np.concatenate([[0], np.cumsum(positive)])[indptr]
    return _Table(indptr, indices[place], [one[place] for one in data], place)


def _shared(tables: list[sp.csr_array]) -> _Table:
    """Tables over the union of their patterns."""
    if len(tables) == 1:
        return _Table(tables[0].indptr, tables[0].indices, [tables[0].data], None)
    union = sp.csr_array(sum(tables))
    union.sort_indices()
    columns = num_columns(union)
    place = np.repeat(np.arange(num_rows(union), dtype=np.int64), np.diff(union.indptr)) * columns + union.indices
    data = []
    for table in tables:
        rows = np.repeat(np.arange(num_rows(table), dtype=np.int64), np.diff(table.indptr))
        one = np.zeros(len(place))
        one[np.searchsorted(place, rows * columns + table.indices)] = table.data
        data.append(one)
    return _Table(union.indptr, union.indices, data, None)
