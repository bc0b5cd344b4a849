"""How many observation sequences are possible, counted before any work is done, and where best to meet.

What can follow a history depends only on the set of hidden states it leaves possible. Histories with the same set are
counted together, so the count is exact and costs as much as there are different sets, not histories.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from .chain import Chain
from .hidden import Hidden
from .kernel import num_columns

_MOST_SETS = 20_000
_ENOUGH = 1e18
_LARGE_BYTES = 2**26


@dataclass(frozen=True)
class TreeSize:
    """How large a tree is, and the cheapest time for its two sides to meet.

    `num_sequences` is exact where `exact` holds, else a lower bound. `rows` are the messages that an enumeration
    computes on both sides of `meet`; `kept_rows` those of the side that is kept, the other being walked (`outer`).
    """

    num_sequences: float
    exact: bool
    meet: int
    outer: str
    rows: float
    kept_rows: float

    def seconds(self, chain: Chain, *, gradient: bool) -> float:
        """A rough forecast on one ordinary core: products at 5 GFlop/s, memory at 3 GB/s, 6 ns a logarithm."""
        states, values = chain.hidden.num_states, chain.hidden.label.shape[1]
        filled = 10.0 if chain.hidden.kernel.is_sparse else 2.0 * states
        row = len(chain.hidden.channels) * states * filled / 5e9 + states * 8 * 8 / 3e9
        pair = values * (states * 2 / 5e9 + 12e-9)
        return (3.0 if gradient else 1.0) * (self.rows * row + self.num_sequences * pair)

    def text(self) -> str:
        """The number of sequences in words."""
        number = f"{self.num_sequences:,.0f}" if self.num_sequences < 1e15 else f"{self.num_sequences:.3g}"
        return number if self.exact else f"more than {number}"


_COUNTED: WeakKeyDictionary[Hidden, dict[bytes, TreeSize]] = WeakKeyDictionary()


def tree_size(chain: Chain) -> TreeSize:
    """Count the sequences that are possible under the chain's policy, and choose where histories and continuations meet.

    What is possible depends on which actions the policy takes at all; a count is kept for the next policy alike.
    """
    counted = _COUNTED.setdefault(chain.hidden, {})
    key = np.packbits(chain.table > 0).tobytes() + (b"1" if chain.stationary else b"T")
    if key not in counted:
        counted[key] = _count(chain)
    return counted[key]


def structure(chain: Chain) -> Chain:
    """The chain with a one for each action that is taken at all: what is possible there is possible, however unlikely.

    Its matrices have no products of two small probabilities, so nothing underflows.
    """
    return Chain(chain.hidden, (chain.table > 0).astype(float), stationary=chain.stationary)


def reachable(possible: Chain) -> np.ndarray:
    """Which hidden states can be met at times 0 … T, `(T+1, N)` of bool, from the `structure` of a chain."""
    result = np.empty((possible.hidden.horizon + 1, possible.hidden.num_states), dtype=bool)
    result[0] = possible.hidden.start > 0
    for time in range(possible.hidden.horizon):
        result[time + 1] = np.logical_or.reduce(_pushed(result[time][None], possible, time))[0]
    return result


def _count(chain: Chain) -> TreeSize:
    hidden = chain.hidden
    values, split, horizon = hidden.label.shape[1], hidden.split_time, hidden.horizon
    possible = structure(chain)
    ahead, exact = _prefix_layers(possible)
    behind = _suffix_layers(possible)
    # Messages of either side at each time; a side that has passed the secret's time has one for each of its values.
    before = {time: count * (values if time > split else 1) for time, count in enumerate(ahead)}
    after = {horizon - back: count * (values if horizon - back <= split else 1) for back, count in enumerate(behind)}
    cost = {
        meet: sum(n for time, n in before.items() if time <= meet) + sum(n for time, n in after.items() if time >= meet)
        for meet in before.keys() & after.keys()
    }
    if not cost:  # both sides were given up before they met: far too large
        return TreeSize(ahead[-1], False, split, "prefixes", np.inf, np.inf)
    meet = min(cost, key=lambda time: (cost[time], time))
    # Keep the lifted side: then the values of the secret lie side by side in the product and need not be moved. Where
    # that side is too large to keep, keep the smaller one.
    kept = "suffixes" if meet <= split else "prefixes"
    rows = {"prefixes": before[meet], "suffixes": after[meet]}
    if 8 * hidden.num_states * rows[kept] > _LARGE_BYTES:
        kept = min(rows, key=lambda side: rows[side])
    outer = "suffixes" if kept == "prefixes" else "prefixes"
    return TreeSize(ahead[-1], exact, meet, outer, rows=cost[meet], kept_rows=rows[kept])


def naive_bound(chain: Chain) -> float:
    """`F · E^T`: never fewer than the sequences that are possible."""
    hidden = chain.hidden
    with np.errstate(over="ignore"):
        return float(num_columns(hidden.first) * np.float64(hidden.num_events) ** hidden.horizon)


@dataclass(frozen=True, eq=False)
class _Layer:
    """Sets of possible states, `(n, N)` of bool, and how many histories lead to each."""

    sets: np.ndarray
    counts: np.ndarray

    @property
    def total(self) -> float:
        return float(self.counts.sum())

    @property
    def is_enough(self) -> bool:
        """Whether counting on would cost more than it tells."""
        return self.total > _ENOUGH or len(self.sets) > _MOST_SETS

    def united(self) -> "_Layer":
        """Equal sets counted together."""
        packed = np.packbits(self.sets, axis=1)
        _, index, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        return _Layer(self.sets[index], np.bincount(inverse.ravel(), weights=self.counts, minlength=len(index)))


def _prefix_layers(chain: Chain) -> tuple[list[float], bool]:
    """How many histories there are at times 0, 1, …, and whether the last of these is the horizon."""
    hidden = chain.hidden
    start = (hidden.root > 0).T
    start = start[start.any(axis=1)]
    layer = _Layer(start, np.ones(len(start))).united()
    totals = [layer.total]
    if hidden.horizon == 0 and hidden.reveals_last:
        return [float(layer.counts @ layer.sets.sum(axis=1))], True
    for time in range(hidden.horizon):
        before, layer = layer, _forward(layer, chain, time)
        totals.append(layer.total)
        if time + 1 < hidden.horizon and layer.is_enough:
            return totals, False
        if time + 1 == hidden.horizon and hidden.reveals_last:
            # Each history counts once for each state that it may end in; with one channel that state says it all.
            told = _pushed(before.sets, chain, time)[0] if len(hidden.channels) == 1 else layer.sets
            counts = before.counts if len(hidden.channels) == 1 else layer.counts
            totals[-1] = float(counts @ told.sum(axis=1))
    return totals, True


def _suffix_layers(chain: Chain) -> list[float]:
    """How many continuations there are from times T, T-1, …"""
    hidden = chain.hidden
    met = reachable(chain)
    last = met[hidden.horizon]
    sets = np.eye(hidden.num_states, dtype=bool)[last] if hidden.reveals_last else last[None]
    layer = _Layer(sets, np.ones(len(sets)))
    totals = [layer.total]
    for time in range(hidden.horizon - 1, -1, -1):
        layer = _backward(layer, chain, time, met[time])
        totals.append(layer.total)
        if layer.is_enough:
            break
    return totals


def _positive(matrix: np.ndarray | sp.csr_array) -> np.ndarray | sp.csr_array:
    if isinstance(matrix, np.ndarray):
        return (matrix > 0).astype(np.float32)
    return sp.csr_array(((matrix.data > 0).astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def _pushed(sets: np.ndarray, chain: Chain, time: int) -> list[np.ndarray]:
    """The sets one step on, for each channel, before anything is emitted."""
    counts = sets.astype(np.float32)
    return [(counts @ _positive(matrix)) > 0 for matrix in chain.matrices(time)]


def _forward(layer: _Layer, chain: Chain, time: int) -> _Layer:
    ahead, channels = _pushed(layer.sets, chain, time), chain.hidden.channels
    return _children(
        layer,
        [
            [rows & (channel.emission[:, event] > 0) for rows, channel in zip(ahead, channels, strict=True)]
            for event in range(chain.hidden.num_events)
        ],
    )


def _backward(layer: _Layer, chain: Chain, time: int, met: np.ndarray) -> _Layer:
    positive = [_positive(matrix) for matrix in chain.matrices(time)]
    children = []
    for event in range(chain.hidden.num_events):
        rows = []
        for matrix, channel in zip(positive, chain.hidden.channels, strict=True):
            emitting = (layer.sets & (channel.emission[:, event] > 0)).astype(np.float32)
            rows.append(((emitting @ matrix.T) > 0) & met)
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
