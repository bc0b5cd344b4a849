"""Whole episodes of a vector environment: what the agent saw, did and earned, what the observer received, the secret."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.errors import InputError
from ..problem.problem import Problem

Info = Mapping[str, Any]


class Step(NamedTuple):
    """What happened at one time: the environment's observation of the agent, the action that led to it (None at time 0).

    `info` is what the environment says beside it, and `random` the generator from which a noisy sensor draws.
    """

    state: Any
    action: Any
    time: int
    info: Info
    random: np.random.Generator


@dataclass(frozen=True, eq=False)
class Run:
    """An episode: `states` s_0 … s_n as the agent saw them, `actions` and `rewards` of the n decisions, n + 1 infos."""

    states: Sequence[Any]
    actions: Sequence[Any]
    rewards: Sequence[float]
    infos: Sequence[Info]


Observe = Callable[[Step], object]
Hide = Callable[[Run], object]


@dataclass(frozen=True, eq=False)
class Watching:
    """What the secret of a run is and what the observer receives: functions, or keys of the environment's info.

    A reading is a name, a whole number, None for nothing, or one or several numbers of a sensor with a continuous range.
    """

    secret: Hide | str
    observe: Observe | str

    def __post_init__(self) -> None:
        for name, given in (("secret", self.secret), ("observe", self.observe)):
            if not callable(given) and not isinstance(given, str):
                found = f"{name} is {given!r}, expected a function or a key of the environment's info"
                raise InputError("train", [found])

    def reading(self, step: Step) -> object:
        """What the observer receives at a time."""
        return self.observe(step) if callable(self.observe) else _found(step.info, self.observe, "observe")

    def value(self, run: Run) -> str:
        """The secret of a run."""
        found = self.secret(run) if callable(self.secret) else _found(run.infos[-1], self.secret, "secret")
        return str(found)


def _found(info: Info, key: str, what: str) -> object:
    if key not in info:
        known = ", ".join(map(repr, info)) or "nothing"
        raise InputError("train", [f"{what}={key!r} is no key of the environment's info, which has {known}"])
    return info[key]


@dataclass(frozen=True, eq=False)
class Playing:
    """A vector environment, how long its episodes are, who watches, and its model if it is known."""

    env: Any
    horizon: int
    watching: Watching
    problem: Problem | None


@dataclass(frozen=True, eq=False)
class Episodes:
    """N episodes of at most T steps, side by side.

    **Attributes:** `states`, `(T+1, N, …)`; `actions`, `(T, N, …)`; `rewards`, `(T, N)`, 0 after the end; `alive`, `(T, N)`:
    whether the episode went on; `values`, the secret of each; `readings`, what the observer received in each.
    """

    states: np.ndarray
    actions: np.ndarray
    rewards: Float[np.ndarray, "T N"]
    alive: Bool[np.ndarray, "T N"]
    values: list[str]
    readings: list[list[object]]

    @property
    def returns(self) -> Float[np.ndarray, " N"]:
        """The sum of the rewards of each episode."""
        return self.rewards.sum(axis=0)

    @property
    def lengths(self) -> Int[np.ndarray, " N"]:
        """The number of steps of each episode."""
        return self.alive.sum(axis=0)


Act = Callable[[np.ndarray, int], np.ndarray]


def play(playing: Playing, act: Act, generator: np.random.Generator) -> Episodes:
    """One episode of each environment of a vector, all begun anew and cut after the horizon.

    **Arguments:** `act(states, time)`: an action for each environment; `generator`: of the environments' seeds and of noisy
    sensors.
    """
    env, count = playing.env, playing.env.num_envs
    seen, info = env.reset(seed=generator.integers(2**31, size=count).tolist())
    states, actions, rewards, alive = [np.array(seen)], [], [], []
    infos, going = [_apart(info, count)], np.ones(count, dtype=bool)
    for time in range(playing.horizon):
        chosen = act(states[-1], time)
        seen, reward, terminated, truncated, info = env.step(chosen)
        reached, said = _final(np.array(seen), _apart(info, count))
        states.append(np.where(_wide(going, reached), reached, states[-1]))
        infos.append(said)
        actions.append(np.array(chosen))
        rewards.append(np.where(going, reward, 0.0))
        if not np.isfinite(rewards[-1]).all():
            wrong = rewards[-1][~np.isfinite(rewards[-1])][0]
            raise InputError("train", [f"the environment's reward is {wrong} at time {time}, expected a finite number"])
        alive.append(going)
        going = going & ~(np.asarray(terminated) | np.asarray(truncated))
        if not going.any():
            break
    played = Episodes(np.stack(states), np.stack(actions), np.array(rewards), np.array(alive), [], [])
    return _watched(played, infos, playing.watching, generator)


def _apart(info: Info, count: int) -> list[dict[str, Any]]:
    """The info of each environment, from the arrays of a vector with their masks `_key`."""
    keys = [key for key in info if not key.startswith("_")]
    inner = {key: _apart(info[key], count) for key in keys if isinstance(info[key], Mapping)}
    everywhere = np.ones(count, dtype=bool)
    columns: list[tuple[str, Any, Any]] = [
        (key, inner.get(key, info[key]), info.get(f"_{key}", everywhere)) for key in keys
    ]
    return [{key: column[place] for key, column, mask in columns if mask[place]} for place in range(count)]


def _final(seen: np.ndarray, infos: list[dict[str, Any]]) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """The states that ended an episode, where the environment has begun the next one within the same step."""
    for place, info in enumerate(infos):
        final = info.get("final_obs")
        if final is not None:
            seen[place], infos[place] = final, info.get("final_info") or {}
    return seen, infos


def _wide(mask: np.ndarray, like: np.ndarray) -> np.ndarray:
    return mask.reshape(-1, *[1] * (like.ndim - 1))


def _watched(
    played: Episodes, infos: list[list[dict[str, Any]]], watching: Watching, generator: np.random.Generator
) -> Episodes:
    values, readings = [], []
    for place, length in enumerate(played.lengths.tolist()):
        states = list(played.states[: length + 1, place])
        said = [infos[time][place] for time in range(length + 1)]
        actions = list(played.actions[:length, place])
        steps = zip(states, [None, *actions], range(length + 1), said, strict=True)
        readings.append([watching.reading(Step(*step, random=generator)) for step in steps])
        values.append(watching.value(Run(states, actions, played.rewards[:length, place].tolist(), said)))
    return Episodes(played.states, played.actions, played.rewards, played.alive, values, readings)
