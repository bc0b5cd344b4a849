"""Executing a policy step by step: what the agent remembers of one run, and its next action."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects, Names
from ..common.errors import InputError, VeilError
from ..problem.problem import Problem
from .recall import Recall

if TYPE_CHECKING:
    from .history import HistoryPolicy

Observation = str | int | tuple[str | int, str | int]


class Player(ABC):
    """One run of a policy, begun by `policy.player(problem)`.

    Every kind of policy reads the run in its own way (`_read`); what is common is here: the time, the state of the
    secret's automaton, the draw, and that a call which fails leaves the run as it was.
    """

    def __init__(self, problem: Problem, steps: int | None, seed: int):
        self.problem = problem
        self._steps = steps  # how many decisions there are; None without end
        self._generator = np.random.default_rng(seed)
        self._time = 0
        self._state = self._action = -1
        self._secret = 0

    @property
    def time(self) -> int:
        """How many actions were chosen so far."""
        return self._time

    def act(self, state: str | int | None = None, observation: Observation | None = None) -> int:
        """Enter a state, take in what was observed there, and choose the next action.

        **Arguments:** `state`: of the model, by name or index; left out if the agent does not see its state, as in
        `act(observation="beep")`. `observation`: by name or index, needed if the policy or the agent reads observations (at
        time 0 only if one comes then), the silent one included, also of an observer without a clock; if the observer
        sees actions, the observation or the pair (action, observation).

        **Returns:** the index of the action.

        **Raises:** `InputError` where state or observation cannot occur after the run so far, as far as the policy
        depends on it; `VeilError` beyond the horizon. The run is then as before the call.
        """
        if self._steps is not None and self._time >= self._steps:
            raise VeilError(f"the horizon is {self._steps}: there is no decision at time {self._time}; begin a new run")
        reached = self._reached(state)
        table, secret = self.problem.secret_table, 0
        if reached >= 0:
            secret = int(table.memory_step[self._secret, reached] if self._time else table.memory_start[reached])
        chances, known = self._read(reached, secret, observation)
        self._action = self._keep(known, self._draw(chances))
        self._state, self._secret, self._time = reached, secret, self._time + 1
        return self._action

    def _reached(self, state: str | int | None) -> int:
        """The state that was reached; -1 if the agent does not see it."""
        agent = self.problem.agent
        if state is None and not agent.sees_state and agent.register.size == 1:
            return -1
        if state is None:
            why = "the agent sees its state"
            if not agent.sees_state:
                why = "rows of the policy are for what the agent knows of the run (agent_knows=True), which follows the states"
            raise InputError("state", [f"it is missing at time {self._time}: {why}"])
        if not agent.sees_state and agent.register.size == 1:
            raise InputError(
                "state", [f"{state!r} is given, but the agent does not see its state: act(observation={state!r})"]
            )
        return self._find(self.problem.model.states, state)

    @abstractmethod
    def _read(
        self, reached: int, secret: int, observation: Observation | None
    ) -> tuple[Float[np.ndarray, " n"], tuple[int, ...]]:
        """The probabilities of the choices in the state that was reached, and what the agent then knows; changes nothing."""

    @abstractmethod
    def _keep(self, known: tuple[int, ...], choice: int) -> int:
        """Remember what `_read` found, after a choice; the action that was chosen."""

    def _find(self, names: Names, key: object) -> int:
        defects = Defects(names.kind)
        found = names.find_or_note(key, f"time {self._time}", defects)
        defects.raise_if_any()
        assert found is not None
        return found

    def _event(self, observation: Observation | None, reached: int) -> int:
        """The event behind an observation in the state that was reached; -1 if none comes."""
        observer = self.problem.agent.sees or self.problem.observer
        if self._time == 0 and not observer.sees_first:
            if observation is not None:
                raise InputError(
                    "observation", [f"{observation!r} at time 0: no observation comes then, expected None"]
                )
            return -1
        if observation is None:
            raise InputError("observation", [f"it is missing at time {self._time}: the policy reads observations"])
        action = self._action if observer.sees_actions and self._time else None
        if action is not None and isinstance(observation, tuple) and len(observation) == 2:
            if self._find(self.problem.model.actions, observation[0]) != action:
                taken = self.problem.model.actions[action]
                raise InputError(
                    "observation", [f"{observation!r} at time {self._time}: the action taken was {taken!r}"]
                )
            observation = observation[1]
        seen = self._find(observer.observations, observation)
        horizon = self.problem.horizon  # after which everything is received as at its end
        tables = observer.matrices_at(min(self._time, horizon), horizon)
        shown = tables[self._action if len(tables) > 1 else 0]
        if reached >= 0 and not shown[reached, seen] > 0:
            raise InputError("observation", [self._impossible(f"observation {observer.observations[seen]!r}")])
        return seen if action is None else action * observer.num_observations + seen

    def _draw(self, chances: Float[np.ndarray, " n"]) -> int:
        sums = np.cumsum(chances)
        pick = int(np.searchsorted(sums, self._generator.random() * sums[-1], side="right"))
        return min(pick, int(np.flatnonzero(chances)[-1]))  # rounding may step over the last one

    def _impossible(self, what: str) -> str:
        if self._time == 0:
            return f"{what} is impossible at time 0"
        states, actions = self.problem.model.states, self.problem.model.actions
        where = f" in {states[self._state]!r}" if self._state >= 0 else ""
        return f"{what} is impossible at time {self._time}, after {actions[self._action]!r}{where}"


class TablePlayer(Player):
    """A run of a policy given by a table: the state names the row, alone or with the agent's memory.

    **Arguments:** `table`, which fits the problem; `recall`: the rows, None where they are the problem's own; `steps`:
    how many decisions there are, None without end.
    """

    def __init__(
        self,
        problem: Problem,
        table: Float[np.ndarray, "T C A"],
        recall: Recall | None,
        *,
        timed: bool,
        steps: int | None,
        seed: int,
        model: int | None,
    ):
        super().__init__(problem, steps, seed)
        self._table, self._recall, self._timed = table, recall, timed
        self._models = possible_models(problem, model)  # those that may be running, as far as the agent can tell
        self._memory = 0
        self._reader = None if problem.reading is None else _Reader(problem)

    def _read(
        self, reached: int, secret: int, observation: Observation | None
    ) -> tuple[Float[np.ndarray, " n"], tuple[int, ...]]:
        here = self._table[self._time if self._timed else 0]
        models, memory, last = self._models, 0, reached
        if self._reader is not None:
            event = self._event(observation, reached)
            last, models = self._reader.heard(event, models, self._action, self._time), self._reader.models(models)
            if not models:
                raise InputError("observation", [self._impossible(f"observation {observation!r}")])
            memory = 0 if self._recall is None else self._updated(reached, event)
        elif self._recall is not None:
            models = [k for k in models if self._arrival(k, reached) > 0]
            if not models:
                raise InputError("state", [self._impossible(f"state {self.problem.model.states[reached]!r}")])
            reads = self._recall.register.reads_events
            memory = self._updated(reached, self._event(observation, reached) if reads else -1)
        return here[self._row(models[0], secret, last, memory)], (memory, *models)

    def _keep(self, known: tuple[int, ...], choice: int) -> int:
        self._memory, *self._models = known
        if self._reader is not None:
            self._reader.keep()
        if self._recall is None or self._recall.register.nodes == 1:
            return choice
        action, self._memory = divmod(choice, self._recall.register.nodes)
        return action

    def _arrival(self, k: int, reached: int) -> float:
        """The probability of the newest state under a model, after what was done."""
        model = self.problem.models[k]
        if self._time == 0:
            return float(model.initial[reached])
        return float(model.matrices[self._action][self._state, reached])

    def _updated(self, reached: int, newest: int) -> int:
        """The agent's memory in the state that was entered, after the newest event."""
        assert self._recall is not None
        register = self._recall.register
        event, here = np.array([newest]), np.array([reached])
        if self._time == 0:
            return int(register.start(here, event)[0])
        if register.nodes > 1:
            return self._memory
        return int(register.step(np.array([self._memory]), np.array([self._state]), here, event)[0])

    def _row(self, model: int, secret: int, last: int, memory: int) -> int:
        place = np.array([last])
        reading = None if self._reader is None else place
        cell = int(self.problem.row_of(np.array([model]), np.array([secret]), place, reading)[0])
        if self._recall is None:
            return cell
        row = self._recall.find_row(cell, memory)
        assert row is not None, "a run made of possible steps is in a situation that can be reached"
        return row


