"""The joint table `P(z,y)`: histories up to some time meet continuations after it, all pairs in one product.

With messages of both sides at a time m, `P(z,y) = Σ_x α_m(x) β_m^z(x)`: the value z travels with the side that passes the
secret's time. Meeting in the middle needs the messages of about `√Y` histories and as many continuations instead of Y,
and one multiplication for each pair and state; the adjoint is two more products of the same shape.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock
from ..common.logs import row_sums
from .chain import Chain, Slopes
from .threads import one_blas_thread
from .tree import Block, Merger, Merging, Prefixes, Suffixes, walk
from .written import need_clock

DEFAULT_MEMORY = 2 * 2**30
# Numbers of the joint table made at a time: small enough to stay in the cache while logarithms are taken.
_AT_ONCE = 2**19


class Objective(Protocol):
    """Anything that is a sum over observation sequences y of a function of the row `P(·,y)`."""

    def __call__(
        self, joint: Float[np.ndarray, "m Z"], events: Callable[[np.ndarray], np.ndarray]
    ) -> Float[np.ndarray, "m Z"] | None:
        """Take in rows and return the gradient in each entry, or None when none is wanted.

        A row of zeros is a pair of history and continuation that cannot occur: it must count for nothing. `events(rows)`
        lists the sequences of some rows, where they are kept.
        """
        ...


@dataclass
class Walk(ABC):
    """One pass over all possible observation sequences, in one layout or another.

    After `run`: `num_sequences` met; `merge_error_bits`, which bounds what merging changed; `root_slope`, `(F, N)`, the
    gradient in `hidden.root` (events that are possible, in order), if a gradient was asked for.
    """

    num_sequences: float = field(default=0.0, init=False)
    merge_error_bits: float = field(default=0.0, init=False)
    root_slope: np.ndarray | None = field(default=None, init=False)

    @abstractmethod
    def run(self, objective: Objective, *, gradient: bool = False) -> Float[np.ndarray, "T C A"] | None:
        """Feed all sequences to the objective; with `gradient`, pull its gradients back to the policy's table."""


