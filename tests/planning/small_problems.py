"""Small problems for the tests of planning: random ones, ones solved by hand, with pairs, with constraints, on a corridor."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np

import veil
from tests.random_problems import distributions
from veil.planning.safe_tables import best_stationary_return
from veil.proof.feasibility import reaches_threshold

FEW: Any = {"certificate": False, "progress": False}
"""Options of searches without a proof."""


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


@cache
def endless() -> veil.Problem:
    """A random problem whose return is the discounted one over an infinite horizon."""
    problem = random_problem(2)
    model = veil.Model(problem.model.transitions, problem.model.rewards, problem.model.initial, 0.9)
    return problem.replace(model=model, return_over="infinite", min_return="40%")


class Interrupting:
    """A progress report that interrupts at its n-th call, as Ctrl-C does."""

    def __init__(self, reports: int):
        self.left = reports

    def __call__(self, _: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def harvest(min_return: float | str | None = None, scale: float = 1.0) -> veil.Problem:
    """Two decisions in a field: work, for 1, or leave for home; being home in the end pays 3. Everything is seen.

    With a clock: work, then leave, 4. Leaving with probability p each time: `2(1-p)² + 4p(1-p) + 3p = 2 + 3p - 2p²`,
    at most 3.125, at p = 3/4; never leaving, the least, 2; no policy has less.
    """
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, :, 1] = 1
    rewards = scale * np.array([[1.0, 0.0], [0.0, 0.0]])
    model = veil.Model(transitions, rewards, "field", 1.0, [0.0, 3.0 * scale], ["field", "home"])
    return veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({"home"}), 2, min_return)


def two_sensors(seed: int = 0, **bounds: Any) -> veil.Problem:
    """A problem whose observer sees one thing, with a pair that sees another, and one that wants to know the start."""
    rng = np.random.default_rng(seed)
    model = veil.Model(distributions(rng, 3, 2, 3), rng.uniform(size=(3, 2)), distributions(rng, 3))
    mine, other = (veil.Observer(0.8 * np.eye(3)[order] + 0.2 / 3) for order in ([0, 0, 1], [0, 1, 1]))
    made = [veil.Pair("other", other, **bounds), veil.Pair("start", secret=veil.InitialState())]
    return veil.Problem(model, mine, veil.LastState([1]), 3, "20%", pairs=made)


def limited(constraints: Any = (), seed: int = 0, horizon: int = 3, **more: Any) -> veil.Problem:
    """Four states with the rewards `gain` and `energy`; the secret is whether the last state is s0."""
    rng = np.random.default_rng(seed)
    model = veil.Model(
        rng.dirichlet(np.full(4, 0.5), size=(4, 2)),
        {"gain": rng.normal(size=(4, 2)), "energy": rng.random((4, 2))},
        rng.dirichlet(np.ones(4)),
        terminal_rewards={"energy": rng.random(4)},
    )
    observer = veil.Observer(np.random.default_rng([seed, 1]).dirichlet(np.ones(2), size=4))
    parts: dict[str, Any] = {"min_return": "50%"} | more
    return veil.Problem(model, observer, veil.LastState([0]), horizon, constraints=constraints, **parts)


def corridor(secret: veil.LastState | veil.StateAt | veil.InitialState, length: int = 9) -> veil.Problem:
    """A corridor whose cells are reached one after the other from the start, with a sensor in the middle."""
    world = veil.GridWorld(
        1,
        length,
        slip=0.1,
        starts=(0, 1),
        goals={(0, length - 4): 1.0},
        sensors=[veil.Sensor("a", [(0, length // 2)], 0.8, 0.1)],
    )
    return world.problem(6, secret=secret)


def deterministic(problem: veil.Problem, *, timed: bool) -> Iterator[veil.MarkovPolicy | veil.TimedPolicy]:
    """Every deterministic policy of a class, one after the other."""
    times = problem.horizon if timed else 1
    rows = [np.flatnonzero(row) for row in problem.available] * times
    for actions in product(*rows):
        table = np.eye(problem.num_actions)[np.array(actions).reshape(times, -1)]
        yield veil.TimedPolicy(table) if timed else veil.MarkovPolicy(table[0])


def changed(problem: veil.Problem, *, scale: float = 1.0, offset: float = 0.0) -> veil.Problem:
    """The problem with `scale * reward + offset` for each decision, and its threshold in the same units."""
    model = problem.model
    paid = veil.Model(
        model.transitions,
        scale * model.rewards + offset,
        model.initial,
        model.discount,
        scale * model.terminal_rewards,
        available=model.available,
    )
    wanted = problem.min_return
    if isinstance(wanted, float):
        wanted = scale * wanted + offset * problem.horizon
    return problem.replace(model=paid, min_return=wanted)


def permuted(problem: veil.Problem, order: np.ndarray, secret: Callable[[np.ndarray], Any]) -> veil.Problem:
    """The problem with its states in another order; `secret` gives the secret for the new numbers of the states."""
    model, observer = problem.model, problem.observer
    moved = veil.Model(
        model.transitions[order][:, :, order],
        model.rewards[order],
        model.initial[order],
        model.discount,
        model.terminal_rewards[order],
    )
    seen = veil.Observer(
        observer.emissions[order], sees_actions=observer.sees_actions, sees_initial=observer.sees_initial
    )
    return veil.Problem(moved, seen, secret(np.argsort(order)), problem.horizon, problem.min_return)


def returns_by_start(problem: veil.Problem, policy: veil.Policy) -> np.ndarray:
    """The expected return from each possible start state alone."""
    model, found = problem.model, []
    for state in np.flatnonzero(model.initial):
        begun = veil.Model(model.transitions, model.rewards, int(state), model.discount, model.terminal_rewards)
        found.append(veil.expected_return(problem.replace(model=begun, min_return=None), policy))
    return np.array(found)


def reaches(problem: veil.Problem, found: veil.Solution) -> bool:
    """Whether the policy's own return is at the threshold or above, in exact arithmetic where floats cannot tell."""
    assert found.threshold is not None
    return found.expected_return >= found.threshold and reaches_threshold(problem, found.policy, -np.inf)
