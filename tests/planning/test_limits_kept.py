"""Time limits: an iteration is begun only if it fits, and what comes after the search is limited as well."""

import time
from typing import Any

import numpy as np

import veil
from tests.planning.small_problems import random_problem
from veil.common.clock import Clock
from veil.common.workers import ALONE
from veil.planning.ascent import make_ascent, repair
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space
from veil.planning.search import search
from veil.planning.starts import richest_table
from veil.planning.task import make_task

STEP = 0.4


class Slow:
    """A method whose iterations take long."""

    def __init__(self, method: Any):
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def advance(self, state: Any) -> Any:
        """One iteration, after a while."""
        time.sleep(STEP)
        return self._method.advance(state)


def test_an_iteration_that_does_not_fit_is_not_begun():
    veil.solve(random_problem(1), time_limit=0.0, certificate=False, progress=False)  # imports what is needed
    options = SolveOptions(method="ascent", time_limit=2.3 * STEP, starts=2, progress=False, workers=ALONE)
    found = search(random_problem(1), options, lambda *given: Slow(make_ascent(*given)))
    assert found.status.name in ("TIME_LIMIT", "NOT_SEARCHED")
    assert found.iterations <= 2
    assert found.feasible


def test_a_table_is_made_feasible_as_far_as_the_time_goes():
    problem = random_problem(4)
    space = make_space(problem)
    task, safe = make_task(space), richest_table(space)
    rng = np.random.default_rng(0)
    drawn = [space.softmax(rng.normal(size=space.shape)) for _ in range(12)]
    tables = [one for one in drawn if np.any(task.slacks(one[None]) < 0)]
    assert tables
    for table in tables:
        for clock in (Clock(0.0), Clock()):
            mended = repair(task, table, safe, clock)
            assert np.all(task.slacks(mended[None]) >= 0)
        assert np.any(repair(task, table, safe) != safe)


def test_a_search_without_any_time_has_a_feasible_answer_of_every_kind():
    for options in ({}, {"memory": "timed"}, {"evaluation": "sampled"}, {"method": "primal-dual"}):
        found = veil.solve(random_problem(1), time_limit=0.0, certificate=False, progress=False, **options)  # type: ignore[arg-type]
        assert found.feasible, options
        assert found.status.name == "NOT_SEARCHED", options
