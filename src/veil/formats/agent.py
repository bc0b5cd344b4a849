"""An agent that plays a policy in an environment, as agents for Gymnasium do."""

from typing import Any

import numpy as np

from ..common.checks import Names
from ..common.errors import InputError, VeilError
from ..policy.tables import check_fits, policy_is_stationary
from ..problem.problem import Problem


class Agent:
    """Plays a policy in an environment, as agents for Gymnasium do: `agent.reset()`, then `agent.act(state)` each step.

    **Arguments:** `problem`, `policy`; `seed` of its choices; `model`: which model runs, where the agent knows it.

    `state` is what the environment shows of the state: its index in the problem's model (Gymnasium's own numbers, for
    models that `from_gymnasium` made), or its name. Where the policy remembers observations, `observation` is what the
    observer saw. Time-dependent policies end with the horizon.

    **Raises:** `InputError` where the policy does not fit the problem.
    """

    def __init__(self, problem: Problem, policy: Any, *, seed: int = 0, model: int | None = None):
        self.problem = problem
        self.policy = policy
        self._model = model
        self._player: Any = None
        self._keeps_own = hasattr(policy, "start")
        self._table = None if self._keeps_own else check_fits(policy, problem)
        self._knows = problem.secret_table.agent_knows
        if self._knows and not self._keeps_own and len(problem.models) > 1 and model is None:
            raise InputError(
                "agent", [f"the policy depends on which model runs: give model=0 … {len(problem.models) - 1}"]
            )
        self.reset(seed=seed)

    def reset(self, *, seed: int | None = None) -> None:
        """Begin a new run; a seed begins the choices anew, else they go on from where they are."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        self._time, self._memory = 0, 0
        if self._keeps_own:
            self._player = self.policy.start(self.problem, int(self._generator.integers(2**63)), model=self._model)

    def act(self, state: str | int, observation: Any = None) -> int:
        """The action to take in a state, by index.

        **Raises:** `InputError` on an unknown state; `VeilError` when the policy's clock has run out.
        """
        if self._player is not None:
            return self._player.act(state, observation)
        assert self._table is not None
        if len(self._table) > 1 and self._time >= len(self._table):
            raise VeilError(f"the policy has {len(self._table)} decisions and all are made: call agent.reset()")
        row = self._row(_find(self.problem.model.states, state))
        here = self._table[0 if policy_is_stationary(self.policy) else self._time][row]
        self._time += 1
        return int(self._generator.choice(len(here), p=here / here.sum()))

    def _row(self, state: int) -> int:
        """The row of the table: the state, with the secret's memory and the model where the agent knows them."""
        if not self._knows:
            return state
        table = self.problem.secret_table
        self._memory = int(table.memory_start[state] if self._time == 0 else table.memory_step[self._memory, state])
        count = len(table.memory_names)
        return ((self._model or 0) * count + self._memory) * self.problem.num_states + state


def _find(states: Names, key: Any) -> int:
    try:
        return states.find(key)
    except KeyError as error:
        raise InputError("state", [error.args[0]]) from None
