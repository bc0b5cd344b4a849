"""A problem as a Gymnasium vector environment that only has `reset` and `step`."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ..common.errors import InputError
from ..engine.chain import make_chain
from ..engine.hidden import event_name
from ..engine.sampling import Emissions, RowDraws
from ..policy.markov import MarkovPolicy
from ..problem.problem import Problem, check_problem

SECRET, READING = "secret", "reading"


class Simulated(VectorEnv):
    """Runs of a problem, side by side: the agent sees its cell, and info has what the observer receives and the secret.

    `info["reading"]` is the observation (with the action, if the observer sees actions), None where nothing is received;
    `info["secret"]`, at the end, the value that the secret has. Rewards are those of the return, with the terminal reward at
    the end and each discounted to time 0, so that their sum is the return.

    **Raises:** `InputError` for secrets that are a whole path or have a value at each time, for observers without a clock, and
    for a return over an infinite horizon.
    """

    def __init__(self, problem: Problem, num_envs: int = 1):
        check_problem(problem)
        hidden = make_chain(problem, MarkovPolicy.uniform(problem)).hidden
        if hidden.path is not None or hidden.each is not None:
            secret = type(problem.secret).__name__
            raise InputError("train", [f"the secret is a {secret}, expected one with a single value at one time"])
        if hidden.written is not None:
            raise InputError("train", ["the observer has no clock, and the one that is trained counts the steps"])
        if hidden.paid[0].after is not None:
            raise InputError("train", ["the return is over an infinite horizon: use return_over='horizon'"])
        self.problem, self.num_envs, self._hidden = problem, num_envs, hidden
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = gymnasium.spaces.Discrete(hidden.num_cells)
        self.single_action_space = gymnasium.spaces.Discrete(hidden.kernel.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._moves, self._emissions = RowDraws(hidden.kernel.stacked), Emissions(hidden)
        self._emitter_of = np.argmax([emitter.actions for emitter in hidden.emitters], axis=0)
        names = [event_name(problem, event, 1) for event in range(hidden.num_events)]
        self._names = np.array([name if isinstance(name, str) else ", ".join(name) for name in names], dtype=object)
        self._first_names = np.array(problem.observer.observations.all(), dtype=object)
        self._labels = RowDraws(hidden.labels)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin every run anew."""
        if seed is not None or not hasattr(self, "_generator"):
            self._generator = np.random.default_rng(seed)
        uniform = self._generator.random(self.num_envs)
        self._states, events = self._emissions.first(uniform)
        self._time, self._values = 0, np.full(self.num_envs, None, dtype=object)
        received = self._first_names[events] if self.problem.observer.sees_first else self._values.copy()
        return self._seen(), self._info(received)

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One decision of each run; after the last one the next call begins the runs anew."""
        hidden, none = self._hidden, np.zeros(self.num_envs, dtype=bool)
        if self._time == hidden.horizon:
            seen, info = self.reset()
            return seen, np.zeros(self.num_envs), none, none, info
        paid, taken, before = hidden.paid[0], np.asarray(actions, dtype=np.int64), self._states
        uniform = self._generator.random((2, self.num_envs))
        self._states = self._moves.draw(before * hidden.kernel.num_actions + taken, uniform[0])
        events = self._emissions.later(self._emitter_of[taken], self._states, uniform[1])
        reward = paid.discount**self._time * paid.reward[before, taken]
        self._time += 1
        is_over = self._time == hidden.horizon
        if is_over:
            reward = reward + paid.discount**self._time * paid.terminal[self._states]
        return self._seen(), reward, none | is_over, none, self._info(self._names[events])

    def _seen(self) -> np.ndarray:
        return self._hidden.cell[self._states]

    def _info(self, received: np.ndarray) -> dict[str, Any]:
        if self._time == self._hidden.split_time:
            drawn = self._labels.draw(self._states, self._generator.random(self.num_envs))
            self._values = np.array(self.problem.secret_values, dtype=object)[drawn]
        return {READING: received, SECRET: self._values}
