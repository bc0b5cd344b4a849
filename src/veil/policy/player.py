"""Playing a policy with memory step by step: what the agent remembers of one run, and its next action."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..common.checks import Defects, Names
from ..common.errors import InputError, VeilError
from ..problem.problem import Problem
from .recall import recall
from .records import span
from .tables import check_fits

if TYPE_CHECKING:
    from .memory import MemoryPolicy


class Player:
    """One run of a policy with memory.

    **Arguments:** `problem`, `policy`; `seed` of the choices; `model`: the index of the model that runs, where the agent
    knows it (`WhichModel(agent_knows=True)`).

    **Raises:** `InputError` where the policy does not fit the problem, or the model is missing.
    """

    def __init__(self, problem: Problem, policy: "MemoryPolicy", *, seed: int = 0, model: int | None = None):
        self.problem = problem
        self._table = check_fits(policy, problem)
        self._recall = recall(problem, policy.memory)
        self._timed = policy.timed
        self._steps = span(problem, policy.memory)
        self._generator = np.random.default_rng(seed)
        self._models = self._check_model(model)  # those that may be running, as far as the agent can tell
        self._time = 0
        self._state = self._action = -1
        self._secret = self._memory = 0

    @property
    def time(self) -> int:
        """How many actions were chosen so far."""
        return self._time

    def act(self, state: str | int, observation: Any = None) -> int:
        """Enter a state, take in what was observed there, and choose the next action.

        **Arguments:** `state`: of the model, by name or index; `observation`: needed where observations are remembered
        (at time 0 only if one comes then), by name or index; where the observer sees actions, it or the pair (action,
        observation).

        **Returns:** the index of the action.

        **Raises:** `InputError` where state or observation cannot occur after the run so far; `VeilError` beyond the
        horizon. The run is then as before the call.
        """
        if self._steps is not None and self._time >= self._steps:
            raise VeilError(
                f"the horizon is {self._steps}: there is no decision at time {self._time}; begin a new run with start"
            )
        reached = self._find(self.problem.model.states, state)
        models = [k for k in self._models if self._arrival(k, reached) > 0]
        if not models:
            raise InputError("state", [self._impossible(f"state {self.problem.model.states[reached]!r}")])
        event = self._event(observation, reached) if self._recall.record.reads_events else -1
        secret, memory = self._updated(reached, event)
        row = self._row(models[0], secret, reached, memory)
        pick = self._draw(self._table[self._time if self._timed else 0, row])
        action, node = divmod(pick, self._recall.record.nodes)
        self._models, self._secret, self._state, self._action = models, secret, reached, action
        self._memory = node if self._recall.record.nodes > 1 else memory
        self._time += 1
        return action

    def _check_model(self, model: int | None) -> list[int]:
        table, count = self.problem.secret_table, len(self.problem.models)
        weights = np.ones(count) if table.weights is None else table.weights
        possible = np.flatnonzero(weights > 0).tolist()
        if count == 1 or not table.agent_knows:
            if model is not None:
                raise InputError(
                    "model", [f"it is {model!r}, but the agent does not know which model runs: leave it out"]
                )
            return possible
        if isinstance(model, bool) or not isinstance(model, (int, np.integer)) or int(model) not in possible:
            raise InputError(
                "model",
                [
                    f"it is {model!r}, expected the index of the model that runs, which the agent knows: one of {possible}"
                ],
            )
        return [int(model)]

    def _find(self, names: Names, key: Any) -> int:
        defects = Defects(names.kind)
        found = names.find_or_note(key, f"time {self._time}", defects)
        defects.raise_if_any()
        assert found is not None
        return found

    def _arrival(self, k: int, reached: int) -> float:
        """The probability of the newest state under a model, after what was done."""
        model = self.problem.models[k]
        if self._time == 0:
            return float(model.initial[reached])
        return float(model.matrices[self._action][self._state, reached])

    def _event(self, observation: Any, reached: int) -> int:
        """The event behind an observation; -1 where none comes."""
        observer = self.problem.observer
        if self._time == 0 and not observer.sees_first:
            if observation is not None:
                raise InputError(
                    "observation", [f"{observation!r} at time 0: no observation comes then, expected None"]
                )
            return -1
        if observation is None:
            raise InputError("observation", [f"it is missing at time {self._time}: the policy remembers observations"])
        action = self._action if observer.sees_actions and self._time else None
        if action is not None and isinstance(observation, tuple) and len(observation) == 2:
            named = self._find(self.problem.model.actions, observation[0])
            if named != action:
                taken = self.problem.model.actions[action]
                raise InputError(
                    "observation", [f"{observation!r} at time {self._time}: the action taken was {taken!r}"]
                )
            observation = observation[1]
        shown = self._find(observer.observations, observation)
        table = observer.emissions[self._action] if observer.on_actions else observer.emissions
        if not table[reached, shown] > 0:
            raise InputError("observation", [self._impossible(f"observation {observer.observations[shown]!r}")])
        return shown if action is None else action * observer.num_observations + shown

    def _updated(self, reached: int, event: int) -> tuple[int, int]:
        """The secret's memory and the agent's in the state that was entered."""
        table, record = self.problem.secret_table, self._recall.record
        here = np.array([reached])
        if self._time == 0:
            return int(table.memory_start[reached]), int(record.first(here, np.array([event]))[0])
        secret = int(table.memory_step[self._secret, reached])
        if record.nodes > 1:
            return secret, self._memory
        before = np.array([self._memory]), np.array([self._state])
        return secret, int(record.following(*before, here, np.array([event]))[0])

    def _row(self, model: int, secret: int, state: int, memory: int) -> int:
        _, memories, states = self._recall.shape
        cell = (model * memories + secret) * states + state if self._recall.agent_knows else state
        row = self._recall.find_row(cell, memory)
        assert row is not None, "a run made of possible steps is in a situation that can be reached"
        return row

    def _draw(self, chances: np.ndarray) -> int:
        sums = np.cumsum(chances)
        pick = int(np.searchsorted(sums, self._generator.random() * sums[-1], side="right"))
        return min(pick, int(np.flatnonzero(chances)[-1]))  # rounding may step over the last one

    def _impossible(self, what: str) -> str:
        if self._time == 0:
            return f"{what} is impossible at time 0"
        states, actions = self.problem.model.states, self.problem.model.actions
        return f"{what} is impossible at time {self._time}, after {actions[self._action]!r} in {states[self._state]!r}"
