"""Memories of the last few letters of a sequence, of states or of observations, and the register that holds them."""

from dataclasses import dataclass
from typing import ClassVar

from ...common.errors import TooLargeError
from ...problem.registers import LARGEST, Numbers, Register
from .memory import Memory, several


@dataclass(frozen=True)
class WindowMemory(Memory):
    """The last k letters; `letter`: what one of them is, in words."""

    letter: ClassVar[str]

    k: int = 1
    clock: bool = True

    def __post_init__(self) -> None:
        self.check_number("k")

    @property
    def name(self) -> str:
        """What is remembered, in words."""
        return f"memory of the last {self.letter if self.k == 1 else several(self.k, self.letter)}"


class Window(Register):
    """The last few letters as digits, the newest last; digit 0 is no letter yet.

    **Arguments:** `num_letters`; `length`: how many are kept; `asked`: how many were asked for, of which a short run shows
    fewer; `what`: the words of an error message.

    **Raises:** `TooLargeError` beyond 62 bits.
    """

    def __init__(self, num_letters: int, length: int, asked: int, what: str):
        self.base, self.size, self.asked = num_letters + 1, 1, asked
        for _ in range(length):
            self.size *= self.base
            if self.size > LARGEST:
                raise TooLargeError(
                    f"{what} has more than 2^62 values ({num_letters} kinds in a window of {length}): remember fewer"
                )

    def push(self, memory: Numbers, letter: Numbers) -> Numbers:
        """The window after one more letter."""
        return (memory % (self.size // self.base)) * self.base + letter + 1

    def letters(self, memory: int) -> list[int]:
        """The letters, oldest first."""
        found = []
        while memory:
            memory, digit = divmod(memory, self.base)
            found.append(digit - 1)
        return found[::-1]

    def coarser(self, memory: Numbers, smaller: Register) -> Numbers | None:
        """The newest letters."""
        # A window longer than the run is cut to its length, so that sizes can tell what `asked` does not.
        if not isinstance(smaller, type(self)) or (smaller.asked > self.asked and smaller.size > self.size):
            return None
        return memory % smaller.size
