"""How many observation sequences are possible, counted before any work is done, and where best to meet.

What can follow a history depends only on the set of hidden states it leaves possible. Histories with the same set are
counted together, so the count is exact and costs as much as there are different sets, not histories.
"""

from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.errors import TooLargeError
from ..common.memo import memo
from .chain import Chain
from .kernel import num_columns
from .supports import TOO_MANY, CountedSets, Supports
from .written import need_clock

_MOST_SETS = 20_000
_ENOUGH = 1e18
_LARGE_BYTES = 2**26


@dataclass(frozen=True)
class TreeSize:
    """How large a tree is, and the cheapest time for its two sides to meet.

    `num_sequences` is exact where `exact` holds, else a lower bound. `rows` are the messages that an enumeration
    computes on both sides of `meet`; `kept_rows` those of the side that is kept, the other being walked (`outer`). If not
    `complete`, a clock ended the count, and `rows` is a lower bound. `counting_seconds`: the work of the count, by its
    operations.
    """

    num_sequences: float
    exact: bool
    meet: int
    outer: str
    rows: float
    kept_rows: float
    complete: bool = True
    counting_seconds: float = field(default=0.0, compare=False)

    def seconds(self, chain: Chain, *, gradient: bool) -> float:
        """A rough forecast on one ordinary core: products at 5 GFlop/s, memory at 3 GB/s, 6 ns a logarithm."""
        states, values = chain.hidden.num_states, chain.hidden.num_values
        filled = 10.0 if chain.hidden.kernel.is_sparse else 2.0 * states
        row = len(chain.hidden.emitters) * states * filled / 5e9 + states * 8 * 8 / 3e9
        pair = values * (states * 2 / 5e9 + 12e-9)
        return (3.0 if gradient else 1.0) * (self.rows * row + self.num_sequences * pair)

    def text(self) -> str:
        """The number of sequences in words."""
        number = f"{self.num_sequences:,.0f}" if self.num_sequences < 1e15 else f"{self.num_sequences:.3g}"
        return number if self.exact else f"more than {number}"


def tree_size(
    chain: Chain, clock: Clock = UNLIMITED, *, partial: bool = False, most_seconds: float = np.inf
) -> TreeSize:
    """Count the sequences that are possible under the chain's policy, and choose where histories and continuations meet.

    What is possible depends on which actions the policy takes at all; a count is kept for the next policy alike. `clock`
    is checked in every loop. With `partial`, a count that it ends is a lower bound (of sequences and of rows) instead of
    `OutOfTime`.

    **Raises:** `TooLargeError` where the count takes more than `most_seconds` of work, which is counted in operations.
    """
    need_clock(chain.hidden.written)
    taken = np.packbits(chain.table > 0).tobytes()
    ahead: list[float] = []
    supports = Supports(chain, clock, most_seconds)
    try:
        found = memo(chain.hidden, (tree_size, taken, chain.stationary), lambda: _count(supports, ahead))
    except OutOfTime:
        if not partial:
            raise
        exact, rows = len(ahead) == chain.hidden.horizon + 1, float(sum(ahead))
        return TreeSize(
            ahead[-1] if ahead else 1.0, exact, chain.hidden.split_time, "prefixes", rows, rows, complete=False
        )
    if found.counting_seconds > most_seconds:  # counted before, with a larger limit
        raise TooLargeError(TOO_MANY)
    return found


def _count(supports: Supports, ahead: list[float]) -> TreeSize:
    """`ahead`: to which the numbers of histories at times 0, 1, … are added as they are found."""
    hidden = supports.hidden
    values, split, horizon = hidden.num_values, hidden.split_time, hidden.horizon
    exact = _prefix_layers(supports, ahead)
    behind = _suffix_layers(supports)
    # Messages of either side at each time; a side that has passed the secret's time has one for each of its values.
    before = {time: count * (values if time > split else 1) for time, count in enumerate(ahead)}
    after = {horizon - back: count * (values if horizon - back <= split else 1) for back, count in enumerate(behind)}
    until, since = (dict(zip(side, accumulate(side.values()), strict=True)) for side in (before, after))
    cost = {meet: until[meet] + since[meet] for meet in before.keys() & after.keys()}
    if not cost:  # both sides were given up before they met: far too large
        return TreeSize(ahead[-1], False, split, "prefixes", np.inf, np.inf, counting_seconds=supports.seconds)
    meet = min(cost, key=lambda time: (cost[time], time))
    # Keep the lifted side: then the values of the secret lie side by side in the product and need not be moved. Where
    # that side is too large to keep, keep the smaller one.
    kept = "suffixes" if meet <= split else "prefixes"
    rows = {"prefixes": before[meet], "suffixes": after[meet]}
    if 8 * hidden.num_states * rows[kept] > _LARGE_BYTES:
        kept = min(rows, key=lambda side: rows[side])
    outer = "suffixes" if kept == "prefixes" else "prefixes"
    return TreeSize(ahead[-1], exact, meet, outer, cost[meet], rows[kept], counting_seconds=supports.seconds)


def naive_bound(chain: Chain) -> float:
    """`F · E^T`: never fewer than the sequences that are possible."""
    hidden = chain.hidden
    with np.errstate(over="ignore"):
        return float(num_columns(hidden.first) * np.float64(hidden.num_events) ** hidden.horizon)


def _prefix_layers(supports: Supports, totals: list[float]) -> bool:
    """Add how many histories there are at times 0, 1, … to a list; whether the last of these is the horizon."""
    hidden = supports.hidden
    layer = CountedSets.once(supports.first()).united()
    totals.append(layer.total)
    if hidden.horizon == 0 and hidden.reveals_last:
        totals[-1] = float(layer.counts @ layer.sets.sum(axis=1))
        return True
    for time in range(hidden.horizon):
        before, layer = layer, layer.extended(supports.ahead, time)
        totals.append(layer.total)
        if time + 1 < hidden.horizon and _is_enough(layer):
            return False
        if time + 1 == hidden.horizon and hidden.reveals_last:
            # Each history counts once for each state that it may end in; with one emitter that state says it all.
            told = supports.moved(before.sets, time)[0] if len(hidden.emitters) == 1 else layer.sets
            counts = before.counts if len(hidden.emitters) == 1 else layer.counts
            totals[-1] = float(counts @ told.sum(axis=1))
    return True


def _suffix_layers(supports: Supports) -> list[float]:
    """How many continuations there are from times T, T-1, …"""
    hidden = supports.hidden
    layer = CountedSets.once(supports.last())
    totals = [layer.total]
    for time in range(hidden.horizon - 1, -1, -1):
        layer = layer.extended(supports.back, time)
        totals.append(layer.total)
        if _is_enough(layer):
            break
    return totals


def _is_enough(layer: CountedSets) -> bool:
    """Whether counting on would cost more than it tells."""
    return layer.total > _ENOUGH or len(layer.sets) > _MOST_SETS
