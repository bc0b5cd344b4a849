"""Scaled messages along many given sequences at once, their posteriors and the adjoint, with sequences sharing prefixes.

Sequences that begin alike share their forward messages, and those that end alike their backward ones: both sides of the
split are tries, so that a message is computed once however many sequences need it. Slopes are carried in scaled form
(gradient times the probability of the history), which keeps every number of order one at any horizon.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import natural_log
from .chain import Chain, Slopes
from .each_time import last_reading, pull_labels, readings
from .step import Extension, Step, adder
from .threads import one_blas_thread
from .written import need_clock

PullBack = Callable[[np.ndarray], np.ndarray]
TINY = float(np.finfo(np.float64).tiny)  # of a step given all before it; one over less is no number


@dataclass(frozen=True, eq=False)
class Trie:
    """Distinct prefixes of a set of sequences: at level t node i extends `parent[t][i]` by `event[t][i]`.

    Nodes of a level are ordered by event. `leaf[k]` is the last node of sequence k.
    """

    parent: list[Int[np.ndarray, " n"]]
    event: list[Int[np.ndarray, " n"]]
    leaf: Int[np.ndarray, " k"]

    def nodes(self) -> list[Int[np.ndarray, " k"]]:
        """For each level the node that each sequence passes."""
        nodes = [self.leaf]
        for parent in self.parent[:0:-1]:
            nodes.append(parent[nodes[-1]])
        return nodes[::-1]

    def level(self, number: int) -> Extension:
        """The nodes of a level."""
        return Extension(self.parent[number], self.event[number])

    @property
    def widest(self) -> int:
        """The largest number of nodes of a level."""
        return max([len(event) for event in self.event] or [1])

    @staticmethod
    def of(sequences: Int[np.ndarray, "k L"]) -> "Trie":
        """The trie of the rows; with L = 0 it has no levels and one leaf."""
        length, base = sequences.shape[1], int(sequences.max(initial=0)) + 1
        if length == 0 or base**length >= 2**62:
            return Trie._level_by_level(sequences)
        # Short sequences are numbers: one sort brings all that begin alike together, and each level is read off it.
        numbers = sequences @ (base ** np.arange(length - 1, -1, -1, dtype=np.int64))
        _, index, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        distinct = sequences[index].astype(np.int16 if base < 2**15 else np.int64)  # small numbers are sorted by radix
        starts = np.ones(distinct.shape, dtype=bool)  # where row i is the first of its prefix
        np.logical_or.accumulate(distinct[1:] != distinct[:-1], axis=1, out=starts[1:])
        parents, events = [], []
        node = np.zeros(len(distinct), dtype=np.int64)
        for level in range(length):
            first = np.flatnonzero(starts[:, level])
            order = np.argsort(distinct[first, level], kind="stable")
            parents.append(node[first[order]])
            events.append(distinct[first[order], level].astype(np.int64))
            place = np.empty(len(first), dtype=np.int64)
            place[order] = np.arange(len(first))
            node = place[np.cumsum(starts[:, level]) - 1]
        return Trie(parents, events, node[inverse])

    @staticmethod
    def _level_by_level(sequences: Int[np.ndarray, "k L"]) -> "Trie":
        parents, events = [], []
        node = np.zeros(len(sequences), dtype=np.int64)
        size = 1
        for column in sequences.T:
            keys, node = np.unique(column.astype(np.int64) * size + node, return_inverse=True)
            event, parent = np.divmod(keys, size)
            parents.append(parent)
            events.append(event)
            size = len(keys)
        return Trie(parents, events, node)


class Side(ABC):
    """Messages of many sequences, level by level: `α` forward in time, of sum one, or `β` backward, of largest entry one.

    Messages may have further axes between nodes and states.

    **Arguments:** `levels` below the root; `widest`: the most messages of a level; `slopes`: where gradients are added;
    `backward`: whether it is `β`.
    """

    def __init__(self, chain: Chain, levels: int, widest: int, slopes: Slopes | None, *, backward: bool):
        self.chain, self.levels, self.widest, self.slopes, self.backward = chain, levels, widest, slopes, backward

    @abstractmethod
    def root(self) -> tuple[np.ndarray, np.ndarray]:
        """The messages to begin with, and what they were divided by."""

    @abstractmethod
    def edges(self, level: int) -> Extension:
        """How the messages of a level are extended."""

    @abstractmethod
    def scaled(self, rows: np.ndarray, edges: Any, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, PullBack]:
        """The messages of the next level from those of its edges, their logarithms, and the way back to the edges.

        **Arguments:** `logs`: those of the messages that were extended.
        """

    def size(self, rows: np.ndarray) -> np.ndarray:
        """What messages are divided by."""
        return (rows.max if self.backward else rows.sum)(axis=tuple(range(1, rows.ndim)))

    def expand(self, messages: np.ndarray, logs: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray, PullBack]:
        """The next level: messages, the logarithms of what they were divided by, and the way back from gradients."""
        time = self.chain.hidden.horizon - 1 - level if self.backward else level
        step, edges = Step.of(self.chain, time), self.edges(level)
        rows = step.backward(messages, edges) if self.backward else step.forward(messages, edges)
        found, found_logs, unscaled = self.scaled(rows, edges, logs)
        pull = step.pull_backward if self.backward else step.pull_forward
        return found, found_logs, lambda slope: pull(messages, edges, unscaled(slope), adder(self.slopes, time))

    def walk(self, lift_at: int = -1) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The messages of all levels, `(nodes, V, N)`, with their logarithms; at a level one becomes one for each value."""
        messages, scale = self.root()
        messages, logs = messages[:, None], natural_log(scale)
        for level in range(self.levels + 1):
            if level:
                messages, logs, _ = one_blas_thread(self.expand)(messages, logs, level - 1)
            if level == lift_at:
                messages = messages * self.chain.hidden.label.T
            yield messages, logs


