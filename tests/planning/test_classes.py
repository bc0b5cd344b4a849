"""A larger class of policies never ends below a smaller one at equal limits, and says what it began from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import Interrupting, random_problem
from veil.planning.policy_class import smaller_classes
from veil.planning.solution import Solution, Status

CLASSES = ("markov", "timed", veil.StateMemory(1))
QUICK: dict[str, Any] = {"iterations": 3, "starts": 2}


def solve(problem: veil.Problem, **settings: Any) -> Solution:
    return veil.solve(problem, certificate=False, progress=False, **settings)


def bits_of_classes(seed: int, **settings: Any) -> list[float]:
    found = [solve(random_problem(seed), memory=memory, **settings) for memory in CLASSES]
    assert all(one.feasible for one in found)
    return [one.opacity.bits for one in found]


def test_no_class_ends_below_a_smaller_one():
    for seed in range(12):
        assert np.diff(bits_of_classes(seed, **QUICK)).min() >= -1e-3, seed


def test_nor_on_samples():
    for seed in range(5):
        assert np.diff(bits_of_classes(seed, evaluation="sampled", sequences=20, **QUICK)).min() >= -1e-3, seed


def test_nor_where_the_samples_of_a_class_between_prefer_a_worse_policy():
    assert np.diff(bits_of_classes(13, evaluation="sampled", iterations=20)).min() >= -1e-9


def test_nor_where_the_return_of_the_smaller_answer_rounds_below_the_aim():
    assert np.diff(bits_of_classes(139, iterations=40)).min() >= -1e-9


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"iterations": 40}, {"iterations": 20, "evaluation": "sampled"}])
def test_nor_on_two_hundred_problems(settings: dict[str, Any]):
    for seed in range(200):
        assert np.diff(bits_of_classes(seed, **settings)).min() >= -1e-3, seed


def test_which_classes_are_searched_first():
    assert smaller_classes("markov") == ()
    assert smaller_classes("timed") == ("markov",)
    assert smaller_classes(veil.StateMemory(1)) == ("markov", "timed")
    assert smaller_classes(veil.Controller(2)) == ("markov",)


def test_the_history_begins_with_the_answers_of_the_smaller_classes():
    problem = random_problem(1)
    small, large = (solve(problem, memory=memory, **QUICK) for memory in ("timed", veil.StateMemory(1)))
    np.testing.assert_array_equal(large.history.iteration, [0, 0, *range(1, 4)])
    assert large.history.opacity_bits[1] == pytest.approx(small.opacity.bits, abs=1e-9)
    assert large.history.expected_return[1] == pytest.approx(small.expected_return, abs=1e-9)
    assert large.iterations == 3


def test_a_policy_to_start_from_takes_the_place_of_the_smaller_classes():
    problem = random_problem(1)
    found = solve(problem, memory="timed", start=veil.MarkovPolicy.uniform(problem), **QUICK)
    np.testing.assert_array_equal(found.history.iteration, range(1, 4))


@pytest.mark.parametrize("reports", [2, 5, 8])
@pytest.mark.parametrize("evaluation", ["auto", "sampled"])
def test_an_interrupted_search_goes_on_in_the_class_where_it_was(evaluation: str, reports: int, tmp_path: Path):
    problem, path = random_problem(1), tmp_path / "run"
    settings: dict[str, Any] = {"memory": veil.StateMemory(1), "evaluation": evaluation, "sequences": 20, **QUICK}
    whole = solve(problem, **settings)
    first = veil.solve(problem, certificate=False, progress=Interrupting(reports), checkpoint=path, **settings)
    assert first.status is Status.INTERRUPTED
    assert first.feasible
    assert first.policy_class == whole.policy_class
    assert isinstance(first.policy, veil.MemoryPolicy)
    resumed = solve(problem, resume=path, **settings)
    assert resumed.policy == whole.policy
    assert resumed.iterations == whole.iterations
    np.testing.assert_array_equal(resumed.history.opacity_bits, whole.history.opacity_bits)


def test_where_the_time_ends_in_a_smaller_class_its_policy_is_the_answer():
    found = solve(random_problem(1), memory="timed", time_limit=0.0)
    assert found.feasible
    assert isinstance(found.policy, veil.TimedPolicy)
    assert found.policy_class == "time-dependent policies"


def test_on_samples_the_history_has_what_each_class_knows_before_its_first_iteration():
    """That of largest return in the smaller class, the answer of that class, what the larger one knows; then iterations."""
    found = solve(random_problem(1), memory="timed", evaluation="sampled", sequences=20, **QUICK)
    np.testing.assert_array_equal(found.history.iteration, [0, 0, 0, 1, 2, 3])
    assert np.all(np.diff(found.history.seconds) >= 0)
