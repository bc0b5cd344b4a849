"""Messages as rows with sparse support: every possible history by the states it leaves possible, and nothing else.

A walk forward keeps for each history the pairs (state, value of the secret) that are possible after it, as one row of a
sparse matrix. A step is a product of two sparse matrices; where many states exist and each history leaves few of them
possible, its cost does not depend on the number of states. Histories whose rows are proportional have the same future
and are merged, without any error beyond rounding: `H` is homogeneous of degree one in `P(z,y)`, so that the sum of
proportional rows contributes the sum of their values, and its gradient is the gradient of each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ...common.numbering import ragged
from ..chain import Chain, Slopes
from ..compile import scaled_rows
from ..tree import PullBack
from .sparse_steps import SparseStep, SparseSteps

# Rows are proportional where all entries agree to this, relative to their size: far above what a hundred roundings
# leave, and what it may change of H is of the order of its square.
_PROPORTIONAL = 1e-12
# After this many levels in a row without two proportional rows, none are sought.
_MOST_FAILURES = 3
# Products of a step made between two looks at the clock: about a tenth of a second.
_AT_ONCE = 2**21


@dataclass(frozen=True, eq=False)
class SparseBlock:
    """Histories of one level: row i has the entries `indptr[i]` to `indptr[i+1]` of `column` and `message`.

    A row sums to one, and true messages are `weight · message`; `count` histories are merged into a row.
    """

    weight: Float[np.ndarray, " n"]
    message: Float[np.ndarray, " m"]
    column: Int[np.ndarray, " m"]
    indptr: Int[np.ndarray, " n+1"]
    count: Float[np.ndarray, " n"]
    events: Int[np.ndarray, "n L"] | None

    def __len__(self) -> int:
        return len(self.weight)

    def span(self, begin: int, end: int) -> slice:
        """The entries of some consecutive rows."""
        return slice(int(self.indptr[begin]), int(self.indptr[end]))

    def part(self, begin: int, end: int) -> "SparseBlock":
        """Some consecutive rows."""
        if begin == 0 and end == len(self):
            return self
        span, events = self.span(begin, end), None if self.events is None else self.events[begin:end]
        indptr = self.indptr[begin : end + 1] - self.indptr[begin]
        return SparseBlock(
            self.weight[begin:end], self.message[span], self.column[span], indptr, self.count[begin:end], events
        )

    def row_of_entries(self) -> Int[np.ndarray, " m"]:
        """The row of each entry."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.indptr))


