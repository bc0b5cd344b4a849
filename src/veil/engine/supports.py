"""Which hidden states and histories are possible: the one walk over sets of states.

What can follow a history depends only on the set of hidden states that it leaves possible. Sets come from the pattern of
the transitions, with a one for each action that is taken at all, not from probabilities, which underflow where the horizon
is long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.errors import TooLargeError
from .chain import Chain
from .kernel import Matrix, num_columns, num_rows

# Products of a set and a pattern made between two looks at the clock: about a tenth of a second.
_AT_ONCE = 2**28
_WORDS = 2**18  # gathered at a time: 2 MiB, which a cache holds
_NUMBERS = 2**23  # booleans of sets that are extended at a time; their children have up to E times as many
# Seconds of the work by which a count is limited: for each entry of a dense product, each word of a sparse one, and each
# boolean that is extended, compared and numbered (measured on one core).
_DENSE_SECONDS, _WORD_SECONDS, _BOOLEAN_SECONDS = 1e-10, 2e-9, 4e-9
TOO_MANY = "the observation sequences are too many to count"


@dataclass(frozen=True, eq=False)
class Children:
    """What can follow some histories (or precede some continuations), ordered by event: one of `parent`, with `event`."""

    parent: Int[np.ndarray, " m"]
    event: Int[np.ndarray, " m"]
    sets: Bool[np.ndarray, "m *V N"]


@dataclass(frozen=True, eq=False)
class CountedSets:
    """Sets of possible states, and how many histories leave each of them."""

    sets: Bool[np.ndarray, "n *V N"]
    counts: Float[np.ndarray, " n"]

    @staticmethod
    def once(sets: Bool[np.ndarray, "n *V N"]) -> "CountedSets":
        """Each set by one history."""
        return CountedSets(sets, np.ones(len(sets)))

    @property
    def total(self) -> float:
        """How many histories there are."""
        return float(self.counts.sum())

    def extended(self, step: Callable[[np.ndarray, int], Children], time: int) -> "CountedSets":
        """All children of a step, equal sets counted together; some rows at a time, so that memory is bounded."""
        rows = max(1, _NUMBERS // self.sets[:1].size)
        parts = []
        for begin in range(0, len(self.sets), rows):
            children = step(self.sets[begin : begin + rows], time)
            parts.append(CountedSets(children.sets, self.counts[begin + children.parent]).united())
        if len(parts) == 1:
            return parts[0]
        sets, counts = [part.sets for part in parts], [part.counts for part in parts]
        return CountedSets(np.concatenate(sets), np.concatenate(counts)).united()

    def united(self) -> "CountedSets":
        """Equal sets counted together."""
        index, inverse = _distinct(np.packbits(self.sets.reshape(len(self.sets), -1), axis=1))
        return CountedSets(self.sets[index], np.bincount(inverse.ravel(), weights=self.counts, minlength=len(index)))


class Supports:
    """The sets of hidden states that histories and continuations of a chain leave possible, one step at a time.

    Sets are rows of booleans, `(n, N)`, or `(n, Z, N)` once there is one for each value of the secret.

    **Arguments:** `chain`: only which actions its policy takes matters; `clock`: checked in every loop; `most_seconds`: of
    the work that is done, `seconds`, which is counted and therefore the same on every machine.

    **Raises:** `TooLargeError` beyond that work.

    Cost of a step: for each set the product with the pattern of the transitions, and `E · N` for the events.
    """

    def __init__(self, chain: Chain, clock: Clock = UNLIMITED, most_seconds: float = np.inf):
        self.hidden, self.clock = chain.hidden, clock
        self.seconds, self._most_seconds = 0.0, most_seconds
        self._chain = Chain(chain.hidden, (chain.table > 0).astype(float), stationary=chain.stationary)
        self._emits = [_columns(emitter.table) for emitter in chain.hidden.emitters]  # (E, N) each
        self._patterns: dict[int, list[Matrix]] = {}

    def _count_work(self, seconds: float) -> None:
        """Before each piece of work: look at the clock, and at how much was done."""
        self.clock.check()
        self.seconds += seconds
        if self.seconds > self._most_seconds:
            raise TooLargeError(TOO_MANY)

    @cached_property
    def reached(self) -> Bool[np.ndarray, "T+1 N"]:
        """Which hidden states can be met at times 0 … T."""
        result = np.empty((self.hidden.horizon + 1, self.hidden.num_states), dtype=bool)
        result[0] = self.hidden.start > 0
        for time in range(self.hidden.horizon):
            self.clock.check()
            result[time + 1] = np.logical_or.reduce(self.moved(result[time][None], time))[0]
        return result

    def first(self) -> Bool[np.ndarray, "n N"]:
        """The sets after each first event that is possible, in order."""
        sets = _columns(self.hidden.first)
        return sets[sets.any(axis=1)]

    def last(self) -> Bool[np.ndarray, "n N"]:
        """The sets before any continuation: all that can be met at time T; each by itself where `x_T` is told."""
        reached = self.reached[self.hidden.horizon]
        return np.eye(self.hidden.num_states, dtype=bool)[reached] if self.hidden.reveals_last else reached[None]

    def moved(self, sets: Bool[np.ndarray, "n *V N"], time: int) -> list[Bool[np.ndarray, "n *V N"]]:
        """The sets one step on, for each emitter, before anything is emitted."""
        return [self._product(sets, pattern) for pattern in self._pattern(time)]

    def ahead(self, sets: Bool[np.ndarray, "n *V N"], time: int) -> Children:
        """Each history extended by each event that can follow it at time + 1."""
        moved = [rows[None] for rows in self.moved(sets, time)]

        def after(events: slice) -> list[np.ndarray]:
            return [rows & _beside(table[events], rows) for rows, table in zip(moved, self._emits, strict=True)]

        return self._children(after, sets.size)

    def back(self, sets: Bool[np.ndarray, "n N"], time: int) -> Children:
        """Each continuation from time + 1 on with each event that can come before it."""
        turned, met = [pattern.T for pattern in self._pattern(time)], self.reached[time]

        def before(events: slice) -> list[np.ndarray]:
            return [
                self._product(sets[None] & _beside(table[events], sets[None]), pattern) & met
                for pattern, table in zip(turned, self._emits, strict=True)
            ]

        return self._children(before, sets.size)

    def _children(self, rows_of: Callable[[slice], list[np.ndarray]], numbers: int) -> Children:
        """The possible ones of what `rows_of` some events at a time: as many as keep `numbers` booleans each in bounds."""
        parents, events, sets, at_once = [], [], [], max(1, _NUMBERS // max(1, numbers))
        for begin in range(0, self.hidden.num_events, at_once):
            self._count_work(_BOOLEAN_SECONDS * numbers * min(at_once, self.hidden.num_events - begin))
            rows = rows_of(slice(begin, begin + at_once))
            union = rows[0] if len(rows) == 1 else np.logical_or.reduce(rows)
            event, parent = np.nonzero(union.reshape(*union.shape[:2], -1).any(axis=2))
            parents.append(parent)
            events.append(event + begin)
            sets.append(union[event, parent])
        return Children(np.concatenate(parents), np.concatenate(events), np.concatenate(sets))

    def _pattern(self, time: int) -> list[Matrix]:
        key = 0 if self._chain.stationary else time
        if key not in self._patterns:
            self._patterns[key] = [_positive(matrix) for matrix in self._chain.matrices(time)]
        return self._patterns[key]

    def _product(self, sets: np.ndarray, pattern: Matrix) -> np.ndarray:
        """Which states have a neighbour in each set."""
        flat = sets.reshape(-1, sets.shape[-1])
        entries = pattern.size if isinstance(pattern, np.ndarray) else pattern.nnz
        step = max(1, _AT_ONCE // max(1, int(entries)))
        result = np.empty(flat.shape, dtype=bool)
        for begin in range(0, len(flat), step):
            part = slice(begin, begin + step)
            if isinstance(pattern, np.ndarray):
                self._count_work(_DENSE_SECONDS * len(flat[part]) * entries)
                np.greater(flat[part].astype(np.float32) @ pattern, 0, out=result[part])
            else:
                self._count_work(_WORD_SECONDS * -(-len(flat[part]) // 64) * entries)
                result[part] = _neighbours(flat[part], pattern)
        return result.reshape(sets.shape)


def _neighbours(sets: Bool[np.ndarray, "n N"], pattern: sp.csr_array | sp.csc_array) -> Bool[np.ndarray, "n N"]:
    """Which states have a neighbour in each set, by a bit for each set: 64 of them in a word."""
    entering = sp.csc_array(pattern)
    size, states = sets.shape
    packed = np.zeros((-(-size // 64) * 8, states), dtype=np.uint8)
    packed[: -(-size // 8)] = np.packbits(sets, axis=0)
    words = np.ascontiguousarray(packed.T).view(np.uint64)
    found = np.zeros_like(words)
    entered = np.flatnonzero(np.diff(entering.indptr))
    at_once = max(1, _WORDS * len(entered) // max(1, int(entering.nnz) * words.shape[1]))
    for begin in range(0, len(entered), at_once):
        some = entered[begin : begin + at_once]  # states between them are entered from nowhere
        first, last = entering.indptr[some[0]], entering.indptr[some[-1] + 1]
        sources = words[entering.indices[first:last]]
        found[some] = np.bitwise_or.reduceat(sources, entering.indptr[some] - first, axis=0)
    return np.unpackbits(np.ascontiguousarray(found.view(np.uint8).T), axis=0, count=size).view(bool)


def _beside(table: Bool[np.ndarray, "e N"], rows: Bool[np.ndarray, "1 n *V N"]) -> Bool[np.ndarray, "e 1 *V N"]:
    """A table with an axis of length 1 for each of the rows' between the first and the last."""
    return table.reshape(len(table), *[1] * (rows.ndim - 2), -1)


