"""All strings of an observer without a clock: silent steps are erased, so that a message is over times and states.

With `α_w(t,x) = P(x_t = x, the string so far is w, o_t its last symbol)`, silent steps close a message in time,
`γ_w = α_w (I + S + S² + …)`, and a symbol extends it, `α_{wσ} = γ_w B_σ`. Both operators lead from (t, x) to (t+1, x'),
so the series is finite. The closed message at the horizon, summed by the value of the secret, is `P(z,w)`.
"""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.errors import TooLargeError
from .backends.sparse_rows import SparseBlock
from .backends.sparse_steps import SparseSteps
from .chain import Chain, Slopes
from .joint import DEFAULT_MEMORY, Objective
from .kernel import num_columns
from .sparse_walk import feed

_BYTES_AN_ENTRY = 48  # of a message, its place, and the products on the way to the next


@dataclass(frozen=True, eq=False)
class _Level:
    """Strings of one length: `closed`, `(n, P)`, over places; string i extends `parent[i]` by `event[i]`."""

    closed: sp.csr_array
    parent: Int[np.ndarray, " n"]
    event: Int[np.ndarray, " n"]


class _Places:
    """Places (time, state, value once settled) with the silent steps and the symbols that lead between them.

    The places of the last time are the values of the secret. Entry k of `silent` or `seen` comes from entry `origin[k]` of
    the step at `time[k]`; column j of `seen` is symbol `event[j]` at place `place[j]`.
    """

    def __init__(self, chain: Chain, silent: int):
        hidden, self.steps = chain.hidden, SparseSteps(chain)
        steps = [self.steps.step(time) for time in range(hidden.horizon)]
        sizes = [len(step.degree) for step in steps] + [hidden.num_values]
        self.begin = np.concatenate([[0], np.cumsum(sizes)])
        self.size, self.last = int(self.begin[-1]), int(self.begin[-2])
        parts = []
        for time, step in enumerate(steps):
            row = np.repeat(np.arange(len(step.degree)), step.degree) + self.begin[time]
            pair = step.matrix.indices
            place = step.column[pair] + self.begin[time + 1]
            origin = np.arange(len(pair))
            parts.append((row, place, step.event[pair], step.matrix.data, np.full(len(pair), time), origin))
        empty = (np.empty(0, dtype=np.int64),) * 3 + (np.empty(0),) + (np.empty(0, dtype=np.int64),) * 2
        row, place, event, data, time, origin = (np.concatenate(part) for part in zip(empty, *parts, strict=True))
        quiet, loud = np.flatnonzero(event == silent), np.flatnonzero(event != silent)
        self.quiet, self.loud = (quiet, row[quiet], place[quiet]), (loud, row[loud], place[loud], event[loud])
        self.time, self.origin = time, origin
        self.silent = sp.csr_array((data[quiet], (row[quiet], place[quiet])), shape=(self.size, self.size))
        key, pair = np.unique(event[loud] * self.size + place[loud], return_inverse=True)
        self.event, self.place = np.divmod(key, self.size)
        self.seen = sp.csr_array((data[loud], (row[loud], pair.ravel())), shape=(self.size, max(len(key), 1)))
        self.first = self._first(chain)

    def _first(self, chain: Chain) -> sp.csr_array:
        """`P(place at time 0, first event)`, `(P, F)`."""
        hidden, columns = chain.hidden, self.steps.columns(0)
        table = sp.coo_array(hidden.first[columns.state])
        place = table.row
        if hidden.horizon == 0:
            assert columns.value is not None
            place = columns.value[table.row]
        chance = table.data * self.steps.first_chance[table.row]
        return sp.csr_array((chance, (place, table.col)), shape=(self.size, num_columns(hidden.first)))


