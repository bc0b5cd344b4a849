"""What every kind of memory offers: its fields, its keys in scenario files, its words, and its register in a problem."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ...common.checks import Defects
from ...common.values import Value
from ...problem.keys import Key
from ...problem.problem import Problem
from ...problem.registers import Register


class Memory(Value, ABC):
    """What the agent remembers beside its state: the base of every kind of memory, of veil and of other packages.

    A kind is one frozen dataclass and one line in a registry: `policy/memories/registry.py`, or the entry points
    `veil.memories` of another package. One of its fields is `clock`: whether the policy's table also depends on the time.

    **Class attributes:** `kind`, its name in files and on the command line; `keys` of its `[solve.memory]` table: the first
    has the name of the kind and is the first argument of the class, the others are arguments by name. `needs_observations`:
    whether it depends on what the observer receives, so that the agent must see that too. The first paragraph of the
    docstring opens its section in the reference. `needs_states`: whether it depends on the states, so that the agent must see
    them.
    """

    kind: ClassVar[str]
    keys: ClassVar[tuple[Key, ...]]
    needs_observations: ClassVar[bool] = False
    needs_states: ClassVar[bool] = True
    clock: bool

    @property
    @abstractmethod
    def name(self) -> str:
        """What is remembered, in words."""

    @abstractmethod
    def register(self, problem: Problem) -> Register:
        """The memory, resolved for the problem, as numbers; raises `TooLargeError` if they pass 62 bits."""

    def describe(self) -> str:
        """What is remembered, and whether the table depends on the time."""
        return f"{self.name}, {'time-dependent' if self.clock else 'the same at all times'}"

    def resolve(self, problem: Problem) -> Self:
        """The same memory with the indices of a problem; raises `InputError` if the problem does not allow it."""
        defects = Defects(type(self).__name__)
        if self.needs_observations and problem.agent.sees is None:
            defects.add(
                f"the agent of {problem.name!r} does not see the observations: use StateMemory(k), which remembers its"
                " own past, or Problem(..., agent_sees='state+observations') if it does see them"
            )
        if self.needs_states and not problem.agent.sees_state:
            defects.add(
                f"the agent of {problem.name!r} does not see its state, which this memory depends on: use"
                " ObservationMemory(k), which remembers its readings, or a Controller"
            )
        defects.raise_if_any()
        return self

    def span(self, problem: Problem) -> int | None:
        """For how many steps the memory is kept: the horizon, or None if the policy acts over an infinite horizon."""
        return None if problem.return_over == "infinite" and not self.clock else problem.horizon

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """The memory of a `[solve.memory]` table, whose states are indices."""
        make: Any = cls  # a dataclass, whose first field is the number or set that its kind names
        return make(table[cls.kind], **{key: value for key, value in table.items() if key != cls.kind})

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The arguments of the class."""
        declared: Any = cls
        return tuple(field.name for field in fields(declared))

    def content(self) -> dict[str, object]:
        """The kind and the fields, as policy files and results hold them."""
        return {"kind": self.kind} | self._arguments()

    def check_clock(self, defects: Defects) -> None:
        """Note a `clock` that is not a truth value."""
        if not isinstance(self.clock, (bool, np.bool_)):
            defects.add(f"clock is {self.clock!r}, expected True or False")
        object.__setattr__(self, "clock", bool(self.clock))

    def check_number(self, field: str, most: int | None = None) -> None:
        """Raise `InputError` unless a field is a whole number, 1 or more, and `clock` a truth value."""
        defects = Defects(type(self).__name__)
        value = getattr(self, field)
        if not is_whole(value) or value < 1 or (most is not None and value > most):
            upper = "1 or more" if most is None else f"from 1 to {most:,}"
            defects.add(f"{field} is {value!r}, expected a whole number, {upper}")
        self.check_clock(defects)
        defects.raise_if_any()
        object.__setattr__(self, field, int(value))


def clock_key(default: bool) -> Key:
    """The key `clock` of a memory."""
    return Key("clock", bool, "Whether the policy also depends on the time.", default)


PolicyMemory = Literal["markov", "timed", "history"] | Memory


def choices() -> str:
    """The memories of veil, as a message names them."""
    from .registry import MEMORIES

    known = [MEMORIES.get(kind) for kind in MEMORIES.builtin]
    return ", ".join(f"veil.{one.__name__}({one.field_names()[0]})" for one in known)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, and no truth value."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def several(number: int, noun: str) -> str:
    """A number of things in words."""
    return f"{number} {noun}{'s' * (number != 1)}"
