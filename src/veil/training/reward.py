"""A Gymnasium wrapper that pays an agent for the surprise of an observer who learns, for any library that trains agents."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from math import isfinite
from typing import Any

import gymnasium
import numpy as np

from ..common.checks import Defects, is_number
from .episodes import Hide, Info, Observe, Run, Step, Watching
from .observer import LearnedObserver


class SurpriseReward(gymnasium.Wrapper):
    """Pays `weight · (−log2 q(z|y))` at the end of each episode, besides the environment's own rewards.

    The observer learns from the episodes that end in all environments that share it. Train with any library, with as many
    copies in one process as you like, and judge the agent afterwards with fresh runs, as `veil.train` does: the observer
    that paid the agent is not an honest judge. `info["surprise_bits"]` and `info["task_return"]` come with the last step of an
    episode.

    **Arguments:**

    - `env`: the environment; `observer`: a `LearnedObserver`, which several wrappers may share.
    - `secret`, `observe`: as for `veil.train`.
    - `weight`: of a bit against the task's rewards.
    - `seed`: of the noise of `observe`.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        observer: LearnedObserver,
        secret: Hide | str,
        observe: Observe | str,
        *,
        weight: float = 1.0,
        seed: int = 0,
    ):
        defects = Defects("SurpriseReward")
        if not isinstance(env, gymnasium.Env):
            defects.add(f"env is {env!r}, expected an environment of Gymnasium, such as gymnasium.make('Taxi-v4')")
        if not isinstance(observer, LearnedObserver):
            defects.add(f"observer is {observer!r}, expected a veil.LearnedObserver")
        if not (is_number(weight) and isfinite(weight)):
            defects.add(f"weight is {weight!r}, expected a finite number")
        defects.raise_if_any()
        super().__init__(env)
        self.observer, self.weight = observer, float(weight)
        self._watching = Watching(secret, observe)
        self._random = np.random.default_rng(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; an unfinished episode is forgotten."""
        state, info = self.env.reset(seed=seed, options=options)
        self._states, self._actions, self._rewards, self._infos = [state], [], [], [info]
        self._readings = [self._reading(state, None, info)]
        return state, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step; the last one of an episode pays for the surprise."""
        state, reward, terminated, truncated, info = self.env.step(action)
        self._states.append(state)
        self._actions.append(action)
        self._rewards.append(float(reward))
        self._infos.append(info)
        self._readings.append(self._reading(state, action, info))
        paid = float(reward)
        if terminated or truncated:
            value = self._watching.value(Run(self._states, self._actions, self._rewards, self._infos))
            bits = float(self.observer.surprise([value], [self._readings])[0])
            self.observer.collect(value, self._readings)
            info = {**info, "surprise_bits": bits, "task_return": sum(self._rewards)}
            paid += self.weight * bits
        return state, paid, terminated, truncated, info

    def _reading(self, state: Any, action: Any, info: Info) -> object:
        return self._watching.reading(Step(state, action, len(self._actions), info, self._random))
