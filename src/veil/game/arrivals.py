"""Steps whose arrivals are kept apart where the pairs of the next layer are one: by what was left, or by what was seen."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, Pace
from ..common.errors import TooLargeError
from ..common.numbering import number_keys, number_true
from ..engine.kernel import num_rows
from ..engine.moves import Layer, Moves
from .pairs import DEFAULT_MEMORY, Pairs

_BYTES_A_MOVE, _BYTES_AT_WORK = 40, 60  # of an arrival with its masses and payments; and more while its step is made
_SECONDS_A_MOVE = 3e-7  # to make it: measured on one core


@dataclass(frozen=True, eq=False)
class Apart:
    """The arrivals of one step.

    `step` has a row for each (action, pair of layer t) as in `Pairs.steps` and a column for each arrival; `pair` is the
    pair of layer t + 1 that an arrival is.
    """

    step: sp.csr_array
    pair: Int[np.ndarray, " m"]


def kept_apart(step: sp.csr_array, size: int, after: int) -> tuple[Apart, Int[np.ndarray, " m"]]:
    """The arrivals of a step of pairs by the pair left, which is told of each; `size`, `after`: of the two layers."""
    row = np.repeat(np.arange(num_rows(step), dtype=np.int64) % size, np.diff(step.indptr))
    found, column = number_keys(row * after + step.indices)
    left, pair = np.divmod(found, after)
    shape = num_rows(step), len(found)
    return Apart(sp.csr_array((step.data, column.astype(np.int32), step.indptr), shape=shape), pair), left


@dataclass(frozen=True, eq=False)
class Arrivals(Apart):
    """The arrivals of one step by the node left and the event: where merging histories into one node loses something.

    `edge` is a number of the (node, event) of each arrival, from 0 without gaps; edge k leaves `node[k]` by `event[k]`.
    """

    edge: Int[np.ndarray, " m"]
    node: Int[np.ndarray, " k"]
    event: Int[np.ndarray, " k"]

    def under(self, table: Float[np.ndarray, "A n"]) -> sp.csr_array:
        """The step of a policy: a row for each pair, a column for each arrival."""
        step = sp.coo_array(self.step)
        weight = table.ravel()[step.row] * step.data
        kept = weight > 0
        places = step.row[kept] % table.shape[1], step.col[kept]
        return sp.csr_array(sp.coo_array((weight[kept], places), shape=(table.shape[1], len(self.pair))))


def make_arrivals(pairs: Pairs, clock: Clock = UNLIMITED, memory_bytes: int = DEFAULT_MEMORY) -> tuple[Arrivals, ...]:
    """The arrivals of every step. Cost: linear in the moves between pairs; the clock is checked before each step.

    **Raises:** `TooLargeError` before a step is made that does not fit; `OutOfTime`.
    """
    moves, pace, made, used = Moves.of(pairs.hidden), Pace(clock, _SECONDS_A_MOVE), list[Arrivals](), 0
    for time in range(pairs.hidden.horizon):
        count = moves.count(pairs.layers[time])
        used += _BYTES_A_MOVE * count
        if used + _BYTES_AT_WORK * count > memory_bytes:
            raise TooLargeError(
                f"the arrivals of {time + 1} steps need {(used + _BYTES_AT_WORK * count) / 2**30:.2g} GiB, and the budget is"
                f" {memory_bytes / 2**30:.2g} GiB: fewer nodes, or memory_bytes=…"
            )
        with pace.step(count):
            made.append(arrivals_at(pairs, moves, time))
    return tuple(made)


def arrivals_at(pairs: Pairs, moves: Moves, time: int) -> Arrivals:
    """The arrivals of the step from the layer of a time: its next layer in a graph whose nodes are the edges of this one.

    **Arguments:** `moves`: those of the hidden chain.
    """
    table = pairs.graph.following[time]
    node, event = np.nonzero(table >= 0)
    layer, step = moves.advance(pairs.hidden, time, pairs.layers[time], number_true(table >= 0))
    wanted = pairs.keys_of(Layer(table[node, event][layer.node], layer.x, layer.z))
    return Arrivals(step, np.searchsorted(pairs.keys(time + 1), wanted), layer.node, node, event)
