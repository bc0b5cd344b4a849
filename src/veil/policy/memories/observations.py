"""Memory of the last observations."""

from dataclasses import dataclass

import numpy as np

from ...problem.keys import Key
from ...problem.problem import Problem
from ...problem.registers import Numbers
from .memory import clock_key
from .window import Window, WindowMemory


@dataclass(frozen=True)
class ObservationMemory(WindowMemory):
    """The last k readings of the agent, the newest included: events that the observer receives too, or its own.

    **Arguments:** `k` ≥ 1; `clock`, whether the table also depends on the time. An event is an observation, or a pair
    (action, observation) if the observer sees actions. The agent receives each event when it comes, also silent ones of an
    observer without a clock. Before k events have come the memory holds what there is. Over an infinite horizon, everything
    after time T is received as at time T.

    **Raises:** `InputError`; also, with a problem whose agent sees nothing but its state (`Problem(..., agent_sees=…)`).
    """

    kind = "observations"
    letter = "observation"
    keys = (
        Key(
            "observations",
            int,
            "The last k events that the agent receives: those of the observer, or its own readings.",
            least=1,
            most=1000,
        ),
        clock_key(True),
    )
    needs_observations = True
    needs_states = False

    def register(self, problem: Problem) -> "EventRegister":
        """A window over the events."""
        return EventRegister(problem, self)


class EventRegister(Window):
    """`ObservationMemory` of a problem.

    If actions are seen, the first observation, which comes without one, is a letter of its own.
    """

    reads_events = True

    def __init__(self, problem: Problem, memory: ObservationMemory):
        observer, steps = problem.agent.sees or problem.observer, memory.span(problem)
        self.num_events = observer.num_events(problem.num_actions)
        self._shift = self.num_events if observer.sees_actions and observer.sees_first else 0
        letters = self.num_events + (observer.num_observations if self._shift else 0)
        super().__init__(letters, memory.k if steps is None else min(memory.k, steps + 1), memory.k, memory.name)
        self._actions, self._observations = problem.model.actions, observer.observations
        self._paired = observer.sees_actions

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return np.where(event >= 0, event + self._shift + 1, 0)

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return self.push(memory, event)

    def name(self, memory: int) -> str:
        """See `Register`."""
        names = [self._letter(letter) for letter in self.letters(memory)]
        return f"seen {', '.join(names)}" if names else "nothing seen"

    def _letter(self, letter: int) -> str:
        if not self._paired or letter >= self.num_events:
            return self._observations[letter - self.num_events if letter >= self.num_events else letter]
        action, observation = divmod(letter, len(self._observations))
        return f"({self._actions[action]}, {self._observations[observation]})"
