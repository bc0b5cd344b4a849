"""The search for a stationary policy of large return: when it ends, where it begins, and its steps by hand."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.test_return_range import harvest, two_models
from tests.planning.small_problems import random_problem
from tests.policy.masked import masked_problem
from tests.record.problems import endless
from veil.common.clock import Clock
from veil.engine.chain import Chain
from veil.engine.hidden import build
from veil.engine.return_range import max_return
from veil.engine.returns import evaluate_return
from veil.planning import best_returns
from veil.planning.best_returns import (
    _Climber,
    _stationary_starts,
    best_stationary_return,
    discounted_table,
    greedy_table,
    time_average,
)
from veil.policy.tables import uniform_table


def climbed(monkeypatch: pytest.MonkeyPatch, problem: veil.Problem, **settings: Any) -> tuple[float, int]:
    """The return that is found, and how many climbs that took."""
    count, climb = [0], _Climber.climb

    def counted(self: _Climber, table: np.ndarray, iterations: int) -> np.ndarray:
        count[0] += 1
        return climb(self, table, iterations)

    monkeypatch.setattr(_Climber, "climb", counted)
    return best_stationary_return(problem, **settings)[0], count[0]


def test_the_search_ends_where_the_largest_return_or_enough_is_reached(monkeypatch: pytest.MonkeyPatch):
    assert climbed(monkeypatch, harvest(), starts=3) == (pytest.approx(3.125, abs=1e-9), 3)
    assert climbed(monkeypatch, harvest(), starts=1)[1] == 1
    assert climbed(monkeypatch, harvest(), enough=2.5)[1] == 0  # a start has 3
    assert climbed(monkeypatch, harvest(), enough=3.0)[1] == 0
    assert climbed(monkeypatch, harvest(), enough=3.12499999)[1] == 1
    assert climbed(monkeypatch, harvest().replace(horizon=1))[1] == 0  # where the largest return is stationary
    assert climbed(monkeypatch, endless())[1] == 0


def test_without_time_the_best_table_so_far_is_returned():
    value, table = best_stationary_return(harvest(), clock=Clock(0.0))
    assert value == -np.inf
    np.testing.assert_array_equal(table, uniform_table(harvest()))
    left = [4]

    def stop() -> bool:
        left[0] -= 1
        return left[0] < 0

    value, table = best_stationary_return(harvest(), clock=Clock(stop=stop))
    assert value == veil.expected_return(harvest(), veil.MarkovPolicy(table))


@pytest.mark.parametrize(("given", "words"), [
    ({"starts": 0}, "starts is 0, expected a whole number, 1 or more"), ({"starts": True}, "starts is True"),
    ({"iterations": -1}, "iterations is -1, expected a whole number, 0 or more"), ({"seed": -1}, "seed is -1"),
    ({"seed": 0.5}, "seed is 0.5"),
])  # fmt: skip
def test_settings_that_make_no_sense_are_refused(given: dict[str, Any], words: str):
    with pytest.raises(veil.InputError, match=words):
        best_stationary_return(harvest(), **given)
    assert best_stationary_return(harvest(), starts=1, iterations=0, seed=0)[0] >= 3.0


def test_starts_are_sharp_and_spread_ones_in_turn():
    problem = harvest()
    climber = _Climber(problem, problem.models)
    found = _stationary_starts(climber, 0)
    assert len(found) == 6
    stay, leave = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(found[0], leave)  # which earns 3, before what earns 2
    np.testing.assert_array_equal(found[2], stay)
    timed = greedy_table(problem)
    occupied = Chain(build(problem), timed, stationary=False).occupancies[:-1]
    np.testing.assert_allclose(found[1], time_average(build(problem), timed, occupied))
    np.testing.assert_array_equal(found[3], uniform_table(problem))
    np.testing.assert_allclose(np.sum(found[4:], axis=2), 1.0)
    assert len(_stationary_starts(_Climber(problem.replace(horizon=0), problem.models), 0)) == 3
    forever = endless()
    assert len(_stationary_starts(_Climber(forever, forever.models), 0)) == 1


def test_a_masked_start_takes_available_actions_alone():
    problem = masked_problem(3)
    for table in _stationary_starts(_Climber(problem, problem.models), 1):
        assert not table[~problem.available].any()
        np.testing.assert_allclose(table.sum(axis=1), 1.0)


def test_values_and_slopes_are_those_of_the_engine_and_the_best_table_is_kept():
    problem = random_problem(3).replace(min_return=None)
    climber, tables = (
        _Climber(problem, problem.models),
        np.random.default_rng(0).dirichlet(np.ones(problem.num_actions), (3, problem.num_cells)),
    )
    values = []
    for table in tables:
        value, slope = climber.value_and_slope(table)
        wanted = evaluate_return(problem, Chain(build(problem), table[None], stationary=True))
        assert value == wanted[0]
        np.testing.assert_array_equal(slope, wanted[1][0])
        values.append(value)
    assert climber.best[0] == max(values)
    np.testing.assert_array_equal(climber.best[1], tables[int(np.argmax(values))])


def test_all_but_certain_rows_are_rounded_and_the_rest_is_stepped_up():
    """From a table near the best stationary one of a field: leaving with probability 3/4 earns 3.125."""
    problem = harvest()
    climber = _Climber(problem, problem.models)
    value, table = climber.finish(np.array([[0.3, 0.7], [0.02, 0.98]]))
    assert 3.12 < value <= 3.125
    assert table[1].tolist() == [0.0, 1.0]
    sharp = climber.finish(np.array([[0.999, 0.001], [0.5, 0.5]]))[0]
    assert sharp > 3.0


def test_a_step_goes_a_share_of_the_way_to_the_best_actions():
    problem = harvest()
    climber = _Climber(problem, problem.models)
    stay = np.array([[1.0, 0.0], [1.0, 0.0]])
    stepped = climber._step(stay, 2.0)
    assert stepped is not None
    assert stepped[0] == 3.0
    assert stepped[1].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    low = np.array([[0.75, 0.25], [1.0, 0.0]])  # 2 + 3p − 2p² is 2.625; all the way is 3
    assert climber._step(low, 2.625)[0] == 3.0  # type: ignore[index]
    half = climber._step(low, 3.0)  # from which half the way is better, p = 0.625
    assert half is not None
    assert half[1][0, 1] == pytest.approx(0.625)
    assert half[0] == pytest.approx(2 + 3 * 0.625 - 2 * 0.625**2)
    assert climber._step(np.array([[0.25, 0.75], [1.0, 0.0]]), 3.125) is None


def test_the_smallest_return_is_that_of_turned_rewards_and_unknown_models_share_a_table():
    problem = random_problem(2).replace(min_return=None)
    least = veil.expected_return(problem, veil.TimedPolicy(greedy_table(problem, smallest=True)))
    turned = veil.Model(problem.model.transitions, -problem.model.rewards, problem.model.initial,
                        terminal_rewards=-problem.model.terminal_rewards)  # fmt: skip
    assert least == pytest.approx(-max_return(problem.replace(model=turned)))
    unknown = two_models(3)
    value, table = best_stationary_return(unknown)
    assert value == pytest.approx(veil.expected_return(unknown, veil.MarkovPolicy(table)))
    assert value <= max_return(unknown) + 1e-12


def test_over_an_infinite_horizon_an_agent_who_does_not_know_the_model_repeats_one_table():
    unknown = two_models(3, return_over="infinite")
    found = greedy_table(unknown)
    assert found.shape[0] == unknown.horizon
    np.testing.assert_array_equal(found, np.repeat(found[:1], unknown.horizon, axis=0))
    np.testing.assert_array_equal(found[0], best_stationary_return(unknown)[1])
    climber = _Climber(unknown, unknown.models)
    assert len(_stationary_starts(climber, 0)) > 3
    assert best_returns._value((3.0, np.zeros(1))) == 3.0


def test_without_iterations_a_table_is_not_climbed_from():
    problem = harvest()
    table = np.array([[1.0, 0.0], [1.0, 0.0]])
    climber = _Climber(problem, problem.models)
    assert climber.climb(table, 0) is table
    assert climber.climb(table, 1) is not table


@pytest.mark.parametrize(("horizon", "own", "discount"), [(1, 1.0, 0.5), (2, 1.0, 0.5), (4, 1.0, 0.75), (4, 0.6, 0.6)])
def test_the_discounted_table_weighs_what_comes_by_the_smaller_discount(horizon: int, own: float, discount: float):
    """1 now and nothing then, or nothing now and `pay` at each later time: worth it from `Σ γ^t pay = 1` on."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 2] = transitions[0, 1, 1] = transitions[1, :, 1] = transitions[2, :, 2] = 1
    later = sum(discount**time for time in range(1, 3 * horizon))
    for share, chosen in ((0.98, 0), (1.02, 1)):
        model = veil.Model(transitions, [[1.0, 0.0], [share / later] * 2, [0.0, 0.0]], 0, own)
        problem = veil.Problem(model, veil.Observer(np.eye(3)), veil.LastState({1}), horizon)
        assert discounted_table(problem)[0].argmax() == chosen


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_climb_reaches_the_largest_return_whatever_the_unit_of_rewards(scale: float):
    """Leaving a field with probability 3/4 is the best of it, 3.125."""
    plain = harvest()
    model = plain.model
    scaled = veil.Model(
        model.transitions, scale * model.rewards, "field", 1.0, scale * model.terminal_rewards, ["field", "home"]
    )
    problem = plain.replace(model=scaled)
    climber = _Climber(problem, problem.models)
    for begin in ([[0.9, 0.1], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]):
        climbed = climber.climb(np.array(begin), 200)
        assert climber.value_and_slope(climbed)[0] == pytest.approx(3.125 * scale, rel=1e-8)
        assert climbed[0, 1] == pytest.approx(0.75, abs=1e-4)


