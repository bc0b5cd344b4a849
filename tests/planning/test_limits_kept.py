"""Time limits: a search without time has a feasible answer, and making a table feasible is limited as well."""

import numpy as np

import veil
from tests.planning.small_problems import random_problem
from veil.common.clock import Clock
from veil.planning.channels import Asked, make_backend
from veil.planning.mixing import mixed_until
from veil.planning.objective import Channels, make_objective
from veil.planning.policy_class import make_space
from veil.planning.starts import richest_table


def test_a_table_is_made_feasible_as_far_as_the_time_goes():
    problem = random_problem(4)
    space = make_space(problem)
    task, safe = make_objective(space, Channels((make_backend(space, Asked()),))), richest_table(space)

    def slack(table: np.ndarray) -> float:
        return float(task.slacks(table[None]).min())

    rng = np.random.default_rng(0)
    drawn = [space.softmax(rng.normal(size=space.shape)) for _ in range(12)]
    tables = [one for one in drawn if np.any(task.slacks(one[None]) < 0)]
    assert tables
    for table in tables:
        for clock in (Clock(0.0), Clock()):
            mended = mixed_until(slack, table, safe, clock)
            assert np.all(task.slacks(mended[None]) >= 0)
        assert np.any(mixed_until(slack, table, safe) != safe)


def test_a_search_without_any_time_has_a_feasible_answer_of_every_kind():
    for options in ({}, {"memory": "timed"}, {"evaluation": "sampled"}, {"method": "primal-dual"}):
        found = veil.solve(random_problem(1), time_limit=0.0, certificate=False, progress=False, **options)  # type: ignore[arg-type]
        assert found.feasible, options
        assert found.status.name == "NOT_SEARCHED", options
