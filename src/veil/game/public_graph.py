"""What the observer remembers, as a graph in layers, and the memories that such graphs are built for.

The observer's memory at time t is a node; an event leads from a node of layer t to a node of layer t + 1. Where no two
histories lead to the same node the graph is the observation tree and the observer remembers all; otherwise it is an
automaton, which may change with time.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Int

from ..common.numbering import number_true
from ..engine.hidden import Hidden
from ..engine.string_walk import Numbers
from ..engine.written import Written, need_clock


@dataclass(frozen=True, eq=False)
class PublicGraph:
    """The observer's memory: `first[e]` is the node after the first event, `following[t][node, e]` that after the next.

    -1 marks what no policy makes possible. `sizes[t]` is the number of nodes of layer t = 0 … T. `is_tree`: no two
    histories share a node. `kind` names the memory in words. `told_at`: at this time the observer is told the hidden state,
    and `told[node, x]` is its node from then on; `following` and `sizes` are those after the telling.
    """

    first: Int[np.ndarray, " F"]
    following: tuple[Int[np.ndarray, "n E"], ...]
    sizes: tuple[int, ...]
    is_tree: bool
    kind: str
    told_at: int | None = None
    told: Int[np.ndarray, "m N"] | None = None


class ObserverMemory(Protocol):
    """How the graph of a memory is built: given which events are possible, it says where they lead, layer by layer."""

    kind: str
    is_tree: bool

    def begin(self, possible: Bool[np.ndarray, " F"]) -> Int[np.ndarray, " F"]:
        """Nodes of layer 0 after each first event, numbered from 0 without gaps; -1 where it is not possible."""
        ...

    def step(self, time: int, possible: Bool[np.ndarray, "n E"]) -> Int[np.ndarray, "n E"]:
        """Nodes of layer `time + 1` after each event in each node of layer `time`."""
        ...


class TailEvents:
    """The observer forgets everything up to the event of time `begin`, and remembers all that comes after it."""

    is_tree = False

    def __init__(self, begin: int):
        self.kind = f"the events after time {begin}"
        self._begin = begin

    def begin(self, possible: np.ndarray) -> np.ndarray:
        """See `ObserverMemory`."""
        return self.step(-1, possible)

    def step(self, time: int, possible: np.ndarray) -> np.ndarray:
        """See `ObserverMemory`."""
        return np.where(possible, 0, -1).astype(np.int32) if time < self._begin else number_true(possible)


class FullHistory(TailEvents):
    """The observer remembers everything: the observation tree."""

    is_tree = True

    def __init__(self) -> None:
        super().__init__(-1)
        self.kind = "the whole history"


class _Held(ABC):
    """A memory that follows from the one before and the event; `_held` is that of each node of the newest layer."""

    is_tree = False
    _held: Int[np.ndarray, "n *k"]

    def _number(self, time: int, possible: np.ndarray, held: np.ndarray) -> np.ndarray:
        node, event = np.nonzero(possible)
        self._held, number = np.unique(self._longer(time, held[node], event), axis=0, return_inverse=True)
        following = np.full(possible.shape, -1, dtype=np.int32)
        following[node, event] = number.ravel()
        return following

    @abstractmethod
    def _longer(self, time: int, held: np.ndarray, event: np.ndarray) -> np.ndarray:
        """What is held after the events that lead to a time."""

    def step(self, time: int, possible: np.ndarray) -> np.ndarray:
        """See `ObserverMemory`."""
        return self._number(time + 1, possible, self._held)


class LastEvents(_Held):
    """The observer remembers the time and the last `length` events; with length 0 only the time."""

    def __init__(self, length: int):
        assert length >= 0
        self.length = length
        self.kind = f"the last {length} events" if length != 1 else "the last event"

    def begin(self, possible: np.ndarray) -> np.ndarray:
        """See `ObserverMemory`."""
        return self._number(0, possible[None], np.zeros((1, 0), dtype=np.int32))[0]

    def _longer(self, time: int, held: np.ndarray, event: np.ndarray) -> np.ndarray:
        longer = np.column_stack([held, event]).astype(np.int32)
        return longer[:, max(0, longer.shape[1] - self.length) :]


class WrittenString(_Held):
    """The observer has no clock: it remembers the string of the events that are not silent, all of what it holds."""

    kind = "the string of all events that are not silent"

    def __init__(self, written: Written):
        self._written, self._numbers = written, Numbers(written.num_letters)

    def begin(self, possible: np.ndarray) -> np.ndarray:
        """See `ObserverMemory`."""
        return self._number(0, possible[None], np.zeros(1, dtype=np.int64))[0]

    def _longer(self, time: int, held: np.ndarray, event: np.ndarray) -> np.ndarray:
        letter = (self._written.letter if time else self._written.first_letter)[event]
        loud = np.flatnonzero(letter >= 0)
        held[loud] = self._numbers.extended(held[loud], letter[loud])
        return held


class GivenGraph:
    """The memory of a graph that was made before; parts of it that no policy reaches are dropped.

    `kept[t]`: the nodes of layer t that are left, in the order of their new numbers, once the pairs of this memory are made.
    """

    def __init__(self, graph: PublicGraph):
        self.kind, self.is_tree, self.graph = graph.kind, graph.is_tree, graph
        self.kept: list[Int[np.ndarray, " n"]] = []

    def begin(self, possible: np.ndarray) -> np.ndarray:
        """See `ObserverMemory`."""
        self.kept = []
        return self._renumber(np.where(possible, self.graph.first, -1), self.graph.sizes[0])

    def step(self, time: int, possible: np.ndarray) -> np.ndarray:
        """See `ObserverMemory`."""
        table = self.graph.following[time][self.kept[time]]
        return self._renumber(np.where(possible, table, -1), self.graph.sizes[time + 1])

    def _renumber(self, table: np.ndarray, size: int) -> np.ndarray:
        used = np.zeros(size, dtype=bool)
        used[table[table >= 0]] = True
        self.kept.append(np.flatnonzero(used))
        return np.where(table >= 0, number_true(used)[table], -1).astype(np.int32)


def whole_memory(hidden: Hidden) -> ObserverMemory:
    """All that the observer of a chain can remember: the whole history, or its string if it has no clock."""
    return FullHistory() if hidden.written is None else WrittenString(hidden.written)


def check_memory(hidden: Hidden, memory: ObserverMemory) -> None:
    """Raise `InputError` if the observer has no clock, and a memory of events needs one."""
    blind = isinstance(memory, LastEvents) and memory.length == 0
    if hidden.path is not None or not (blind or isinstance(memory, WrittenString)):
        need_clock(hidden.written)
