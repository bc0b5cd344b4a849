"""How many observation sequences are possible, counted before any work is done.

What can follow a history depends only on the set of hidden states it leaves possible. Histories with the same set are
counted together, so the count is exact and costs as much as there are different sets, not histories.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .chain import Chain

_MOST_SETS = 20_000
_ENOUGH = 1e18


@dataclass(frozen=True)
class TreeSize:
    """Sizes of the two trees of a split.

    `num_sequences` is exact where `exact` holds, else a lower bound. `prefix_rows` and `suffix_rows` are the messages
    that an enumeration computes on either side; `prefix_leaves`, `suffix_leaves` those that are joined.
    """

    num_sequences: float
    prefix_rows: float
    suffix_rows: float
    prefix_leaves: float
    suffix_leaves: float
    exact: bool

    def seconds(self, num_states: int, num_channels: int, *, gradient: bool) -> float:
        """A rough forecast on one ordinary core: arithmetic at 4 GFlop/s, memory at 3 GB/s."""
        row = num_channels * num_states**2 * 2 / 4e9 + num_states * 8 * 8 / 3e9
        pair = num_states * 4 / 4e9 + 40e-9
        factor = 3.0 if gradient else 1.0
        return factor * ((self.prefix_rows + self.suffix_rows) * row + self.num_sequences * pair)

    def text(self) -> str:
        """The number of sequences in words."""
        number = f"{self.num_sequences:,.0f}" if self.num_sequences < 1e15 else f"{self.num_sequences:.3g}"
        return number if self.exact else f"more than {number}"


def tree_size(chain: Chain) -> TreeSize:
    """Count the sequences that are possible under the chain's policy, and the rows that an enumeration has to compute."""
    hidden = chain.hidden
    start = (hidden.root > 0).T
    layer = _Layer(start[start.any(axis=1)], np.ones(int(start.any(axis=1).sum()))).united()
    prefix_rows, exact = layer.total, True
    for time in range(hidden.split_time):
        layer = _forward(layer, chain, time)
        prefix_rows += layer.total
        if layer.total > _ENOUGH or len(layer.sets) > _MOST_SETS:
            exact = False
            break
    prefix = layer
    last = chain.occupancies[hidden.horizon] > 0
    sets = np.eye(hidden.num_states, dtype=bool)[last] if hidden.reveals_last else last[None]
    layer = _Layer(sets, np.ones(len(sets)))
    suffix_rows = layer.total
    for time in range(hidden.horizon - 1, hidden.split_time - 1, -1):
        layer = _backward(layer, chain, time)
        suffix_rows += layer.total
        if layer.total > _ENOUGH or len(layer.sets) > _MOST_SETS:
            exact = False
            break
    if exact:
        meet = (prefix.sets.astype(np.float32) @ layer.sets.astype(np.float32).T) > 0
        sequences = float(prefix.counts @ meet @ layer.counts)
    else:
        sequences = max(prefix.total, layer.total)
    return TreeSize(sequences, prefix_rows, suffix_rows, prefix.total, layer.total, exact)


def naive_bound(chain: Chain) -> float:
    """`F · E^T`: never fewer than the sequences that are possible."""
    hidden = chain.hidden
    with np.errstate(over="ignore"):
        return float(hidden.root.shape[1] * np.float64(hidden.num_events) ** hidden.horizon)


@dataclass(frozen=True, eq=False)
class _Layer:
    """Sets of possible states, `(n, N)` of bool, and how many histories lead to each."""

    sets: np.ndarray
    counts: np.ndarray

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    def united(self) -> "_Layer":
        """Equal sets counted together."""
        packed = np.packbits(self.sets, axis=1)
        _, index, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        return _Layer(self.sets[index], np.bincount(inverse.ravel(), weights=self.counts, minlength=len(index)))


def _positive(matrix: np.ndarray | sp.csr_array) -> np.ndarray | sp.csr_array:
    if isinstance(matrix, np.ndarray):
        return (matrix > 0).astype(np.float32)
    return sp.csr_array(((matrix.data > 0).astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def _forward(layer: _Layer, chain: Chain, time: int) -> _Layer:
    sets = layer.sets.astype(np.float32)
    ahead = [(sets @ _positive(matrix)) > 0 for matrix in chain.matrices(time)]
    return _children(layer, [
        [rows & (channel.emission[:, event] > 0) for rows, channel in zip(ahead, chain.hidden.channels, strict=True)]
        for event in range(chain.hidden.num_events)
    ])  # fmt: skip


def _backward(layer: _Layer, chain: Chain, time: int) -> _Layer:
    reachable = chain.occupancies[time] > 0
    positive = [_positive(matrix) for matrix in chain.matrices(time)]
    children = []
    for event in range(chain.hidden.num_events):
        rows = []
        for matrix, channel in zip(positive, chain.hidden.channels, strict=True):
            emitting = (layer.sets & (channel.emission[:, event] > 0)).astype(np.float32)
            rows.append(((emitting @ matrix.T) > 0) & reachable)
        children.append(rows)
    return _children(layer, children)


def _children(layer: _Layer, per_event: list[list[np.ndarray]]) -> _Layer:
    sets, counts = [], []
    for rows in per_event:
        union = np.logical_or.reduce(rows)
        possible = union.any(axis=1)
        sets.append(union[possible])
        counts.append(layer.counts[possible])
    return _Layer(np.concatenate(sets), np.concatenate(counts)).united()
