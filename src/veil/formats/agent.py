"""An agent that executes a policy in an environment, as agents for Gymnasium do."""

import numpy as np

from ..policy.player import Observation
from ..policy.policy import Policy
from ..problem.problem import Problem


class Agent:
    """Executes a policy in an environment, as agents for Gymnasium do: `agent.reset()`, then `agent.act(state)` each step.

    **Arguments:** `problem`, `policy`; `seed` of its choices; `model`: which model runs, where the agent knows it.

    `state` is what the environment shows of the state: its index in the problem's model (Gymnasium's own numbers, for
    models that `from_gymnasium` made), or its name. Where the policy remembers observations, `observation` is what the
    observer saw. Time-dependent policies end with the horizon.

    **Raises:** `InputError` where the policy does not fit the problem.
    """

    def __init__(self, problem: Problem, policy: Policy, *, seed: int = 0, model: int | None = None):
        self.problem = problem
        self.policy = policy
        self._model = model
        self.reset(seed=seed)

    def reset(self, *, seed: int | None = None) -> None:
        """Begin a new run; a seed begins the choices anew, else they go on from where they are."""
        if seed is not None:
            self._generator = np.random.default_rng(seed)
        drawn = int(self._generator.integers(2**63))
        self._player = self.policy.player(self.problem, seed=drawn, model=self._model)

    def act(self, state: str | int, observation: Observation | None = None) -> int:
        """The action to take in a state, by index; see `veil.policy.player.Player.act`."""
        return self._player.act(state, observation)
