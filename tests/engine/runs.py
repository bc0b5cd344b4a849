"""Memories to try, small random problems whose agent sees the observations, and random policies for them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import veil
from tests.oracle import Spec
from tests.random_problems import random_spec, to_problem
from veil.policy.memories import Controller, Memory, Mixture, ObservationMemory, StateMemory, ZoneMemory
from veil.policy.memory import MemoryPolicy

MEMORIES = {
    "observation": ObservationMemory(1),
    "observation, no clock": ObservationMemory(1, clock=False),
    "two observations": ObservationMemory(2),
    "all observations": ObservationMemory(9, clock=False),
    "state": StateMemory(1),
    "two states": StateMemory(2, clock=False),
    "all states": StateMemory(9),
    "zones": ZoneMemory([["s0"]]),
    "two zones": ZoneMemory([[0, 1], ["s1"]], clock=False),
    "controller": Controller(2),
    "controller with a clock": Controller(3, clock=True),
    "one node": Controller(1),
    "mixture": Mixture(2),
    "mixture with a clock": Mixture(3, clock=True),
}


@dataclass(frozen=True)
class RememberingCase:
    """A random problem, in both forms, whose agent sees the observations."""

    spec: Spec
    problem: veil.Problem


def remembering_cases(count: int, kind: str, most_runs: int = 20_000, **fixed: bool) -> Iterator[RememberingCase]:
    """`count` random problems of a kind, with two states at least and few enough runs to list them all."""
    seed = 0
    while count:
        rng = random.Random(f"remembering {kind} {sorted(fixed.items())} {seed}")
        seed += 1
        spec = random_spec(rng, kind, work=400, **fixed)
        fan = spec.num_states * spec.num_actions * spec.num_observations
        if spec.num_states > 1 and spec.horizon > 0 and spec.num_states * fan**spec.horizon < most_runs:
            count -= 1
            yield RememberingCase(spec, to_problem(spec, rng).replace(agent_sees="state+observations"))


def random_policy(problem: veil.Problem, memory: Memory, seed: int = 0, *, sparse: bool = False) -> MemoryPolicy:
    """A policy with random rows; with `sparse`, some available actions are never taken."""
    generator = np.random.default_rng(seed)
    shape = MemoryPolicy.uniform(problem, memory).probabilities.shape
    theta = 2 * generator.normal(size=shape)
    if sparse:
        closed = generator.random(shape) < 0.3
        open_rows = (MemoryPolicy.uniform(problem, memory).probabilities > 0) & ~closed
        theta = np.where(closed & open_rows.any(axis=-1, keepdims=True), -np.inf, theta)
    return MemoryPolicy.softmax(theta, problem, memory)