@dataclass
class UntimedWalk:
    """All possible strings of an observer without a clock; a `Walk` as `SparseWalk` is.

    **Arguments:** `chain`, with `chain.silent`; `memory_bytes`: budget for the messages; `clock`: checked in every loop;
    `keep_events`: whether the strings are kept, as rows of events that end in -1.

    Cost: for each string T products of its message with the transitions; with a gradient, dense rows over all places.

    **Raises:** `TooLargeError` where the messages do not fit.
    """

    chain: Chain
    memory_bytes: int = DEFAULT_MEMORY
    clock: Clock = UNLIMITED
    keep_events: bool = False
    num_sequences: float = field(default=0.0, init=False)
    merge_error_bits: float = field(default=0.0, init=False)
    lost_mass: float = field(default=0.0, init=False)
    root_slope: np.ndarray | None = field(default=None, init=False)

    def run(self, objective: Objective, *, gradient: bool = False) -> Float[np.ndarray, "T C A"] | None:
        """Feed all strings to the objective; with `gradient`, pull its gradients back to the policy's table."""
        assert self.chain.silent is not None
        places = _Places(self.chain, self.chain.silent)
        levels, ends, used = [self._level(places, *self._root(places))], [], 0
        while True:
            level = levels[-1]
            used += level.closed.nnz * _BYTES_AN_ENTRY
            dense = 16 * places.size * sum(len(one.parent) for one in levels) if gradient else 0
            if max(used, dense) > self.memory_bytes:
                raise TooLargeError(
                    f"the strings of up to {len(levels) - 1} symbols need more than {self.memory_bytes / 2**30:.2g} GiB:"
                    " give memory_bytes=…, or shorten the horizon"
                )
            ends.append(self._feed(places, levels, objective, gradient))
            following = self._extended(places, level, first=len(levels) == 1)
            if not following[0].nnz:
                break
            levels.append(self._level(places, *following))
        if not gradient:
            return None
        return self._pulled(places, levels, ends)

    def _root(self, places: _Places) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
        """The empty string: nothing received at time 0, or the silent observation."""
        quiet = places.first if num_columns(places.first) == 1 else places.first[:, [self.chain.silent]]
        return sp.csr_array(quiet.T), np.zeros(1, dtype=np.int64), np.full(1, -1)

    def _level(self, places: _Places, opened: sp.csr_array, parent: np.ndarray, event: np.ndarray) -> _Level:
        closed, step = opened, opened
        while step.nnz:
            self.clock.check()
            step = sp.csr_array(step @ places.silent)
            closed = sp.csr_array(closed + step)
        return _Level(closed, parent, event)

    def _extended(self, places: _Places, level: _Level, *, first: bool) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
        """Every string by every symbol; a first observation that is not silent begins a string too."""
        self.clock.check()
        product = sp.coo_array(level.closed @ places.seen)
        parent, event, place = product.row.astype(np.int64), places.event[product.col], places.place[product.col]
        data = product.data
        if first and num_columns(places.first) > 1:
            table = sp.coo_array(places.first)
            loud = table.col != self.chain.silent
            parent = np.append(parent, np.zeros(int(loud.sum()), dtype=np.int64))
            event, place = np.append(event, table.col[loud]), np.append(place, table.row[loud])
            data = np.append(data, table.data[loud])
        count = self.chain.hidden.num_events
        key, row = np.unique(parent * count + event, return_inverse=True)
        opened = sp.csr_array(sp.coo_array((data, (row.ravel(), place)), shape=(len(key), places.size)))
        return opened, *np.divmod(key, count)

    def _feed(
        self, places: _Places, levels: list[_Level], objective: Objective, gradient: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The strings that end here, to the objective: row and value of each entry of `P(z,w)`, and the gradients in them."""
        table = sp.coo_array(sp.csr_array(levels[-1].closed[:, places.last :]))
        order = np.lexsort((table.col, table.row))
        row, value, data = table.row[order], table.col[order], table.data[order]
        rows, number = np.unique(row, return_inverse=True)
        if not len(rows):
            return row, value, None
        indptr = np.concatenate([[0], np.cumsum(np.bincount(number.ravel()))]).astype(np.int32)
        weight = np.bincount(number.ravel(), weights=data)
        events = self._strings(levels, rows) if self.keep_events else None
        block = SparseBlock(weight, data / weight[number.ravel()], value, indptr, np.ones(len(rows)), events)
        self.num_sequences += len(rows)
        found = feed(objective, block, self.chain.hidden.num_values)
        return row, value, found if gradient else None

    def _strings(self, levels: list[_Level], rows: np.ndarray) -> Int[np.ndarray, "n L"]:
        result = np.full((len(rows), self.chain.hidden.horizon + 1), -1, dtype=np.int32)
        for length in range(len(levels) - 1, 0, -1):
            result[:, length - 1] = levels[length].event[rows]
            rows = levels[length].parent[rows]
        return result

    def _pulled(self, places: _Places, levels: list[_Level], ends: list) -> Float[np.ndarray, "T C A"]:
        """The adjoint: gradients in closed and open messages from the longest strings back, and in every entry of a step."""
        found = np.zeros(len(places.time))
        (quiet, begin, end), (loud, source, target, event) = places.quiet, places.loud
        back, seen = sp.csr_array(places.silent.T), sp.csr_array(places.seen.T)
        after: np.ndarray | None = None
        for number in range(len(levels) - 1, -1, -1):
            level, (row, value, slope) = levels[number], ends[number]
            closed = level.closed.toarray()
            pulled = np.zeros(closed.shape)
            if slope is not None:
                pulled[row, places.last + value] += slope
            if after is not None:
                child = levels[number + 1]
                for symbol in np.unique(child.event):
                    self.clock.check()
                    mine = child.event == symbol
                    parent, opened = child.parent[mine], after[mine]
                    pairs, entries = np.flatnonzero(places.event == symbol), np.flatnonzero(event == symbol)
                    np.add.at(pulled, parent, opened[:, places.place[pairs]] @ seen[pairs])
                    found[loud[entries]] += np.einsum(
                        "ne,ne->e", closed[parent][:, source[entries]], opened[:, target[entries]]
                    )
            opened, step = pulled, pulled
            while step.any():
                self.clock.check()
                step = step @ back
                opened = opened + step
            found[quiet] += np.einsum("ne,ne->e", closed[:, begin], opened[:, end])
            after = opened
        slopes = Slopes(self.chain)
        for time in range(self.chain.hidden.horizon):
            mine = places.time == time
            places.steps.add_slopes(slopes, time, found[mine][np.argsort(places.origin[mine])])
        return slopes.table()