class TrieSide(Side):
    """Messages of a trie of events; those of a trie for the way back are read from the last backward."""

    def __init__(self, chain: Chain, trie: Trie, slopes: Slopes | None = None, *, backward: bool = False):
        super().__init__(chain, len(trie.event) - (not backward), trie.widest, slopes, backward=backward)
        self.trie = trie

    def root(self) -> tuple[np.ndarray, np.ndarray]:
        """`β_T = 1`, or the messages of the first events; and their probabilities."""
        if self.backward:
            return np.ones((1, self.chain.hidden.num_states)), np.ones(1)
        messages = self.chain.hidden.root[:, self.trie.event[0]].T
        scale = self.size(messages)
        return _divided(messages, scale), scale

    def edges(self, level: int) -> Extension:
        """See `Side`."""
        return self.trie.level(level + (not self.backward))

    def scaled(self, rows: np.ndarray, edges: Extension, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, PullBack]:
        """See `Side`."""
        scale = self.size(rows)
        return _divide(rows, scale), logs[edges.parent] + natural_log(scale), lambda slope: _divide(slope, scale)


class Sweep:
    """A pass down the levels of a direction and back, whose memory is bounded by checkpoints in time.

    Where all levels fit `memory_bytes` they are kept; else only every k-th is, and the levels between two of them are
    computed again on the way back, one more pass for `O(√T)` memory. `reader`: of all levels; else only the leaves count.
    """

    def __init__(
        self,
        direction: Side,
        *,
        memory_bytes: int,
        keep: bool,
        clock: Clock = UNLIMITED,
        reader: "PrefixReader | None" = None,
    ):
        self.direction, self._clock, self._reader = direction, clock, reader
        messages, scale = direction.root()
        logs = natural_log(scale)
        level_bytes = 8 * messages.shape[1] * direction.widest * (3 + 2 * len(direction.chain.hidden.emitters))
        self.every = 1 if direction.levels * level_bytes <= memory_bytes else max(2, int(direction.levels**0.5))
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._ways: dict[int, tuple[np.ndarray, PullBack]] = {}
        for level in range(direction.levels):
            clock.check()
            if reader is not None:
                reader.read(level, messages)
            if keep and level % self.every == 0 and self.every > 1:
                self._kept[level] = messages, logs
            before = messages
            messages, logs, pull_back = direction.expand(messages, logs, level)
            if keep and self.every == 1:
                self._ways[level] = before, pull_back
        if reader is not None:
            reader.read(direction.levels, messages)
        self.leaves, self.logs = messages, logs

    def pull_back(self, slope: np.ndarray | None = None) -> None:
        """Carry the gradient in the leaves (in scaled form), or in what was read, back to the root.

        It fills the direction's gradients. Without `slope` it is that of the reader.
        """
        if slope is None:
            slope = self._added(self.direction.levels, self.leaves, np.zeros_like(self.leaves))
        for begin in range((self.direction.levels - 1) // self.every * self.every, -1, -self.every):
            end = min(begin + self.every, self.direction.levels)
            if self.every > 1:
                messages, logs = self._kept[begin]
                for level in range(begin, end):
                    self._clock.check()
                    before = messages
                    messages, logs, way = self.direction.expand(messages, logs, level)
                    self._ways[level] = before, way
            for level in range(end - 1, begin - 1, -1):
                self._clock.check()
                messages, way = self._ways.pop(level)
                slope = self._added(level, messages, way(slope))

    def _added(self, level: int, messages: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """The slope in a level's messages with what the reader adds to it."""
        added = None if self._reader is None else self._reader.pull(level, messages)
        return slope if added is None else slope + added


class PrefixReader:
    """Posteriors of the secret given what is observed up to each of its times, and slopes in them.

    **Arguments:** `nodes`: for each level the node of each sequence.

    Cost: a product with the label of each time, which is little beside a step.
    """

    def __init__(self, chain: Chain, nodes: Sequence[Int[np.ndarray, " k"]]):
        self._chain, self._nodes, each = chain, nodes, chain.hidden.each
        self._is_forecast = each is not None and each.ahead > 0
        self._labels = {reading.time: reading.label for reading in readings(chain)}
        self._place = {time: place for place, time in enumerate(self._labels)}
        self._totals: dict[int, np.ndarray] = {}
        self._rows: list[np.ndarray] = []
        self._slope: np.ndarray = np.zeros(0)
        self._label_slopes: dict[int, np.ndarray] = {}

    def read(self, level: int, messages: np.ndarray) -> None:
        """On the way down: note the posteriors of a level."""
        if level in self._labels:
            joint = messages @ self._labels[level]
            self._totals[level] = joint.sum(axis=1)
            self._rows.append(_divided(joint, self._totals[level])[self._nodes[level]])

    @property
    def posterior(self) -> Float[np.ndarray, "k *R Z"]:
        """See `Posteriors`."""
        return self._rows[0] if self._chain.hidden.each is None else np.stack(self._rows, axis=1)

    def start(self, slope: Float[np.ndarray, "k *R Z"]) -> None:
        """Before the way back: the slopes in the posteriors."""
        self._slope = slope.reshape(len(slope), len(self._labels), -1)

    def pull(self, level: int, messages: np.ndarray) -> np.ndarray | None:
        """On the way back: the gradient of what was read in the messages of a level (in scaled form)."""
        if level not in self._labels:
            return None
        label, total = self._labels[level], self._totals[level]
        slope = np.zeros((len(total), label.shape[1]))
        np.add.at(slope, self._nodes[level], self._slope[:, self._place[level]])
        slope = _divide(slope, total)
        if self._is_forecast:
            self._label_slopes[level] = messages.T @ slope
        return slope @ label.T

    def finish(self, result: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "T C A"]:
        """After the way back: the gradient with that through labels which depend on the policy."""
        pull_labels(self._chain, self._label_slopes, result)
        return result


@dataclass(frozen=True, eq=False)
class Posteriors:
    """What the sequences tell: `log P(y)` (natural) and `P(z|y)` of each distinct pair of prefix and suffix.

    `count[i]` sequences share pair i; `index[k]` is the pair of sequence k. If the secret has a value at every time, there is
    a row `P(z_t | o_0 … o_t)` for each time that counts, and the likelihood is that of the observations up to the last.
    """

    log_likelihood: Float[np.ndarray, " i"]
    posterior: Float[np.ndarray, "i *R Z"]
    count: Float[np.ndarray, " i"]
    index: Int[np.ndarray, " k"]


class SequencePass:
    """Posteriors of the secret along given event sequences, and the gradient of any function of them.

    **Arguments:** `events`, `(k, T+1)`; `gradient`: whether `pull_back` will be called; `memory_bytes`: for the messages;
    `clock`: checked at each level.

    Cost: `O(T · k · nnz(P))` at most; three products a step with the gradient.
    """

    @one_blas_thread
    def __init__(
        self,
        chain: Chain,
        events: Int[np.ndarray, "k T+1"],
        *,
        gradient: bool,
        memory_bytes: int,
        clock: Clock = UNLIMITED,
    ):
        need_clock(chain.hidden.written)
        last = last_reading(chain)
        self.slopes = Slopes(chain) if gradient else None
        forward = TrieSide(chain, Trie.of(events[:, : last + 1]), self.slopes)
        kept = {"memory_bytes": memory_bytes // 2, "keep": gradient, "clock": clock}
        if last < chain.hidden.horizon and chain.hidden.each is None:
            backward = TrieSide(chain, Trie.of(events[:, :last:-1]), self.slopes, backward=True)
            self._reader, self._forward, self._backward = None, Sweep(forward, **kept), Sweep(backward, **kept)
            self.label = chain.hidden.label
            self.result = self._meet(forward.trie.leaf, backward.trie.leaf)
        else:  # nothing that is observed later counts
            trie = forward.trie
            prefixes = replace(trie, leaf=np.arange(len(trie.event[-1])))
            self._reader = PrefixReader(chain, prefixes.nodes())
            self._forward = Sweep(forward, **kept, reader=self._reader)
            count = np.bincount(trie.leaf, minlength=len(prefixes.leaf)).astype(float)
            self.result = Posteriors(self._forward.logs, self._reader.posterior, count, trie.leaf)

    def _meet(self, first: np.ndarray, second: np.ndarray) -> Posteriors:
        """What each distinct pair of prefix and suffix tells, from the product of their messages at the split."""
        width = len(self._backward.leaves)
        pairs, index = np.unique(first * width + second, return_inverse=True)
        self._first, self._second = np.divmod(pairs, width)
        self._alpha, self._beta = self._forward.leaves[self._first], self._backward.leaves[self._second]
        joint = (self._alpha * self._beta) @ self.label
        self._total = joint.sum(axis=1)
        logs = self._forward.logs[self._first] + self._backward.logs[self._second] + natural_log(self._total)
        return Posteriors(
            log_likelihood=logs,
            posterior=_divided(joint, self._total),
            count=np.bincount(index, minlength=len(joint)).astype(float),
            index=index,
        )

    @one_blas_thread
    def pull_back(self, slope: Float[np.ndarray, "i *R Z"]) -> Float[np.ndarray, "T C A"]:
        """The gradient in the policy's table from `P(y) · ∂/∂P(z,y)` of each pair (that is, scaled by the probability).

        Messages are given up on the way, so this can be called once.
        """
        assert self.slopes is not None
        if self._reader is not None:
            self._reader.start(slope)
            self._forward.pull_back()
            return self._reader.finish(self.slopes.table())
        spread = _divided(slope @ self.label.T, self._total)
        alpha, beta = np.zeros_like(self._forward.leaves), np.zeros_like(self._backward.leaves)
        np.add.at(alpha, self._first, spread * self._beta)
        self._forward.pull_back(alpha)
        np.add.at(beta, self._second, spread * self._alpha)
        self._backward.pull_back(beta)
        return self.slopes.table()


def _divide(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """`_divided`, in place: a fresh array of this size costs as much as the division."""
    rows *= inverse(scale).reshape(-1, *(1,) * (rows.ndim - 1))
    return rows


def _divided(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Rows over their scale; a row whose scale is zero is all zero and stays so."""
    return rows * inverse(scale)[:, None]


def inverse(scale: np.ndarray) -> np.ndarray:
    """One over the scale; zero if it is zero or below `TINY`, that is, if a sequence is impossible or can as well be."""
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale >= TINY)