@dataclass
class SparsePrefixes:
    """All histories from the first observation to the last, forward; a `Direction` of `tree.walk`."""

    chain: Chain
    slopes: Slopes | None = None
    keep_events: bool = False
    merge: bool = True
    check: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.steps = SparseSteps(self.chain)
        self.products = 0
        self._failures = 0
        self._step_slopes: dict[int, np.ndarray] = {}

    @property
    def levels(self) -> int:
        """One level a step; a horizon of zero has one, without a step, in which the secret is read off."""
        return self.chain.hidden.horizon

    def root(self) -> SparseBlock:
        """All possible first observations."""
        hidden, columns = self.chain.hidden, self.steps.columns(0)
        chance = self.steps.first_chance
        table = sp.csc_array(scaled_rows(chance, sp.csr_array(hidden.first[columns.state])))
        possible = np.flatnonzero(np.diff(table.indptr))
        indptr = np.concatenate([[0], np.cumsum(np.diff(table.indptr)[possible])])
        row, column, data = np.repeat(np.arange(len(possible)), np.diff(indptr)), table.indices, table.data
        self._first = (row, columns.state[column], np.arange(len(data)), chance[column], len(possible))
        if hidden.horizon == 0:  # the secret is read off at once, and with it the last state where that is told
            assert columns.value is not None
            told = row * len(columns) + column if hidden.reveals_last else row
            rows, number = np.unique(told, return_inverse=True)
            keys, place = np.unique(number * hidden.num_values + columns.value[column], return_inverse=True)
            number, column = np.divmod(keys, hidden.num_values)
            data = np.bincount(place, weights=data)
            indptr = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(rows)))])
            self._first = (*self._first[:2], place, *self._first[3:])
            possible = possible[rows // len(columns) if hidden.reveals_last else rows]
        events = possible[:, None].astype(np.int32) if self.keep_events else None
        return self._scaled(np.ones(len(possible)), data, column, indptr, np.ones(len(possible)), events)

    def root_slope(self, slope: Float[np.ndarray, " m"]) -> Float[np.ndarray, "F N"]:
        """The gradient in `hidden.first` (its possible events, in order) from the gradient in the root block."""
        row, state, place, chance, size = self._first
        result = np.zeros((size, self.chain.hidden.num_states))
        np.add.at(result, (row, state), slope[place] * chance)
        return result

    def expand(self, block: SparseBlock, level: int) -> tuple[SparseBlock, PullBack]:
        """One observation more."""
        step = self.steps.step(level)
        parts = [self._product(part, step) for part in self._slices(block, step)]
        data, pair, indptr, places = (_joined(parts, number) for number in range(4))
        event = step.event[pair]
        starts = np.zeros(len(pair), dtype=bool)
        starts[1:] = event[1:] != event[:-1]
        starts[indptr[:-1][np.diff(indptr) > 0]] = True
        begin = np.flatnonzero(starts)
        parent = np.searchsorted(indptr, begin, side="right") - 1
        history = None
        if block.events is not None:
            history = np.column_stack([block.events[parent], event[begin].astype(np.int32)])
        children = self._scaled(
            block.weight[parent], data, step.column[pair], np.append(begin, len(pair)), block.count[parent], history
        )
        merged, target = self._merged(children)
        if self.slopes is None:
            return merged, _no_slopes

        def pull_back(slope: np.ndarray) -> np.ndarray:
            if target is not None:
                slope = slope[target]
            return self._pulled(block, step, level, slope[places])

        return merged, pull_back

    def finish(self) -> None:
        """Hand the gradients of all steps on."""
        if self.slopes is not None:
            for time, slope in self._step_slopes.items():
                self.steps.add_slopes(self.slopes, time, slope)

    def rows_within(self, block: SparseBlock, position: int, level: int, products: float) -> int:
        """How many rows from `position` on can be extended with so many products; one at least."""
        degree = self.steps.step(level).degree
        begin = block.indptr[position]
        sums = np.cumsum(degree[block.column[begin:]])
        ends = block.indptr[position + 1 :] - begin
        return max(1, int(np.searchsorted(sums[ends - 1], products, side="right")))

    def _slices(self, block: SparseBlock, step: SparseStep) -> list[SparseBlock]:
        degree = step.degree[block.column]
        total = int(degree.sum())
        self.products += total
        sums = np.cumsum(degree)[block.indptr[1:] - 1]
        cuts = np.unique(np.searchsorted(sums, np.arange(_AT_ONCE, total + _AT_ONCE, _AT_ONCE)) + 1)
        cuts = np.unique(np.concatenate([[0], np.minimum(cuts, len(block)), [len(block)]]))
        return [block.part(int(a), int(b)) for a, b in pairwise(cuts)]

    def _product(self, block: SparseBlock, step: SparseStep) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Rows times the step, columns in order: data, pairs, row ends; and, for gradients, the place of each product."""
        self.check()
        shape = (len(block), len(step.degree))
        if self.slopes is None:
            rows = sp.csr_array((block.message, block.column, block.indptr), shape=shape)
            result = sp.csr_array(rows @ step.matrix)
            result.sort_indices()
            return result.data, result.indices, result.indptr, np.zeros(0, dtype=np.int32)
        owner, entry = _products(block, step)
        row = np.repeat(block.row_of_entries(), step.degree[block.column])
        key = row.astype(np.int64) * len(step.event) + step.matrix.indices[entry]
        order = np.argsort(key)
        ordered = key[order]
        new = np.ones(len(key), dtype=bool)
        new[1:] = ordered[1:] != ordered[:-1]
        place = np.empty(len(key), dtype=np.int32)
        place[order] = np.cumsum(new) - 1
        row, pair = np.divmod(ordered[new], len(step.event))
        data = np.bincount(place, weights=block.message[owner] * step.matrix.data[entry], minlength=len(pair))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(block)))])
        return data, pair, indptr, place

    def _pulled(self, block: SparseBlock, step: SparseStep, level: int, slope: np.ndarray) -> np.ndarray:
        """From the gradient in each product to the gradient in the block; the gradients in the step are added up."""
        self.check()
        owner, entry = _products(block, step)
        true = block.message * np.repeat(block.weight, np.diff(block.indptr))
        found = np.bincount(entry, weights=true[owner] * slope, minlength=len(step.origin))
        if level in self._step_slopes:
            self._step_slopes[level] += found
        else:
            self._step_slopes[level] = found
        return np.bincount(owner, weights=step.matrix.data[entry] * slope, minlength=len(block.message))

    @staticmethod
    def _scaled(
        weight: np.ndarray,
        data: np.ndarray,
        column: np.ndarray,
        indptr: np.ndarray,
        count: np.ndarray,
        events: np.ndarray | None,
    ) -> SparseBlock:
        """Rows that sum to one, their sums moved into the weights; no row is empty."""
        total = np.add.reduceat(data, indptr[:-1]) if len(indptr) > 1 else np.zeros(0)
        divisor = np.where(total > 0, total, 1.0)
        return SparseBlock(
            weight * total, data / np.repeat(divisor, np.diff(indptr)), column, indptr.astype(np.int32), count, events
        )

    def _merged(self, block: SparseBlock) -> tuple[SparseBlock, np.ndarray | None]:
        """Proportional rows as one, and the new place of each entry (None: nothing merged)."""
        if not self.merge or self.keep_events or len(block) < 2 or self._failures >= _MOST_FAILURES:
            return block, None
        group = proportional_rows(block)
        distinct = int(group.max()) + 1
        if distinct == len(block):
            self._failures += 1
            return block, None
        self._failures = 0
        first = np.full(distinct, len(block))
        np.minimum.at(first, group, np.arange(len(block)))
        small = _rows(block, first)
        weight = np.bincount(group, weights=block.weight)
        count = np.bincount(group, weights=block.count)
        result = SparseBlock(weight, small.message, small.column, small.indptr, count, None)
        shift = result.indptr[group] - block.indptr[:-1]
        target = np.arange(len(block.message)) + np.repeat(shift, np.diff(block.indptr))
        return result, target


def proportional_rows(block: SparseBlock) -> Int[np.ndarray, " n"]:
    """A number for each row, the same for rows that are proportional; verified entry by entry.

    Two random projections bring candidates together. A row joins the first of its neighbours with equal projections
    only where all entries agree, so that a coincidence costs a merger, never a wrong one.
    """
    lengths = np.diff(block.indptr)
    generator = np.random.default_rng(12)
    mixed = generator.random(int(block.column.max()) + 1)
    begin = block.indptr[:-1]
    sketch = np.add.reduceat(block.message * mixed[block.column], begin)
    square = np.add.reduceat(block.message**2, begin)
    order = np.lexsort((sketch, lengths))
    near = (
        (np.diff(lengths[order]) == 0)
        & (np.diff(sketch[order]) <= _PROPORTIONAL * sketch[order][1:])
        & (np.abs(np.diff(square[order])) <= 8 * _PROPORTIONAL * square[order][1:])
    )
    if not near.any():
        return np.arange(len(block))
    leader = np.empty(len(block), dtype=np.int64)
    head = np.concatenate([[True], ~near])
    leader[order] = order[np.flatnonzero(head)][np.cumsum(head) - 1]
    followers = np.flatnonzero(leader != np.arange(len(block)))
    mine, other = _entries(block.indptr, followers), _entries(block.indptr, leader[followers])
    apart = (block.column[mine] != block.column[other]) | (
        np.abs(block.message[mine] - block.message[other]) > _PROPORTIONAL * block.message[mine]
    )
    ends = np.cumsum(lengths[followers])
    wrong = np.add.reduceat(apart, ends - lengths[followers], dtype=np.int64) > 0
    leader[followers[wrong]] = followers[wrong]
    return np.unique(leader, return_inverse=True)[1].ravel()


def _products(block: SparseBlock, step: SparseStep) -> tuple[np.ndarray, np.ndarray]:
    """All products of a step: the entry of the block and the entry of the step's matrix."""
    degree = step.degree[block.column]
    owner = np.repeat(np.arange(len(block.message), dtype=np.int32), degree)
    return owner, ragged(step.matrix.indptr[block.column], degree)


def _entries(indptr: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The entries of some rows, one row after the other."""
    return ragged(indptr[:-1][rows], np.diff(indptr)[rows])


def _rows(block: SparseBlock, rows: np.ndarray) -> SparseBlock:
    """Some rows of a block."""
    entries = _entries(block.indptr, rows)
    indptr = np.concatenate([[0], np.cumsum(np.diff(block.indptr)[rows])]).astype(np.int32)
    events = None if block.events is None else block.events[rows]
    return SparseBlock(
        block.weight[rows], block.message[entries], block.column[entries], indptr, block.count[rows], events
    )


def _joined(parts: list[tuple[np.ndarray, ...]], number: int) -> np.ndarray:
    """The slices of a step side by side: row ends (2) and places (3) go on where the last slice ended."""
    if len(parts) == 1:
        return parts[0][number]
    if number < 2:
        return np.concatenate([part[number] for part in parts])
    before = np.cumsum([0, *(len(part[0]) for part in parts)])
    if number == 2:
        return np.concatenate([[0], *(part[2][1:] + shift for part, shift in zip(parts, before, strict=False))])
    return np.concatenate([part[3] + shift for part, shift in zip(parts, before, strict=False)])


def _no_slopes(slope: np.ndarray) -> np.ndarray:
    raise AssertionError("a walk without gradients pulls nothing back")
