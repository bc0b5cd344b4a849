"""What a search maximises and must keep."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import small_case
from tests.engine.test_return_range import two_models
from tests.planning.small_problems import directions, drawn, random_problem
from tests.random_problems import KINDS
from tests.record.planned import constrained
from tests.record.problems import problem as recorded
from veil.engine.return_range import return_extremes
from veil.measure.constrained import further_constraints
from veil.planning.policy_class import make_space
from veil.planning.task import Values, _aimed, make_task
from veil.planning.terms import terms_of, with_task
from veil.planning.values import make_secrecy
from veil.problem.return_rounding import return_rounding

MEMORIES = ["markov", "timed", veil.StateMemory(1), veil.Controller(2)]


def from_one_start(problem: veil.Problem, state: Any) -> veil.Problem:
    """The same problem, but for where it begins."""
    models = [
        veil.Model(m.matrices, m.rewards, state, m.discount, m.terminal_rewards, available=m.available)
        for m in problem.models
    ]
    return problem.replace(model=models if len(models) > 1 else models[0], min_return=None)


@pytest.mark.parametrize("memory", MEMORIES)
def test_score_and_slack_are_bits_and_the_return_above_the_threshold(memory):
    for seed in range(6):
        problem = random_problem(seed)
        space = make_space(problem, memory)
        task, tables = make_task(space), drawn(space, 4, seed)
        found = task.evaluate(tables)
        extremes = return_extremes(problem)
        assert task.unit == extremes.largest - extremes.smallest
        assert task.num_constraints == 1
        assert isinstance(problem.min_return, float)
        assert task.aim == problem.min_return + return_rounding(problem)  # what is reached is then proven to be
        for number, table in enumerate(tables):
            policy = space.policy(table)
            bits, value = veil.opacity(problem, policy, "exact").bits, veil.expected_return(problem, policy)
            assert found.score[number] == found.secrecy[number] == pytest.approx(bits, abs=1e-12)
            assert found.returns[number] == pytest.approx(value, abs=1e-12)
            slack = (found.returns[number] - task.aim) / task.unit
            assert found.slack[number].tolist() == [slack]
            assert found.feasible[number] == (found.returns[number] >= task.aim)
        np.testing.assert_array_equal(task.slacks(tables), found.slack)


def test_a_slack_of_nothing_is_feasible_and_less_is_not():
    zero = np.zeros(3)
    values = Values(zero, zero, np.array([[0.0, 1.0], [0.0, -1e-300], [0.5, 0.5]]), zero, zero, zero)
    assert values.feasible.tolist() == [True, False, True]
    assert values.part(np.array([1, 2])).feasible.tolist() == [False, True]


def test_without_a_threshold_nothing_is_kept():
    space = make_space(random_problem(0).replace(min_return=None))
    task = make_task(space)
    found = task.evaluate(drawn(space, 3))
    assert task.num_constraints == 0
    assert task.threshold is None
    assert found.slack.shape == (3, 0)
    assert found.slack_slope.shape == (3, 0, *space.shape)
    assert found.feasible.all()


def test_a_share_of_the_range_is_a_threshold():
    problem = random_problem(1).replace(min_return="80%")
    extremes = return_extremes(problem)
    assert make_task(make_space(problem)).threshold == extremes.at(0.8)


def test_to_show_is_to_hide_less():
    space = make_space(random_problem(2))
    tables = drawn(space, 3)
    hide, show = make_task(space).evaluate(tables), make_task(space, goal="transparent").evaluate(tables)
    np.testing.assert_array_equal(show.score, -hide.score)
    np.testing.assert_array_equal(show.score_slope, -hide.score_slope)
    np.testing.assert_array_equal(show.slack, hide.slack)
    np.testing.assert_array_equal(show.secrecy, hide.secrecy)


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_constraint_for_each_start_state(memory):
    several = 0
    for seed in range(8):
        problem = random_problem(seed)
        space = make_space(problem, memory)
        task, tables = make_task(space, per_start=True), drawn(space, 3, seed)
        possible = np.flatnonzero(problem.model.initial > 0)
        found = task.evaluate(tables)
        assert task.num_constraints == len(possible)
        assert found.slack.shape == (3, len(possible))
        assert found.slack_slope.shape == (3, len(possible), *space.shape)
        several += len(possible) > 1
        if memory not in ("markov", "timed"):
            continue  # what is remembered of a start that does not occur has no row
        for number, table in enumerate(tables):
            own = [veil.expected_return(from_one_start(problem, s), space.policy(table)) for s in possible]
            np.testing.assert_allclose(
                found.slack[number], (np.array(own) - problem.min_return) / task.unit, atol=1e-11
            )
        mean = found.slack @ problem.model.initial[possible]
        np.testing.assert_allclose(mean, make_task(space).evaluate(tables).slack[:, 0], atol=1e-12)
        np.testing.assert_array_equal(task.slacks(tables), found.slack)
    assert several > 3


@pytest.mark.parametrize("kind", KINDS)
def test_start_states_of_every_secret(kind: str):
    """Whatever the hidden chain carries along, a start state begins as it would alone."""
    for seed in range(6):
        problem = small_case(f"start {seed}", kind, work=1_000).problem.replace(min_return="20%")
        space = make_space(problem)
        task, table = make_task(space, per_start=True), drawn(space, 1, seed)
        weights = problem.secret_table.weights
        chances = np.array([m.initial for m in problem.models]) * (
            1 if weights is None else np.asarray(weights)[:, None]
        )
        possible = np.flatnonzero(chances.sum(axis=0) > 0)
        assert task.num_constraints == len(possible)
        if kind == "model":  # which model runs may depend on where it begins
            mean = task.evaluate(table).slack[0] @ chances.sum(axis=0)[possible]
            earned = veil.expected_return(problem, space.policy(table[0]))
            assert mean == pytest.approx((earned - (task.threshold or 0.0)) / task.unit, abs=1e-11)
            continue
        own = [veil.expected_return(from_one_start(problem, s), space.policy(table[0])) for s in possible]
        np.testing.assert_allclose(task.evaluate(table).slack[0] * task.unit + task.threshold, own, atol=1e-11)


def test_two_models_begin_with_their_own_chances():
    space = make_space(two_models(2, min_return=0.5))
    task = make_task(space, per_start=True)
    assert task.num_constraints == 1
    assert task.evaluate(np.array([[[[1.0, 0.0]]]])).slack[0, 0] * task.unit == pytest.approx(0.9 - 0.5)


def test_kept_bits_change_the_roles():
    problem = random_problem(4)
    space = make_space(problem)
    task, tables = make_task(space, min_opacity=0.3), drawn(space, 5)
    plain, found = make_task(space).evaluate(tables), task.evaluate(tables)
    assert task.num_constraints == 1
    np.testing.assert_array_equal(found.score, plain.returns / task.unit)
    np.testing.assert_allclose(found.slack[:, 0], plain.secrecy - 0.3, rtol=0, atol=1e-11)  # a little is kept back
    assert np.all(found.slack[:, 0] < plain.secrecy - 0.3)
    np.testing.assert_array_equal(found.feasible, plain.secrecy >= 0.3)
    np.testing.assert_array_equal(found.slack_slope[:, 0], plain.score_slope)
    np.testing.assert_array_equal(task.slacks(tables), found.slack)
    np.testing.assert_allclose(found.score_slope, plain.slack_slope[:, 0], rtol=1e-14)
    assert task.score_unit == task.unit
    assert make_task(space).score_unit == 1.0


def test_kept_bits_are_bits_of_what_is_hidden():
    space = make_space(random_problem(4))
    wrong: tuple[dict[str, Any], ...] = ({"goal": "transparent"}, {"objective": "leakage"}, {"objective": "guess"})
    for settings in wrong:
        with pytest.raises(veil.InputError, match="min_opacity"):
            make_task(space, min_opacity=0.3, **settings)


@pytest.mark.parametrize(
    "settings",
    [{}, {"per_start": True}, {"goal": "transparent"}, {"min_opacity": 0.2}, {"objective": "leakage"},
     {"objective": "guess", "goal": "transparent", "per_start": True}],
)  # fmt: skip
@pytest.mark.parametrize("memory", ["markov", "timed", veil.StateMemory(1)])
def test_slopes_by_central_differences(memory, settings: dict[str, Any]):
    for seed in (0, 3):
        space = make_space(random_problem(seed), memory)
        task, table = make_task(space, **settings), drawn(space, 1, seed, sharp=0.5)
        found = task.evaluate(table)
        for change in directions(space, 3, seed):
            high, low = task.evaluate(table + 1e-6 * change), task.evaluate(table - 1e-6 * change)
            score = (high.score - low.score) / 2e-6
            assert np.sum(found.score_slope * change) == pytest.approx(score[0], abs=3e-6)
            slack = (high.slack - low.slack)[0] / 2e-6
            np.testing.assert_allclose(np.tensordot(found.slack_slope[0], change, 3), slack, atol=3e-6)


def test_a_return_that_cannot_vary_has_a_unit_too():
    problem = random_problem(5)
    model = veil.Model(
        problem.model.matrices, np.zeros((problem.num_states, problem.num_actions)), problem.model.initial
    )
    space = make_space(problem.replace(model=model, min_return=0.0))
    assert make_task(space).unit == 1
    assert make_task(space).evaluate(drawn(space, 2)).feasible.all()


def test_the_order_is_by_feasibility_first():
    space = make_space(random_problem(4))
    task, tables = make_task(space), drawn(space, 12)
    values = task.evaluate(tables)
    assert 0 < np.count_nonzero(values.feasible) < 12
    assert values.order[values.feasible].min() > values.order[~values.feasible].max()
    np.testing.assert_array_equal(values.order[values.feasible], values.score[values.feasible])
    joined = Values.joined([task.evaluate(table[None]) for table in tables])
    np.testing.assert_array_equal(joined.returns, values.returns)
    np.testing.assert_array_equal(joined.feasible, values.feasible)
    np.testing.assert_allclose(joined.score_slope, values.score_slope, atol=1e-12)


def test_a_threshold_that_all_policies_reach_is_no_constraint():
    problem = random_problem(4)
    least = return_extremes(problem).smallest
    for wanted, free in ((least - 1e-9, True), (least, False), (least + 1e-3, False), (None, False)):
        task = make_task(make_space(problem.replace(min_return=wanted)))
        assert task.is_free == free
        assert task.num_constraints == (0 if free or wanted is None else 1)
        assert task.slacks(drawn(task.space, 3)).shape == (3, task.num_constraints)


def test_bits_that_are_kept_replace_the_threshold():
    task = make_task(make_space(random_problem(4)), min_opacity=0.2)
    assert task.threshold is None
    assert not task.is_free


@pytest.mark.parametrize("per_start", [False, True])
def test_returns_by_start_are_those_of_the_slacks(per_start: bool):
    for seed in range(6):
        space = make_space(random_problem(seed), "timed" if seed % 2 else "markov")
        task, table = make_task(space, per_start=per_start), drawn(space, 1, seed)[0]
        assert task.threshold is not None
        expected = (task.returns_by_start(table) - task.aim) / task.unit
        np.testing.assert_array_equal(task.slacks(table[None])[0], expected)


def values_of(score: list[float], slack: list[list[float]], num_least: int = 0) -> Values:
    zero = np.zeros(len(score))
    return Values(np.array(score), zero, np.array(slack), zero, zero, zero, num_least)


@pytest.mark.parametrize("num_least", [0, 2])
def test_the_augmented_lagrangian_is_the_least_over_all_multipliers(num_least: int):
    """`score + min_p Σ p s + (p − μ)²/2ρ`, over weights that sum to one and multipliers of 0 or more, by a fine grid."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        slack, multiplier, penalty = rng.normal(size=(1, 3)), rng.uniform(size=(1, 3)), float(rng.uniform(0.5, 4))
        values = values_of([0.25], slack.tolist(), num_least)
        total = 0.25
        grid = np.linspace(0.0, 8.0, 80_001)
        for place in range(num_least, 3):
            total += np.min(grid * slack[0, place] + (grid - multiplier[0, place]) ** 2 / (2 * penalty))
        if num_least:
            weights = np.stack([np.linspace(0, 1, 100_001), 1 - np.linspace(0, 1, 100_001)])
            total += np.min(
                weights.T @ slack[0, :2] + np.sum((weights.T - multiplier[0, :2]) ** 2, axis=1) / (2 * penalty)
            )
        assert values.merit(multiplier, penalty)[0] == pytest.approx(total, abs=1e-6)
        pull = values.pulls(multiplier, penalty)
        np.testing.assert_allclose(pull[0, num_least:], np.maximum(0, multiplier - penalty * slack)[0, num_least:])
        assert num_least == 0 or pull[0, :2].sum() == pytest.approx(1.0)


