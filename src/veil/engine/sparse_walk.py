"""One pass over all possible observation sequences with rows of sparse support, value and gradients, within its limits."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock
from ..common.errors import TooLargeError
from .backends.sparse_rows import SparseBlock, SparsePrefixes
from .chain import Chain, Slopes
from .joint import DEFAULT_MEMORY, Objective, Walk
from .tree import walk

# What one product leaves behind until its level is done: an entry, its column and its place, with rows and gradients.
_BYTES_A_PRODUCT = 32
_TRIAL_SECONDS = 1.0  # before the time of all is forecast
_AT_ONCE = 2**19  # numbers of dense rows made at a time for an objective that asks for them


@runtime_checkable
class SparseObjective(Protocol):
    """An objective that takes rows with sparse support as they are."""

    def add_rows(self, block: SparseBlock) -> Float[np.ndarray, " m"] | None:
        """Take in rows, `P(z,y) = weight(y) · message`, column z, and return the gradient in each entry where one is wanted."""
        ...


@dataclass
class SparseWalk(Walk):
    """All possible observation sequences of a chain, forward, each by the states that it leaves possible.

    The objective must be a sum over rows `P(·,y)` of a function that is homogeneous of degree one, as the conditional
    entropy is: rows that are proportional are merged.

    **Arguments:** `memory_bytes`: budget for the messages; `clock`: checked in every loop; `keep_events`: whether the
    sequences themselves are kept (nothing is merged then); `most_products`: the most
    multiplications before `TooLargeError` is raised; `forecast`: called, after the first second, with the seconds that all
    of the work will take by what has been done so far.

    After `run` also `products` made.
    """

    chain: Chain
    memory_bytes: int = DEFAULT_MEMORY
    clock: Clock = UNLIMITED
    keep_events: bool = False
    most_products: float = math.inf
    forecast: Callable[[float], None] | None = None
    products: int = field(default=0, init=False)
    _done: float = field(default=0.0, init=False)
    _began: float = field(default=0.0, init=False)

    def run(self, objective: Objective, *, gradient: bool = False) -> Float[np.ndarray, "T C A"] | None:
        """Feed all sequences to the objective; with `gradient`, pull its gradients back to the policy's table."""
        slopes = Slopes(self.chain) if gradient else None
        prefixes = SparsePrefixes(self.chain, slopes, self.keep_events, check=lambda: self._check(prefixes))
        self.num_sequences, self._done, self._began = 0.0, 0.0, self.clock.spent
        most = self.memory_bytes / 2 / _BYTES_A_PRODUCT / (prefixes.levels + 1)

        def leaf(block: SparseBlock) -> np.ndarray | None:
            self.num_sequences += float(block.count.sum())
            found = feed(objective, block, self.chain.hidden.num_values)
            return found if gradient else None

        def rows_at_once(block: SparseBlock, position: int, level: int) -> int:
            return prefixes.rows_within(block, position, level, most)

        slope = walk(prefixes, leaf, rows_at_once=rows_at_once, with_slopes=gradient, clock=self.clock, done=self._note)
        self.products = prefixes.products
        if slopes is None:
            return None
        assert slope is not None
        self.root_slope = prefixes.root_slope(slope)
        prefixes.finish()
        return slopes.table()

    def _note(self, share: float) -> None:
        self._done += share

    def _check(self, prefixes: SparsePrefixes) -> None:
        self.clock.check()
        self.products, spent = prefixes.products, self.clock.spent - self._began
        if self.forecast is not None and self._done and spent > _TRIAL_SECONDS:
            self.forecast(spent / self._done)
        if prefixes.products > self.most_products:
            raise TooLargeError(
                f"the possible sequences need more than {self.most_products:,.0f} products of messages and transitions"
            )


def feed(objective: Objective, block: SparseBlock, num_values: int) -> np.ndarray | None:
    """The objective's gradients in the entries of a block of leaves; dense rows for one that asks for them."""
    if isinstance(objective, SparseObjective):
        return objective.add_rows(block)
    found = []
    step = max(1, _AT_ONCE // num_values)
    for begin in range(0, len(block), step):
        part = block.part(begin, min(begin + step, len(block)))
        row = part.row_of_entries()
        joint = np.zeros((len(part), num_values))
        joint[row, part.column] = part.weight[row] * part.message
        slope = objective(joint, _listing(part))
        if slope is not None:
            found.append(slope[row, part.column])
    return np.concatenate(found) if found else None


def _listing(block: SparseBlock) -> Callable[[np.ndarray], np.ndarray]:
    def events(rows: np.ndarray) -> np.ndarray:
        assert block.events is not None
        return block.events[rows]

    return events
