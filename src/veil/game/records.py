"""Who plays a game: the agent on some pairs, and the observer of each channel, who knows its own record of the events.

A game against one observer is played on its memory, which is its record. Against several observers who do not share what they
see, the agent acts on the hidden state and the histories of all of them: the tree of the observer who shares all. What observer
j holds at the end, its record, is a function of that history. For weights `w_j ≥ 0` the sum `Σ_j w_j H(Z_j|Y_j)` is a game
whose rule has a row for each record of each observer; `rounds.py` finds the weights. Where the secrets differ, that of the tree
is their tuple, of which each Z_j is a function.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock
from ..common.errors import InputError
from ..problem.apart import View, apart, joinable
from ..problem.observer import NO_CLOCK
from ..problem.pairs import OWN, find_pair
from ..problem.problem import Problem
from .ascent import ChannelRule, made_pairs
from .pairs import FullHistory, Pairs
from .rule_tables import Entries, Part, RuleTable, rule_table

Memory = tuple[Int[np.ndarray, " F"], tuple[Int[np.ndarray, "n E"], ...]]
"""What an observer remembers: `first` and `following`, as in `PublicGraph`."""


@dataclass(frozen=True, eq=False)
class Players:
    """The agent and the observers of a game.

    **Attributes:** `problem`, whose policies act on `pairs`; `names` of the channels: those that are hidden, then those that
    must keep bits, `kept`; `memories` of their observers; `table`: what their rules are tables of; `executable`: whether an
    agent knows all that their secrets remember; `views`: what the observers see, if they are several.
    """

    problem: Problem
    pairs: Pairs
    names: tuple[str, ...]
    memories: tuple[Memory, ...]
    table: RuleTable
    executable: bool
    kept: Float[np.ndarray, " K"] = field(default_factory=lambda: np.zeros(0))
    views: tuple[View, ...] = ()

    @classmethod
    def single(cls, problem: Problem, pairs: Pairs) -> "Players":
        """The one observer of a problem, with the memory that the pairs have."""
        memory = pairs.graph.first, pairs.graph.following
        return cls(problem, pairs, (OWN,), (memory,), rule_table(pairs), problem.knows_all)

    @property
    def num_hidden(self) -> int:
        """Of how many channels the least is maximised."""
        return len(self.names) - len(self.kept)

    def rules(self, costs: Entries, weights: Sequence[float]) -> tuple[ChannelRule, ...]:
        """The rule of each observer with a weight, from the costs of the weighted table."""
        table = self.table.weighted(weights)
        parts = list(zip(table.parts, table.split(costs), strict=True))
        return tuple(
            ChannelRule(name, weight, *memory, tuple(one for one in parts if one[0].channel == number))
            for number, (name, weight, memory) in enumerate(zip(self.names, weights, self.memories, strict=True))
            if weight
        )


def players_of(problem: Problem, hide: tuple[str, ...], memory_bytes: int, clock: Clock) -> Players:
    """Those of the channels of these names, and of the others that must keep bits, on the histories of all of them together.

    Pairs with a belief, or with a secret that does not go with that of the first (`joinable`), are left out, and so are upper
    bounds of pairs: an upper bound holds all the same.

    **Raises:** `InputError` where the observers cannot be put together (`apart`); `TooLargeError`.
    """
    least = {one.name: one.min for one in problem.pairs if one.min and one.name not in hide}
    names = joinable(problem, (*hide, *least))
    for name in names:
        if problem.channel(name).observer.untimed:
            raise InputError(f"pair {name!r}", [NO_CLOCK])
    together = apart(problem, names)
    pairs = made_pairs(together.joint, FullHistory(), memory_bytes, clock)
    memories, parts = list[Memory](), list[Part]()
    for number, view in enumerate(together.views):
        memory, record = records_of(pairs, view)
        keys = record[pairs.layers[-1].node] * np.int64(view.num_values) + view.value[pairs.layers[-1].z]
        memories.append(memory)
        parts.append(Part.of(pairs.hidden.horizon, keys, view.num_values, channel=number))
    kept = np.array([find_pair(name, problem.pairs).min for name in names if name in least], dtype=float)
    table, views = RuleTable(parts), () if names == (OWN,) else together.views
    return Players(together.joint, pairs, names, tuple(memories), table, together.executable, kept, views)


def records_of(pairs: Pairs, view: View) -> tuple[Memory, Int[np.ndarray, " n"]]:
    """The memory of one observer on the histories of all, and its record at each of the last ones.

    Histories are numbered in the order of (history before, event), as `FullHistory` numbers them.
    """
    graph, tables = pairs.graph, list[np.ndarray]()
    first, record = _numbered(view.first[graph.first >= 0], view.num_first)
    for table in graph.following:
        count, (node, event) = int(record.max()) + 1, np.nonzero(table >= 0)
        own, record = _numbered(record[node] * view.num_events + view.event[event], count * view.num_events)
        tables.append(own.reshape(count, view.num_events))
    return (first, tuple(tables)), record


def _numbered(keys: Int[np.ndarray, " n"], size: int) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " n"]]:
    """A table from each possible key to its number among those that occur, -1 for others, and the number of each key."""
    found, number = np.unique(keys, return_inverse=True)
    table = np.full(size, -1, dtype=np.int32)
    table[found] = np.arange(len(found))
    return table, number.ravel()
