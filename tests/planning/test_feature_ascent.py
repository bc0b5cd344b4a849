"""Training of feature policies: feasible answers near those of tables, what is refused, and the limits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.policy.test_features import corridor
from veil.planning.solution import Solution, Status
from veil.report.html import write_report

FEW: dict[str, Any] = {"certificate": False, "progress": False, "iterations": 25, "starts": 2}


def solve(problem: veil.Problem, **settings: Any) -> Solution:
    options: dict[str, Any] = FEW | {"features": "coordinates"} | settings
    return veil.solve(problem, **options)


@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_a_feature_policy_is_feasible_and_near_the_table(memory: Any):
    problem = corridor()
    found, table = solve(problem, memory=memory), solve(problem, memory=memory, features=None)
    assert isinstance(found.policy, veil.FeaturePolicy)
    assert found.policy.memory == memory
    assert found.feasible
    assert found.threshold is not None
    assert found.expected_return == veil.expected_return(problem, found.policy) >= found.threshold
    assert found.opacity.bits == pytest.approx(veil.opacity(problem, found.policy, "exact").bits)
    assert found.opacity.bits >= table.opacity.bits - 0.1
    assert found.iterations == (found.history.iteration > 0).sum() <= 25
    assert found.policy_class.startswith("feature policies")


def test_a_linear_policy_on_one_hot_features_is_a_table():
    problem = corridor()
    found, table = solve(problem, features="one-hot", hidden_units=0), solve(problem, features=None)
    assert found.opacity.bits >= table.opacity.bits - 0.05
    assert len(found.policy.weights) == 1  # pyright: ignore[reportAttributeAccessIssue]


def test_the_same_seed_gives_the_same_policy():
    assert solve(corridor(), seed=2).policy == solve(corridor(), seed=2).policy


def test_a_solution_with_a_feature_policy_is_saved_shown_and_proven(tmp_path: Path):
    problem = corridor()
    found = solve(problem, certificate=True, certificate_time_limit=3.0)
    assert found.certificate is not None
    veil.verify(found.certificate, problem, found.policy)
    found.save(tmp_path / "result")
    write_report(tmp_path / "report.html", problem, found)
    assert veil.load_policy(tmp_path / "result" / "policy.safetensors") == found.policy


def test_what_a_feature_policy_cannot_do_is_refused():
    problem = corridor()
    for settings, words in (
        ({"memory": veil.StateMemory(1)}, "no memory beside the time"),
        ({"objective": "guess"}, "trained on samples"),
        ({"min_opacity": 0.1}, "trained on samples"),
        ({"features": "colours"}, "expected one of coordinates"),
        ({"features": "variables"}, "need states with names"),
        ({"features": np.zeros((2, 2))}, "expected one for each of"),
        ({"method": "primal-dual"}, "does not have this option"),
    ):
        with pytest.raises(veil.InputError, match=words):
            solve(problem, **settings)


def test_without_time_the_answer_says_so():
    found = solve(corridor(), time_limit=0.0)
    assert found.status in (Status.NOT_SEARCHED, Status.TIME_LIMIT, Status.INFEASIBLE)


def test_a_table_that_is_not_feasible_is_the_answer():
    found = solve(veil.gallery.load("two-rooms").replace(min_return="100%"), features="one-hot", iterations=2)
    assert found.feasible or found.status is Status.INFEASIBLE
