"""Random small problems with a threshold on the way to the largest stationary return, and tiny ones to search through."""

from collections.abc import Iterator
from functools import cache

import numpy as np

import veil
from veil.planning.best_returns import best_stationary_return
from veil.planning.policy_class import Space


@cache
def random_problem(seed: int) -> veil.Problem:
    """S 3 to 5, A 2 or 3, O 2 or 3, T 2 to 4; the threshold lies between the uniform policy's return and the largest."""
    rng = np.random.default_rng([7, seed])
    states, actions = int(rng.integers(3, 6)), int(rng.integers(2, 4))
    observations, horizon = int(rng.integers(2, 4)), int(rng.integers(2, 5))
    sparsity = float(rng.choice([0.0, 0.3, 0.5]))

    def rows(*shape: int) -> np.ndarray:
        weights = rng.exponential(size=shape) * (rng.random(shape) >= sparsity)
        weights[..., 0] += weights.sum(axis=-1) == 0
        return weights / weights.sum(axis=-1, keepdims=True)

    transitions = rows(states, actions, states)
    rewards, initial = rng.normal(size=(states, actions)).round(2), rows(states)
    terminal = rng.normal(size=states).round(2) if rng.random() < 0.3 else None
    observer = veil.Observer(
        rows(states, observations), sees_actions=bool(rng.random() < 0.25), sees_initial=bool(rng.random() < 0.6)
    )
    secrets = (veil.LastState({0}), veil.LastState({0, 1}), veil.InitialState(), veil.StateAt(horizon // 2, {1}))
    model = veil.Model(transitions, rewards, initial, terminal_rewards=terminal)
    problem = veil.Problem(model, observer, secrets[int(rng.integers(4))], horizon)
    least, most = veil.expected_return(problem, veil.MarkovPolicy.uniform(problem)), best_stationary_return(problem)[0]
    return problem.replace(min_return=float(least + rng.random() * (most - least)))


@cache
def tiny_problem(seed: int, states: int = 2, horizon: int = 2, share: float = 0.6) -> veil.Problem:
    """Two actions, two observations; the threshold at a share of the way from the uniform return to the largest."""
    rng = np.random.default_rng([11, seed])
    model = veil.Model(
        rng.dirichlet(np.full(states, 0.7), size=(states, 2)),
        rng.normal(size=(states, 2)).round(2),
        rng.dirichlet(np.ones(states)),
    )
    observer = veil.Observer(rng.dirichlet([0.7, 0.7], size=states))
    problem = veil.Problem(model, observer, veil.LastState({0}), horizon)
    least, most = veil.expected_return(problem, veil.MarkovPolicy.uniform(problem)), best_stationary_return(problem)[0]
    return problem.replace(min_return=float(least + share * (most - least)))


def drawn(space: Space, count: int, seed: int = 0, sharp: float = 1.0) -> np.ndarray:
    """Random tables `(B, T, C, A)` with every available action taken."""
    rng = np.random.default_rng(seed)
    return np.stack([space.softmax(sharp * rng.normal(size=space.shape)) for _ in range(count)])


def directions(space: Space, count: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Random directions along which every row stays a distribution and actions that are not available stay shut."""
    rng = np.random.default_rng([3, seed])
    for _ in range(count):
        change = rng.normal(size=space.shape) * space.available
        change -= space.available * change.sum(axis=-1, keepdims=True) / space.available.sum(axis=-1, keepdims=True)
        yield change


class Interrupting:
    """A progress report that interrupts at its n-th call, as Ctrl-C does."""

    def __init__(self, reports: int):
        self.left = reports

    def __call__(self, _: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
