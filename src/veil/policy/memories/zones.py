"""Memory of the zones that were visited."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Self, cast

import numpy as np

from ...common.checks import Defects, as_tuple
from ...problem.keys import Key, States
from ...problem.problem import Problem
from ...problem.registers import Numbers, Register
from .memory import Memory, clock_key, is_whole

State = str | int

_MOST_ZONES = 60  # one bit each, within the 62 bits that a memory may take


@dataclass(frozen=True)
class ZoneMemory(Memory):
    """Which of some zones have been visited, the start and the present state included.

    **Arguments:** `zones`: a list of zones, each a state or a collection of states, by name or index; they may overlap.
    `clock`, whether the table also depends on the time.
    """

    kind = "zones"
    keys = (
        Key("zones", list[States], "Which of these sets of states were visited.", most=_MOST_ZONES),
        clock_key(True),
    )

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
            elif not all(isinstance(member, str) or is_whole(member) for member in zone):
                defects.add(f"zone {number} is {zone!r}, expected names or indices of states")
        if not 1 <= len(zones) <= _MOST_ZONES:
            defects.add(f"{len(zones)} zones are given, expected from 1 to {_MOST_ZONES}")
        self.check_clock(defects)
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
        super().resolve(problem)
        states = problem.model.states
        found = [
            [states.find_or_note(member, f"zone {number}", defects) for member in zone]
            for number, zone in enumerate(self.members)
        ]
        defects.raise_if_any()
        return type(self)([[state for state in zone if state is not None] for zone in found], self.clock)

    def register(self, problem: Problem) -> "_ZoneRegister":
        """A bit for each zone."""
        return _ZoneRegister(problem.num_states, self.members)


class _ZoneRegister(Register):
    """`ZoneMemory` of a problem: a bit for each zone."""

    def __init__(self, num_states: int, zones: tuple[tuple[State, ...], ...]):
        self.size, self.zones = 2 ** len(zones), zones
        self._bits = np.zeros(num_states, dtype=np.int64)
        for number, zone in enumerate(zones):
            self._bits[np.array(zone, dtype=np.int64)] |= 1 << number

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        return self._bits[state]

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        return memory | self._bits[reached]

    def name(self, memory: int) -> str:
        visited = [str(number) for number in range(len(self.zones)) if memory >> number & 1]
        return f"visited zone {', '.join(visited)}" if visited else "no zone visited"

    def coarser(self, memory: Numbers, smaller: Register) -> Numbers | None:
        if not isinstance(smaller, _ZoneRegister) or not set(smaller.zones) <= set(self.zones):
            return None
        bits = [(memory >> self.zones.index(zone) & 1) << number for number, zone in enumerate(smaller.zones)]
        return np.sum(bits, axis=0)


def _in_order(zone: tuple[State, ...]) -> tuple[State, ...]:
    """The members once each: indices first, then names."""
    members = {member if isinstance(member, str) else int(member) for member in zone}
    return tuple(sorted(members, key=lambda member: (isinstance(member, str), member)))
