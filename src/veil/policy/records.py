"""How each kind of memory is kept as one number, in a given problem."""

from typing import Protocol

import numpy as np
from jaxtyping import Int

from ..common.errors import TooLargeError
from ..problem.problem import Problem
from .memories import Controller, Memory, ObservationMemory, StateMemory, ZoneMemory

# Numbers of pairs (situation, memory) are kept in 64 bits.
LARGEST = 2**62

Numbers = Int[np.ndarray, " n"]


class Record(Protocol):
    """A memory bound to a problem: its values are the numbers below `size`.

    Where `nodes` is above 1 the agent chooses its next memory itself, together with the action, among that many.
    `reads_events` tells whether the memory depends on what the observer receives.
    """

    size: int
    nodes: int
    reads_events: bool

    def first(self, state: Numbers, event: Numbers) -> Numbers:
        """The memory at time 0, in `state`, after a first event; -1 where no event comes then."""
        ...

    def following(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """The memory after the step from `state` to `reached`, which showed `event`; 0 where the agent chooses it."""
        ...

    def text(self, memory: int) -> str:
        """One memory in words."""
        ...


def make_record(problem: Problem, memory: Memory) -> Record:
    """A memory, resolved for the problem, as numbers; raises `TooLargeError` where they pass 64 bits."""
    if isinstance(memory, ObservationMemory):
        return EventRecord(problem, memory)
    if isinstance(memory, StateMemory):
        return _StateRecord(problem, memory)
    return _ZoneRecord(problem, memory) if isinstance(memory, ZoneMemory) else _NodeRecord(memory)


def span(problem: Problem, memory: Memory) -> int | None:
    """For how many steps a memory is kept: the horizon, or without end where the policy acts over an infinite horizon."""
    return None if problem.return_over == "infinite" and not memory.clock else problem.horizon


class _Window:
    """The last few letters as digits, the newest last; digit 0 is no letter yet."""

    nodes = 1

    def __init__(self, num_letters: int, length: int, what: str):
        self.base, self.size = num_letters + 1, 1
        for _ in range(length):
            self.size *= self.base
            if self.size > LARGEST:
                raise TooLargeError(
                    f"{what} has more than 2^62 values ({num_letters} kinds in a window of {length}): remember fewer"
                )

    def push(self, memory: Numbers, letter: Numbers) -> Numbers:
        return (memory % (self.size // self.base)) * self.base + letter + 1

    def letters(self, memory: int) -> list[int]:
        """The letters, oldest first."""
        found = []
        while memory:
            memory, digit = divmod(memory, self.base)
            found.append(digit - 1)
        return found[::-1]


class EventRecord(_Window):
    """`ObservationMemory` of a problem.

    Where actions are seen, the first observation, which comes without one, is a letter of its own.
    """

    reads_events = True

    def __init__(self, problem: Problem, memory: ObservationMemory):
        observer, steps = problem.observer, span(problem, memory)
        self.num_events = observer.num_observations * (problem.num_actions if observer.sees_actions else 1)
        self._shift = self.num_events if observer.sees_actions and observer.sees_first else 0
        letters = self.num_events + (observer.num_observations if self._shift else 0)
        super().__init__(letters, memory.k if steps is None else min(memory.k, steps + 1), memory.name)
        self._actions, self._observations = problem.model.actions, observer.observations
        self._paired = observer.sees_actions

    def first(self, state: Numbers, event: Numbers) -> Numbers:
        """See `Record`."""
        return np.where(event >= 0, event + self._shift + 1, 0)

    def following(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """See `Record`."""
        return self.push(memory, event)

    def newest(self, memory: Numbers) -> Numbers:
        """The newest event of each memory; -1 where none has come since the start."""
        letter = memory % self.base - 1
        return np.where(letter < self.num_events, letter, -1)

    def text(self, memory: int) -> str:
        """See `Record`."""
        names = [self._letter(letter) for letter in self.letters(memory)]
        return f"seen {', '.join(names)}" if names else "nothing seen"

    def _letter(self, letter: int) -> str:
        if not self._paired or letter >= self.num_events:
            return self._observations[letter - self.num_events if letter >= self.num_events else letter]
        action, observation = divmod(letter, len(self._observations))
        return f"({self._actions[action]}, {self._observations[observation]})"


class _StateRecord(_Window):
    """`StateMemory` of a problem."""

    reads_events = False

    def __init__(self, problem: Problem, memory: StateMemory):
        steps = span(problem, memory)
        super().__init__(problem.num_states, memory.k if steps is None else min(memory.k, max(steps, 1)), memory.name)
        self._names = problem.model.states

    def first(self, state: Numbers, event: Numbers) -> Numbers:
        return np.zeros_like(state)

    def following(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        return self.push(memory, state)

    def text(self, memory: int) -> str:
        names = [self._names[letter] for letter in self.letters(memory)]
        return f"coming from {', '.join(names)}" if names else "at the start"


class _ZoneRecord:
    """`ZoneMemory` of a problem: a bit for each zone."""

    nodes = 1
    reads_events = False

    def __init__(self, problem: Problem, memory: ZoneMemory):
        self.size = 2 ** len(memory.zones)
        self._bits = np.zeros(problem.num_states, dtype=np.int64)
        for number, zone in enumerate(memory.members):
            self._bits[np.array(zone, dtype=np.int64)] |= 1 << number

    def first(self, state: Numbers, event: Numbers) -> Numbers:
        return self._bits[state]

    def following(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        return memory | self._bits[reached]

    def text(self, memory: int) -> str:
        visited = [str(number) for number in range(self.size.bit_length() - 1) if memory >> number & 1]
        return f"visited zone {', '.join(visited)}" if visited else "no zone visited"


class _NodeRecord:
    """`Controller` of a problem."""

    reads_events = False

    def __init__(self, memory: Controller):
        self.size = self.nodes = memory.nodes

    def first(self, state: Numbers, event: Numbers) -> Numbers:
        return np.zeros_like(state)

    def following(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        return np.zeros_like(memory)

    def text(self, memory: int) -> str:
        return f"node {memory}"
