"""Searches on fresh samples: feasible answers whose numbers are exact where they can be, near those of the exact search."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, endless, limited, random_problem, reaches, two_sensors
from tests.seeds import blocks
from veil.measure.pairs import PairValue

SAMPLED: Any = FEW | {"evaluation": "sampled", "iterations": 30}


def solve(problem: veil.Problem, **settings: Any) -> veil.Solution:
    options: dict[str, Any] = SAMPLED | settings
    return veil.solve(problem, **options)


@pytest.mark.parametrize("memory", ["markov", "timed", veil.StateMemory(1), veil.Controller(2)])
@pytest.mark.parametrize("block", blocks(1, 20, 10))
def test_the_answer_is_feasible_and_its_numbers_are_its_own(block: range, memory: Any):
    for seed in block:
        problem = random_problem(seed)
        found = solve(problem, memory=memory)
        assert found.feasible, seed
        assert reaches(problem, found), seed
        assert found.expected_return == veil.expected_return(problem, found.policy)
        assert found.opacity == veil.opacity(problem, found.policy, "exact")
        assert found.iterations == (found.history.iteration > 0).sum() == 30
        assert found.status is veil.Status.ITERATION_LIMIT
        assert found.settings["gradients"] == "fresh samples"


@pytest.mark.parametrize("block", blocks(1, 6, 3))
def test_it_comes_near_the_exact_ascent(block: range):
    for seed in block:
        problem = random_problem(seed + 1)
        exact = veil.solve(problem, **FEW)
        assert solve(problem, iterations=150).opacity.bits >= exact.opacity.bits - 0.02, seed + 1


@pytest.mark.slow
def test_a_corridor_with_a_goal_and_a_secret_cell_at_each_end():
    """The search begins nearer to one end; going to both is what hides."""
    world = veil.GridWorld(
        1, 10, starts=(0, 5), goals={(0, 0): 1.0, (0, 9): 1.0}, secrets=[(0, 1), (0, 8)],
        sensors=[veil.Sensor("s", [(0, 4)])],
    )  # fmt: skip
    problem = world.problem(16, min_return="40%")
    found, exact = solve(problem, memory="timed", iterations=80), veil.solve(problem, memory="timed", **FEW)
    assert found.feasible
    assert found.opacity.bits >= exact.opacity.bits - 0.05


@pytest.mark.parametrize("settings", [{"objective": "leakage"}, {"goal": "transparent"}, {"min_opacity": 0.3}])
def test_other_questions(settings: dict[str, Any]):
    problem = random_problem(2).replace(secret=veil.LastState({0}))
    found, plain = solve(problem, **settings), solve(problem)
    assert found.feasible
    if "min_opacity" in settings:
        assert found.opacity.bits >= 0.3
    if "goal" in settings:
        assert found.opacity.bits <= plain.opacity.bits
    if "objective" in settings:
        assert found.opacity.leakage_bits <= plain.opacity.leakage_bits + 1e-3


@pytest.mark.slow
def test_a_threshold_for_each_start_constraints_a_task_and_an_infinite_horizon():
    assert solve(random_problem(0).replace(min_return=-5.0), per_start=True, iterations=10).feasible
    for memory in ("markov", "timed"):
        assert solve(endless(), memory=memory, iterations=10).feasible
    problem = limited([veil.Return(max="60%", reward="energy"), veil.Probability("F s2", "20%")], 3)
    found = solve(problem, memory="timed", task="-energy", iterations=15)
    assert found.feasible
    assert all(one.met for one in veil.constraint_values(problem, found.policy))


def test_what_is_known_before_the_first_iteration_is_in_the_history():
    found = solve(random_problem(0), iterations=3)
    assert found.history.iteration.tolist() == [0, 1, 2, 3]
    assert found.threshold is not None
    assert found.history.expected_return[0] >= found.threshold


def test_an_answer_that_cannot_be_enumerated_is_estimated_with_its_error():
    problem = random_problem(1)
    observer = veil.Observer(np.random.default_rng(0).dirichlet(np.ones(4), size=problem.num_states))
    long = problem.replace(observer=observer, horizon=25, secret=veil.LastState({0}), min_return="30%")
    found = veil.solve(long, iterations=5, starts=1, **FEW)
    assert found.feasible
    assert found.opacity.method != "exact"
    again = veil.opacity(long, found.policy, "sampled", sequences=20_000, seed=99)
    error = np.hypot(found.opacity.std_error, again.std_error)
    assert abs(found.opacity.bits - again.bits) <= 6 * error + 1e-9


# Pairs


PAIRED: Any = FEW | {"memory": "timed", "starts": 2, "iterations": 60}


@pytest.mark.slow
def test_answers_with_pairs_come_near_the_exact_ones():
    """The least of two, and a bound on another pair: feasible, and about as good as on exact gradients."""
    problem = two_sensors(1)
    exact = veil.solve(problem, hide="own, other", **PAIRED)
    least = solve(problem, memory="timed", hide="own, other", iterations=40, starts=2)
    assert least.settings["gradients"] == "fresh samples"
    assert least.least_bits >= exact.least_bits - 0.03
    kept = two_sensors(1, min=exact.pairs[0].bits - 0.05)
    bounded = [solve(kept, memory="timed", iterations=40, starts=2), veil.solve(kept, **PAIRED)]
    assert all(one.feasible and one.pairs[0].met for one in bounded)
    assert bounded[0].opacity.bits >= bounded[1].opacity.bits - 0.03


@pytest.mark.slow
def test_a_friend_on_samples():
    """Bits hidden from a foe less those hidden from a friend, about as many as on exact gradients."""
    problem = two_sensors(1)
    friend = solve(problem, memory="timed", task="-1*H(other)", iterations=120)
    best = veil.solve(problem, task="-1*H(other)", **PAIRED | {"starts": 3, "iterations": 150})
    scores = [one.opacity.bits - one.pairs[0].bits for one in (friend, best)]
    assert friend.task_value == pytest.approx(-friend.pairs[0].bits, abs=1e-12)
    assert scores[0] >= scores[1] - 0.02


def test_pairs_are_measured_on_samples():
    """`pair_values` with samples: bits and losses of every pair within their errors of the exact ones."""
    naive = veil.Pair("naive", belief=veil.Belief("uniform", doubt=0.1))
    problem = two_sensors(2).replace(pairs=[*two_sensors(2).pairs, naive])
    policy = veil.MarkovPolicy(np.full((3, 2), [0.3, 0.7]))
    exact = veil.pair_values(problem, policy, "exact")
    sampled = veil.pair_values(problem, policy, "sampled", sequences=4000, seed=1, time_limit=100)
    for wanted, found in zip(exact, sampled, strict=True):
        assert found.opacity.method == "sampled"
        assert 0 < found.std_error < 0.05
        assert abs(found.bits - wanted.bits) < 5 * found.std_error
        assert f"± {found.std_error:.2g}" in found.fact()[1]


@pytest.mark.parametrize(
    ("bits", "words"),
    [(0.56, "at least 0.5"), (0.51, "(met, but only within"), (0.49, "(not met, but only within"), (0.4, "(not met)")],
)
def test_a_bound_within_the_error_is_said_to_be(bits: float, words: str):
    """A sampled value near its bound does not decide whether the bound is kept, and the words say so."""
    found = PairValue("foe", veil.Opacity(bits, 0.0, 1.0, 1.0, "sampled", 100, std_error=0.02), min=0.5)
    assert words in found.fact()[1]
    assert found.is_undecided == ("within" in words)
    assert found.met == (bits >= 0.5)
