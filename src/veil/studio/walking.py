"""A run whose actions a person chooses: the hidden chain without a policy, one step at a time."""

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


class Walk:
    """One run, and what an observer who assumes a policy believes of it.

    **Arguments:** `problem`; `policy`, the one that the observer assumes; `generator`, of the draws: the same one and the
    same actions give the same run.

    **Attributes:** `time`; `events`, what the observer received, None where nothing is received at time 0; `earned`, the return
    so far; `secret`, its value, None before its time; `surprised`, whether the observer received what its policy makes
    impossible: from then on it goes by the prior.
    """

    def __init__(self, problem: Problem, policy: Policy, generator: np.random.Generator):
        self.problem, self._generator = problem, generator
        self._hidden = build(problem)
        self._emissions = Emissions(self._hidden)
        self._moves = RowDraws(self._hidden.kernel.stacked)
        self._emitter_of = np.argmax([emitter.actions for emitter in self._hidden.emitters], axis=0)
        self._observer = ObserverFilter(problem, policy)
        self._prior = self._observer.posterior
        self.time, self.earned, self.surprised = 0, 0.0, False
        self.events: list[Event | None] = []
        self.secret: int | None = None
        states, events = self._emissions.first(self._uniform())
        self._enter(int(states[0]), int(events[0]) if problem.observer.sees_first else None)

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

    @property
    def posterior(self) -> Float[np.ndarray, " Z"]:
        """What the observer believes of the secret."""
        return self._prior if self.surprised else self._observer.posterior

    @property
    def belief(self) -> Float[np.ndarray, " S"] | None:
        """What the observer believes of the state; None where it has been surprised."""
        return None if self.surprised else self._observer.state_belief

    def move(self, action: int) -> None:
        """Take an action; raises `InputError` where it is not available, or the run is over."""
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
        self._enter(int(there[0]), int(event[0]))
        if self.is_over:
            self.earned += discount**self.time * float(model.terminal_rewards[self.state])

    def _enter(self, hidden_state: int, event: int | None) -> None:
        self._at = hidden_state
        if self.time == self._hidden.split_time:
            self.secret = int(self._hidden.label[hidden_state].argmax())
        self.events.append(None if event is None else event_name(self.problem, event, self.time))
        if event is None or self.surprised:
            return
        try:
            self._observer.advance(event)
        except ImpossibleObservationError:
            self.surprised = True

    def _uniform(self) -> Float[np.ndarray, " 1"]:
        return self._generator.random(1)
