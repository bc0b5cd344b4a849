"""Feature policies: feasible answers near those of tables, what is refused, and the limits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, limited, random_problem, two_sensors
from veil.report.html import write_report


def corridor(min_return: float | str = "20%") -> veil.Problem:
    """Two rows of six cells with a goal at the end of one and a secret cell beside it."""
    world = veil.GridWorld(
        2, 6, slip=0.1, starts=(0, 0), goals={(0, 5): 1.0}, secrets=[(1, 5)], sensors=[veil.Sensor("g", [(1, 2)])]
    )
    return world.problem(5, min_return=min_return)


def solve(problem: veil.Problem, **settings: Any) -> veil.Solution:
    options: dict[str, Any] = FEW | {"iterations": 25, "starts": 2, "features": "coordinates"} | settings
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
    assert found.settings["parameters"] == found.policy.num_parameters


def test_a_linear_policy_on_one_hot_features_is_a_table():
    problem = corridor()
    found, table = solve(problem, features="one-hot", hidden_units=0), solve(problem, features=None)
    assert found.opacity.bits >= table.opacity.bits - 0.05
    assert isinstance(found.policy, veil.FeaturePolicy)
    assert len(found.policy.weights) == 1


def test_the_same_seed_gives_the_same_policy():
    problem = random_problem(1)
    first, again = (solve(problem, features="one-hot", iterations=5, hidden_units=3, seed=2) for _ in range(2))
    assert first.policy == again.policy


def test_a_strict_threshold_and_several_constraints_are_kept():
    problem = random_problem(1).replace(min_return="90%")
    found = solve(problem, features="one-hot", hidden_units=8)
    assert found.feasible == (found.expected_return >= (found.threshold or np.inf))
    assert found.feasible or found.status is veil.Status.INFEASIBLE
    loose = limited([veil.Return(max="60%", reward="energy"), veil.Probability("G !s2", "30%")], 3)
    found = solve(loose, memory="timed", features="one-hot", sequences=200, iterations=20)
    assert found.feasible
    assert [one.met for one in veil.constraint_values(loose, found.policy)] == [True] * 3


def test_a_task_is_maximised_beside_the_bits():
    problem = limited([veil.Return(max="90%", reward="energy")], 3, min_return="20%")
    plain, saving = (solve(problem, features="one-hot", task=task) for task in (None, "-5*energy"))
    assert saving.constraints[1].value <= plain.constraints[1].value + 1e-3


def test_a_solution_with_a_feature_policy_is_saved_shown_and_proven(tmp_path: Path):
    problem = corridor()
    found = solve(problem, certificate=True, certificate_time_limit=3.0, iterations=5)
    assert found.certificate is not None
    veil.verify(found.certificate, problem, found.policy)
    found.save(tmp_path / "result")
    write_report(tmp_path / "report.html", problem, found)
    assert veil.load_policy(tmp_path / "result" / "policy.safetensors") == found.policy


def test_what_a_feature_policy_cannot_do_is_refused():
    refused: list[tuple[veil.Problem, dict[str, Any], str]] = [
        (corridor(), {"memory": veil.StateMemory(1)}, "no memory besides the time"),
        (corridor(), {"objective": "guess"}, "trained on samples"),
        (corridor(), {"min_opacity": 0.1}, "trained on samples"),
        (corridor(), {"features": "colours"}, "expected one of coordinates"),
        (corridor(), {"features": "variables"}, "need states with names"),
        (corridor(), {"features": np.zeros((2, 2))}, "expected one for each of"),
        (corridor(), {"method": "primal-dual"}, "does not have this option"),
        (two_sensors(1), {"features": "one-hot", "hide": "own, other"}, "which bounds on pairs, terms"),
        (two_sensors(1), {"features": "one-hot", "task": "H(other)"}, "which bounds on pairs, terms"),
        (two_sensors(1, min=0.1), {"features": "one-hot"}, "which bounds on pairs, terms"),
    ]
    for problem, settings, words in refused:
        with pytest.raises(veil.InputError, match=words):
            solve(problem, **settings)


def test_without_time_the_answer_says_so():
    found = solve(corridor(), time_limit=0.0)
    assert found.iterations == 0
    assert found.status in (veil.Status.NOT_SEARCHED, veil.Status.TIME_LIMIT, veil.Status.INFEASIBLE)
    assert found.feasible == (found.expected_return >= (found.threshold or 0.0))
