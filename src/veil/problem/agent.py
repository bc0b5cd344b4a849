"""The agent: what it sees of a run, the state, what the observer receives, or readings of its own, and what else it knows."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool

from ..common.checks import Defects
from ..common.values import Value
from .model import Model
from .observer import Observer
from .registers import Numbers, Register, TableRegister

Sight = Literal["state", "state+observations", "observations"]
AgentSees = Sight | Observer


@dataclass(frozen=True, eq=False, repr=False)
class Agent(Value):
    """What the agent knows.

    **Attributes:** `register`, whose value it knows; `knows_model`: whether it knows which of several models runs; `sees`: the
    observer whose observations it receives, None if it receives none; `apart`: whether these are other observations than
    those of the problem's own observer; `sees_state`: whether it sees its state.
    """

    register: TableRegister
    knows_model: bool
    sees: Observer | None
    apart: bool = False
    sees_state: bool = True

    def reading(self, num_actions: int) -> "Reading | None":
        """The newest reading, on which an agent acts that does not see its state; None for one that does."""
        return None if self.sees_state or self.sees is None else Reading(self.sees, num_actions)


@dataclass(frozen=True)
class Reading(Register):
    """The newest reading: the number of its event.

    If actions are seen, first readings, which come without one, follow the others. If none comes at time 0, the last number is
    "nothing yet".
    """

    observer: Observer
    num_actions: int
    reads_events = True

    @property
    def num_events(self) -> int:
        """How many readings a step can have."""
        return self.observer.num_events(self.num_actions)

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many readings there are."""
        if not self.observer.sees_first:
            return self.num_events + 1
        return self.num_events + self.observer.num_observations * self.observer.sees_actions

    def start(self, state: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        if not self.observer.sees_first:
            return np.full_like(state, self.num_events)
        return event + self.num_events * self.observer.sees_actions

    def step(self, memory: Numbers, state: Numbers, reached: Numbers, event: Numbers) -> Numbers:
        """See `Register`."""
        return event

    def name(self, memory: int) -> str:
        """See `Register`."""
        return self.names(tuple(f"action {number}" for number in range(self.num_actions)))[memory]

    def names(self, actions: tuple[str, ...]) -> tuple[str, ...]:
        """The name of each reading; `actions`: those of the model."""
        seen = self.observer.observations.all()
        later = [f"({action}, {one})" for action in actions for one in seen] if self.observer.sees_actions else seen
        first = seen if self.observer.sees_actions else ()
        return (*later, *(first if self.observer.sees_first else ("nothing yet",)))

    def shown_by(self, size: int, initial: Bool[np.ndarray, " S"]) -> Bool[np.ndarray, "R S"]:
        """Which states can show each reading at some time; `initial`: those in which a run can begin."""
        observer, found = self.observer, np.zeros((self.size, size), dtype=bool)
        later = observer.matrices_of_steps
        for action in range(self.num_actions):
            seen = np.zeros((size, observer.num_observations), dtype=bool)
            for tables in later:
                seen |= tables[action if len(tables) > 1 else 0].toarray() > 0
            begin = action * observer.num_observations if observer.sees_actions else 0
            found[begin : begin + observer.num_observations] |= seen.T
        if observer.sees_first:
            begin = self.num_events if observer.sees_actions else 0
            for table in observer.matrices_of_start:
                found[begin : begin + observer.num_observations] |= ((table.toarray() > 0) & initial[:, None]).T
        else:
            found[-1] = initial
        return found


def read_sight(given: object, observer: object, defects: Defects) -> tuple[AgentSees, Observer | None, bool]:
    """The argument `agent_sees`; whose observations the agent receives, None if none; whether it sees its state.

    **Arguments:** `observer`: the problem's own. Every defect is noted.
    """
    own = observer if isinstance(observer, Observer) else None
    if isinstance(given, Observer):
        if given.untimed:
            defects.add("its observer has no clock (untimed=True), expected one with a clock: the agent counts its steps",
                        "agent")  # fmt: skip
        return given, given, False
    if isinstance(given, str) and given in get_args(Sight):
        return given, None if given == "state" else own, given != "observations"  # type: ignore[return-value]
    wanted = ", ".join(map(repr, get_args(Sight)))
    defects.add(f"agent_sees is {given!r}, expected one of {wanted}, or a veil.Observer that it reads", "agent")
    return "state", None, True


def open_to_readings(reading: Reading, models: tuple[Model, ...], defects: Defects) -> Bool[np.ndarray, "R A"]:
    """Which actions an agent can take after each reading: those that are available in all states that can show it."""
    available = models[0].available
    if available.all():
        return np.ones((reading.size, available.shape[1]), dtype=bool)
    initial = np.any([model.initial > 0 for model in models], axis=0)
    shown = reading.shown_by(len(available), initial)
    found = ~(shown @ ~available)
    names = reading.names(models[0].actions.all())
    for row in np.flatnonzero(~found.any(axis=1))[:21].tolist():
        states = [models[0].states[state] for state in np.flatnonzero(shown[row])[:5].tolist()]
        defects.add(
            f"after the reading {names[row]!r} the agent may be in {', '.join(states)}, which have no action in common,"
            " expected one that is available in all of them: let it see more, or make actions available",
            "agent",
        )
    return found