def test_values_of_several_evaluations_are_joined_and_parted():
    first, second = values_of([0.1, 0.2], [[1.0], [2.0]]), values_of([0.3], [[-3.0]])
    joined = Values.joined([first, second])
    assert joined.score.tolist() == [0.1, 0.2, 0.3]
    assert joined.slack[:, 0].tolist() == [1.0, 2.0, -3.0]
    assert joined.order.tolist() == [0.1, 0.2, -1e6 - 3.0]
    assert joined.part(np.array([2, 0])).score.tolist() == [0.3, 0.1]
    assert joined.num_least == 0


def test_prices_are_for_one_unit_of_what_is_constrained():
    task = make_task(make_space(constrained(), "timed"))
    units = [one.unit for one in task.further]
    assert task.units.tolist() == [task.unit, *units]
    multiplier = np.array([0.5, 2.0, 3.0])
    assert task.price(multiplier) == pytest.approx(0.5 / task.unit)
    assert task.further_prices(multiplier) == pytest.approx([2.0 / units[0], 3.0 / units[1]])
    assert (task.num_constraints, task.num_first, task.num_kept, task.num_returns) == (3, 1, 0, 1)
    kept = make_task(make_space(random_problem(1)), min_opacity=0.25)
    assert kept.price(np.array([0.5])) == pytest.approx(0.5 * kept.unit)
    assert (kept.num_kept, kept.num_returns, kept.score_unit) == (1, 0, kept.unit)
    starts = make_task(make_space(recorded("last", horizon=3, min_return=-0.5)), per_start=True)
    several = np.arange(float(starts.num_constraints)) + 1
    assert starts.num_constraints > 1
    assert starts.price(several) == pytest.approx(several.max() / starts.unit)
    assert make_task(make_space(random_problem(1).replace(min_return=None))).price(np.zeros(0)) == 0.0