def _distinct(packed: Int[np.ndarray, "n b"]) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " n"]]:
    """For the different rows of bytes the first place of each, and for each row its number among them.

    Long rows are compared by a 64-bit key; rows of one key are then compared byte by byte.
    """
    words = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    words = words.view(">u8")
    if words.shape[1] == 1:
        _, index, inverse = np.unique(words.ravel(), return_index=True, return_inverse=True)
        return index, inverse.ravel()
    _, index, inverse = np.unique(_keys(words.astype(np.uint64)), return_index=True, return_inverse=True)
    inverse = inverse.ravel()
    if not np.array_equal(packed[index[inverse]], packed):  # two different rows have the same key
        _, index, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return index, inverse.ravel()


def _keys(words: Int[np.ndarray, "n w"]) -> Int[np.ndarray, " n"]:
    """A 64-bit key of each row: its words, each mixed by a multiplier of its own, summed."""
    generator = np.random.default_rng(words.shape[1])
    factors = generator.integers(0, 2**63, size=words.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (words ^ (words >> np.uint64(31))) * factors
    mixed = (mixed ^ (mixed >> np.uint64(29))) * factors[::-1]
    return (mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64)


def _positive(matrix: Matrix) -> Matrix:
    """A one for each positive entry, and none beside them in a sparse matrix, so that a product counts neighbours."""
    if isinstance(matrix, np.ndarray):
        return (matrix > 0).astype(np.float32)
    parts = (matrix.data > 0).astype(np.float32), matrix.indices.copy(), matrix.indptr.copy()
    positive = sp.csr_array(parts, shape=matrix.shape)
    positive.eliminate_zeros()
    return positive


def _columns(table: sp.csr_array) -> Bool[np.ndarray, "E N"]:
    """Which rows of a table are positive in each column."""
    result = np.zeros((num_columns(table), num_rows(table)), dtype=bool)
    result[table.indices, np.repeat(np.arange(num_rows(table)), np.diff(table.indptr))] = table.data > 0
    return result