@dataclass
class JointWalk(Walk):
    """One pass over all possible observation sequences of a chain, within a memory budget.

    One side of the meeting time is enumerated and kept, the other is walked depth-first in blocks and joined with it.

    **Arguments:** `merge_tolerance`: see `Merging`; `memory_bytes`: budget for the messages; `clock`: see `walk`;
    `keep_events`: whether the sequences themselves are kept; `meet`: the time at which the sides meet, by default half
    the horizon; `outer`: which side is walked, `"prefixes"` or `"suffixes"`; `merger`: a rule that merges in the place of
    `merge_tolerance`, a whole level at a time where that fits.

    Slopes in entries that are zero (an action never taken, an event that cannot come first) depend on where the sides
    meet and mean nothing: a softmax policy multiplies them by zero.
    """

    chain: Chain
    merge_tolerance: float = 0.0
    memory_bytes: int = DEFAULT_MEMORY
    clock: Clock = UNLIMITED
    keep_events: bool = False
    meet: int | None = None
    outer: str = "prefixes"
    merger: Merger | None = None

    @one_blas_thread
    def run(self, objective: Objective, *, gradient: bool = False) -> Float[np.ndarray, "T C A"] | None:
        """Feed the whole table to the objective; with `gradient`, pull its gradients back to the policy's table."""
        hidden = self.chain.hidden
        need_clock(hidden.written)
        meet = (hidden.horizon + 1) // 2 if self.meet is None else self.meet
        merging = self.merger or Merging(self.merge_tolerance)
        slopes = Slopes(self.chain) if gradient else None
        prefixes = Prefixes(self.chain, meet, merging, slopes, self.keep_events)
        suffixes = Suffixes(self.chain, meet, merging, slopes, self.keep_events)
        forward = self.outer == "prefixes"
        outer, inner = (prefixes, suffixes) if forward else (suffixes, prefixes)
        kept = [_Kept(block, gradient) for block in self._collect(inner)]
        self.num_sequences = 0.0

        def leaf(block: Block) -> np.ndarray | None:
            return self._join(block, kept, objective, forward=forward, gradient=gradient)

        outer_slope = self._walk(outer, leaf, gradient)
        self.merge_error_bits = merging.error_bits
        if slopes is None:
            return None
        position = iter(kept)
        inner_slope = self._walk(inner, lambda _: next(position).slope, True)
        first = outer_slope if forward else inner_slope
        self.root_slope = None if first is None else prefixes.root_slope(first)
        return slopes.table()

    def _rows_at_once(self, levels: int) -> int:
        hidden = self.chain.hidden
        values = hidden.label.shape[1]
        numbers = hidden.num_states * values * (5 + 2 * len(hidden.emitters)) * max(1, hidden.num_events)
        if self.merger is not None:  # of the levels above, which are no larger, only the messages are kept
            return max(1, int(self.memory_bytes / 2 / (8 * (numbers + hidden.num_states * values * levels))))
        return max(1, int(self.memory_bytes / 2 / (8 * numbers * (levels + 2))))

    def _walk(self, direction: Prefixes | Suffixes, leaf: Callable, with_slopes: bool) -> np.ndarray | None:
        rows = self._rows_at_once(direction.levels)
        return walk(direction, leaf, rows_at_once=rows, with_slopes=with_slopes, clock=self.clock)

    def _collect(self, direction: Prefixes | Suffixes) -> list[Block]:
        blocks: list[Block] = []
        self._walk(direction, blocks.append, False)
        return blocks

    def _join(
        self, block: Block, kept: list["_Kept"], objective: Objective, *, forward: bool, gradient: bool
    ) -> np.ndarray | None:
        """Join leaves of the outer side with every leaf of the inner one; the gradient in the outer messages."""
        slope = np.zeros_like(block.message) if gradient else None
        values = block.message.shape[1]
        for inner in kept:
            step = max(1, _AT_ONCE // (values * inner.matrix.shape[1]))
            for begin in range(0, len(block), step):
                self.clock.check()
                part = block.part(begin, min(begin + step, len(block)))
                rows = part.true.reshape(-1, block.message.shape[2])
                cotangent = self._pairs(rows @ inner.matrix, part, inner.block, objective, forward=forward)
                if slope is not None and cotangent is not None:
                    pulled = cotangent @ inner.matrix.T
                    slope[begin : begin + len(part)] += pulled.reshape(part.message.shape)
                    inner.slope += (cotangent.T @ rows).reshape(inner.slope.shape)
        return slope

    def _pairs(
        self, product: np.ndarray, outer: Block, inner: Block, objective: Objective, *, forward: bool
    ) -> np.ndarray | None:
        """The objective's gradients in the shape of `product`, whose rows and columns are messages of the two sides."""
        shape = (len(outer), outer.message.shape[1], len(inner), inner.message.shape[1])
        lifted_outside = shape[1] > 1
        table = product.reshape(shape).transpose(0, 2, 1, 3) if lifted_outside else product
        joint = np.ascontiguousarray(table).reshape(len(outer) * len(inner), -1)
        self._count(joint, outer, inner)

        def events(rows: np.ndarray) -> np.ndarray:
            assert outer.events is not None
            assert inner.events is not None
            first, second = np.divmod(rows, len(inner))
            sides = [outer.events[first], inner.events[second]]
            return np.concatenate(sides if forward else sides[::-1], axis=1)

        found = objective(joint, events)
        if found is None or not lifted_outside:
            return None if found is None else found.reshape(product.shape)
        back = found.reshape(shape[0], shape[2], shape[1], 1).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(back).reshape(product.shape)

    def _count(self, joint: np.ndarray, outer: Block, inner: Block) -> None:
        possible = row_sums(joint) > 0
        if self.merge_tolerance > 0 or self.merger is not None:
            counts = (outer.count[:, None] * inner.count).ravel()
            self.num_sequences += float(counts[possible].sum())
        else:
            self.num_sequences += float(np.count_nonzero(possible))


class _Kept:
    """A block of the enumerated side, as a matrix `(N, nV)` for the join, and the gradient in its messages."""

    def __init__(self, block: Block, gradient: bool):
        self.block = block
        self.matrix = np.ascontiguousarray(block.true.reshape(-1, block.message.shape[2]).T)
        self.slope = np.zeros_like(block.message if gradient else block.message[:0])
