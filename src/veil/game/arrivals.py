"""Where a step leads with the event that shows it kept apart: what merging histories into one node loses is counted there.

An arrival is (node left, event, hidden state reached). The node that the event leads to may be the same for many of them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, Pace
from ..common.errors import TooLargeError
from ..common.logs import log2_or_zero
from ..common.numbering import number_keys
from ..engine.moves import Moves
from .pairs import DEFAULT_MEMORY, Pairs

_BYTES_A_MOVE, _BYTES_AT_WORK = 40, 60  # of an arrival with its masses and payments; and more while its step is made
_SECONDS_A_MOVE = 3e-7  # to make it: measured on one core


@dataclass(frozen=True, eq=False)
class Arrivals:
    """The arrivals of one step.

    `step` has a row for each (action, pair of layer t) as in `Pairs.steps` and a column for each arrival; `pair` is the
    pair of layer t + 1 that an arrival is, `edge` a number of its (node, event) from 0 without gaps; edge k leaves
    `node[k]` by `event[k]`. `target` is the node of each pair of layer t + 1.
    """

    step: sp.csr_array
    pair: Int[np.ndarray, " m"]
    edge: Int[np.ndarray, " m"]
    node: Int[np.ndarray, " k"]
    event: Int[np.ndarray, " k"]
    target: Int[np.ndarray, " n"]

    def by_event(self, table: Float[np.ndarray, "A n"], num_events: int) -> sp.csr_array:
        """The step of a policy with its events apart: `(n, E · n')`, row p, column `e · n' + p'`.

        Example: from one pair by one action to a pair with event 0 and chance 3/4, and to another with event 1 and chance 1/4,
        it is `(1, 2 · 2)`: 3/4 in column 0 · 2 + 0, and 1/4 in column 1 · 2 + 1.
        """
        step, size, after = sp.coo_array(self.step), table.shape[1], len(self.target)
        weight = table.ravel()[step.row] * step.data
        kept = weight > 0
        row, arrival = step.row[kept] % size, step.col[kept]
        column = self.event[self.edge[arrival]].astype(np.int64) * after + self.pair[arrival]
        return sp.csr_array(sp.coo_array((weight[kept], (row, column)), shape=(size, num_events * after)))

    def lost_bits(self, mass: Float[np.ndarray, " m"]) -> tuple[float, Float[np.ndarray, " m"]]:
        """`I(X'; C, O' | C') = H(X'|C') − H(X'|C, O')` of arrivals with these masses, and its derivative in them."""
        there = np.bincount(self.pair, weights=mass, minlength=len(self.target))
        nodes = np.bincount(self.target, weights=there)
        edges = np.bincount(self.edge, weights=mass)
        merged = (there / np.where(nodes > 0, nodes, 1.0)[self.target])[self.pair]
        slope = log2_or_zero(mass / np.where(edges > 0, edges, 1.0)[self.edge]) - log2_or_zero(merged)
        return float(mass @ slope), slope


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
    """The arrivals of the step from the layer of a time; `moves`: those of the hidden chain."""
    hidden, layer, after = pairs.hidden, pairs.layers[time], pairs.layers[time + 1]
    carried = hidden.split_time <= time
    values = hidden.num_values if carried else 1
    keys, data, degrees = [], [], []
    for action in range(len(moves.degree)):
        pair, move = moves.entries(layer, action)
        edge = layer.node[pair].astype(np.int64) * hidden.num_events + moves.event[move]
        state = moves.target[move] * np.int64(values) + (layer.z[pair] if carried else 0)
        keys.append(edge * (hidden.num_states * values) + state)
        data.append(moves.probability[move])
        degrees.append(moves.degree[action, layer.x])
    span = hidden.num_states * values
    found, columns = number_keys(np.concatenate(keys))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(degrees))]).astype(np.int32)
    shape = (len(moves.degree) * len(layer), len(found))
    step = sp.csr_array((np.concatenate(data), columns.astype(np.int32), indptr), shape=shape)
    edge, state = np.divmod(found, span)
    edges, number = np.unique(edge, return_inverse=True)
    node, event = np.divmod(edges, hidden.num_events)
    there = pairs.graph.following[time][node, event].astype(np.int64)[number.ravel()] * span + state
    known = (after.node.astype(np.int64) * hidden.num_states + after.x) * values + (after.z if carried else 0)
    return Arrivals(step, np.searchsorted(known, there), number.ravel(), node, event, after.node)
