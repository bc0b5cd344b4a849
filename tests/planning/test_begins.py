"""What searches begin from, against plain loops and all tables one by one: greedy, averaged and feasible tables, bounds."""

import itertools
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn, tiny_problem
from tests.problem.test_constraints import make_problem
from tests.record.problems import problem as recorded
from veil.common.clock import UNLIMITED, Clock, OutOfTime
from veil.engine.chain import Chain
from veil.engine.feasibility import feasible_mixture, further_targets, strictest_bound, targets
from veil.engine.hidden import build
from veil.planning import feasible_start
from veil.planning.answer import _least_promise
from veil.planning.ascent import best_known
from veil.planning.best_returns import best_stationary_return, discounted_table, greedy_table, time_average
from veil.planning.design import _maximal
from veil.planning.feasible_start import _rows, feasible_table, projected
from veil.planning.layers import used_rows
from veil.planning.moved_bound import MovedBound
from veil.planning.policy_class import make_space
from veil.planning.starts import logits, richest_table
from veil.planning.task import make_task

ENERGY = make_problem([veil.Return(max="40%", reward="energy")], 3)
LIMITED = make_problem([veil.Return(max="40%", reward="energy"), veil.Probability("G !s2", "40%")], 3)


@pytest.mark.parametrize("seed", range(4))
def test_greedy_tables_have_the_largest_and_the_smallest_return_of_all(seed: int):
    problem = tiny_problem(seed).replace(min_return=None)
    tables = [np.eye(2)[np.reshape(one, (2, 2))] for one in itertools.product(range(2), repeat=4)]
    returns = [veil.expected_return(problem, veil.TimedPolicy(table)) for table in tables]
    for smallest, wanted in ((False, max(returns)), (True, min(returns))):
        table = greedy_table(problem, smallest=smallest)
        assert veil.expected_return(problem, veil.TimedPolicy(table)) == pytest.approx(wanted, abs=1e-12)
    stationary = [np.eye(2)[np.array(one)] for one in itertools.product(range(2), repeat=2)]
    best = max(veil.expected_return(problem, veil.MarkovPolicy(table)) for table in stationary)
    found, table = best_stationary_return(problem)
    assert best - 1e-12 <= found <= max(returns) + 1e-12
    assert found == pytest.approx(veil.expected_return(problem, veil.MarkovPolicy(table)), abs=1e-12)


@pytest.mark.parametrize("name", ["last", "automaton", "model"])
def test_the_discounted_table_is_that_of_plain_value_iteration(name: str):
    """Discount 0.9 of the model, or `1 − 1/T` where that is smaller; three horizons of sweeps."""
    problem = recorded(name, horizon=4)
    rows = []
    for model in problem.models:
        values, actions = np.zeros(model.num_states), np.zeros((model.num_states, 2))
        for _ in range(12):
            actions = np.array(
                [
                    [model.rewards[s, a] + 0.75 * model.matrices[a].toarray()[s] @ values for a in range(2)]
                    for s in range(model.num_states)
                ]
            )
            values = actions.max(axis=1)
        best = np.argmax(actions, axis=1)
        rows += [best] * (2 if name == "automaton" else 1)
    np.testing.assert_array_equal(discounted_table(problem), np.eye(2)[np.concatenate(rows)])


def test_the_time_average_weighs_each_time_by_how_often_the_cell_is_visited():
    problem = recorded("automaton", horizon=3)
    hidden, rng = build(problem), np.random.default_rng(5)
    timed = rng.dirichlet(np.ones(2), size=(3, problem.num_cells))
    occupied = Chain(hidden, timed, stationary=False).occupancies[:-1].copy()
    occupied[:, hidden.cell == 1] = 0.0  # a cell that is never visited keeps its first row
    found = time_average(hidden, timed, occupied)
    for cell in range(problem.num_cells):
        weights = [sum(row[x] for x in range(hidden.num_states) if hidden.cell[x] == cell) for row in occupied]
        total = sum(weights)
        expected = (
            sum(w * table[cell] for w, table in zip(weights, timed, strict=True)) / total if total else timed[0, cell]
        )
        np.testing.assert_allclose(found[cell], expected, atol=1e-12)