def test_returns_are_scaled_by_the_largest_sum_of_rewards():
    """`T max|R| + max|R_T|` is 2 · 1 + 3 in the field; 1 where nothing is paid."""
    assert _Climber(harvest(), harvest().models).scale == pytest.approx(5.0)
    model = veil.Model(harvest().model.transitions, np.zeros((2, 2)), 0)
    free = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), 2)
    assert _Climber(free, free.models).scale == 1.0


@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_parameters_are_those_of_the_available_actions(size: float):
    """However large they are: weights are taken from the largest of each row."""
    problem = masked_problem(3)
    climber = _Climber(problem, problem.models)
    given = np.random.default_rng(0).normal(size=int(problem.available.sum()))
    found = climber._softmax(size * given)
    assert not found[~problem.available].any()
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    theta = np.full(found.shape, -np.inf)
    theta[problem.available] = size * given
    for row, parameters in zip(found, theta, strict=True):
        largest = parameters.argmax()
        np.testing.assert_allclose(row, row[largest] * np.exp(parameters - parameters[largest]), atol=1e-300)


def test_over_an_infinite_horizon_the_smallest_return_of_unknown_models_is_that_of_all_turned_rewards():
    unknown = two_models(3, return_over="infinite")
    turned = [
        veil.Model(m.transitions, -m.rewards, m.initial, m.discount, terminal_rewards=-m.terminal_rewards)
        for m in unknown.models
    ]
    assert len(turned) == 2
    found = greedy_table(unknown, smallest=True)
    np.testing.assert_allclose(found, greedy_table(unknown.replace(model=turned)), atol=1e-9)
