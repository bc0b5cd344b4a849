"""The steps of the ascent, one by one: Adam's and those of L-BFGS by hand, line searches, multipliers, phases."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn, random_problem
from tests.planning.test_pairs import task_of, two_sensors
from veil.common.clock import Clock, Progress
from veil.planning import ascent
from veil.planning.ascent import (
    CLIMB,
    DONE,
    POLISH,
    SETTLE,
    Ascent,
    State,
    first_order_gain,
    lengths,
    num_starts,
    repair,
)
from veil.planning.policy_class import make_space
from veil.planning.starts import make_starts, richest_table
from veil.planning.task import Task, Values, make_task


def begun(iterations: int | None = None, starts: int = 3, **settings: Any) -> tuple[Ascent, State, Task]:
    space = make_space(random_problem(1).replace(min_return="80%"), settings.pop("memory", "markov"))
    task = replace(make_task(space, **settings), clock=Clock(iterations=iterations, now=lambda: 3.0))
    safe = richest_table(space)
    method = Ascent(task, make_starts(space, safe, starts, 1), safe[None])
    return method, method.begin(), task


def values_of(score: list[float], slack: list[list[float]], **more: Any) -> Values:
    """Of tables without parameters."""
    count, constraints = np.shape(slack)
    shape = (count, 1, 1, 1)
    plain = {"secrecy": np.array(score), "returns": np.zeros(count)} | more
    return Values(
        np.array(score), np.zeros(shape), np.array(slack), np.zeros((count, constraints, *shape[1:])),
        np.asarray(plain["secrecy"]), np.asarray(plain["returns"]),
    )  # fmt: skip


@pytest.mark.parametrize(("cost", "iterations", "wanted"), [
    (1e-3, None, (180, 60, 300)), (1.1e-3, None, (90, 60, 300)), (1e-4, 100, (33, 11, 56)), (1.0, 100, (20, 13, 67)),
    (1e-4, 1, (1, 0, 0)), (1e-4, 2, (1, 0, 1)), (1e-4, 9, (3, 1, 5)), (1e-4, 54, (18, 6, 30)),
])  # fmt: skip
def test_phases_share_a_limit_of_iterations_as_they_share_their_own(cost, iterations, wanted):
    assert lengths(SimpleNamespace(cost_seconds=cost), iterations) == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cost", "count"), [(1e-9, 36), (0.07 / 36, 36), (0.07 / 35, 35), (0.07 / 5, 5), (0.07 / 4, 4), (9.0, 4)]
)
def test_starts_are_as_many_as_fit_a_round(cost: float, count: int):
    assert num_starts(SimpleNamespace(cost_seconds=cost)) == count  # type: ignore[arg-type]


@pytest.mark.parametrize(("phase", "inside", "length", "rate"), [
    (CLIMB, 0, 5, 0.2), (CLIMB, 2, 5, 0.15), (CLIMB, 4, 5, 0.1), (SETTLE, 0, 4, 0.1), (SETTLE, 3, 4, 0.01), (CLIMB, 0, 1, 0.2),
])  # fmt: skip
def test_a_step_of_the_climb_is_that_of_adam(phase: int, inside: int, length: int, rate: float):
    _, state, task = begun()
    rng = np.random.default_rng(2)
    shape = state.theta.shape
    mean, square = 0.1 * rng.normal(size=shape), 0.1 * rng.uniform(size=shape)
    state = replace(
        state, phase=phase, inside=inside, mean=mean, square=square, multiplier=np.full((3, 1), 0.4), iteration=11
    )
    tables = task.space.softmax(state.theta)
    values = task.evaluate(tables)
    pull = np.maximum(0.0, 0.4 - 6.0 * values.slack)
    slope = values.score_slope + pull[:, 0, None, None, None] * values.slack_slope[:, 0]
    gradient = tables * (slope - np.sum(tables * slope, axis=-1, keepdims=True))
    mean, square = 0.5 * mean + 0.5 * gradient, 0.9 * square + 0.1 * gradient**2
    count = inside + 1
    step = rate * (mean / (1 - 0.5**count)) / np.sqrt(square / (1 - 0.9**count))
    theta = state.theta + step
    found = ascent._climb(task, state, length)
    np.testing.assert_allclose(found.theta, np.maximum(theta - theta.max(axis=-1, keepdims=True), -40.0), atol=1e-9)
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.square, square)
    assert (found.inside, found.iteration) == (count, 12)
    np.testing.assert_array_equal(found.multiplier, state.multiplier)
    twentieth = ascent._climb(task, replace(state, inside=19), 30)
    np.testing.assert_array_equal(twentieth.multiplier, pull)


def test_the_best_feasible_table_and_the_leading_one_are_noted_and_reported():
    told: list[Progress] = []
    _, state, task = begun()
    task = replace(task, clock=Clock(progress=told.append, iterations=54, now=lambda: 3.0))
    tables = np.arange(3.0)[:, None, None, None] * np.ones((3, *task.space.shape))
    pull, state = np.array([[0.1], [0.2], [0.3]]), replace(state, iteration=8, best_score=0.45, penalty=6.0)
    values = values_of([0.5, 0.9, 0.4], [[0.01], [-0.01], [0.5]], returns=[1.0, 2.0, 3.0])
    found = ascent._noted(task, state, tables, values, pull, 0.25)
    assert (found.best_score, found.best[0, 0, 0]) == (0.5, 0.0)
    np.testing.assert_array_equal(found.best_multiplier, [0.1])
    assert found.leading[0, 0, 0] == 1.0
    price = task.price(np.array([0.1]))
    assert found.history[-1].tolist() == [8, 0.5, 1.0, price, 0.25, 0.0]
    assert told[-1] == Progress("climbing", 8, 54, 0.5, 1.0, price, 0.0)
    for best, score in ((0.5, 0.5), (0.6, 0.6)):
        same = ascent._noted(task, replace(state, best_score=best), tables, values, pull, 0.25)
        assert same.best_score == score
        assert same.best is state.best
    outside = ascent._noted(task, state, tables, values_of([0.5, 0.9, 0.4], [[-0.5], [-0.01], [-1.0]]), pull, 0.25)
    assert outside.best is state.best
    assert outside.history[-1, 1] == 0.9


def test_a_violation_is_charged_at_the_largest_price_of_any_start():
    """`score − (1 + 2 · largest multiplier) · violation`: 0.9 − 4 · 0.1, 0.6, 0.8 − 4 · 0.02; a slack earns nothing."""
    values = values_of([0.9, 0.6, 0.8], [[-0.1], [0.5], [-0.02]])
    assert ascent._distinct(values, np.array([[0.5], [1.5], [0.0]]), 3).tolist() == [2, 1, 0]
    assert ascent._distinct(values, np.zeros((3, 1)), 2).tolist() == [0, 2]


def test_starts_with_about_the_same_bits_and_returns_are_one():
    values = values_of(
        [0.5, 0.4, 0.3, 0.2], [[0.0]] * 4, secrecy=[0.5, 0.5009, 0.5, 0.502], returns=[1.0, 1.0, 1.002, 1.0]
    )
    assert ascent._distinct(values, np.zeros((4, 1)), 3).tolist() == [0, 2, 3]
    assert ascent._distinct(values, np.zeros((4, 1)), 4).tolist() == [0, 2, 3, 1]


def test_a_direction_is_that_of_the_matrix_that_meets_the_secant_equations():
    """The inverse Hessian of BFGS, updated with each pair from the scaled metric, as a dense matrix."""
    rng = np.random.default_rng(4)
    curvature = rng.normal(size=(5, 5))
    curvature = curvature @ curvature.T + np.eye(5)
    changes = rng.normal(size=(3, 5))
    turns, metric, gradient = changes @ curvature, rng.uniform(0.5, 2.0, size=5), rng.normal(size=5)
    np.testing.assert_array_equal(ascent._quasi_newton(gradient, metric, changes[:0], turns[:0]), metric * gradient)
    scale = (changes[-1] @ turns[-1]) / (turns[-1] @ (metric * turns[-1]))
    inverse = scale * np.diag(metric)
    for change, turn in zip(changes, turns, strict=True):
        weight = 1 / (change @ turn)
        left = np.eye(5) - weight * np.outer(change, turn)
        inverse = left @ inverse @ left.T + weight * np.outer(change, change)
    np.testing.assert_allclose(ascent._quasi_newton(gradient, metric, changes, turns), inverse @ gradient)
    np.testing.assert_allclose(ascent._quasi_newton(turns[-1], metric, changes, turns), changes[-1])


def test_a_memory_that_leads_downhill_is_not_used():
    gradient, metric = np.array([1.0, 0.0]), np.array([0.5, 2.0])
    changes, turns = np.array([[1.0, 0.0]]), np.array([[-1.0, 0.1]])
    np.testing.assert_array_equal(ascent._quasi_newton(gradient, metric, changes, turns), metric * gradient)


class Along:
    """A task whose merit is a function of the difference of two parameters; it counts its evaluations."""

    def __init__(self, merit: Any):
        self.merit, self.count = merit, 0
        self.space = SimpleNamespace(softmax=lambda theta: theta)

    def evaluate(self, tables: np.ndarray) -> Any:
        self.count += 1
        at = float(tables[0, 0, 0, 0] - tables[0, 0, 0, 1])
        return SimpleNamespace(merit=lambda multiplier, penalty: np.array([self.merit(at)]), at=at)


def searched(merit: Any, promised: float, begin: float = 0.0) -> tuple[float, Any, int]:
    task, (_, state, _) = Along(merit), begun()
    state = replace(state, theta=np.array([[[[0.0, -begin]]]]))
    step, found = ascent._line_search(task, state, np.array([[1.0, 0.0]]), merit(begin), promised)  # type: ignore[arg-type]
    return step, found, task.count


@pytest.mark.parametrize(("bend", "step", "count"), [
    (0.5, 1.0, 1), (0.9995, 1.0, 1), (0.99995, 0.5, 2), (2.0, 0.25, 2), (4.0, 0.125, 2), (20.0, 0.025, 3), (1.25, 0.4, 2),
])  # fmt: skip
def test_a_line_search_takes_the_top_of_a_parabola_and_steps_back_by_a_tenth_to_a_half(
    bend: float, step: float, count: int
):
    found = searched(lambda at: at - bend * at**2, 1.0)
    assert (found[0], found[2]) == (pytest.approx(step), count)
    theta, tables, values = found[1]
    assert values.at == pytest.approx(step)
    assert theta.max() == 0.0
    np.testing.assert_array_equal(theta, tables)


def test_a_line_search_ends_where_nothing_is_gained():
    step, found, count = searched(lambda at: -float(at != 0.0), -1.0)
    assert (step, found, count) == (0.0, None, 12)
    deep = searched(lambda at: 0.0, -1.0, begin=60.0)[1]
    assert deep[0][0, 0, 0, 1] == -40.0


@pytest.mark.parametrize("wanted", [0.3, 0.0625, 1e-3, 1e-7, 3e-12, 1e-13, 0.999])
def test_the_least_share_of_a_feasible_table_is_found(wanted: float):
    task: Any = SimpleNamespace(slacks=lambda tables: tables[:, 0, 0] - np.array([[wanted]]))
    found = repair(task, np.zeros((1, 1, 1)), np.ones((1, 1, 1)))
    assert wanted <= float(found[0, 0, 0]) <= wanted + 1e-15
    met = np.full((1, 1, 1), wanted)
    assert repair(task, met, np.ones((1, 1, 1))) is met


def test_the_share_of_a_feasible_table_is_as_large_as_the_strictest_constraint_needs():
    task: Any = SimpleNamespace(slacks=lambda tables: tables[:, 0, 0] - np.array([[0.2, 0.7, 0.4]]))
    found = repair(task, np.zeros((1, 1, 1)), np.ones((1, 1, 1)))
    assert 0.7 <= float(found[0, 0, 0]) <= 0.7 + 1e-13


@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_the_metric_is_that_of_visits_and_probabilities(memory: str):
    _, _, task = begun(memory=memory)
    space = task.space
    table = drawn(space, 1)[0]
    chain = space.chain(table)
    visits = np.array(
        [np.bincount(space.hidden.cell, chain.occupancies[t], space.shape[1]) for t in range(space.hidden.horizon)]
    )
    visits = visits.sum(axis=0, keepdims=True) if memory == "markov" else visits
    np.testing.assert_allclose(ascent._metric(task, table), 1 / (np.maximum(visits, 1e-6)[..., None] * table))
    shut = np.zeros_like(table)
    shut[..., 0] = 1.0
    assert ascent._metric(task, shut)[..., 1].min() >= 1e9 / space.hidden.horizon


def test_rare_actions_are_closed_where_they_do_not_pay_and_opened_where_they_do():
    _, state, task = begun(starts=1)
    theta = np.zeros_like(state.theta)
    theta[0, 0, 0] = [0.0, -8.0][: theta.shape[-1]] + [-30.0] * (theta.shape[-1] - 2)
    theta[0, 0, 1] = [-8.0, 0.0] + [-1.0] * (theta.shape[-1] - 2)
    theta[0] += 5.0
    state = replace(state, theta=theta, changes=np.ones((2, 4)), turns=np.ones((2, 4)))
    tables = task.space.softmax(theta)
    values = task.evaluate(tables)
    slope = ascent.lagrangian_slope(values, values.pulls(state.multiplier, state.penalty))[0]
    gain = slope - np.sum(tables[0] * slope, axis=-1, keepdims=True)
    found = ascent._sorted_out(task, state)
    rare = tables[0] < 2e-3
    assert rare.any()
    for at in np.ndindex(rare.shape):
        before = max(float(theta[0][at] - theta[0][at[:2]].max()), -25.0)
        wanted = before if not rare[at] else -25.0 if gain[at] <= 0 else -4.0 if gain[at] > 1e-5 else before
        assert found.theta[0][at] == wanted
    assert (len(found.changes), len(found.turns)) == (0, 0)


@pytest.mark.parametrize(("pull", "slack", "gap", "done", "ended"), [
    (0.5, 0.0, 0.0, True, True), (0.5, 0.0, 0.9e-4, True, True), (0.5, 0.0, 1.1e-4, True, False),
    (0.5, 0.0, 0.0, False, False), (0.5 + 5e-6, 0.0, 0.0, True, True), (0.5 + 7e-6, 0.0, 0.0, True, False),
    (0.5 - 7e-6, 0.0, 0.0, True, False), (0.5, -0.9e-6, 0.0, True, True), (0.5, -1.1e-6, 0.0, True, False),
    (0.5, 0.9, 0.0, True, True),
])  # fmt: skip
def test_a_search_ends_where_multipliers_and_slacks_have_settled(
    pull: float, slack: float, gap: float, done: bool, ended: bool
):
    _, state, task = begun(starts=1)
    state = replace(state, phase=POLISH, multiplier=np.array([[0.5]]), gap=gap, inside=7)
    found = ascent._next_multiplier(task, state, np.array([[pull]]), values_of([0.5], [[slack]]), done=done)
    assert (found.phase == DONE) is ended
    assert found.multiplier[0, 0] == pull
    assert found.penalty == 6.0


def test_a_violation_raises_the_penalty_up_to_its_limit():
    _, state, task = begun(starts=1)
    state = replace(state, phase=POLISH, inside=7)
    for slack, before, after in ((-0.9e-4, 6.0, 6.0), (-1.1e-4, 6.0, 12.0), (-0.5, 6e3, 1e4), (0.5, 6.0, 6.0)):
        values = values_of([0.5], [[slack]])
        found = ascent._next_multiplier(task, replace(state, penalty=before), np.zeros((1, 1)), values, done=False)
        assert found.penalty == after


def test_actions_are_sorted_out_now_and_then(monkeypatch: pytest.MonkeyPatch):
    _, state, task = begun(starts=1)
    calls: list[int] = []
    monkeypatch.setattr(ascent, "_sorted_out", lambda task, state: calls.append(state.inside) or state)
    for inside, done in ((59, False), (60, False), (61, False), (61, True)):
        values = values_of([0.5], [[-1.0]])
        ascent._next_multiplier(task, replace(state, inside=inside), np.zeros((1, 1)), values, done=done)
    assert calls == [60, 61]


def test_the_phases_follow_each_other_and_keep_the_best():
    """Three iterations of climbing from six starts, one of settling four, five of polishing one."""
    method, state, _ = begun(iterations=9, starts=6)
    seen = [(state.phase, len(state.theta))]
    while not method.is_done(state):
        state = method.advance(state)
        seen.append((state.phase, len(state.theta)))
    assert seen[:5] == [(CLIMB, 6), (CLIMB, 6), (CLIMB, 6), (SETTLE, 4), (POLISH, 1)]
    assert seen[-1] == (DONE, 1)
    assert 5 <= state.iteration <= 9
    assert state.history[:, 0].tolist() == list(range(1, state.iteration + 1))


def test_phases_without_iterations_are_left_out():
    method, state, _ = begun(iterations=2, starts=6)
    assert lengths(method.task, 2) == (1, 0, 1)
    state = method.advance(state)
    assert (state.phase, state.inside, len(state.theta)) == (POLISH, 0, 1)
    assert method.advance(state).phase == DONE
    method, state, _ = begun(iterations=1, starts=6)
    assert method.advance(state).phase == DONE


def test_the_next_phase_begins_with_fresh_moments():
    _, state, task = begun(starts=6)
    state = replace(state, inside=5, mean=np.ones_like(state.theta), square=np.ones_like(state.theta))
    found = ascent._next_phase(task, state)
    assert (found.phase, found.inside) == (SETTLE, 0)
    assert not found.mean.any()
    assert not found.square.any()
    best = ascent._distinct(task.evaluate(task.space.softmax(state.theta)), state.multiplier, 4)
    np.testing.assert_array_equal(found.theta, state.theta[best])
    np.testing.assert_array_equal(found.multiplier, state.multiplier[best])


def test_candidates_are_the_best_and_the_leading_table_made_feasible():
    method, state, task = begun()
    best, other = state.best, drawn(task.space, 1, 5)[0]
    for phase in (CLIMB, SETTLE):
        found = method.candidates(replace(state, phase=phase, leading=other))
        np.testing.assert_array_equal(found, [best, repair(task, other, best)])
    newest = task.space.softmax(state.theta[:1])[0]
    for phase in (POLISH, DONE):
        found = method.candidates(replace(state, phase=phase, leading=other))
        np.testing.assert_array_equal(found, [best, repair(task, newest, best)])
    np.testing.assert_array_equal(method.candidates(replace(state, best_score=-np.inf)), [best])


def test_a_search_counts_its_starts_without_the_policy_that_is_given():
    method, _, task = begun(starts=4)
    assert method.describe() == {"starts": 4}
    known = np.stack([richest_table(task.space), drawn(task.space, 1)[0]])
    assert Ascent(task, np.zeros((5, *task.space.shape)), known).describe() == {"starts": 4}


def test_the_first_multipliers_of_a_least_are_equal_weights():
    task = task_of(two_sensors(1, min=0.3), hide="own, other, start")
    first = ascent._first_multipliers(task, 4)
    np.testing.assert_allclose(first[:, :3], 1 / 3)
    np.testing.assert_array_equal(first[:, 3:], np.tile([[0.0], [1.0]], (2, first.shape[1] - 3)))


def test_without_decisions_there_is_nothing_to_search():
    problem = random_problem(1).replace(horizon=0, min_return=None, secret=veil.InitialState())
    space = make_space(problem, "timed")
    task = make_task(space)
    method = Ascent(task, np.zeros((2, *space.shape)), np.zeros((1, *space.shape)))
    assert method.begin().phase == DONE
    assert first_order_gain(task, np.zeros(space.shape), np.zeros(space.shape)) == 0.0


def test_the_first_order_gain_is_what_the_best_actions_promise():
    _, _, task = begun()
    table, slope = drawn(task.space, 1)[0], np.random.default_rng(0).normal(size=task.space.shape)
    wanted = sum(slope[0, cell].max() - table[0, cell] @ slope[0, cell] for cell in range(task.space.shape[1]))
    assert first_order_gain(task, table, slope) == pytest.approx(wanted)


def test_a_search_begins_without_a_memory_of_steps_and_with_no_iterations_made():
    _, state, task = begun()
    size = int(np.prod(task.space.shape))
    assert state.changes.shape == state.turns.shape == (0, size)
    assert (state.iteration, state.inside, len(state.history)) == (0, 0, 0)
    assert not state.mean.any()
    assert not state.square.any()
