"""Single tables of a search on samples: against the task on the same sequences, feasibility, and mixtures."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn, random_problem
from tests.planning.test_pairs import two_sensors
from tests.policy.masked import masked_problem
from tests.record.planned import constrained
from tests.record.problems import endless, problem
from veil.planning.options import SolveOptions
from veil.planning.pair_terms import make_pair_task
from veil.planning.policy_class import make_space
from veil.planning.sampled_points import SampledPoints
from veil.planning.sampled_values import Estimate
from veil.planning.starts import richest_table
from veil.planning.stochastic import StochasticAscent
from veil.planning.task import Task, make_task
from veil.planning.terms import terms_of, with_task
from veil.planning.values import make_secrecy

SEQUENCES, SEED = 60, 5


def points_of(of: veil.Problem, memory: Any = "timed", **settings: Any) -> SampledPoints:
    """The points of a problem, its class and the options of a search; evaluations of the task are on the same draws."""
    given: dict[str, Any] = {"sequences": SEQUENCES, "seed": SEED} | settings
    options = SolveOptions(method="ascent", memory=memory, evaluation="sampled", **given)
    of = with_task(of, options.task)
    space = make_space(of, memory)
    own = make_secrecy(space, options.objective, "sampled", sequences=SEQUENCES, seed=SEED)
    secrecy, pairs = make_pair_task(space, options, own, None)
    task = make_task(
        space, goal=options.goal, objective=options.objective, per_start=options.per_start, min_opacity=options.min_opacity,
        terms=terms_of(of, options.task), secrecy=secrecy, pairs=pairs,
    )  # fmt: skip
    return StochasticAscent(task, richest_table(space), options)


CASES: dict[str, tuple[veil.Problem, dict[str, Any]]] = {
    "timed": (random_problem(0), {}),
    "markov": (random_problem(3), {"memory": "markov"}),
    "memory": (random_problem(3), {"memory": veil.StateMemory(1)}),
    "free": (random_problem(1).replace(min_return=None), {}),
    "transparent": (random_problem(2), {"goal": "transparent"}),
    "leakage": (random_problem(2), {"objective": "leakage"}),
    "per start": (problem("last", horizon=3, min_return=-0.5), {"per_start": True, "memory": "markov"}),
    "endless": (endless(), {"memory": "markov"}),
    "endless timed": (endless(), {}),
    "kept": (random_problem(1), {"min_opacity": 0.2}),
    "kept endless": (endless(), {"min_opacity": 0.2, "memory": "markov"}),
    "kept pairs": (two_sensors(1, min=0.1), {"min_opacity": 0.2, "task": "0.5*H(start) - 2*H(other)"}),
    "kept task": (constrained(), {"min_opacity": 0.2, "task": "2*gain - energy"}),
    "constraints": (constrained(), {}),
    "task": (constrained(), {"task": "0.5*gain - 0.25*energy + P(F s1)"}),
    "bounds": (two_sensors(1, min=0.3, max=0.4), {}),
    "least": (two_sensors(1, min=0.3), {"hide": "own, other, start"}),
    "terms": (two_sensors(1), {"task": "0.5*H(start) - 2*H(other)"}),
}


def margins(task: Task, points: SampledPoints, table: np.ndarray) -> np.ndarray:
    """Standard errors by which bounds on bits are kept, one for each slack."""
    errors = [one.std_error for one in points._columns(lambda one: one.fresh(table, SEQUENCES, SEED, task.clock)[0])]
    bounds = [errors[one.column] for one in task.pairs.bounds]
    kept = [errors[0]] * (task.min_opacity is not None)
    return np.array([0.0] * len(task.pairs.least) + bounds + kept + [0.0] * (task.num_constraints - task.num_kept))


def case(name: str) -> tuple[SampledPoints, Task, np.ndarray]:
    """The points of a case, its task, and a table that is drawn."""
    of, settings = CASES[name]
    points = points_of(of, **settings)
    return points, points.task, drawn(points.task.space, 1, 2)[0]


@pytest.mark.parametrize("name", CASES)
def test_a_point_is_what_the_task_finds_on_the_same_sequences(name: str):
    points, task, table = case(name)
    values = task.evaluate(table[None])
    point, score_slope, slack_slope = points._evaluate(table, SEQUENCES, SEED)
    assert point.bits == values.secrecy[0]
    assert point.returns == pytest.approx(values.returns[0])
    assert point.score == pytest.approx(values.score[0])
    np.testing.assert_allclose(point.slack, values.slack[0] - margins(task, points, table), atol=1e-12)
    np.testing.assert_allclose(score_slope, points._used(values.score_slope[0]), atol=1e-10)
    wanted = [points._used(one) for one in values.slack_slope[0]]
    np.testing.assert_allclose(slack_slope, np.reshape(wanted, slack_slope.shape), atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_return_and_the_slacks_beside_bits_are_those_of_the_task(name: str):
    points, task, table = case(name)
    returns, slack = points._returns(table)
    values = task.constraints(table[None])
    assert returns == pytest.approx(values[0][0])
    np.testing.assert_allclose(slack, values[2][0], atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_score_of_an_answer_is_that_of_fresh_sequences_where_it_is_feasible(name: str):
    of, settings = CASES[name]
    points = points_of(of, **settings)
    task = points.task
    feasible = 0
    for table in [points._safe, *drawn(task.space, 6, 2, 2.0)]:
        estimates = points._columns(lambda one, at=table: one.estimate(at, 50, SEED + 1, task.clock))
        bits, errors = [one.bits for one in estimates], [one.std_error for one in estimates]
        linear = task.constraints(table[None])[2][0]
        met = bool(np.all(linear >= 0))
        met = met and (task.min_opacity is None or bits[0] - 2 * errors[0] >= task.bits_kept)
        met = met and all(
            one.sign * (bits[one.column] - one.bits) - 2 * errors[one.column] >= 0 for one in task.pairs.bounds
        )
        found = points._score(table, 50)
        if not met:
            assert found == -np.inf
            continue
        feasible += 1
        least = min([bits[one.column] for one in task.pairs.least], default=bits[0])
        returns, earned = points._returns(table)[0], task.earned(linear[None], np.zeros((1, len(linear), 0)))[0][0]
        earned += sum(factor * bits[column] for factor, column in task.pairs.terms)
        assert found == pytest.approx(float(task.score(np.array(least), np.array(returns), np.array(earned))))
    assert feasible or name in ("bounds", "least")


@pytest.mark.parametrize(("slack", "feasible"), [(0.0, True), (-1e-12, False), (1e-12, True), (-2.0, False)])
def test_an_answer_that_just_meets_its_constraint_has_a_score(
    monkeypatch: pytest.MonkeyPatch, slack: float, feasible: bool
):
    points = points_of(random_problem(0))
    monkeypatch.setattr(points, "_returns", lambda table: (0.5, np.array([slack])))
    assert np.isfinite(points._score(points._safe, 50)) == feasible
    several = points_of(constrained())
    monkeypatch.setattr(several, "_returns", lambda table: (0.5, np.array([1.0, slack, 1.0])))
    assert np.isfinite(several._score(several._safe, 50)) == feasible


@pytest.mark.parametrize("memory", ["timed", veil.StateMemory(1)])
def test_parameters_give_back_the_table_in_rows_that_are_used_and_the_safe_one_elsewhere(memory: Any):
    of = veil.gallery.load("courier-depots", horizon=3, min_return=None)
    points = points_of(of, memory)
    space = points.task.space
    table, share = drawn(space, 1, 1)[0], 0.125
    used = np.zeros(space.shape[:2], dtype=bool)
    used.reshape(-1)[points._rows] = True
    assert 0 < used.sum() < used.size
    uniform = space.available / space.available.sum(axis=1, keepdims=True)
    wanted = np.where(used[..., None], (1 - share) * table + share * uniform, points._safe)
    np.testing.assert_allclose(points._table(points._parameters(table, share)), wanted, atol=1e-12)
    np.testing.assert_allclose(
        points._table(points._parameters(table)[:] + 7.0), points._table(points._parameters(table))
    )
    theta = np.array([[3.0, -60.0], [1.0, 1.5]])
    np.testing.assert_array_equal(points._bounded(theta), [[0.0, -40.0], [-0.5, 0.0]])


@pytest.mark.parametrize("name", ["timed", "markov", "constraints", "endless"])
def test_steeper_rows_take_the_action_that_raises_what_is_short(name: str):
    of, settings = CASES[name]
    points = points_of(of.replace(min_return="95%"), **settings)
    task = points.task
    table = drawn(task.space, 1, 4, 2.0)[0]
    _, _, slack, slopes = task.constraints(table[None])
    assert (slack < 0).any()
    total = slopes[0][slack[0] < 0].sum(axis=0)
    found = points._steeper(table)
    for at in np.ndindex(task.space.shape[:2]):
        allowed = np.where(task.space.available[at[1]], total[at], -np.inf)
        if np.ptp(total[at][task.space.available[at[1]]]) < 1e-15:
            np.testing.assert_array_equal(found[at], table[at])
        else:
            assert found[at].tolist() == np.eye(len(allowed))[allowed.argmax()].tolist()


class Mixed:
    """Points whose slack is a function of the share of the other table; it counts its evaluations."""

    def __init__(self, slack: Any):
        self.points, self.count, self.slack = points_of(random_problem(0)), 0, slack
        self.table, self.other = np.zeros(self.points.task.space.shape), np.ones(self.points.task.space.shape)
        self.points._returns = self._returns  # type: ignore[method-assign]

    def _returns(self, table: np.ndarray) -> tuple[float, np.ndarray]:
        self.count += 1
        return 0.0, np.array([1.0, self.slack(float(table[0, 0, 0])) + 1e-9])

    def share(self) -> float:
        found = self.points._mended(self.table, self.other)
        if found is self.points._safe:
            return np.inf
        return float(found[0, 0, 0])


@pytest.mark.parametrize("wanted", [0.01, 0.2, 0.5, 0.9, 0.97])
@pytest.mark.parametrize("bend", [0.0, -0.3, 0.5, 3.0])
def test_a_mended_table_has_about_the_least_share_that_suffices(wanted: float, bend: float):
    mixed = Mixed(lambda share: (share - wanted) * (1 + bend * share))
    found = mixed.share()
    assert wanted <= found <= wanted + 0.06
    assert mixed.slack(found) >= 0
    assert 3 <= mixed.count <= 8


def test_a_table_that_suffices_is_kept_and_where_nothing_does_it_is_the_safe_one():
    assert Mixed(lambda share: share).share() == 0.0
    assert Mixed(lambda share: 0.0).share() == 0.0
    assert Mixed(lambda share: -1e-12 + share).share() > 0.0
    assert Mixed(lambda share: share - 1.0).share() <= 1.0
    assert Mixed(lambda share: share - 1.0 - 1e-12).share() == np.inf
    assert Mixed(lambda share: 0.25 * share - 0.5).share() == np.inf
    free = points_of(random_problem(1).replace(min_return=None))
    kept = points_of(random_problem(1), min_opacity=0.2)
    for points in (free, kept):
        table = drawn(points.task.space, 1)[0]
        assert points._mended(table) is table


def test_bits_beyond_the_most_that_can_be_hidden_are_not_hoped_for():
    assert points_of(random_problem(0))._most_bits == 1.0
    assert points_of(two_sensors(1), hide="own, start")._most_bits == 1.0
    assert points_of(two_sensors(1), hide="start")._most_bits == pytest.approx(np.log2(3))


def test_rows_are_those_that_some_policy_uses_and_their_open_actions():
    of = veil.gallery.load("courier-depots", horizon=3, min_return=None)
    points = points_of(of)
    space = points.task.space
    assert len(points._rows) == len(points._open)
    for row, is_open in zip(points._rows, points._open, strict=True):
        np.testing.assert_array_equal(is_open, space.available[row % space.shape[1]])
    moved = replace(points.task, further=())
    assert points._further(points._safe)[0].shape == (0,)
    assert points._further(points._safe)[1].shape == (0, len(points._rows), space.shape[2])
    assert moved.num_constraints == 0


@pytest.mark.parametrize(("errors", "feasible"), [(-1.0, False), (0.5, False), (1.5, False), (2.5, True)])
def test_an_answer_hides_what_is_to_be_kept_by_two_standard_errors(
    monkeypatch: pytest.MonkeyPatch, errors: float, feasible: bool
):
    points = points_of(random_problem(1), min_opacity=0.25)
    estimate = Estimate(bits=0.25 + errors * 0.125, std_error=0.125, sequences=50)
    monkeypatch.setattr(points, "_returns", lambda table: (0.5, np.array([1.0])))
    monkeypatch.setattr(points, "_columns", lambda ask: [estimate])
    assert np.isfinite(points._score(points._safe, 50)) == feasible


def test_rows_whose_open_actions_are_alike_are_kept_as_they_are(monkeypatch: pytest.MonkeyPatch):
    """Of three actions one is closed in the second state and two are in the third; rows of a mask that says so."""
    points = points_of(masked_problem(3))
    table = drawn(points.task.space, 1)[0]
    used = points._used(table)
    kinds = points._open.sum(axis=1)
    assert set(kinds) == {1, 2, 3}
    for two, three in (([5.0, 7.0, 5.0], [2.0, 2.0, 2.0]), ([1.0, 9.0, 3.0], [2.0, 4.0, 3.0])):
        slope = np.array([[0.5, 9.0, 9.0], two, three])[kinds - 1]
        monkeypatch.setattr(points, "_constraints", lambda table, at=slope: (0.0, np.array([-1.0]), at[None]))
        found = points._used(points._steeper(table))
        alike = two[0] == two[2]
        np.testing.assert_array_equal(found[kinds == 1], used[kinds == 1])
        for kind, best in ((2, 2), (3, 1)):
            rows = used[kinds == kind] if alike else np.eye(3)[[best] * int(np.sum(kinds == kind))]
            np.testing.assert_array_equal(found[kinds == kind], rows)
