"""The kinds of memory that an agent may have beside its state."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, cast

import numpy as np

from ..common.checks import Defects, as_tuple
from ..problem.problem import Problem

State = str | int

_MOST_ZONES = 60  # one bit each, within the 62 bits that a memory may take
_MOST_NODES = 10_000  # beyond, a row of a table has more entries than any problem could use


class _Memory:
    """What all kinds have in common: words for it, and whether the table also depends on the time."""

    clock: bool
    needs_observations: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        raise NotImplementedError

    def describe(self) -> str:
        """What is remembered, and whether the table depends on the time."""
        return f"{self.name}, {'time-dependent' if self.clock else 'the same at all times'}"

    def resolve(self, problem: Problem) -> Self:
        """The same memory with the indices of a problem; raises `InputError` where the problem does not allow it."""
        return self


@dataclass(frozen=True)
class ObservationMemory(_Memory):
    """The last k events that the observer received, the newest included; the agent must see them too.

    **Arguments:** `k` ≥ 1; `clock`, whether the table also depends on the time. An event is an observation, or a pair
    (action, observation) where the observer sees actions. Before k events have come the memory holds what there is.

    **Raises:** `InputError`; also, with a problem, unless `Problem(..., agent_sees_observations=True)`.
    """

    k: int = 1
    clock: bool = True
    needs_observations: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_fields(self, "k")

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        return f"memory of the last {_several(self.k, 'observation')}"

    def resolve(self, problem: Problem) -> Self:
        """The same memory; raises `InputError` where the agent does not see the observations."""
        if not problem.agent_sees_observations:
            defects = Defects("ObservationMemory")
            defects.add(
                f"the agent of {problem.name!r} does not see the observations: use StateMemory(k), which remembers its"
                " own past, or Problem(..., agent_sees_observations=True) if it does see them"
            )
            defects.raise_if_any()
        return self


@dataclass(frozen=True)
class StateMemory(_Memory):
    """The k states before the current one: the agent's own past.

    **Arguments:** `k` ≥ 1; `clock`, whether the table also depends on the time.
    """

    k: int = 1
    clock: bool = True

    def __post_init__(self) -> None:
        _check_fields(self, "k")

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        return f"memory of the last {_several(self.k, 'state')}"


@dataclass(frozen=True)
class ZoneMemory(_Memory):
    """Which of some zones have been visited, the start and the present state included.

    **Arguments:** `zones`: a list of zones, each a state or a collection of states, by name or index; they may overlap.
    `clock`, whether the table also depends on the time.
    """

    zones: Sequence[State | Iterable[State]]
    clock: bool = True

    def __post_init__(self) -> None:
        defects = Defects("ZoneMemory")
        zones = as_tuple(self.zones)
        if not isinstance(zones, tuple) or isinstance(self.zones, (str, bytes, Set)):
            defects.add(f"zones are {self.zones!r}, expected a list of zones, each a collection of states")
            defects.raise_if_any()
        zones = cast(tuple[tuple[State, ...], ...], tuple(map(as_tuple, zones)))  # which is checked next
        for number, zone in enumerate(zones):
            if not isinstance(zone, tuple) or not zone:
                defects.add(f"zone {number} is {zone!r}, expected a state or a collection of states")
            elif not all(_is_state(member) for member in zone):
                defects.add(f"zone {number} is {zone!r}, expected names or indices of states")
        if not 1 <= len(zones) <= _MOST_ZONES:
            defects.add(f"{len(zones)} zones are given, expected from 1 to {_MOST_ZONES}")
        _check_clock(self, defects)
        defects.raise_if_any()
        object.__setattr__(self, "zones", tuple(map(_in_order, zones)))

    @property
    def members(self) -> tuple[tuple[State, ...], ...]:
        """The states of each zone: indices first, then names, each in order and once."""
        return cast(tuple[tuple[State, ...], ...], self.zones)

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        if len(self.zones) == 1:
            return "memory of whether a zone was visited"
        return f"memory of which of {len(self.zones)} zones were visited"

    def resolve(self, problem: Problem) -> Self:
        """The same memory with the states of each zone as sorted indices; raises `InputError` on unknown ones."""
        defects = Defects("ZoneMemory")
        states = problem.model.states
        found = [
            [states.find_or_note(member, f"zone {number}", defects) for member in zone]
            for number, zone in enumerate(self.members)
        ]
        defects.raise_if_any()
        return type(self)([[state for state in zone if state is not None] for zone in found], self.clock)


@dataclass(frozen=True)
class Controller(_Memory):
    """A finite controller: the policy chooses its next node together with the action, hidden from the observer.

    The policy is a distribution over pairs (action, next node), given the node and the row of the problem. It starts in
    node 0.

    **Arguments:** `nodes` ≥ 1; `clock`, whether the table also depends on the time.
    """

    nodes: int = 2
    clock: bool = False

    def __post_init__(self) -> None:
        _check_fields(self, "nodes", most=_MOST_NODES)

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        return f"a controller of {_several(self.nodes, 'node', always=True)}"


Memory = ObservationMemory | StateMemory | ZoneMemory | Controller
PolicyMemory = Literal["markov", "timed", "history"] | Memory
CHOICES = "veil.ObservationMemory(k), veil.StateMemory(k), veil.ZoneMemory(zones), veil.Controller(nodes)"


def _several(number: int, noun: str, *, always: bool = False) -> str:
    return (f"1 {noun}" if always else noun) if number == 1 else f"{number} {noun}s"


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_state(value: object) -> bool:
    return isinstance(value, str) or _is_whole(value)


def _in_order(zone: tuple[State, ...]) -> tuple[State, ...]:
    """The members once each: indices first, then names."""
    members = {member if isinstance(member, str) else int(member) for member in zone}
    return tuple(sorted(members, key=lambda member: (isinstance(member, str), member)))


def _check_clock(memory: "Memory", defects: Defects) -> None:
    if not isinstance(memory.clock, (bool, np.bool_)):
        defects.add(f"clock is {memory.clock!r}, expected True or False")
    object.__setattr__(memory, "clock", bool(memory.clock))


def _check_fields(memory: "Memory", field: str, most: int | None = None) -> None:
    defects = Defects(type(memory).__name__)
    value = getattr(memory, field)
    if not _is_whole(value) or value < 1 or (most is not None and value > most):
        upper = "1 or more" if most is None else f"from 1 to {most:,}"
        defects.add(f"{field} is {value!r}, expected a whole number, {upper}")
    _check_clock(memory, defects)
    defects.raise_if_any()
    object.__setattr__(memory, field, int(value))
