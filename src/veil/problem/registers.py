"""Registers: finite memories that follow a run, and several of them as one."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from ..common.errors import TooLargeError
from ..common.values import Value

_MOST_PLACES = 2**24  # pairs of a value of the product and a state: a table of 128 MiB


LARGEST = 2**62  # values of registers, and codes of hidden states, are kept in 64 bits

Numbers = Int[np.ndarray, " n"]


class Register(ABC):
    """What is remembered of a run, as one of the numbers 0 … `size` - 1. Its methods work on many runs at once.

    The memory of a secret, the automaton of a formula, the time, the newest event and what the agent remembers are registers;
    the hidden state of a chain is the model that runs, the values of all registers, and the state.

    **Attributes:** `size`, at most 2^62; `nodes`: if above 1, the agent chooses its next memory itself, together with the
    action, among that many; `reads_events`: whether it depends on what the observer receives.
    """

    size: int
    nodes: int = 1
    reads_events: bool = False

    @abstractmethod
    def start(self, state: Numbers, event: Numbers) -> Numbers:
        """The memory at time 0, in `state`, after a first event; -1 if no event comes then."""

    @abstractmethod
    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """The memory after the step from `state` to `reached`, which showed `event`; 0 if the agent chooses it."""

    def choices(self, memory: Numbers) -> Bool[np.ndarray, "n nodes"]:
        """Among which next memories the agent may choose if this one holds `memory`; every one of its nodes by default."""
        return np.ones((len(memory), self.nodes), dtype=bool)

    @abstractmethod
    def name(self, memory: int) -> str:
        """One memory in words."""

    def coarser(self, memory: Numbers, smaller: "Register") -> Numbers | None:
        """What a smaller memory of the same kind holds if this one holds `memory`; None if that is not determined."""
        return None


@dataclass(frozen=True, eq=False, repr=False)
class TableRegister(Value, Register):
    """A register that follows the states alone: `begins[s_0]` at time 0, then `follows[m, s']` on entering `s'`.

    `names` are for people: two registers are the same if their numbers are.
    """

    begins: Int[np.ndarray, " S"]
    follows: Int[np.ndarray, "M S"]
    names: tuple[str, ...]

    @classmethod
    def empty(cls, num_states: int) -> "TableRegister":
        """The register that remembers nothing."""
        return cls(np.zeros(num_states, dtype=int), np.zeros((1, num_states), dtype=int), ("",))

    @property
    def size(self) -> int:  # type: ignore[override]
        """M, how many values it has."""
        return len(self.follows)

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return self.begins[state]

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return self.follows[memory, reached]

    def name(self, memory: int) -> str:
        """See `Register`."""
        return self.names[memory]

    def at(self, state: Int[np.ndarray, " N"]) -> "TableRegister":
        """The same register over larger states, of which each shows as one of the states here."""
        return TableRegister(self.begins[state], self.follows[:, state], self.names)

    def equals(self, other: "TableRegister") -> bool:
        """Whether both hold the same value on every run."""
        return self is other or (
            np.array_equal(self.begins, other.begins) and np.array_equal(self.follows, other.follows)
        )


def product(
    parts: Sequence[TableRegister], most: int | None = None
) -> tuple[TableRegister, list[Int[np.ndarray, " M"]]]:
    """Several registers as one, whose value is the tuple of theirs; and the value of each part at each of its values.

    Of one register it is that register. Of several, only tuples that some sequence of states reaches are kept.

    **Arguments:** `most`: values of the product; as many as a table of 2^24 places holds by default.

    **Raises:** `TooLargeError` if they need too large a table.
    """
    if len(parts) == 1:
        return parts[0], [np.arange(parts[0].size)]
    numbers: dict[tuple[int, ...], int] = {}
    most = _MOST_PLACES // len(parts[0].begins) if most is None else most
    kinds, start = np.unique(np.stack([one.begins for one in parts], axis=1), axis=0, return_inverse=True)
    for kind in kinds.tolist():
        numbers[tuple(kind)] = len(numbers)
    found, step = list(numbers), []
    for values in found:  # grows while it is read
        after, inverse = np.unique(
            np.stack([one.follows[value] for one, value in zip(parts, values, strict=True)], axis=1),
            axis=0,
            return_inverse=True,
        )
        row = []
        for kind in map(tuple, after.tolist()):
            if kind not in numbers:
                numbers[kind] = len(found)
                found.append(kind)
            row.append(numbers[kind])
        step.append(np.array(row)[inverse.ravel()])
        if len(found) > most:
            raise TooLargeError(f"{len(found):,} states or more need too large a table")
    places = np.array(found)
    names = tuple(
        "/".join(filter(None, (str(one.names[value]) for one, value in zip(parts, values, strict=True))))
        for values in found
    )
    return TableRegister(start.ravel(), np.array(step), names), list(places.T)


@dataclass(frozen=True)
class TimeRegister(Register):
    """The time, up to the horizon."""

    horizon: int

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many times there are."""
        return self.horizon + 1

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return np.zeros_like(state)

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return np.minimum(memory + 1, self.horizon)

    def name(self, memory: int) -> str:
        """See `Register`."""
        return f"time {memory}"


@dataclass(frozen=True)
class NewestEvent(Register):
    """The newest event, `event + 1`; 0 if there is none yet, and for a first event that no later one can be."""

    num_events: int
    first_is_other: bool
    reads_events = True

    @property
    def size(self) -> int:  # type: ignore[override]
        """The events, and none."""
        return self.num_events + 1

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return np.zeros_like(state) if self.first_is_other else event + 1

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return event + 1

    def name(self, memory: int) -> str:
        """See `Register`."""
        return f"event {memory - 1}" if memory else "no event"
