"""The memory `stayed`: for how many steps the agent has been where it is."""

from dataclasses import dataclass

import numpy as np

from veil import Problem
from veil.policy.memories import Key, Memory, Numbers, Register, clock_key


@dataclass(frozen=True)
class Stayed(Memory):
    """For how many steps the agent has been in its state, counted up to a limit."""

    kind = "stayed"
    keys = (
        Key("stayed", int, "Count the steps in the present state up to this many.", least=1, most=1000),
        clock_key(False),
    )

    most: int = 1
    clock: bool = False

    def __post_init__(self) -> None:
        self.check_number("most")

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        return f"memory of up to {self.most} steps in one state"

    def register(self, problem: Problem) -> "Counter":
        """The count."""
        return Counter(self.most)


class Counter(Register):
    """`Stayed` of a problem: the number of steps."""

    def __init__(self, most: int):
        self.size = most + 1

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return np.zeros_like(state)

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return np.where(reached == state, np.minimum(memory + 1, self.size - 1), 0)

    def name(self, memory: int) -> str:
        """See `Register`."""
        return f"here for {memory} steps" + (" or more" if memory == self.size - 1 else "")

    def coarser(self, memory: Numbers, smaller: Register) -> Numbers | None:
        """See `Register`."""
        fits = isinstance(smaller, Counter) and smaller.size <= self.size
        return np.minimum(memory, smaller.size - 1) if fits else None
