"""The plan of a search: a function of the problem and the options, followed by the search, kept in results and checkpoints."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW
from veil.engine.size import tree_size
from veil.planning.options import SolveOptions
from veil.planning.plan import Plan, plan
from veil.planning.policy_class import any_table, make_space


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"memory": "timed", "iterations": 20},
        {"memory": veil.StateMemory(1), "iterations": 10, "time_limit": 40.0},
        {"memory": "timed", "evaluation": "sampled", "iterations": 10, "time_limit": 30.0, "certificate": False},
        {"method": "primal-dual", "iterations": 10},
        {"method": "game"},
        {"features": "one-hot", "evaluation": "sampled", "iterations": 5, "time_limit": 30.0},
    ],
)
def test_a_solution_holds_the_plan_that_is_told(given: dict[str, object], tmp_path: Path):
    problem = veil.gallery.load("two-rooms")
    told = plan(problem, SolveOptions(**given))  # pyright: ignore[reportArgumentType]
    solution = veil.solve(problem, progress=False, **given)  # pyright: ignore[reportArgumentType]
    assert solution.plan == told
    solution.save(tmp_path / "result")
    assert json.loads((tmp_path / "result" / "result.json").read_text())["answer"]["plan"] == told.document()


def test_a_search_that_is_taken_up_follows_the_plan_of_its_checkpoint(tmp_path: Path):
    problem, path = veil.gallery.load("two-rooms"), tmp_path / "run"
    given = FEW | {"memory": "timed", "evaluation": "sampled", "iterations": 60, "seed": 3}
    whole = veil.solve(problem, time_limit=600.0, **given)
    calls = iter(range(10**6))

    def interrupt(_: object) -> None:
        if next(calls) == 40:
            raise KeyboardInterrupt

    stopped = veil.solve(problem, time_limit=600.0, checkpoint=path, **given | {"progress": interrupt})
    assert not stopped.repeatable
    again = veil.solve(problem, time_limit=60.0, resume=path, **given)  # for which fewer starts would be planned anew
    assert again.plan == whole.plan
    assert np.array_equal(again.policy.table, whole.policy.table)  # pyright: ignore[reportAttributeAccessIssue]


def many_states() -> veil.Problem:
    """400 cells, from anywhere, with a camera."""
    cells = [(row, column) for row in range(20) for column in range(20)]
    camera = veil.Sensor("a", cells[:60], 0.9, 0.1)
    world = veil.GridWorld(20, 20, slip=0.1, starts=cells, goals={(19, 19): 1.0}, sensors=[camera])
    return world.problem(5, secret=veil.LastState(range(30)))


def test_counted_work_decides_over_many_states():
    """A count that was made with a larger limit does not change what a smaller limit decides."""
    problem = many_states()
    chain = make_space(problem).chain(any_table(make_space(problem)))
    spent = tree_size(chain).counting_seconds
    assert spent > 0
    assert tree_size(chain, most_seconds=spent).counting_seconds == spent
    for counted in (chain, make_space(fresh := problem.replace()).chain(any_table(make_space(fresh)))):
        with pytest.raises(veil.VeilError, match="too many to count"):
            tree_size(counted, most_seconds=0.5 * spent)


def test_a_limit_that_decides_something_is_told():
    problem = many_states()
    given = FEW | {"memory": "timed", "evaluation": "sampled", "sequences": 50}
    free = veil.solve(problem, iterations=3, **given)
    limited = veil.solve(problem, time_limit=1.0, **given)
    assert free.repeatable
    assert not limited.repeatable
    assert limited.plan is not None
    assert limited.plan == plan(problem, replace(SolveOptions(**given), time_limit=1.0))
    assert Plan.of(json.loads(json.dumps(limited.plan.document()))) == limited.plan


def test_a_smaller_class_that_has_no_time_for_a_first_check_is_left_out():
    problem, given = many_states(), {"memory": "timed", "evaluation": "sampled", "certificate": False}
    memories = {
        limit: [one.memory for one in plan(problem, SolveOptions(time_limit=limit, **given)).classes]  # pyright: ignore[reportArgumentType]
        for limit in (0.05, 600.0)
    }
    assert memories == {0.05: ["timed"], 600.0: ["markov", "timed"]}
    found = veil.solve(problem, time_limit=0.05, progress=False, **given)  # pyright: ignore[reportArgumentType]
    assert found.feasible
