"""The game against several observers who do not share what they see: the largest least of what they lack.

The agent acts on the hidden state and the histories of all observers: the tree of the observer who shares all of them. What
observer j holds at the end, its record, is a function of that history. For weights `w_j ≥ 0` the sum `Σ_j w_j H(Z_j|Y_j)` is a
game on this tree, whose rule has a row for each record of each observer; `rounds.py` finds the weights. Where the secrets
differ, that of the tree is their tuple, of which each Z_j is a function.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import Clock
from ..common.errors import InfeasibleError, InputError
from ..common.logs import conditional_entropy_bits
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.apart import View, apart, joinable
from ..problem.observer import NO_CLOCK
from ..problem.pairs import OWN, find_pair
from ..problem.problem import Problem
from .ascent import GameResult, PairRule, made_pairs
from .pairs import DEFAULT_MEMORY, FullHistory, Pairs
from .responses import Task
from .rounds import Rounds
from .rule_tables import ValueTable


@dataclass(frozen=True, eq=False)
class Records:
    """What one observer holds of each history of all observers.

    **Attributes:** `first`, `following`: its own tree, as in `PublicGraph`; `view`: what it sees and asks; `gathered`
    `(records · W, nodes · Z)`: which nodes of the last layer, with a value of the joint secret, leave it each record, with a
    value of its own, W being the same for all observers; `count` of the records.
    """

    first: Int[np.ndarray, " F"]
    following: tuple[Int[np.ndarray, "n E"], ...]
    view: View
    gathered: sp.csr_array
    count: int

    def __len__(self) -> int:
        return self.count


class RecordTable(ValueTable):
    """A rule over the values of each secret with a row for each record of each observer, of which each has a weight."""

    by_node = False

    def __init__(self, pairs: Pairs, records: Sequence[Records], weights: Sequence[float], width: int):
        super().__init__(pairs)
        gathered = sp.csr_array(
            sp.vstack([weight * one.gathered for weight, one in zip(weights, records, strict=True)])
        )
        self._gathered, self._records = sp.csr_array(gathered[:, pairs.leaf]), records
        self._shape = sum(map(len, records)), width
        self.reachable = self.joint([np.ones(len(pairs.leaf))], None) > 0

    def everywhere(self, row: Float[np.ndarray, " Z"]) -> Float[np.ndarray, "r W"]:
        """The rule of observers who hold the values of the joint secret for as likely as this, whatever they have seen."""
        rows = [np.bincount(one.view.value, row, self._shape[1]) for one in self._records]
        return np.repeat(rows, [len(one) for one in self._records], axis=0)

    def joint(self, masses: Sequence[np.ndarray], arrived: object) -> Float[np.ndarray, "r W"]:
        """`w_j P(Y_j = y, Z_j = z)` from the masses of the last pairs."""
        return (self._gathered @ masses[-1]).reshape(self._shape)

    def at(self, costs: Float[np.ndarray, "r W"], time: int) -> Float[np.ndarray, " n"] | None:
        """The weighted sum of the costs of all records, read at each pair of the last layer."""
        return self._gathered.T @ costs.ravel() if time == self._pairs.hidden.horizon else None


class RecordBits:
    """What each observer lacks: those of the pairs that are hidden come first, then those that must keep bits."""

    def __init__(self, pairs: Pairs, records: list[Records], kept: Float[np.ndarray, " K"]):
        self.pairs, self.records, self.kept, self.num_hidden = pairs, records, kept, len(records) - len(kept)
        self.width = max(one.view.num_values for one in records)

    def bits(self, joint: Float[np.ndarray, "n Z"]) -> Float[np.ndarray, " J"]:
        """`H(Z_j|Y_j)` of each."""
        found = [(one.gathered @ joint.ravel()).reshape(len(one), self.width) for one in self.records]
        return np.array(list(map(conditional_entropy_bits, found)))

    def table(self, weights: Float[np.ndarray, " J"]) -> RecordTable:
        """A row for each record of each observer with a weight."""
        used = np.flatnonzero(weights).tolist()
        return RecordTable(self.pairs, [self.records[one] for one in used], weights[used].tolist(), self.width)


@one_blas_thread
def solve_records_game(
    problem: Problem,
    hide: tuple[str, ...],
    *,
    threshold: float | None = None,
    gap: float = 1e-3,
    iterations: int = 10_000,
    memory_bytes: int = DEFAULT_MEMORY,
    task: Task = (),
    clock: Clock | None = None,
) -> GameResult:
    """`max_π min_j H(Z_j|Y_j)` over the pairs of these names, under all constraints, between two bounds.

    Pairs with a belief, or with a secret that does not go with that of the first (`joinable`), are left out, and so are upper
    bounds of pairs: the upper bound holds all the same.

    **Arguments:** `hide`; `threshold`: δ, that of the problem by default; `gap`: the search ends where the bounds are this
    close, or where the `clock` says so; `task`: factors of quantities whose sum is added to the least.

    **Returns:** the game whose rules prove the bound, the weights of pairs that must keep bits being their prices, with the
    best policy, which acts on what the observers of all pairs see; `lower` is -inf where no policy was found that keeps them.

    Cost: a game on the tree of the histories of all observers together for each round, about ten for two pairs.

    **Raises:** `InputError` where the observers cannot be put together (`apart`); `TooLargeError`; `InfeasibleError`.
    """
    clock = clock or Clock()
    least = {one.name: one.min for one in problem.pairs if one.min and one.name not in hide}
    names = joinable(problem, (*hide, *least))
    for name in names:
        if problem.channel(name).observer.untimed:
            raise InputError(f"pair {name!r}", [NO_CLOCK])
    together = apart(problem, names)
    pairs = made_pairs(together.joint, FullHistory(), memory_bytes, clock)
    width = max(view.num_values for view in together.views)
    records = [records_of(pairs, view, width) for view in together.views]
    kept = np.array([find_pair(name, problem.pairs).min for name in names if name in least], dtype=float)
    threshold = threshold_of(together.joint) if threshold is None else threshold
    rounds = Rounds(together.joint, pairs, RecordBits(pairs, records, kept), threshold, gap, task)
    stopped = rounds.run(iterations, clock)
    if rounds.unreachable:
        wanted = " and ".join(f"{least[name]:.6g} in {name!r}" for name in names if name in least)
        raise InfeasibleError(f"no policy that meets the constraints keeps {wanted} bits: lower the min of a pair")
    game, rules = rounds.result(stopped, clock.spent), list[PairRule]()
    used = [
        (name, weight, one) for name, weight, one in zip(names, rounds.proving.tolist(), records, strict=True) if weight
    ]
    ends = np.cumsum([len(one) for _, _, one in used])
    for (name, weight, one), costs in zip(used, np.split(game.costs, ends[:-1]), strict=True):
        possible = RecordTable(pairs, [one], [1.0], width).reachable
        excluded = np.where(possible, costs, np.inf)[:, : one.view.num_values]
        rules.append(PairRule(name, weight, one.first, one.following, excluded))
    views = {} if names == (OWN,) else dict(zip(names, together.views, strict=True))
    return replace(
        game,
        lower=rounds.lower,
        rules=tuple(rules),
        views=views,
        executable=together.executable,
    )


def records_of(pairs: Pairs, view: View, width: int) -> Records:
    """The records of one observer at the histories of all, from what it sees of each event and what its secret is.

    Histories are numbered in the order of (history before, event), as `FullHistory` numbers them. **Arguments:** `width`: the
    most values of a secret of these observers.
    """
    graph, tables = pairs.graph, list[np.ndarray]()
    first, record = _numbered(view.first[graph.first >= 0], view.num_first)
    count = int(first.max()) + 1
    for table in graph.following:
        node, event = np.nonzero(table >= 0)
        keys = record[node] * view.num_events + view.event[event]
        own, record = _numbered(keys, count * view.num_events)
        tables.append(own.reshape(count, view.num_events))
        count = int(own.max()) + 1
    rows = (record[:, None] * width + view.value).ravel()
    gathered = sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(count * width, len(rows)))
    return Records(first, tuple(tables), view, gathered, count)


def _numbered(keys: Int[np.ndarray, " n"], size: int) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " n"]]:
    """A table from each possible key to its number among those that occur, -1 for others, and the number of each key."""
    found, number = np.unique(keys, return_inverse=True)
    table = np.full(size, -1, dtype=np.int32)
    table[found] = np.arange(len(found))
    return table, number.ravel()