class _Reader:
    """What an agent that does not see its state can tell of it: in which states it may be under each model."""

    def __init__(self, problem: Problem):
        assert problem.reading is not None
        self._problem, self._reading = problem, problem.reading
        self._possible: dict[int, np.ndarray] = {}
        self._next: dict[int, np.ndarray] = {}

    def heard(self, event: int, models: list[int], action: int, time: int) -> int:
        """The number of the reading that an event is; the states that remain possible are kept by `keep`."""
        problem, reading = self._problem, self._reading
        observer, none = reading.observer, np.array([0])
        seen = np.ones(problem.num_states, dtype=bool)
        if event >= 0:
            horizon = problem.horizon
            tables = observer.matrices_at(min(time, horizon), horizon)
            table = tables[action if len(tables) > 1 else 0]
            seen = (table[:, [event % observer.num_observations]].toarray() > 0).ravel()
        for k in models:
            model = problem.models[k]
            before = model.initial if time == 0 else self._possible[k] @ model.matrices[action]
            self._next[k] = ((before > 0) & seen).astype(float)
        if time == 0:
            return int(reading.start(none, np.array([event]))[0])
        return event

    def models(self, models: list[int]) -> list[int]:
        """Those of some models that remain possible after what was heard."""
        return [k for k in models if self._next[k].any()]

    def keep(self) -> None:
        """Take what was heard as what happened."""
        self._possible = self._next.copy()


