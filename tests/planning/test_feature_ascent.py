"""Training of feature policies: feasible answers near those of tables, what is refused, and the limits."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn, random_problem
from tests.planning.test_pairs import two_sensors
from tests.policy.test_features import corridor
from tests.record.planned import constrained
from veil.common.clock import UNLIMITED, Clock
from veil.planning import feature_ascent
from veil.planning.feature_ascent import FeatureAscent, _answer, _prepared
from veil.planning.options import SolveOptions
from veil.planning.solution import Solution, Status
from veil.planning.starts import richest_table
from veil.planning.terms import with_task
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


# The parts of the training


def training(limit: float | None = None, problem: veil.Problem | None = None, **options: Any) -> FeatureAscent:
    problem = random_problem(1) if problem is None else problem
    plain: dict[str, Any] = {"features": "one-hot", "hidden_units": 3, "memory": "timed"} | options
    given = SolveOptions(method="ascent", **plain)
    space, task = _prepared(problem, given)
    task = replace(task, clock=Clock(limit, now=lambda: 0.0))
    policy = veil.FeaturePolicy.initial(
        problem, "one-hot", timed=not space.stationary, hidden=given.hidden_units, seed=0
    )
    safe = richest_table(space)
    return FeatureAscent(task, safe, given, policy, 0.5 * safe + 0.5 * drawn(space, 1)[0])


def weights_of(method: FeatureAscent, seed: int = 0) -> np.ndarray:
    first = np.concatenate([one.ravel() for one in method._policy.weights])[:, None]
    return first + np.random.default_rng(seed).normal(size=first.shape)


@pytest.mark.parametrize("memory", ["markov", "timed"])
def test_weights_give_the_table_of_their_policy_and_slopes_are_pulled_back_to_them(memory: str):
    method = training(memory=memory)
    theta = method._rounded(weights_of(method))
    policy, table = method.policy_of(theta), method._table(theta)
    np.testing.assert_allclose(method.task.space.table_of(policy), table, atol=1e-6)
    slope = np.random.default_rng(1).normal(size=(len(method._rows), table.shape[2]))
    gradient = method._pull_back(theta, table, slope)
    rng, step = np.random.default_rng(2), 1e-6
    for _ in range(3):
        change = rng.normal(size=theta.shape)
        ends = [np.sum(slope * method._used(method._table(theta + sign * step * change))) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(np.sum(gradient * change), rel=1e-5, abs=1e-7)
    assert method._bounded(theta) is theta


def test_training_stays_a_hundredth_inside_of_all_constraints():
    for problem in (random_problem(1), constrained()):
        method = training(problem=problem)
        table = drawn(method.task.space, 1)[0]
        wanted = method.task.constraints(table[None])[2][0]
        slack = np.concatenate([method._constraints(table)[1], method._further(table)[0]])
        np.testing.assert_allclose(slack, wanted - 0.01)
        np.testing.assert_allclose(method._short(table), wanted)


def test_an_answer_is_worth_its_bits_where_it_meets_the_threshold_and_there_is_time():
    method = training()
    safe = method._safe
    wanted = method._secrecy.estimate(safe, 300, method._options.seed + 1, method.task.clock).bits
    assert method._score(safe, 300) == wanted
    low = method.task.space.softmax(np.zeros(method.task.space.shape))
    assert method._short(low).min() < 0
    assert method._score(low, 300) == -np.inf
    assert training(limit=0.0)._score(safe, 300) == -np.inf
    near = method._mended(low)
    assert 0 <= method._short(near).min() < 0.2
    assert np.isfinite(method._score(near, 300))
    task = with_task(constrained(), "gain - energy")
    summed = training(problem=task, task="gain - energy")
    slack = summed._short(summed._safe)
    found = summed._score(summed._safe, 300)
    bits = summed._secrecy.estimate(summed._safe, 300, 1, UNLIMITED).bits
    earned = summed.task.earned(slack[None], np.zeros((1, len(slack), 0)))[0][0]
    assert slack.min() >= 0
    assert found == pytest.approx((bits + earned) / summed.task.score_unit)


def test_a_table_is_fitted_and_the_search_begins_from_its_weights():
    method = training(hidden_units=0, iterations=5)
    state = method.begin()
    goal = method._mended(method._goal)
    visits = method.task.space.layers.returns(goal, method._terminal)[2]
    rows = np.array([np.bincount(method.task.space.hidden.cell, one, method.task.space.shape[1]) for one in visits])
    seen = rows / rows.sum() > 1e-3
    assert np.abs(state.best - goal)[seen].max() < 0.35
    assert (state.rate, state.iteration, len(state.theta)) == (0.01, 0, 1)
    np.testing.assert_array_equal(state.best_theta, method._rounded(state.theta[0]))
    np.testing.assert_array_equal(state.best, method._table(state.best_theta))
    assert method._inside == 0.01
    after = method.advance(state)
    assert after.iteration == 1
    contender = method._contender(after.theta[0], is_elsewhere=False)
    np.testing.assert_array_equal(contender["best_theta"], after.theta[0].astype(np.float32).astype(float))
    assert (method._lost_bits, method._most_restarts, method._length) == (np.inf, 0, 5)
    assert training()._length == 400


@pytest.mark.parametrize(("problem", "options", "words"), [
    (random_problem(1), {"memory": veil.StateMemory(1)}, "it has no memory beside the time"),
    (random_problem(1), {"objective": "guess"}, "which objective='guess' and min_opacity do not have"),
    (random_problem(1), {"min_opacity": 0.1}, "which objective='guess' and min_opacity do not have"),
    (two_sensors(1), {"hide": "own, other"}, "which bounds on pairs, terms"),
    (two_sensors(1), {"task": "H(other)"}, "which bounds on pairs, terms"),
    (two_sensors(1, min=0.1), {}, "which bounds on pairs, terms"),
])  # fmt: skip
def test_each_that_a_feature_policy_cannot_do_is_told(problem: veil.Problem, options: dict[str, Any], words: str):
    given: dict[str, Any] = {"method": "ascent", "features": "one-hot"} | options
    with pytest.raises(veil.InputError, match=words) as error:
        _prepared(problem, SolveOptions(**given))
    assert len(error.value.defects) == 1
    assert _prepared(two_sensors(1), SolveOptions(method="ascent", features="one-hot"))[1].secrecy.kind == "sampled"


@pytest.mark.parametrize(("limit", "seconds"), [(50.0, 50.0), (0.25, 1.0)])
def test_an_answer_without_a_step_has_no_history_and_is_measured_in_the_time_that_is_left(
    limit: float, seconds: float, monkeypatch: pytest.MonkeyPatch
):
    method, given = training(limit), list[tuple[Any, ...]]()
    table = veil.solve(random_problem(1), memory="timed", iterations=0, certificate=False, progress=False, seed=3)

    def sampled(space: Any, table: np.ndarray, *rest: Any) -> veil.Opacity:
        given.append(rest)
        return veil.Opacity(0.5, 0.5, 0.5, 1.0, "sampled", 1)

    monkeypatch.setattr(feature_ascent, "sampled_answer", sampled)
    found = _answer(method.task, table, method._policy, None, Status.TIME_LIMIT, method.task.clock)
    assert given == [(20_000, 3, seconds)]
    assert (found.iterations, len(found.history), found.history.multipliers.shape) == (0, 0, (0, 0))
    assert found.policy is method._policy
    assert found.status is (Status.TIME_LIMIT if found.feasible else Status.INFEASIBLE)
    assert found.settings["parameters"] == method._policy.num_parameters
    assert np.isnan([found.price_bits, found.stationarity_bits]).all()


def test_a_fit_is_repeated_further_inside_until_all_constraints_hold_or_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
):
    """Fits with the margins 0.01, 0.03, 0.1 and 0.3, each begun from the one before."""
    for slacks, limit, fits in (
        ([[0.1, -0.1], [-0.1, 0.1], [0.1, 0.1]], None, 3), ([[0.1, 0.1]], None, 1), ([[0.1, -0.1]] * 4, None, 4),
        ([[0.1, -0.1]], 0.0, 1),
    ):  # fmt: skip
        method, begun, left = training(limit), list[tuple[float, float]](), iter(slacks)
        first = np.concatenate([one.ravel() for one in method._policy.weights])[0]

        def fitted(goal: np.ndarray, theta: np.ndarray, clock: Clock, method: Any = method, begun: Any = begun) -> Any:
            begun.append((method._inside, theta[0, 0]))
            return theta + 1

        monkeypatch.setattr(method, "_fitted", fitted)
        monkeypatch.setattr(method, "_mended", lambda table: table)
        monkeypatch.setattr(method, "_short", lambda _, left=left: np.array(next(left)))
        found = method._first_weights()
        assert begun == [
            (margin, pytest.approx(first + number, abs=1e-5))
            for number, margin in enumerate((0.01, 0.03, 0.1, 0.3)[:fits])
        ]
        assert found[0, 0] == pytest.approx(first + fits, abs=1e-5)
        assert method._inside == 0.01