def test_a_task_is_divided_by_about_its_range():
    problem = with_task(constrained(), "gain - 2*energy")
    space, terms = make_space(problem, "timed"), terms_of(problem, "gain - 2*energy")
    task = make_task(space, terms=terms)
    spread = sum(abs(factor) * task.further[place].unit for factor, place in terms)
    assert task.score_unit == max(1.0, spread)
    kept = make_task(space, terms=terms, min_opacity=0.25)
    assert kept.score_unit == spread
    assert not kept.is_return_maximised
    assert kept.price(np.array([0.5, 0.25, *[0.0] * len(task.further)])) == pytest.approx(0.25 * spread / kept.unit)
    table = drawn(space, 2)
    values, policy = task.evaluate(table), space.policy(table[1])
    earned = sum(
        factor * one.value
        for factor, one in zip(
            (1.0, -2.0), [constraint(problem, policy, "gain"), constraint(problem, policy, "energy")], strict=True
        )
    )
    bits = veil.opacity(problem, policy, "exact").bits
    assert values.score[1] == pytest.approx((bits + earned) / task.score_unit)
    assert kept.evaluate(table).score[1] == pytest.approx(earned / spread)


def constraint(problem: veil.Problem, policy: Any, name: str) -> Any:
    places = {one.name: number for number, one in enumerate(problem.further)}
    return further_constraints(problem, policy)[places["return" if name == "gain" else name]]


