"""Runs of an environment that only has `reset` and `step`: how often each step was seen, and how sure its probability is."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betaincinv

from ..common.errors import InputError
from ..common.values import Value

Explore = Callable[[int], int]
_JEFFREYS = 0.5
_MOST_STEPS = 1_000_000  # of an episode that never ends


class Steps(NamedTuple):
    """Steps of an environment, a column each: `chance` of a step after its action in its state, `ended`: the episode."""

    state: Int[np.ndarray, " m"]
    action: Int[np.ndarray, " m"]
    following: Int[np.ndarray, " m"]
    chance: Float[np.ndarray, " m"]
    reward: Float[np.ndarray, " m"]
    ended: Bool[np.ndarray, " m"]


@dataclass(frozen=True)
class Seen:
    """A transition, its share of the steps by the same action in the same state, and Jeffreys' interval of its probability."""

    state: int
    action: int
    following: int
    count: int
    probability: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Rollouts(Value):
    """What was seen in runs of an environment, by the numbers of its states and actions.

    **Attributes:** `episodes`; `visits`, `(S, A)`: how often each action was taken in each state; `starts`, `(S,)`: how often
    an episode began there; of each distinct step, `(m,)`: `state`, `action`, `following`, `ended` (the episode, by itself),
    `count` and the mean `reward`; `cut`: episodes that were cut.
    """

    episodes: int
    visits: Int[np.ndarray, "S A"]
    starts: Int[np.ndarray, " S"]
    state: Int[np.ndarray, " m"]
    action: Int[np.ndarray, " m"]
    following: Int[np.ndarray, " m"]
    ended: Bool[np.ndarray, " m"]
    count: Int[np.ndarray, " m"]
    reward: Float[np.ndarray, " m"]
    cut: int

    @property
    def chance(self) -> Float[np.ndarray, " m"]:
        """The share of each step among those by the same action in the same state."""
        return self.count / self.visits[self.state, self.action]

    @property
    def steps(self) -> Steps:
        """The distinct steps."""
        return Steps(self.state, self.action, self.following, self.chance, self.reward, self.ended)

    @property
    def untried(self) -> list[tuple[int, int]]:
        """The pairs of a visited state and an action that was never taken there."""
        left = (self.visits > 0).any(axis=1)
        return [(int(s), int(a)) for s, a in np.argwhere(np.asarray(left)[:, None] & (self.visits == 0))]

    @property
    def unvisited(self) -> list[int]:
        """The states in which no run ever was."""
        seen = np.asarray(self.starts > 0)
        seen[self.state] = seen[self.following] = True
        return np.flatnonzero(~seen).tolist()

    def intervals(self, confidence: float = 0.95) -> list[Seen]:
        """Each transition, whether it ended the episode or not, with the equal-tailed interval of its probability."""
        pairs = np.column_stack([self.state, self.action, self.following])
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        count = np.bincount(place.ravel(), self.count)
        rest = self.visits[distinct[:, 0], distinct[:, 1]] - count
        tail = (1 - confidence) / 2
        low, high = (betaincinv(count + _JEFFREYS, rest + _JEFFREYS, share) for share in (tail, 1 - tail))
        high = np.where(rest == 0, 1.0, high)
        shares = count / (count + rest)
        columns = (*distinct.T.tolist(), count.astype(int).tolist(), shares.tolist(), low.tolist(), high.tolist())
        return [Seen(*row) for row in zip(*columns, strict=True)]

    def notes(self, names: Sequence[str], actions: Sequence[str]) -> list[str]:
        """How sure the model is, in words."""
        tried = self.visits[self.visits > 0]
        widest = max((one.high - one.low for one in self.intervals()), default=0.0)
        found = [
            f"estimated from {self.episodes:,} episodes with {int(tried.sum()):,} steps: {len(tried):,} pairs of state and"
            f" action, seen {int(np.median(tried)):,} times in the median, {int(tried.min()):,} at least; the widest interval"
            f" of 95% of a transition's probability is {widest:.2g}"
        ]
        if self.untried:
            state, action = self.untried[0]
            example = f"such as {actions[action]!r} in {names[state]!r}"
            found.append(f"{len(self.untried):,} pairs were never tried, and are not available, {example}")
        if self.unvisited:
            found.append(f"{len(self.unvisited):,} states were never visited, such as {names[self.unvisited[0]]!r}")
        if self.cut:
            found.append(f"{self.cut:,} episodes were cut; a state that no run left stays where it is")
        return found


def roll_out(env: Any, episodes: int, seed: int, steps: int | None, explore: Explore | None, title: str) -> Rollouts:
    """Play episodes of an environment with numbered states and actions, by uniformly random actions or those of `explore`.

    **Raises:** `InputError` if states or actions are not numbered, or the environment leaves its own numbers.
    """
    num_states, num_actions = (_size(env, name, title) for name in ("observation_space", "action_space"))
    random, limit = np.random.default_rng(seed), steps or _MOST_STEPS
    counts: dict[tuple[int, int, int, bool], list[float]] = {}
    starts, cut = np.zeros(num_states, dtype=np.int64), 0
    for episode in range(episodes):
        state = _number(env.reset(seed=seed if episode == 0 else None)[0], num_states, "observation", title)
        starts[state] += 1
        ended = truncated = False
        for _ in range(limit):
            action = int(random.integers(num_actions)) if explore is None else explore(state)
            action = _number(action, num_actions, "action of explore", title)
            seen, reward, ended, truncated, _ = env.step(action)
            following = _number(seen, num_states, "observation", title)
            found = counts.setdefault((state, action, following, bool(ended)), [0, 0.0])
            found[0] += 1
            found[1] += float(reward)
            state = following
            if ended or truncated:
                break
        cut += not ended
    keys = sorted(counts)
    columns = [np.array(column) for column in zip(*keys, strict=True)]
    count = np.array([counts[key][0] for key in keys], dtype=np.int64)
    visits = np.zeros((num_states, num_actions), dtype=np.int64)
    np.add.at(visits, (columns[0], columns[1]), count)
    reward = np.array([counts[key][1] for key in keys]) / count
    return Rollouts(
        episodes, visits, starts, columns[0], columns[1], columns[2], columns[3].astype(bool), count, reward, cut
    )


def _size(env: Any, name: str, title: str) -> int:
    space = getattr(env, name, None)
    size, start = getattr(space, "n", None), getattr(space, "start", 0)
    if size is None or start != 0:
        what = "states" if name == "observation_space" else "actions"
        remedy = f"number the {what} by a wrapper (gymnasium.wrappers.TransformObservation, TransformAction), or use veil.train"
        raise InputError(f"environment {title}", [f"{name} is {space}, expected Discrete from 0 on: {remedy}"])
    return int(size)


def _number(given: Any, size: int, what: str, title: str) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        number = -1
    if not 0 <= number < size:
        raise InputError(f"environment {title}", [f"{what} is {given!r}, expected a whole number from 0 to {size - 1}"])
    return number
