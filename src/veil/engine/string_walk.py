"""All strings that an observer without a clock may hold, and one pass over them."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.errors import TooLargeError
from ..common.numbering import number_keys, ragged
from .batch import Measure
from .chain import Chain
from .hidden import Hidden
from .joint import DEFAULT_MEMORY, Objective, Walk
from .strings import StringPass
from .written import Strings

_BYTES_AN_ENTRY = 48  # of a set of states, its place, and the products on the way to the next
_LEAST_STRINGS = 16  # that are worked on at a time
_BATCH_MEMORY = 2**30
# Seconds of a gradient for each level, and for each node and transition: measured on one core, rounded up.
_LEVEL_SECONDS, _DENSE_RATE, _SPARSE_RATE = 5e-4, 1.2e-9, 1e-8
_FOUND_SECONDS = 3e-7  # for each pair of a string and a state that it leaves possible, to find all strings (measured)


class Numbers:
    """Numbers of sequences of symbols that grow at their end; 0 is the empty one."""

    def __init__(self, base: int):
        self._base, self._keys, self._known = max(base, 1), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        self._parent, self._symbol = [np.zeros(1, dtype=np.int64)], [np.full(1, -1)]
        self._count = 1

    def extended(self, number: Int[np.ndarray, " m"], symbol: Int[np.ndarray, " m"]) -> Int[np.ndarray, " m"]:
        """The number of each sequence after one more symbol."""
        keys, place = np.unique(number * self._base + symbol, return_inverse=True)
        new = np.setdiff1d(keys, self._keys, assume_unique=True)
        if len(new):
            parent, last = np.divmod(new, self._base)
            self._parent.append(parent)
            self._symbol.append(last)
            every = np.concatenate([self._keys, new])
            order = np.argsort(every)
            numbers = np.concatenate([self._known, self._count + np.arange(len(new))])
            self._keys, self._known, self._count = every[order], numbers[order], self._count + len(new)
        return self._known[np.searchsorted(self._keys, keys)][place.ravel()]

    def symbols(self, number: Int[np.ndarray, " n"], width: int) -> Int[np.ndarray, "n L"]:
        """The sequences themselves, each row ending in -1."""
        parent, symbol = np.concatenate(self._parent), np.concatenate(self._symbol)
        result = np.full((len(number), width), -1, dtype=np.int32)
        length = np.zeros(len(number), dtype=np.int64)
        here = number.copy()
        while here.any():
            length += here > 0
            here = parent[here]
        here = number.copy()
        for _ in range(width):
            left = np.flatnonzero(here)
            length[left] -= 1
            result[left, length[left]] = symbol[here[left]]
            here = parent[here]
        return result


def possible_strings(
    chain: Chain, memory_bytes: int = DEFAULT_MEMORY, clock: Clock = UNLIMITED, most_seconds: float = np.inf
) -> Strings:
    """Every string that is possible under a chain, once.

    Strings grow with the time, each with the states that it leaves possible.

    Cost: for each time the strings so far, times the transitions out of their states.

    **Raises:** `TooLargeError` if these sets do not fit the memory, or take more than `most_seconds` of work, which is counted
    in operations.
    """
    hidden, written = chain.hidden, chain.hidden.written
    assert written is not None
    strings, stamps = (
        Numbers(written.num_letters),
        Numbers(int(max(written.stamp.max(), written.first_stamp.max())) + 1),
    )

    def grown(
        before: tuple[np.ndarray, np.ndarray], row: np.ndarray, event: np.ndarray, state: np.ndarray, time: int
    ) -> tuple[sp.csr_array, tuple[np.ndarray, np.ndarray]]:
        """The sets of states by string and stamps, and the numbers of both, after an event in each row of those before."""
        parts = (written.letter, written.stamp) if time else (written.first_letter, written.first_stamp)
        pairs, number = number_keys(row * len(parts[0]) + event)
        parent, event = np.divmod(pairs, len(parts[0]))
        string, path = before[0][parent], stamps.extended(before[1][parent], parts[1][event])
        loud = np.flatnonzero(parts[0][event] >= 0)
        string[loud] = strings.extended(string[loud], parts[0][event[loud]])
        size = int(string.max(initial=0)) + 1
        key, child = np.unique(path * size + string, return_inverse=True)
        shape = len(key), hidden.num_states
        sets = sp.csr_array(sp.coo_array((np.ones(len(row)), (child.ravel()[number], state)), shape=shape))
        sets.data[:] = 1.0
        if sets.nnz * _BYTES_AN_ENTRY + 16 * hidden.horizon * len(key) > memory_bytes:
            raise TooLargeError(
                f"the {len(key):,} strings up to time {time} need more than {memory_bytes / 2**30:.2g} GiB:"
                " give memory_bytes=…, use method='sampled', or shorten the horizon"
            )
        path, string = np.divmod(key, size)
        return sets, (string, path)

    first = sp.coo_array(hidden.first)
    state, event = first.row[first.data > 0].astype(np.int64), first.col[first.data > 0]
    nothing = np.zeros(1, dtype=np.int64)
    sets, numbers = grown((nothing, nothing), np.zeros_like(state), event, state, 0)
    spent = 0.0
    for time in range(hidden.horizon):
        row, state, event = [], [], []
        for matrix, emitter in zip(chain.matrices(time), hidden.emitters, strict=True):
            clock.check()
            there = sp.csr_array(sets @ sp.csr_array(matrix).astype(bool).astype(float))
            there.eliminate_zeros()
            if time == hidden.horizon - 1:  # which strings there are does not depend on the last state
                there = sp.coo_array(there @ emitter.table.astype(bool).astype(float))
                row.append(there.row.astype(np.int64))
                state.append(np.zeros_like(there.col))
                event.append(there.col)
                continue
            there = sp.coo_array(there)
            degree = np.diff(emitter.table.indptr)[there.col]
            row.append(np.repeat(there.row.astype(np.int64), degree))
            state.append(np.repeat(there.col, degree))
            event.append(emitter.table.indices[ragged(emitter.table.indptr[there.col], degree)])
        spent += _FOUND_SECONDS * sum(map(len, row))
        if spent > most_seconds:
            raise TooLargeError("the strings are too many to find")
        sets, numbers = grown(numbers, np.concatenate(row), np.concatenate(event), np.concatenate(state), time + 1)
    width = hidden.horizon + 1
    return Strings(strings.symbols(numbers[0], width), stamps.symbols(numbers[1], width))


@dataclass
class StringWalk(Walk):
    """One pass over all possible strings of an observer without a clock; see `joint.Walk`.

    **Arguments:** `chain`; `memory_bytes`: budget for the messages; `clock`: checked at each level.

    Cost: that of `possible_strings`, and of a `StringPass` over all of them, some at a time.

    **Raises:** `TooLargeError` if the strings do not fit the memory.
    """

    chain: Chain
    memory_bytes: int = DEFAULT_MEMORY
    clock: Clock = UNLIMITED

    def run(self, objective: Objective, *, gradient: bool = False) -> Float[np.ndarray, "T C A"] | None:
        """Feed all strings to the objective; with `gradient`, pull its gradients back to the policy's table.

        `events` are sequences from which the strings are written, their letters as early as they can come.
        """
        hidden, written = self.chain.hidden, self.chain.hidden.written
        assert written is not None
        strings = possible_strings(self.chain, self.memory_bytes, self.clock)
        self.num_sequences = float(len(strings))
        result = np.zeros(self.chain.table.shape) if gradient else None
        levels = hidden.horizon + 1 if gradient else 1
        row_bytes = 8 * hidden.num_states * (hidden.horizon + 1) * (3 + 2 * len(hidden.emitters)) * levels
        step = max(_LEAST_STRINGS, self.memory_bytes // row_bytes)
        for begin in range(0, len(strings), step):
            part = strings[begin : begin + step]
            run = StringPass(self.chain, part, gradient=gradient, memory_bytes=self.memory_bytes, clock=self.clock)
            chance = np.exp(run.result.log_likelihood)[:, None]
            found = objective(chance * run.result.posterior, lambda rows, part=part: written.sequences(part[rows]))
            if result is not None:
                assert found is not None
                result += run.pull_back(chance * found)
        return result


class StringBatch:
    """All strings of all policies that take every available action; as `BatchTree` for an observer with a clock.

    **Arguments:** `hidden`; `available`, `(C, A)`; `stationary`: whether tables serve all times; `most_seconds`: of the work of
    finding the strings.

    Cost of an evaluation: a `StringPass` with gradient for each policy.

    **Raises:** `TooLargeError`.
    """

    at_once = 1

    def __init__(self, hidden: Hidden, available: np.ndarray, *, stationary: bool, most_seconds: float = np.inf):
        self.hidden, self.stationary = hidden, stationary
        chain = Chain(hidden, available[None].astype(float), stationary=True)
        self._strings = possible_strings(chain, _BATCH_MEMORY, most_seconds=most_seconds)
        self.num_sequences = len(self._strings)
        nodes = sum(trie.begin[-1] for trie in (self._strings.prefixes, self._strings.suffixes))
        entries = hidden.kernel.num_entries * len(hidden.emitters)
        rate = _SPARSE_RATE if hidden.kernel.is_sparse else _DENSE_RATE
        self.cost_seconds = hidden.horizon * (_LEVEL_SECONDS + rate * nodes * entries)
        if 8 * nodes * hidden.num_states * (2 * hidden.horizon**0.5 + 8) > _BATCH_MEMORY:
            self.cost_seconds = np.inf

    def events(self) -> Int[np.ndarray, "Y T+1"]:
        """Sequences of events that the strings are written from, in the order of the rows of the joint tables."""
        assert self.hidden.written is not None
        return self.hidden.written.sequences(self._strings)

    def evaluate(
        self, tables: Float[np.ndarray, "B T C A"], measure: Measure, clock: Clock = UNLIMITED
    ) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B T C A"]]:
        """The value of a measure for each policy and its gradient in each table; `clock` is checked at each level."""
        values, slopes = np.empty(len(tables)), np.empty(tables.shape)
        for number, table in enumerate(tables):
            chain = Chain(self.hidden, table, stationary=self.stationary)
            run = StringPass(chain, self._strings, gradient=True, memory_bytes=_BATCH_MEMORY, clock=clock)
            chance = np.exp(run.result.log_likelihood)[:, None]
            value, slope = measure((chance * run.result.posterior)[None])
            values[number], slopes[number] = value[0], run.pull_back(chance * slope[0])
        return values, slopes
