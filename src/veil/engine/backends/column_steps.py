"""Steps of a sparse chain between the states that can be reached at each time, for messages kept as columns.

From one start a grid is reached ring by ring: at time t there are about 2t² cells, a third of the last number on average.
Which transitions can occur at which time depends on no policy, so it is found once for each hidden chain; a policy fills in
numbers only.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ...common.memo import memo
from ..hidden import Hidden
from ..kernel import Kernel, SparseKernel
from ..products import add_product
from .compiled import loops

_MOST_ENTRIES = 2**24  # transitions of all times together, 1 GiB; beyond, each step has all of them
_MOST_KEPT = 2**25  # mixed transitions kept for the lanes of a pass: 256 MiB each way
_OUTER_NUMBERS = 2**16  # gathered at a time for an outer product, so that they stay in the cache
_PADDED = 1.6  # times as many entries as there are transitions, up to which all rows are made equally long


@dataclass(frozen=True, eq=False)
class Matrix:
    """Numbers on a pattern in CSR format."""

    indptr: Int[np.ndarray, " n+1"]
    indices: Int[np.ndarray, " e"]
    data: Float[np.ndarray, " e"]

    def product(
        self,
        columns: Float[np.ndarray, "m *k"],
        rows: slice = slice(None),
        out: Float[np.ndarray, "n *k"] | None = None,
    ) -> Float[np.ndarray, "n *k"]:
        """Rows of the product with columns or with one vector, in C order, written over `out` if it is given."""
        begin, end, _ = rows.indices(len(self.indptr) - 1)
        if out is None:
            out = np.zeros((end - begin, *columns.shape[1:]))
        else:
            out.fill(0.0)
        add_product(self.indptr[begin : end + 1], self.indices, self.data, columns, out)
        return out

    def __matmul__(self, columns: Float[np.ndarray, "m *k"]) -> Float[np.ndarray, "n *k"]:
        """The product with columns or with one vector."""
        return self.product(np.ascontiguousarray(columns))


@dataclass(frozen=True, eq=False)
class Pattern:
    """The transitions that can occur at one time, from the states `here` to the states `there`.

    Entry k lies in row `row[k]` and column `column[k]` of the step's matrix, whose rows end at `indptr`; it has the
    probability `probabilities[k, a]`. `turned` is the same by columns: order of the entries, their rows, and ends. Where rows
    are about equally long, all are made to have `degree` entries, with probability 0 in those that fill up; else it is 0.
    """

    here: Int[np.ndarray, " n"]
    there: Int[np.ndarray, " m"]
    row: Int[np.ndarray, " e"]
    column: Int[np.ndarray, " e"]
    probabilities: Float[np.ndarray, "e A"]
    indptr: Int[np.ndarray, " n+1"]
    turned: tuple[Int[np.ndarray, " e"], Int[np.ndarray, " e"], Int[np.ndarray, " m+1"]]
    degree: int

    def mix(self, weights: Float[np.ndarray, "n A"]) -> Float[np.ndarray, " e"]:
        """`Σ_a weights(x,a) P(x'|x,a)` of each entry."""
        if not self.degree:
            return np.einsum("ea,ea->e", self.probabilities, weights[self.row])
        rows = self.probabilities.reshape(len(weights), self.degree, -1)
        return np.einsum("nda,na->nd", rows, weights).reshape(-1)

    def outer(self, left: Float[np.ndarray, "n k"], right: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " e"]:
        """`Σ_k left(x,k) right(x',k)` of each entry."""
        result, width = np.empty(len(self.row)), left.shape[1]
        # So many rows at a time, or so many entries.
        step = max(16, _OUTER_NUMBERS // (width * (self.degree or 1)))
        gathered = np.empty((step * (self.degree or 1), width))
        for begin in range(0, len(left) if self.degree else len(result), step):
            if self.degree:
                rows = left[begin : begin + step]
                part = slice(begin * self.degree, (begin + len(rows)) * self.degree)
                pieces = np.take(right, self.column[part], axis=0, out=gathered[: part.stop - part.start], mode="clip")
                cube, out = pieces.reshape(len(rows), self.degree, width), result[part].reshape(len(rows), -1)
                np.matmul(cube, rows[:, :, None], out=out[:, :, None])
            else:
                part = slice(begin, begin + step)
                np.einsum("ek,ek->e", left[self.row[part]], right[self.column[part]], out=result[part])
        return result

    def contract(self, outer: Float[np.ndarray, " e"]) -> Float[np.ndarray, "n A"]:
        """`Σ_x' P(x'|x,a) outer(x,x')`: the gradient in the weights of `mix`."""
        return Matrix(self.indptr, self._numbers, outer) @ self.probabilities

    @cached_property
    def _numbers(self) -> Int[np.ndarray, " e"]:
        return np.arange(len(self.row), dtype=self.indptr.dtype)


def patterns(hidden: Hidden) -> list[Pattern]:
    """The transitions of each time; those of times between the same states are one object."""
    return memo(hidden, patterns, lambda: _patterns(hidden))


def reached(hidden: Hidden, time: int) -> Int[np.ndarray, " n"]:
    """The states that messages of a time are about."""
    if hidden.horizon == 0:
        return np.flatnonzero(hidden.start > 0)
    return patterns(hidden)[time].here if time < hidden.horizon else patterns(hidden)[-1].there


def reachable_sets(hidden: Hidden) -> list[Int[np.ndarray, " n"]]:
    """The states that some policy can reach at times 0 … T; equal sets are one array, and found once for a chain."""
    return memo(hidden, reachable_sets, lambda: _reachable_sets(hidden))


def _reachable_sets(hidden: Hidden) -> list[Int[np.ndarray, " n"]]:
    kernel = _as_sparse(hidden.kernel)
    known: dict[bytes, np.ndarray] = {}
    result: list[np.ndarray] = []
    here = hidden.start > 0
    for _ in range(hidden.horizon + 1):
        if len(result) > 1 and result[-1] is result[-2]:  # it stays the same
            result.append(result[-1])
            continue
        result.append(known.setdefault(np.packbits(here).tobytes(), np.flatnonzero(here)))
        there = np.zeros(hidden.num_states, dtype=bool)
        there[kernel.indices[here[kernel.rows]]] = True
        here = there
    return result


def _as_sparse(kernel: Kernel) -> SparseKernel:
    if isinstance(kernel, SparseKernel):
        return kernel
    states, actions = kernel.num_states, kernel.num_actions
    rows = np.asarray(kernel.stacked).reshape(states, actions, states)
    return SparseKernel([sp.csr_array(rows[:, action]) for action in range(actions)])


def _patterns(hidden: Hidden) -> list[Pattern]:
    kernel, sets = _as_sparse(hidden.kernel), reachable_sets(hidden)
    lengths, distinct = np.diff(kernel.indptr), {id(one): one for one in sets[:-1]}
    if sum(int(lengths[one].sum()) for one in distinct.values()) > _MOST_ENTRIES:
        sets = [np.arange(hidden.num_states)] * len(sets)
    made: dict[tuple[int, int], Pattern] = {}
    for here, there in itertools.pairwise(sets):
        if (id(here), id(there)) not in made:
            made[id(here), id(there)] = _pattern(kernel, here, there)
    return [made[id(here), id(there)] for here, there in itertools.pairwise(sets)]


def _pattern(kernel: SparseKernel, here: np.ndarray, there: np.ndarray) -> Pattern:
    lengths = np.diff(kernel.indptr)[here]
    row = np.repeat(np.arange(len(here), dtype=np.int32), lengths)
    position = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    entries = np.repeat(kernel.indptr[here], lengths) + position
    local = np.zeros(kernel.num_states, dtype=np.int32)
    local[there] = np.arange(len(there))
    column, probabilities = local[kernel.indices[entries]], kernel.probabilities[entries]
    degree = int(lengths.max(initial=0))
    if 0 < degree * len(lengths) <= _PADDED * len(row):
        place, size = row.astype(np.int64) * degree + position, degree * len(here)
        columns, wider = np.zeros(size, dtype=np.int32), np.zeros((size, kernel.num_actions))
        columns[place], wider[place] = column, probabilities
        column, probabilities, lengths = columns, wider, np.full(len(here), degree)
        row = np.repeat(np.arange(len(here), dtype=np.int32), degree)
    else:
        degree = 0
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    order = np.argsort(column, kind="stable").astype(np.int32)
    ends = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=len(there)))]).astype(np.int32)
    return Pattern(here, there, row, column, probabilities, indptr, (order, row[order], ends), degree)


class ColumnSteps:
    """The transitions of each emitter under a table `(T|1, C, A)`, by rows and by columns.

    `is_compiled`: passes over them use the loops of `backends.loops`.
    """

    def __init__(self, hidden: Hidden, table: Float[np.ndarray, "T C A"], *, is_compiled: bool = False):
        self.hidden, self.table, self.patterns = hidden, table, patterns(hidden)
        self.is_compiled = is_compiled
        distinct = {id(one): one for one in self.patterns} if len(table) == 1 else dict(enumerate(self.patterns))
        self._keeps = sum(len(one.row) for one in distinct.values()) * len(hidden.emitters) <= _MOST_KEPT
        self._made: dict[tuple[int, bool], tuple[Matrix, ...]] = {}

    def row(self, time: int) -> int:
        """Which part of the table is used at a time."""
        return 0 if len(self.table) == 1 else time

    def weights(self, time: int) -> Float[np.ndarray, "n A"]:
        """`π_t(a|x)` of the states of a time."""
        return self.table[self.row(time)][self.hidden.cell[self.patterns[time].here]]

    def matrices(self, time: int, *, turned: bool) -> tuple[Matrix, ...]:
        """`K_t` for each emitter over the states of that time and the next, or its transpose."""
        key = id(self.patterns[time]) if len(self.table) == 1 else time, turned
        found = self._made.get(key)
        if found is None:
            found = self._make(time, turned)
            if self._keeps:
                self._made[key] = found
        return found

    def _make(self, time: int, turned: bool) -> tuple[Matrix, ...]:
        pattern = self.patterns[time]
        order, rows, ends = pattern.turned
        if turned:
            return tuple(Matrix(ends, rows, one.data[order]) for one in self.matrices(time, turned=False))
        emitters = self.hidden.emitters
        if self.is_compiled:
            return tuple(Matrix(pattern.indptr, pattern.column, self._mixed(time, one.actions)) for one in emitters)
        weights = self.weights(time)
        parts = [weights if len(emitters) == 1 else weights * emitter.actions for emitter in emitters]
        return tuple(Matrix(pattern.indptr, pattern.column, pattern.mix(part)) for part in parts)

    def _mixed(self, time: int, actions: Bool[np.ndarray, " A"]) -> Float[np.ndarray, " e"]:
        """What `Pattern.mix` finds for the actions of an emitter, by a compiled loop."""
        pattern, table = self.patterns[time], np.ascontiguousarray(self.table[self.row(time)])
        result, cell = np.empty(len(pattern.row)), np.ascontiguousarray(self.hidden.cell, dtype=np.int64)
        about = actions.astype(np.float64), pattern.indptr, pattern.probabilities
        loops().mix(table, cell, pattern.here, *about, result)
        return result

    def push(self, columns: Float[np.ndarray, "n *k"], time: int) -> Float[np.ndarray, "m *k"]:
        """Distributions one step on, over all events."""
        return sum(matrix @ columns for matrix in self.matrices(time, turned=True))  # pyright: ignore[reportReturnType]

    def pull(self, columns: Float[np.ndarray, "m *k"], time: int) -> Float[np.ndarray, "n *k"]:
        """Expectations one step back."""
        return sum(matrix @ columns for matrix in self.matrices(time, turned=False))  # pyright: ignore[reportReturnType]