def test_the_rows_of_a_table_that_some_policy_uses():
    hidden = build(recorded("automaton", horizon=2))
    reached = [np.array([0, 1]), np.array([2]), np.array([3])]
    cells = [sorted({int(hidden.cell[x]) for x in states}) for states in reached[:2]]
    assert used_rows(hidden, reached, 1).tolist() == sorted({*cells[0], *cells[1]})
    assert used_rows(hidden, reached, 2).tolist() == [*cells[0], *(hidden.num_cells + cell for cell in cells[1])]
    still = build(recorded("automaton", horizon=0))
    assert used_rows(still, [np.array([0])], 1).tolist() == []


@pytest.mark.parametrize("memory", ["markov", "timed"])
@pytest.mark.parametrize("problem", [ENERGY, LIMITED])
def test_a_feasible_table_is_inside_all_constraints(problem: veil.Problem, memory: Any):
    space = make_space(problem, memory)
    task, mixture = make_task(space), feasible_mixture(problem)
    table = feasible_table(task, richest_table(space), UNLIMITED)
    worst = float(task.constraints(table[None])[2].min())
    assert 0.0 <= worst <= mixture.upper + 1e-9
    if memory == "timed" and problem is ENERGY:  # the agent knows the hidden state and the time: nothing is lost
        slack = task.constraints(projected(space, mixture)[None])[2][0]
        np.testing.assert_allclose(slack, mixture.slack, atol=1e-9)
        assert worst == slack.min()


def test_a_feasible_table_of_a_small_class_is_searched_until_the_deadline():
    space = make_space(LIMITED, "markov")
    task, richest = make_task(space), richest_table(space)
    with pytest.raises(OutOfTime):
        feasible_table(task, richest, Clock(0.0))
    first = task.constraints(np.stack([projected(space, feasible_mixture(LIMITED)), richest]))[2].min(axis=1).max()
    assert task.constraints(feasible_table(task, richest, UNLIMITED)[None])[2].min() > first


def test_the_best_known_table_is_feasible_or_nearest_to_it():
    space = make_space(LIMITED, "timed")
    task = make_task(space)
    inside = feasible_table(task, richest_table(space), UNLIMITED)
    tables = np.concatenate([drawn(space, 6, sharp=4.0), inside[None], drawn(space, 2, seed=1)])
    values = task.evaluate(tables)
    best, score = best_known(task, tables)
    assert score == max(values.score[values.feasible])
    assert np.all(task.slacks(best[None]) >= 0)
    outside = tables[~values.feasible]
    nearest, score = best_known(task, outside)
    assert score == -np.inf
    assert task.slacks(nearest[None]).min() == max(task.slacks(one[None]).min() for one in outside)


def test_bounds_are_moved_by_name():
    for along in ("energy", "energy ≤", "energy <=", " energy "):
        moved = MovedBound.named(LIMITED, along)
        assert (moved.number, moved.sign, moved.text) == (0, -1.0, "energy ≤")
    for along in ("P(G !s2)", "G !s2", "P(G !s2) ≥"):
        assert MovedBound.named(LIMITED, along).number == 1
    assert (
        MovedBound.named(LIMITED, "return") == MovedBound(LIMITED) or MovedBound.named(LIMITED, "return").number is None
    )
    with pytest.raises(veil.InputError, match="expected a constraint of the problem"):
        MovedBound.named(LIMITED, "enrgy")
    twice = make_problem([veil.Return(min=0.1, reward="energy"), veil.Return(max=9, reward="energy")])
    with pytest.raises(veil.InputError, match="several constraints have: use 'energy ≥' or 'energy ≤'"):
        MovedBound.named(twice, "energy")
    assert MovedBound.named(twice, "energy ≤").number == 1


def test_the_strictest_bound_of_all_policies_and_one_that_all_meet():
    moved = MovedBound.named(ENERGY, "energy")
    free = further_targets(moved.free)[0]
    assert free.bound == pytest.approx(free.range.largest + free.unit)
    assert moved.at(0.5).further[0].bound == 0.5
    bound, policy = moved.strictest(make_space(ENERGY, "timed"), UNLIMITED)
    assert policy is None
    assert bound == strictest_bound(moved.free, free, [one for one in targets(moved.free) if one is not free])
    stationary, found = moved.strictest(make_space(ENERGY, "markov"), UNLIMITED)
    assert found is not None
    assert bound - 1e-9 <= moved.value(found) <= stationary <= moved.value(found) + 1e-6


