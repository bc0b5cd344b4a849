"""Answers to look at, found once: on the paper's grid, on a graph, and on a problem whose names mean harm."""

import numpy as np
import pytest

import veil
from tests.report.worlds import hostile
from veil.planning.solution import Solution


@pytest.fixture(scope="session")
def paper() -> veil.Problem:
    return veil.gallery.load("paper-last-state")


@pytest.fixture(scope="session")
def solved(paper: veil.Problem) -> Solution:
    return veil.solve(paper, starts=2, iterations=25, certificate=False)


@pytest.fixture(scope="session")
def courier() -> veil.Problem:
    return veil.gallery.load("courier-depots")


@pytest.fixture(scope="session")
def timed(courier: veil.Problem) -> veil.TimedPolicy:
    theta = np.random.default_rng(3).normal(size=(courier.horizon, courier.num_cells, courier.num_actions))
    return veil.TimedPolicy.softmax(theta, courier)


@pytest.fixture(scope="session")
def hostile_solution() -> tuple[veil.Problem, Solution]:
    problem = hostile()
    return problem, veil.solve(problem, starts=2, iterations=8, certificate=False)
