"""Scaled messages along many given sequences at once, their posteriors and the adjoint, with sequences sharing prefixes.

Sequences that begin alike share their forward messages, and those that end alike their backward ones: both sides of the
split are tries, so that a message is computed once however many sequences need it. Slopes are carried in scaled form
(gradient times the probability of the history), which keeps every number of order one at any horizon.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import natural_log
from .chain import Chain, Slopes
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


class Forward:
    """`α` messages of a trie of events, scaled to sum to one."""

    def __init__(self, chain: Chain, trie: Trie, slopes: Slopes | None):
        self.chain, self.trie, self.slopes = chain, trie, slopes
        self.levels, self.widest = len(trie.event) - 1, trie.widest

    def root(self) -> tuple[np.ndarray, np.ndarray]:
        """Messages of the first events, and their probabilities."""
        messages = self.chain.hidden.root[:, self.trie.event[0]].T
        scale = messages.sum(axis=1)
        return _divided(messages, scale), scale

    def expand(self, messages: np.ndarray, logs: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray, PullBack]:
        """The next level: messages, the logarithms of what they were divided by, and the way back from gradients."""
        step, extension = Step.of(self.chain, level), self.trie.level(level + 1)
        children = step.forward(messages, extension)
        scale = children.sum(axis=1)

        def pull_back(slope: np.ndarray) -> np.ndarray:
            return step.pull_forward(messages, extension, _divide(slope, scale), adder(self.slopes, level))

        return _divide(children, scale), logs[extension.parent] + natural_log(scale), pull_back


class Backward:
    """`β` messages of a trie of events read from the last backward, scaled to a largest entry of one."""

    def __init__(self, chain: Chain, trie: Trie, slopes: Slopes | None):
        self.chain, self.trie, self.slopes = chain, trie, slopes
        self.levels, self.widest = len(trie.event), trie.widest

    def root(self) -> tuple[np.ndarray, np.ndarray]:
        """`β_T = 1`."""
        return np.ones((1, self.chain.hidden.num_states)), np.ones(1)

    def expand(self, messages: np.ndarray, logs: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray, PullBack]:
        """One step back: messages, the logarithms of what they were divided by, and the way back from gradients."""
        time = self.chain.hidden.horizon - 1 - level
        step, extension = Step.of(self.chain, time), self.trie.level(level)
        children = step.backward(messages, extension)
        scale = children.max(axis=1)

        def pull_back(slope: np.ndarray) -> np.ndarray:
            result = np.zeros_like(messages)
            step.pull_backward(messages, extension, _divide(slope, scale), adder(self.slopes, time), result)
            return result

        return _divide(children, scale), logs[extension.parent] + natural_log(scale), pull_back


class Direction(Protocol):
    """Messages of many sequences, level by level, forward or backward in time."""

    chain: Chain
    levels: int
    widest: int
    """The largest number of messages of a level."""

    def root(self) -> tuple[np.ndarray, np.ndarray]:
        """The messages to begin with, and what they were divided by."""
        ...

    def expand(self, messages: np.ndarray, logs: np.ndarray, level: int) -> tuple[np.ndarray, np.ndarray, PullBack]:
        """The next level: messages, the logarithms of what they were divided by, and the way back from gradients."""
        ...


class Sweep:
    """A pass down the levels of a direction and back, whose memory is bounded by checkpoints in time.

    Where all levels fit `memory_bytes` they are kept; else only every k-th is, and the levels between two of them are
    computed again on the way back, one more pass for `O(√T)` memory.
    """

    def __init__(self, direction: Direction, *, memory_bytes: int, keep: bool, clock: Clock = UNLIMITED):
        self.direction, self._clock = direction, clock
        messages, scale = direction.root()
        logs = natural_log(scale)
        level_bytes = 8 * messages.shape[1] * direction.widest * (3 + 2 * len(direction.chain.hidden.emitters))
        self.every = 1 if direction.levels * level_bytes <= memory_bytes else max(2, int(direction.levels**0.5))
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._ways: dict[int, PullBack] = {}
        for level in range(direction.levels):
            clock.check()
            if keep and level % self.every == 0 and self.every > 1:
                self._kept[level] = messages, logs
            messages, logs, pull_back = direction.expand(messages, logs, level)
            if keep and self.every == 1:
                self._ways[level] = pull_back
        self.leaves, self.logs = messages, logs

    def pull_back(self, slope: np.ndarray) -> None:
        """Carry the gradient in the leaves (in scaled form) back to the root, filling the direction's gradients."""
        for begin in range((self.direction.levels - 1) // self.every * self.every, -1, -self.every):
            end = min(begin + self.every, self.direction.levels)
            if self.every > 1:
                messages, logs = self._kept[begin]
                for level in range(begin, end):
                    self._clock.check()
                    messages, logs, self._ways[level] = self.direction.expand(messages, logs, level)
            for level in range(end - 1, begin - 1, -1):
                self._clock.check()
                slope = self._ways.pop(level)(slope)


@dataclass(frozen=True, eq=False)
class Posteriors:
    """What the sequences tell: `log P(y)` (natural) and `P(z|y)` of each distinct pair of prefix and suffix.

    `count[i]` sequences share pair i; `index[k]` is the pair of sequence k.
    """

    log_likelihood: Float[np.ndarray, " i"]
    posterior: Float[np.ndarray, "i Z"]
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
        hidden = chain.hidden
        need_clock(hidden.written)
        split = hidden.split_time
        self.slopes = Slopes(chain) if gradient else None
        self.label = hidden.label
        forward = Forward(chain, Trie.of(events[:, : split + 1]), self.slopes)
        backward = Backward(chain, Trie.of(events[:, :split:-1]), self.slopes)
        self._forward = Sweep(forward, memory_bytes=memory_bytes // 2, keep=gradient, clock=clock)
        self._backward = Sweep(backward, memory_bytes=memory_bytes // 2, keep=gradient, clock=clock)
        index, both = self._meet(forward.trie.leaf, backward.trie.leaf)
        joint = both @ self.label
        self._total = joint.sum(axis=1)
        self.result = Posteriors(
            log_likelihood=self._forward.logs[self._first]
            + self._backward.logs[self._second]
            + natural_log(self._total),
            posterior=_divided(joint, self._total),
            count=np.bincount(index, minlength=len(joint)).astype(float),
            index=index,
        )

    def _meet(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The pair of prefix and suffix of each sequence, by number, and the product of their messages at the split."""
        if not self._backward.direction.levels:  # nothing comes after the split: a pair is a prefix
            self._first, self._second = np.arange(len(self._forward.leaves)), np.zeros(1, dtype=int)
            return first, self._forward.leaves
        width = len(self._backward.leaves)
        pairs, index = np.unique(first * width + second, return_inverse=True)
        self._first, self._second = np.divmod(pairs, width)
        self._alpha, self._beta = self._forward.leaves[self._first], self._backward.leaves[self._second]
        return index, self._alpha * self._beta

    @one_blas_thread
    def pull_back(self, slope: Float[np.ndarray, "i Z"]) -> Float[np.ndarray, "T C A"]:
        """The gradient in the policy's table from `P(y) · ∂/∂P(z,y)` of each pair (that is, scaled by the probability).

        Messages are given up on the way, so this can be called once.
        """
        assert self.slopes is not None
        spread = _divided(slope @ self.label.T, self._total)
        if not self._backward.direction.levels:
            self._forward.pull_back(spread)
            return self.slopes.table()
        alpha, beta = np.zeros_like(self._forward.leaves), np.zeros_like(self._backward.leaves)
        np.add.at(alpha, self._first, spread * self._beta)
        self._forward.pull_back(alpha)
        np.add.at(beta, self._second, spread * self._alpha)
        self._backward.pull_back(beta)
        return self.slopes.table()


def _divide(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """`_divided`, in place: a fresh array of this size costs as much as the division."""
    rows *= inverse(scale)[:, None]
    return rows


def _divided(rows: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Rows over their scale; a row whose scale is zero is all zero and stays so."""
    return rows * inverse(scale)[:, None]


def inverse(scale: np.ndarray) -> np.ndarray:
    """One over the scale; zero if it is zero or below `TINY`, that is, if a sequence is impossible or can as well be."""
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale >= TINY)
