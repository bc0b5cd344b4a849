"""Steps of a sparse chain between the states that can be reached at each time, for messages kept as columns.

From one start a grid is reached ring by ring: at time t there are about 2t² cells, a third of the last number on average.
Which transitions can occur at which time depends on no policy, so it is found once for each hidden chain.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..chain import Chain
from ..hidden import Hidden
from ..kernel import SparseKernel

_MOST_ENTRIES = 2**26  # transitions of all times together; beyond, each step has all of them
# Backward messages are scaled by their largest entry, which is another one over fewer states: where little is gained, they
# round as they always did.
_SMALL_STATES = 1024
_MOST_KEPT = 2**25  # mixed transitions kept for the lanes of a pass: 256 MiB each way
_OUTER_NUMBERS = 2**17  # gathered at a time for an outer product: both pieces stay in the cache


@dataclass(frozen=True, eq=False)
class Pattern:
    """The transitions that can occur at one time, from the states `here` to the states `there`.

    Transition k is entry `entries[k]` of the kernel, from row `row[k]` to column `column[k]` of the step's matrix, which has
    the row ends `indptr`. `turned` is the same by columns: order of the transitions, their rows, and ends.
    """

    here: Int[np.ndarray, " n"]
    there: Int[np.ndarray, " m"]
    entries: Int[np.ndarray, " e"]
    row: Int[np.ndarray, " e"]
    column: Int[np.ndarray, " e"]
    indptr: Int[np.ndarray, " n+1"]
    turned: tuple[Int[np.ndarray, " e"], Int[np.ndarray, " e"], Int[np.ndarray, " m+1"]]

    def outer(self, left: Float[np.ndarray, "n k"], right: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " e"]:
        """`Σ_k left(x,k) right(x',k)` of each transition."""
        result = np.empty(len(self.row))
        step = max(64, _OUTER_NUMBERS // left.shape[1])
        for begin in range(0, len(result), step):
            part = slice(begin, begin + step)
            np.einsum("en,en->e", left[self.row[part]], right[self.column[part]], out=result[part])
        return result


_PATTERNS: WeakKeyDictionary[Hidden, list[Pattern]] = WeakKeyDictionary()


def patterns(hidden: Hidden) -> list[Pattern]:
    """The transitions of each time."""
    found = _PATTERNS.get(hidden)
    if found is None:
        found = _PATTERNS[hidden] = _patterns(hidden)
    return found


def reached(hidden: Hidden, time: int) -> Int[np.ndarray, " n"]:
    """The states that messages of a time are about."""
    if hidden.horizon == 0:
        return np.flatnonzero(hidden.start > 0)
    return patterns(hidden)[time].here if time < hidden.horizon else patterns(hidden)[-1].there


def _patterns(hidden: Hidden) -> list[Pattern]:
    kernel = hidden.kernel
    assert isinstance(kernel, SparseKernel)
    every = np.ones(hidden.num_states, dtype=bool)
    small = hidden.num_states <= _SMALL_STATES and hidden.split_time < hidden.horizon
    if small or hidden.horizon * kernel.num_entries > _MOST_ENTRIES:
        return [_pattern(kernel, every, every)] * hidden.horizon
    result: list[Pattern] = []
    before, here = None, hidden.start > 0
    for _ in range(hidden.horizon):
        there = np.zeros(hidden.num_states, dtype=bool)
        there[kernel.indices[here[kernel.rows]]] = True
        alike = before is not None and np.array_equal(before, here) and np.array_equal(here, there)
        result.append(result[-1] if alike else _pattern(kernel, here, there))
        before, here = here, there
    return result


def _pattern(kernel: SparseKernel, here: np.ndarray, there: np.ndarray) -> Pattern:
    entries = np.flatnonzero(here[kernel.rows])
    row = (np.cumsum(here) - 1)[kernel.rows[entries]].astype(np.int32)
    column = (np.cumsum(there) - 1)[kernel.indices[entries]].astype(np.int32)
    sizes = int(here.sum()), int(there.sum())
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=sizes[0]))]).astype(np.int32)
    order = np.argsort(column, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=sizes[1]))]).astype(np.int32)
    states = np.flatnonzero(here), np.flatnonzero(there)
    return Pattern(*states, entries, row, column, indptr, (order, row[order], ends))


class ColumnSteps:
    """The transitions of each channel under a chain's policy, by rows and by columns; kept for a stationary policy."""

    def __init__(self, chain: Chain):
        self.chain, self.patterns = chain, patterns(chain.hidden)
        self._keeps = sum(len(pattern.entries) for pattern in self.patterns) * len(chain.hidden.channels) <= _MOST_KEPT
        self._made: dict[tuple[int, bool], tuple[sp.csr_array, ...]] = {}

    def matrices(self, time: int, *, turned: bool) -> tuple[sp.csr_array, ...]:
        """`K_t` for each channel over the states of that time and the next, or its transpose."""
        found = self._made.get((time, turned))
        if found is None:
            found = self._make(time, turned)
            if self._keeps:
                self._made[time, turned] = found
        return found

    def _make(self, time: int, turned: bool) -> tuple[sp.csr_array, ...]:
        pattern = self.patterns[time]
        shape = len(pattern.here), len(pattern.there)
        order, rows, ends = pattern.turned
        places = (rows, ends) if turned else (pattern.column, pattern.indptr)
        entries = pattern.entries[order] if turned else pattern.entries
        return tuple(
            sp.csr_array((sp.csr_array(matrix).data[entries], *places), shape=shape[::-1] if turned else shape)
            for matrix in self.chain.matrices(time)
        )
