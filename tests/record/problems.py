"""Small problems for the cases, made by integer arithmetic: no generator of random numbers has a part in them."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import veil

STATES, ACTIONS, OBSERVATIONS = 4, 2, 3


def rows(*shape: int, salt: int = 1) -> np.ndarray:
    """Distributions along the last axis, with a zero here and there."""
    index = np.arange(math.prod(shape))
    weights = ((7 * index * index + salt * index + 3) % 11).astype(float).reshape(shape)
    weights[weights < 2] = 0
    weights[..., 0] += weights.sum(axis=-1) == 0
    return weights / weights.sum(axis=-1, keepdims=True)


def theta(*shape: int, salt: int = 1) -> np.ndarray:
    """Parameters of a softmax policy, in [-1, 1]."""
    index = np.arange(math.prod(shape))
    return ((index * (5 + 2 * salt) + 3) % 17 / 8.0 - 1.0).reshape(shape)


def model(salt: int = 1, *, discount: float = 0.9, terminal: bool = True) -> veil.Model:
    """Four states, two actions, rewards of both signs."""
    return veil.Model(
        rows(STATES, ACTIONS, STATES, salt=salt),
        theta(STATES, ACTIONS, salt=salt).round(2),
        rows(STATES, salt=salt + 2),
        discount,
        theta(STATES, salt=salt + 1).round(2) if terminal else None,
    )


def observer(kind: str = "states") -> veil.Observer:
    """A watcher: on states, on (action, next state), one that sees actions, one that misses the start, a garbled one."""
    on_states = rows(STATES, OBSERVATIONS, salt=4)
    if kind == "on_actions":
        return veil.Observer(rows(ACTIONS, STATES, OBSERVATIONS, salt=5))
    if kind == "garbled":
        return veil.Observer(on_states).garbled(rows(OBSERVATIONS, 2, salt=3))
    muted = {"first": {1: 0}, "second": {2: 0}}
    return veil.Observer(
        on_states,
        sees_actions=kind == "sees_actions",
        sees_initial=kind != "no_start",
        silent=0,
        sensors=muted,
    )


def _automaton(agent_knows: bool) -> veil.Automaton:
    return veil.Automaton(
        {("even", "marked"): "odd", ("odd", "marked"): "even"},
        initial="even",
        accepting={"odd"},
        labels={1: "marked", 3: "marked"},
        default_label="plain",
        otherwise="stay",
        agent_knows=agent_knows,
    )


SECRETS: dict[str, Callable[[], Any]] = {
    "last": lambda: veil.LastState({1, 3}),
    "initial": lambda: veil.InitialState(),
    "initial_groups": lambda: veil.InitialState({"low": [0, 1], "high": [2, 3]}),
    "at": lambda: veil.StateAt(2, {0, 1}),
    "automaton": lambda: _automaton(True),
    "automaton_unknown": lambda: _automaton(False),
    "model": lambda: veil.WhichModel([0.25, 0.75], agent_knows=True),
    "model_unknown": lambda: veil.WhichModel([0.5, 0.5], agent_knows=False),
}


@cache
def problem(secret: str = "last", watcher: str = "states", horizon: int = 4, **changes: Any) -> veil.Problem:
    """The small problem with a secret and a watcher; `changes` as for `Problem.replace`."""
    models = [model(1), model(3)] if secret.startswith("model") else model(1)
    made = veil.Problem(models, observer(watcher), SECRETS[secret](), horizon, agent_sees="state+observations")
    return made.replace(**changes)


@cache
def endless() -> veil.Problem:
    """The small problem with the discounted return over all times."""
    return problem().replace(model=model(1, terminal=False), return_over="infinite", min_return="40%")


def markov(of: veil.Problem, salt: int = 1) -> veil.MarkovPolicy:
    """A stationary policy, neither uniform nor deterministic."""
    return veil.MarkovPolicy.softmax(theta(of.num_cells, of.num_actions, salt=salt), of)


def timed(of: veil.Problem, salt: int = 2) -> veil.TimedPolicy:
    """A policy with a clock."""
    return veil.TimedPolicy.softmax(theta(of.horizon, of.num_cells, of.num_actions, salt=salt), of)


MEMORIES: dict[str, Callable[[], Any]] = {
    "observations": lambda: veil.ObservationMemory(1),
    "states": lambda: veil.StateMemory(1, clock=False),
    "zones": lambda: veil.ZoneMemory([[0, 1], [2]]),
    "controller": lambda: veil.Controller(2),
}


def remembering(of: veil.Problem, memory: str, salt: int = 1) -> veil.MemoryPolicy:
    """A policy with a memory of a kind."""
    kept = MEMORIES[memory]()
    shape = veil.MemoryPolicy.uniform(of, kept).probabilities.shape
    return veil.MemoryPolicy.softmax(theta(*shape, salt=salt), of, kept)


@cache
def history(secret: str = "last", horizon: int = 3) -> Any:
    """A policy on the history, which the game gives."""
    made = problem(secret, horizon=horizon, min_return="60%")
    return veil.solve(made, method="game", certificate=False, progress=False).policy