def test_designs_that_cannot_be_extended_within_the_budget():
    price = {"a": 1.0, "b": 2.0, "c": 2.5}
    assert _maximal(("a", "b", "c"), price, 3.0) == [("a", "b"), ("c",)]
    assert _maximal(("a", "b", "c"), price, 3.5) == [("a", "b"), ("a", "c")]
    assert _maximal(("a", "b", "c"), price, 5.5) == [("a", "b", "c")]
    assert _maximal(("a", "b", "c"), price, 0.5) == [()]
    assert _maximal(tuple(map(str, range(17))), dict.fromkeys(map(str, range(17)), 1.0), 1.0) is None


def test_the_multipliers_at_which_a_change_promises_least():
    """Of a convex promise: those of constraints with slack are zero, and the first ones are weights that sum to one."""
    wanted = np.array([0.3, 0.7, 0.4, 2.0])

    def gain(multiplier: np.ndarray) -> float:
        return float(np.sum((multiplier - wanted) ** 2))

    slack = np.array([0.0, 0.0, 1e-3, 0.5])
    least, found = _least_promise(gain, np.array([0.5, 0.5, 1.0, 1.0]), slack, num_least=2)
    np.testing.assert_allclose(found, [0.3, 0.7, 0.4, 0.0], atol=1e-3)
    assert least == gain(found)
    least, found = _least_promise(gain, np.array([1.0, 0.0, 1.0, 1.0]), slack, num_least=1)
    np.testing.assert_allclose(found, [1.0, 0.7, 0.4, 0.0], atol=1e-3)  # a single weight stays one
    loose = np.array([0.0, 0.0, 0.5, 0.5])
    least, found = _least_promise(gain, np.array([0.5, 0.5, 1.0, 1.0]), loose, num_least=2)
    np.testing.assert_allclose(found, [0.3, 0.7, 0.0, 0.0], atol=1e-3)
    assert least == gain(found)


def test_rows_that_are_never_visited_are_those_of_another_table():
    flow, other = np.array([[0.1, 0.3], [0.0, 0.0], [0.5, 0.0]]), np.array([[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]])
    np.testing.assert_allclose(_rows(flow, other), [[0.25, 0.75], [0.25, 0.75], [1.0, 0.0]])


def test_the_worst_slack_is_raised_by_steps_of_adam_on_its_soft_minimum(monkeypatch: pytest.MonkeyPatch):
    """Three steps by hand, at weights `exp(−sharpness · slack)` whose sharpness grows from 20 to 400 over all iterations."""
    monkeypatch.setattr(feasible_start, "_ITERATIONS", 4)
    task = make_task(make_space(LIMITED, "markov"))
    start = drawn(task.space, 1, 7)[0]
    theta, mean, square, tables = logits(task.space, start, 0.05), 0.0, 0.0, []
    for count in range(1, 5):
        table = task.space.softmax(theta)
        tables.append(table)
        _, _, slacks, slopes = task.constraints(table[None])
        weights = np.exp(-20.0 * 20.0 ** (count / 4) * (slacks[0] - slacks[0].min()))
        slope = np.tensordot(weights / weights.sum(), slopes[0], axes=1)
        gradient = table * (slope - np.sum(table * slope, axis=-1, keepdims=True))
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        theta = theta + 0.1 * (mean / (1 - 0.9**count)) / np.sqrt(square / (1 - 0.99**count))
    worst = [float(task.constraints(table[None])[2].min()) for table in tables]
    best = int(np.argmax(worst))
    assert best == 2
    found = feasible_start._raised(task, start, -np.inf, np.inf, UNLIMITED)
    np.testing.assert_allclose(found, tables[best], atol=1e-8)
    early = feasible_start._raised(task, start, -np.inf, worst[1] - 1e-9, UNLIMITED)
    np.testing.assert_allclose(early, tables[1], atol=1e-8)
    assert feasible_start._raised(task, start, worst[best] + 1e-3, np.inf, UNLIMITED) is start
