"""Starts elsewhere: what they avoid, when a search begins again at them, and what becomes of the best answer."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from tests.planning.test_stochastic_answers import sampled_task
from veil.common.clock import UNLIMITED, Clock
from veil.planning.avoided import nothing_avoided
from veil.planning.options import SolveOptions
from veil.planning.soft_starts import soft_starts
from veil.planning.starts import richest_table
from veil.planning.stochastic import StochasticAscent
from veil.planning.stochastic_state import State
from veil.planning.task import Task


def two_ends(memory: str = "markov") -> Task:
    """A corridor with a goal at each end, the nearer one on the right, and a secret cell beside each."""
    world = veil.GridWorld(
        1,
        10,
        starts=(0, 5),
        goals={(0, 0): 1.0, (0, 9): 1.0},
        secrets=[(0, 1), (0, 8)],
        sensors=[veil.Sensor("s", [(0, 4)])],
    )
    return sampled_task(world.problem(16, min_return="40%"), memory)


def stalled(task: Task, ticks: float = 1e-3) -> tuple[StochasticAscent, State]:
    """A search with one start left whose checks find nothing better; its clock advances with each look at it."""
    count = itertools.count()
    task = replace(task, clock=Clock(100.0, now=lambda: ticks * next(count)))
    method = StochasticAscent(task, richest_table(task.space), SolveOptions(starts=1))
    state = method.begin()
    for _ in range(6):
        state = method.advance(state)
    assert len(state.theta) == 1
    task.clock.resume_after(20.0)
    return method, replace(state, best_score=0.3, batch=2 * method._first_batch)


@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_shares_of_the_return_and_of_each_value_sum_to_one(memory: str):
    task = two_ends(memory)
    space, hidden = task.space, task.space.hidden
    table = next(soft_starts(task, UNLIMITED))
    found = nothing_avoided(hidden).and_of(space, table)
    assert found.earning.sum() == pytest.approx(1.0)
    assert set(np.flatnonzero(found.earning)) <= set(np.flatnonzero(hidden.reward.max(axis=1)))
    np.testing.assert_allclose(found.ending.sum(axis=0), 1.0)
    assert np.all((found.ending > 0) <= (hidden.label > 0))
    again = found.and_of(space, table)
    np.testing.assert_array_equal(again.earning, found.earning)
    np.testing.assert_array_equal(again.ending, found.ending)


@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_a_start_that_avoids_an_answer_earns_at_another_goal(memory: str):
    task = two_ends(memory)
    space, hidden = task.space, task.space.hidden
    first = next(soft_starts(task, UNLIMITED))
    avoided = nothing_avoided(hidden).and_of(space, first)
    other = nothing_avoided(hidden).and_of(space, next(soft_starts(task, UNLIMITED, avoided)))
    goal = avoided.earning.argmax()
    assert avoided.earning[goal] > 0.8
    assert other.earning[goal] < 0.2


def test_what_is_avoided_is_worth_as_little_as_the_least():
    hidden = two_ends().space.hidden
    everything = replace(
        nothing_avoided(hidden), earning=np.ones(hidden.num_states), ending=np.ones((hidden.num_states, 2))
    )
    np.testing.assert_array_equal(everything.reward(hidden), np.full_like(hidden.reward, hidden.reward.min()))
    np.testing.assert_array_equal(everything.prize(hidden, np.array([-1.0, 2.0])), 0.0)
    nothing = nothing_avoided(hidden)
    np.testing.assert_array_equal(nothing.reward(hidden), hidden.reward)
    np.testing.assert_array_equal(nothing.prize(hidden, np.array([-1.0, 2.0])), hidden.label @ [0.0, 3.0])


def test_a_stalled_search_begins_again_elsewhere_and_keeps_its_best_answer():
    method, state = stalled(two_ends())
    again = method._directed(state, 0.3, 0.3)
    assert (again.exploring, again.restarts, again.begun, again.iteration) == (1, 1, state.iteration, state.iteration)
    assert len(again.theta) == 2
    assert again.best is state.best
    assert again.best_score == state.best_score
    np.testing.assert_array_equal(again.history, state.history)
    np.testing.assert_array_equal(method.unpack(again.arrays()).ending, again.ending)
    after = method.advance(again)
    assert after.iteration == state.iteration + 1
    assert after.best is state.best


def test_a_search_that_finds_better_answers_goes_on():
    method, state = stalled(two_ends())
    assert method._directed(state, 0.31, 0.3) is state


def test_starts_elsewhere_are_given_up_where_they_stop_rising_and_adopted_where_they_are_better():
    method, state = stalled(two_ends())
    exploring = replace(method._directed(state, 0.3, 0.3), worth=np.zeros(1), theta=state.theta, average=state.average)
    rising = method._directed(exploring, 0.1, 0.3)
    assert rising.exploring
    assert rising.lacking == pytest.approx(0.2)
    second = method._directed(rising, 0.11, 0.3)
    assert (second.exploring, second.restarts) == (1, 2)
    assert np.all(second.ending >= exploring.ending)
    last = replace(rising, restarts=3)
    back = method._directed(last, 0.11, 0.3)
    assert not back.exploring
    np.testing.assert_allclose(method._table(back.theta[0]), state.best, atol=2e-3)
    better = method._directed(rising, 0.4, 0.3)
    assert (better.exploring, better.restarts) == (0, 0)
    assert better.theta is rising.theta


@pytest.mark.parametrize(
    ("score", "spent", "restarts", "wanted"),
    [(0.5, 0.0, 0, True), (0.985, 0.0, 0, False), (0.5, 41.0, 0, False), (0.5, -10.0, 0, False), (0.5, 0.0, 3, False)],
)
def test_a_search_begins_again_only_with_time_left_and_something_to_gain(
    score: float, spent: float, restarts: int, wanted: bool
):
    method, state = stalled(two_ends())
    method.task.clock.resume_after(spent)
    assert method._begins_again(replace(state, best_score=score, restarts=restarts)) is wanted


def test_a_search_does_not_begin_again_before_noise_has_taken_over():
    method, state = stalled(two_ends())
    assert not method._begins_again(replace(state, batch=method._first_batch))


def test_a_search_without_a_time_limit_does_not_begin_again():
    task = two_ends()
    for options, clock in ((SolveOptions(), UNLIMITED), (SolveOptions(iterations=9), Clock(100.0))):
        method = StochasticAscent(replace(task, clock=clock), richest_table(task.space), options)
        assert method._most_restarts == 0


@pytest.mark.parametrize("memory", ["markov", "timed", veil.StateMemory(1)])
def test_actions_that_raise_the_return_make_a_table_feasible(memory: object):
    task = sampled_task(random_problem(3).replace(min_return="90%"), memory)
    method = StochasticAscent(task, richest_table(task.space), SolveOptions())
    uniform = task.space.softmax(np.zeros(task.space.shape))
    assert method._returns(uniform)[1].min() < 0
    steeper = method._steeper(uniform)
    np.testing.assert_allclose(steeper.sum(axis=2), 1.0)
    found = method._mended(uniform, steeper)
    assert 0 <= method._returns(found)[1].min() < 0.01
