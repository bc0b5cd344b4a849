"""The joint table `P(z,y) = Σ_x α_τ(x) label(x,z) β_τ(x)`: histories up to the split meet continuations after it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from jaxtyping import Float

from .chain import Chain, Slopes
from .tree import Block, Merging, Prefixes, Pruning, Suffixes, walk

DEFAULT_MEMORY = 2 * 2**30


class Objective(Protocol):
    """Anything that is a sum over observation sequences y of a function of the row `P(·,y)`."""

    def __call__(
        self, joint: Float[np.ndarray, "m Z"], count: Float[np.ndarray, " m"], events: Callable[[], np.ndarray]
    ) -> Float[np.ndarray, "m Z"] | None:
        """Take in rows (of positive probability) and return the slope in each entry, or None when none is wanted.

        `count[i]` sequences were merged into row i; `events()` lists a sequence of each row, where they are kept.
        """
        ...


@dataclass
class JointWalk:
    """One pass over all possible observation sequences of a chain, within a memory budget.

    The shorter side of the split is enumerated and kept, the other is walked depth-first and joined with it, so that a
    split in the middle costs the messages of both sides and one product for the pairs.

    **Arguments:** `merge_tolerance`: see `Merging`; `memory_bytes`: budget for the messages; `deadline`: see `walk`;
    `keep_events`: whether the sequences themselves are kept; `outer`: which side is walked, `"prefixes"` or
    `"suffixes"`; chosen from the split where it is None; `prune_below`: see `Pruning`.

    After `run`: `num_sequences` met; `merge_error_bits` and `lost_mass`, which bound what merging and pruning changed;
    `root_slope`, `(F, N)`, the slope in `hidden.root` (events that are possible, in order), where a gradient was asked.
    """

    chain: Chain
    merge_tolerance: float = 0.0
    memory_bytes: int = DEFAULT_MEMORY
    deadline: float = math.inf
    keep_events: bool = False
    outer: str | None = None
    prune_below: float = 0.0
    num_sequences: float = field(default=0.0, init=False)
    merge_error_bits: float = field(default=0.0, init=False)
    lost_mass: float = field(default=0.0, init=False)
    root_slope: np.ndarray | None = field(default=None, init=False)

    def run(self, objective: Objective, *, gradient: bool = False) -> Float[np.ndarray, "T C A"] | None:
        """Feed the whole table to the objective; with `gradient`, pull its slopes back to the policy's table."""
        hidden = self.chain.hidden
        merging, pruning = Merging(self.merge_tolerance), Pruning(self.prune_below)
        slopes = Slopes(self.chain) if gradient else None
        prefixes = Prefixes(self.chain, hidden.split_time, merging, pruning, slopes, self.keep_events)
        suffixes = Suffixes(self.chain, hidden.split_time, merging, pruning, slopes, self.keep_events)
        side = self.outer or ("prefixes" if prefixes.levels >= suffixes.levels else "suffixes")
        outer, inner = (prefixes, suffixes) if side == "prefixes" else (suffixes, prefixes)
        kept = _Kept(self._collect(inner), hidden.label, gradient)
        self.num_sequences = 0.0

        def leaf(block: Block) -> np.ndarray | None:
            return self._join(block, kept, objective, forward=side == "prefixes")

        outer_slope = self._walk(outer, leaf, gradient)
        self.merge_error_bits, self.lost_mass = merging.error_bits, pruning.lost_mass
        if slopes is None:
            return None
        position = iter(kept.slopes)
        inner_slope = self._walk(inner, lambda _: next(position), True)
        self.root_slope = outer_slope if side == "prefixes" else inner_slope
        return slopes.table()

    def _rows_at_once(self, levels: int) -> int:
        hidden = self.chain.hidden
        branching = hidden.num_events
        numbers = hidden.num_states * (5 + 2 * len(hidden.channels)) * branching
        return max(1, int(self.memory_bytes / (8 * numbers * (levels + 2))))

    def _walk(self, direction: Prefixes | Suffixes, leaf: Callable, with_slopes: bool) -> np.ndarray | None:
        rows = self._rows_at_once(direction.levels)
        return walk(direction, leaf, rows_at_once=rows, with_slopes=with_slopes, deadline=self.deadline)

    def _collect(self, direction: Prefixes | Suffixes) -> list[Block]:
        blocks: list[Block] = []
        self._walk(direction, blocks.append, False)
        return blocks

    def _join(self, block: Block, kept: "_Kept", objective: Objective, *, forward: bool) -> np.ndarray | None:
        """Join leaves of the outer side with every leaf of the inner one; the slope in the outer messages."""
        slope = np.zeros_like(block.message) if kept.slopes else None
        width = sum(part.size for part in kept.matrices)
        step = max(1, self.memory_bytes // (64 * max(width, 1)))
        for begin in range(0, len(block), step):
            part = block.part(begin, min(begin + step, len(block)))
            true = part.true
            for number, (matrix, inner) in enumerate(zip(kept.matrices, kept.blocks, strict=True)):
                cotangent = self._pairs(true @ matrix.array, part, inner, objective, forward=forward)
                if slope is not None and cotangent is not None:
                    slope[begin : begin + len(part)] += cotangent @ matrix.array.T
                    kept.add(number, true, cotangent)
        return slope

    def _pairs(
        self, joint: np.ndarray, outer: Block, inner: Block, objective: Objective, *, forward: bool
    ) -> np.ndarray | None:
        """Rows of positive probability go to the objective; its slopes come back in the shape of `joint`."""
        values = self.chain.hidden.label.shape[1]
        rows = joint.reshape(-1, values)
        possible = np.flatnonzero(rows.any(axis=1))
        first, second = np.divmod(possible, len(inner))
        count = outer.count[first] * inner.count[second]
        self.num_sequences += float(count.sum())

        def events() -> np.ndarray:
            assert outer.events is not None
            assert inner.events is not None
            sides = [outer.events[first], inner.events[second]]
            return np.concatenate(sides if forward else sides[::-1], axis=1)

        found = objective(rows[possible], count, events)
        if found is None:
            return None
        cotangent = np.zeros_like(rows)
        cotangent[possible] = found
        return cotangent.reshape(joint.shape)


@dataclass(frozen=True, eq=False)
class _Side:
    """`label(x,z) · inner(i,x)` as one matrix `(N, I·Z)`, so that a join is one product."""

    array: Float[np.ndarray, "N IZ"]

    @property
    def size(self) -> int:
        return self.array.shape[1]


class _Kept:
    """The enumerated side of the split, and the slopes in its messages."""

    def __init__(self, blocks: list[Block], label: np.ndarray, gradient: bool):
        self.blocks = blocks
        self.label = label
        self.matrices = [_Side(np.einsum("ix,xz->xiz", block.true, label).reshape(len(label), -1)) for block in blocks]
        self.slopes: list[Float[np.ndarray, "I N"]] = (
            [np.zeros_like(block.message) for block in blocks] if gradient else []
        )

    def add(self, number: int, outer: np.ndarray, cotangent: np.ndarray) -> None:
        """Add the slope `Σ_z label(x,z) Σ_o cotangent(o,i,z) outer(o,x)` in the messages of one block."""
        values = self.label.shape[1]
        product = (outer.T @ cotangent).reshape(len(self.label), -1, values)
        self.slopes[number] += np.einsum("xiz,xz->ix", product, self.label)
