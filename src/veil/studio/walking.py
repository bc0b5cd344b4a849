"""Runs whose actions a person chooses: the hidden chain without a policy, one step at a time, and what an observer believes."""

import numpy as np
from jaxtyping import Float

from ..common.errors import ImpossibleObservationError, InputError
from ..engine.compile import build
from ..engine.filter import ObserverFilter
from ..engine.hidden import event_name
from ..engine.sampling import Emissions, RowDraws
from ..measure.measures import Event
from ..policy.policy import Policy
from ..problem.problem import Problem


class Run:
    """One run of a problem, step by step.

    **Arguments:** `problem`; `generator`, of the draws: the same one and the same actions give the same run.

    **Attributes:** `time`; `events`, what the observer received, None where nothing is received at time 0; `earned`, the return
    so far; `secret`, its value, None before its time, or if it has one at every time.
    """

    def __init__(self, problem: Problem, generator: np.random.Generator):
        self.problem, self._generator = problem, generator
        self._hidden = build(problem)
        self._emissions = Emissions(self._hidden)
        self._moves = RowDraws(self._hidden.kernel.stacked)
        self._emitter_of = np.argmax([emitter.actions for emitter in self._hidden.emitters], axis=0)
        self.time, self.earned = 0, 0.0
        self.events: list[Event | None] = []
        self.secret: int | None = None
        states, events = self._emissions.first(self._uniform())
        self._enter(int(states[0]), None, int(events[0]))

    @property
    def state(self) -> int:
        """The state of the model."""
        return int(self._hidden.state[self._at])

    @property
    def is_over(self) -> bool:
        """Whether the horizon is reached."""
        return self.time >= self.problem.horizon

    @property
    def actions(self) -> list[int]:
        """The actions that are available here."""
        return [] if self.is_over else np.flatnonzero(self.problem.model.available[self.state]).tolist()

    def move(self, action: int) -> None:
        """Take an action; raises `InputError` if it is not available, or the run is over."""
        if action not in self.actions:
            known = ", ".join(self.problem.model.actions[one] for one in self.actions) or "none: the run is over"
            raise InputError(
                "action", [f"it is {action!r}, expected the number of one of those available here: {known}"]
            )
        model, discount = self.problem.model, self._hidden.paid[0].discount
        self.earned += discount**self.time * float(model.rewards[self.state, action])
        row = np.array([self._at * self._hidden.kernel.num_actions + action])
        there = self._moves.draw(row, self._uniform())
        event = self._emissions.later(self._emitter_of[[action]], there, self._uniform())
        self.time += 1
        self._enter(int(there[0]), action, int(event[0]))
        if self.is_over:
            self.earned += discount**self.time * float(model.terminal_rewards[self.state])

    def _enter(self, hidden_state: int, action: int | None, event: int) -> None:
        self._at = hidden_state
        if self.time == self._hidden.split_time and self._hidden.each is None:
            self.secret = int(self._hidden.label[hidden_state].argmax())
        seen = self.time > 0 or self.problem.observer.sees_first
        self.events.append(event_name(self.problem, event, self.time) if seen else None)
        self._told(action, event)

    def _told(self, action: int | None, event: int) -> None:
        """Take in an event, for classes that follow what is believed; `action` is None at time 0."""

    def _uniform(self) -> Float[np.ndarray, " 1"]:
        return self._generator.random(1)


class Walk(Run):
    """One run, and what an observer who assumes a policy believes of it.

    **Arguments:** those of `Run`, and `policy`, the one that the observer assumes.

    **Attributes:** `surprised`, whether the observer received what its policy makes impossible: from then on it goes by the
    prior.
    """

    def __init__(self, problem: Problem, policy: Policy, generator: np.random.Generator):
        self._observer = ObserverFilter(problem, policy)
        self._prior, self.surprised = self._observer.posterior, False
        super().__init__(problem, generator)

    @property
    def posterior(self) -> Float[np.ndarray, " Z"]:
        """What the observer believes of the secret."""
        return self._prior if self.surprised else self._observer.posterior

    @property
    def belief(self) -> Float[np.ndarray, " S"] | None:
        """What the observer believes of the state; None if it has been surprised."""
        return None if self.surprised else self._observer.state_belief

    def _told(self, action: int | None, event: int) -> None:
        seen = self.events[-1]
        if seen is None or self.surprised:
            return
        try:
            self._observer.advance(event)
        except ImpossibleObservationError:
            self.surprised = True
