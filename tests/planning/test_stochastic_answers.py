"""Ascent on sampled gradients: feasible answers, what it maximises, and what it does when time or luck runs out."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from tests.planning.test_layers import corridor
from tests.record.problems import endless
from veil.common.clock import UNLIMITED, Clock, OutOfTime
from veil.common.logs import entropy_bits
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space
from veil.planning.soft_starts import FACTORS, _balanced, _Wishes, soft_starts
from veil.planning.solution import Solution, Status
from veil.planning.starts import richest_table
from veil.planning.stochastic import StochasticAscent
from veil.planning.stochastic_state import State
from veil.planning.task import Task, make_task
from veil.planning.values import make_secrecy

FEW: dict[str, Any] = {"evaluation": "sampled", "certificate": False, "progress": False}


def quick_and_slow(quick: tuple[int, ...], count: int) -> list[Any]:
    """Seeds 0 … count - 1, of which some run in every run of the tests."""
    return [seed if seed in quick else pytest.param(seed, marks=pytest.mark.slow) for seed in range(count)]


def solve(problem: veil.Problem, **settings: Any) -> Solution:
    options: dict[str, Any] = FEW | {"iterations": 30} | settings
    return veil.solve(problem, **options)


def sampled_task(problem: veil.Problem, memory: Any = "timed", **settings: Any) -> Task:
    space = make_space(problem, memory)
    return make_task(space, secrecy=make_secrecy(space, evaluation="sampled"), **settings)


@pytest.mark.parametrize("memory", ["markov", "timed", veil.StateMemory(1), veil.Controller(2)])
@pytest.mark.parametrize("seed", quick_and_slow((0, 1), 20))
def test_the_answer_is_feasible_and_its_numbers_are_its_own(seed: int, memory: Any):
    problem = random_problem(seed)
    found = solve(problem, memory=memory)
    assert found.feasible
    assert found.threshold is not None
    assert found.expected_return >= found.threshold
    assert found.expected_return == veil.expected_return(problem, found.policy)
    assert found.opacity == veil.opacity(problem, found.policy, "exact")
    assert found.iterations == (found.history.iteration > 0).sum() == 30
    assert found.status is Status.ITERATION_LIMIT
    assert found.settings["gradients"] == "fresh samples"


@pytest.mark.parametrize("seed", quick_and_slow((1, 4), 6))
def test_it_comes_near_the_exact_ascent(seed: int):
    problem = random_problem(seed)
    exact = veil.solve(problem, certificate=False, progress=False)
    sampled = solve(problem, iterations=200)
    assert sampled.opacity.bits >= exact.opacity.bits - 0.02


def test_the_same_seed_gives_the_same_policy():
    problem = random_problem(1)
    assert solve(problem, seed=3).policy == solve(problem, seed=3).policy
    assert solve(problem, seed=3).policy != solve(problem, seed=4).policy


@pytest.mark.parametrize("settings", [{"objective": "leakage"}, {"goal": "transparent"}, {"min_opacity": 0.3}])
def test_other_tasks_are_searched_on_samples_too(settings: dict[str, Any]):
    problem = random_problem(2).replace(secret=veil.LastState({0}))
    found = solve(problem, **settings)
    assert found.feasible
    if "min_opacity" in settings:
        assert found.opacity.bits >= 0.3
    if settings.get("goal") == "transparent":
        assert found.opacity.bits <= solve(problem).opacity.bits


def test_a_threshold_for_each_start_and_an_infinite_horizon():
    each = solve(random_problem(0).replace(min_return=-5.0), per_start=True)
    assert each.feasible
    for memory in ("markov", "timed"):
        assert solve(endless(), memory=memory, iterations=10).feasible


def test_a_given_policy_is_never_lost():
    problem = random_problem(5)
    best = veil.solve(problem, certificate=False, progress=False)
    for memory in ("markov", "timed"):
        assert solve(problem, start=best.policy, memory=memory).opacity.bits >= best.opacity.bits - 0.01


def test_a_state_can_be_written_and_read():
    task = sampled_task(random_problem(0))
    method = StochasticAscent(task, richest_table(task.space), SolveOptions(iterations=8))
    state = method.begin()
    for _ in range(5):
        state = method.advance(state)
    again = method.unpack(state.arrays())
    assert isinstance(again, State)
    one, other = method.advance(state), method.advance(again)
    for name, array in one.arrays().items():
        if name != "history":  # which has the seconds in it
            np.testing.assert_array_equal(array, other.arrays()[name])


def test_rounds_halve_the_starts_until_one_is_left():
    task = sampled_task(random_problem(0))
    method = StochasticAscent(task, richest_table(task.space), SolveOptions(iterations=64))
    state = method.begin()
    left = []
    while not method.is_done(state):
        left.append(len(state.theta))
        state = method.advance(state)
    assert left[0] == len(FACTORS)
    assert left == sorted(left, reverse=True)
    assert left[-1] == 1


def test_a_search_that_has_lost_its_way_goes_back_to_its_best_answer():
    task = sampled_task(random_problem(0))
    method = StochasticAscent(task, richest_table(task.space), SolveOptions(starts=1, iterations=64))
    state = method.begin()
    for _ in range(20):
        state = method.advance(state)
    lost = np.full_like(state.theta, -30.0)
    lost[..., 0] = 0.0
    back = method._considered(replace(state, theta=lost, average=lost))
    assert back.rate == state.rate / 2
    assert back.batch == 1024
    np.testing.assert_allclose(method._table(back.theta[0]), state.best, atol=2e-3)


def test_without_any_time_the_policy_of_largest_return_is_returned_and_said_to_be_that():
    found = veil.solve(random_problem(1), **FEW, time_limit=0.0)
    assert found.iterations == 0
    assert found.feasible
    assert found.status is Status.NOT_SEARCHED
    assert "before the first iteration" in found.summary()


def test_soft_starts_are_feasible_and_make_the_secret_uncertain():
    problem = corridor(veil.LastState(["r0c3", "r0c4"])).replace(min_return="40%")
    for memory in ("markov", "timed"):
        task = sampled_task(problem, memory)
        tables = list(soft_starts(task, UNLIMITED))
        assert len(tables) == len(FACTORS)
        for table in tables:
            assert float(task.slacks(table[None]).min()) >= 0
            assert entropy_bits(task.space.chain(table).prior) > 0.9


def test_bonuses_grow_with_the_weight_of_the_return():
    # Whoever leaves the goal for the secret cell loses far more than 60 nats of a return that weighs 400.
    world = veil.GridWorld(
        1, 9, starts=(0, 0), goals={(0, 8): 1.0}, secrets=[(0, 0)], sensors=[veil.Sensor("g", [(0, 4)])]
    )
    task = sampled_task(world.problem(24, min_return="40%"))
    found = _balanced(task, _Wishes(400.0, np.zeros(2), np.zeros((25, 2))), 0.0, UNLIMITED)
    assert found.slack >= 0
    assert found.even == pytest.approx(entropy_bits(task.space.layers.seen(found.table)[0]), abs=0.02)
    assert found.even > 0.5


def test_where_a_feasible_start_leaves_nothing_uncertain_another_one_does():
    # The secret cell is so far from the goal that a policy which earns nearly all of the return never ends there.
    world = veil.GridWorld(
        1, 15, starts=(0, 7), goals={(0, 14): 1.0}, secrets=[(0, 0)], sensors=[veil.Sensor("g", [(0, 7)])]
    )
    task = sampled_task(world.problem(10, min_return="99%"))
    priors = [float(entropy_bits(task.space.layers.seen(table)[0])) for table in soft_starts(task, UNLIMITED)]
    assert len(priors) > len(FACTORS)
    assert min(priors) < 0.25 * max(priors)
    assert max(priors) > 0.01


def test_a_soft_start_that_the_time_cuts_off_is_used():
    task, ticks = sampled_task(random_problem(0).replace(min_return="100%")), itertools.count()
    found = next(soft_starts(task, Clock(20.0, now=lambda: float(next(ticks)))))
    assert next(ticks) < 40  # it ended soon after the time was over
    np.testing.assert_allclose(found.sum(axis=2), 1.0)


def test_both_starts_of_a_factor_are_used_where_the_time_runs_out_in_it(monkeypatch: pytest.MonkeyPatch):
    task = replace(sampled_task(random_problem(0)), clock=Clock(0.0))
    method = StochasticAscent(task, richest_table(task.space), SolveOptions())

    def cut_off(task: Task, clock: Clock, avoided: object):
        yield method._safe
        yield method._safe
        clock.check()

    monkeypatch.setattr("veil.planning.stochastic.soft_starts", cut_off)
    assert len(method._starts([])) == 2


def test_what_is_known_before_the_first_iteration_is_in_the_history():
    found = solve(random_problem(0), iterations=3)
    assert found.history.iteration.tolist() == [0, 1, 2, 3]
    assert found.threshold is not None
    assert found.history.expected_return[0] >= found.threshold


def test_costs_of_events_make_soft_starts_look_alike():
    problem = corridor(veil.LastState([f"r0c{cell}" for cell in range(4, 9)])).replace(min_return=None)
    task = sampled_task(problem)
    starts = dict(zip(FACTORS, soft_starts(task, UNLIMITED), strict=True))
    bits = {factor: veil.opacity(problem, task.space.policy(table), "exact").bits for factor, table in starts.items()}
    assert bits[30.0] > bits[0.0]


def test_an_expired_clock_ends_the_making_of_starts():
    with pytest.raises(OutOfTime):
        next(soft_starts(sampled_task(random_problem(0)), Clock(0.0)))
