"""Policies of each kind, for tests of what is written and read."""

from typing import Any

import numpy as np

import veil
from veil.formats import gallery


def watched(name: str = "two-rooms", horizon: int = 3) -> veil.Problem:
    problem = gallery.load(name)
    return veil.Problem(problem.models, problem.observer, problem.secret, horizon, agent_sees="state+observations")


def policies(problem: veil.Problem) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shape = (problem.num_cells, problem.num_actions)
    memory = veil.ObservationMemory(1)
    rows = veil.MemoryPolicy.uniform(problem, memory).probabilities.shape
    return {
        "markov": veil.MarkovPolicy(rng.dirichlet(np.ones(shape[1]), size=shape[0])),
        "timed": veil.TimedPolicy(rng.dirichlet(np.ones(shape[1]), size=(problem.horizon, shape[0]))),
        "memory": veil.MemoryPolicy.softmax(rng.normal(size=rows), problem, memory),
    }