def test_bounds_are_aimed_at_from_inside_by_the_rounding_where_policies_reach_that():
    task = make_task(make_space(constrained(), "timed"))
    target = task.further[0]
    assert target.sign < 0
    plain = replace(target, bound=target.bound + 0.125)
    assert _aimed(plain, 1e-3).bound == pytest.approx(plain.bound - 1e-3)
    least = target.range.smallest
    assert _aimed(replace(target, bound=least), 1e-3).bound == least
    assert _aimed(replace(target, bound=least + 1e-4), 1e-3).bound == pytest.approx(least)
    most = target.range.largest
    assert _aimed(replace(target, bound=most), 1e-3).bound == most  # every policy meets it
    assert _aimed(replace(target, bound=most + 1.0), 1e-3).bound == most + 1.0
    upward = replace(target, sign=1.0, bound=least + 0.1)
    assert _aimed(upward, 1e-3).bound == pytest.approx(least + 0.1 + 1e-3)
    assert _aimed(replace(upward, bound=most - 1e-4), 1e-3).bound == pytest.approx(most)


def test_bits_that_must_be_kept_are_kept_however_they_are_summed():
    space = make_space(random_problem(1))
    assert make_task(space, min_opacity=0.25).bits_kept == 0.25 + 2e-12
    assert make_task(space, min_opacity=0.0).bits_kept == -np.inf
    sampled = make_secrecy(space, evaluation="sampled")
    assert make_task(space, min_opacity=0.25, secrecy=sampled).bits_kept == 0.25
    assert make_task(space, min_opacity=0.0, secrecy=sampled).bits_kept == 0.0
    for wrong in ({"goal": "transparent"}, {"objective": "leakage"}):
        with pytest.raises(veil.InputError, match="it constrains the entropy from below"):
            make_task(space, min_opacity=0.25, **wrong)  # type: ignore[arg-type]


def test_a_threshold_is_free_where_every_policy_earns_it_and_rounding_beyond():
    problem = random_problem(1)
    least, rounding = return_extremes(problem).smallest, return_rounding(problem)
    for wanted, free in ((least - 2 * rounding, True), (least - 0.5 * rounding, False), (least, False)):
        task = make_task(make_space(problem.replace(min_return=wanted)))
        assert task.is_free is free
        assert task.num_constraints == int(not free)
        assert task.evaluate(drawn(task.space, 2)).slack.shape == (2, int(not free))
        assert task.slacks(drawn(task.space, 2)).shape == (2, int(not free))
    assert not make_task(make_space(problem.replace(min_return=least - 1.0)), per_start=True).is_free