class HistoryPlayer(Player):
    """A run of a history policy: the node that the events led to, and the agent's own situation."""

    def __init__(
        self,
        problem: Problem,
        policy: "HistoryPolicy",
        *,
        seed: int,
        model: int | None,
        heard: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        super().__init__(problem, policy.horizon, seed)
        self._policy, self._heard = policy, heard  # by what number the policy knows each event
        (self._model, *_) = possible_models(problem, model)
        self._node = self._value = -1

    def _read(
        self, reached: int, secret: int, observation: Observation | None
    ) -> tuple[Float[np.ndarray, " n"], tuple[int, ...]]:
        problem, policy, table, time = self.problem, self._policy, self.problem.secret_table, self._time
        event = max(self._event(observation, reached), 0)  # nothing received is the one event there is
        if self._heard is not None:
            event = int(self._heard[time > 0][event])
        node = -1
        if event >= 0:
            node = int(policy.following[time - 1][self._node, event] if time else policy.first[event])
        value = self._value
        if reached < 0:  # the agent does not see its state, and all rows of a node are the same
            row = int(np.searchsorted(policy.decisions[time].node, node))
            row = None if node < 0 or row == len(policy.decisions[time]) else row
        else:
            if time == table.time:
                value = int(table.label[self._model, secret, reached])
            situation = (self._model * len(table.memory_names) + secret) * problem.num_states + reached
            if node >= 0 and policy.told is not None and time == policy.told_at:
                node = int(policy.told[node, situation])
            row = None if node < 0 else policy.decisions[time].find(node, situation, value)
        if row is None:
            state = f"state {problem.model.states[reached]!r} with " if reached >= 0 else ""
            what = f"{state}observation {observation!r}"
            raise InputError("run", [self._impossible(what)])
        return policy.decisions[time].probabilities[row], (node, value)

    def _keep(self, known: tuple[int, ...], choice: int) -> int:
        self._node, self._value = known
        return choice


def possible_models(problem: Problem, model: int | None) -> list[int]:
    """The models that may be running: the one that the agent knows of, or all with a positive weight."""
    table, count = problem.secret_table, len(problem.models)
    possible: list[int] = np.flatnonzero(table.prior > 0).tolist()
    if count == 1 or not problem.agent.knows_model:
        if model is not None:
            raise InputError("model", [f"it is {model!r}, but the agent does not know which model runs: leave it out"])
        return possible
    if isinstance(model, bool) or not isinstance(model, (int, np.integer)) or int(model) not in possible:
        wanted = f"the index of the model that runs, which the agent knows: one of {possible}"
        raise InputError("model", [f"it is {model!r}, expected {wanted}"])
    return [int(model)]
