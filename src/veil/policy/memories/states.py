"""Memory of the last states."""

from dataclasses import dataclass

import numpy as np

from ...problem.keys import Key
from ...problem.problem import Problem
from ...problem.registers import Numbers
from .memory import clock_key
from .window import Window, WindowMemory


@dataclass(frozen=True)
class StateMemory(WindowMemory):
    """The k states before the current one: the agent's own past.

    **Arguments:** `k` ≥ 1; `clock`, whether the table also depends on the time.
    """

    kind = "states"
    letter = "state"
    keys = (Key("states", int, "The k states before the current one.", least=1, most=1000), clock_key(True))

    def register(self, problem: Problem) -> "_StateRegister":
        """A window over the states."""
        return _StateRegister(problem, self)


class _StateRegister(Window):
    """`StateMemory` of a problem."""

    def __init__(self, problem: Problem, memory: StateMemory):
        steps = memory.span(problem)
        length = memory.k if steps is None else min(memory.k, max(steps, 1))
        super().__init__(problem.num_states, length, memory.k, memory.name)
        self._names = problem.model.states

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        return np.zeros_like(state)

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        return self.push(memory, state)

    def name(self, memory: int) -> str:
        names = [self._names[letter] for letter in self.letters(memory)]
        return f"coming from {', '.join(names)}" if names else "at the start"
