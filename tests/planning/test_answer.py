"""The answer of a search: which candidate, its price, what it hides, whether it is feasible, and why not."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import drawn, random_problem
from tests.planning.test_pairs import task_of, two_sensors
from tests.planning.test_sampled_points import points_of
from tests.record.planned import constrained
from tests.record.problems import problem as small_problem
from veil.common.clock import UNLIMITED, Clock, OutOfTime, Stop
from veil.measure.pairs import PairValue
from veil.planning import answer
from veil.planning.answer import Bits, best_candidate, in_class, is_feasible, make_answer, unsearched
from veil.planning.ascent import first_order_gain, lagrangian_slope
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space
from veil.planning.search import within_reach
from veil.planning.solution import Status
from veil.planning.starts import richest_table
from veil.planning.task import Task, make_task

PLAIN = SolveOptions(method="ascent")


def task_at(share: str | float | None = "60%", seed: int = 1, memory: Any = "markov", **settings: Any) -> Task:
    return make_task(make_space(random_problem(seed).replace(min_return=share), memory), **settings)


class Found:
    """Stands in for a search that has found some tables."""

    def __init__(self, tables: np.ndarray, late: bool = False):
        self.tables, self.late = tables, late

    def candidates(self, state: Any) -> np.ndarray:
        if self.late:
            raise OutOfTime(Stop.TIME_LIMIT)
        return self.tables

    def describe(self) -> dict[str, object]:
        return {"starts": 7}


def searched(tables: np.ndarray, late: bool = False) -> Any:
    return Found(tables, late)


def state_of(task: Task, best: np.ndarray, score: float = 0.25, iteration: int = 3) -> Any:
    return SimpleNamespace(
        best=best, best_score=score, best_multiplier=np.zeros(task.num_constraints), iteration=iteration,
        history=np.array([[1.0, 0.5, 0.1, 0.0, 0.2, 0.01]]),
    )  # fmt: skip


def answered(task: Task, tables: np.ndarray, status: Status = Status.CONVERGED, **state: Any) -> veil.Solution:
    made: Any = state_of(task, tables[0], **state)
    return make_answer(task, searched(tables), made, status, PLAIN, Clock(), np.zeros((0, 6)))


# The price


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("multiplier", [0.0, 0.2, 3.0])
def test_the_price_is_the_multiplier_at_which_the_best_change_promises_least(seed: int, multiplier: float):
    task = task_at(seed=seed)
    space, binding = task.space, 0
    for table in [richest_table(space), *drawn(space, 4, seed)]:
        aimed = replace(task, aim=float(task.returns_by_start(table)[0]))  # the constraint binds there
        values = aimed.evaluate(table[None])

        def gain(price: float, values: Any = values, table: np.ndarray = table) -> float:
            return first_order_gain(task, table, lagrangian_slope(values, np.array([[price]]))[0])

        least, found = answer._first_order(aimed, table, values, np.array([multiplier]))
        assert least == gain(float(found[0]))
        assert least <= min(gain(price) for price in np.linspace(0, 4 * multiplier + 4, 400)) + 1e-9
        binding += found[0] > 0
    assert binding


def test_a_constraint_with_slack_has_no_price():
    task = task_at()
    table = drawn(task.space, 1)[0]
    rng = np.random.default_rng(0)
    for slack, price in ((0.9e-3, True), (1.1e-3, False)):
        aimed = replace(task, aim=float(task.returns_by_start(table)[0]) - slack * task.unit)
        values = aimed.evaluate(table[None])
        # Slopes against each other, but for a little: at a price of two nearly nothing is promised.
        more = 1e-3 * rng.normal(size=values.score_slope.shape)
        values = replace(values, score_slope=more - 2 * values.slack_slope[:, 0])
        least, found = answer._first_order(aimed, table, values, np.array([0.7]))
        assert found.tolist() == [pytest.approx(2.0, abs=0.1) if price else 0.0]
        if not price:
            assert least == first_order_gain(task, table, values.score_slope[0])


def test_without_a_constraint_or_with_several_the_multipliers_of_the_search_are_taken():
    free = task_at(None)
    table = drawn(free.space, 1)[0]
    values = free.evaluate(table[None])
    assert answer._first_order(free, table, values, np.zeros(0))[0] == first_order_gain(
        free, table, values.score_slope[0]
    )
    starts = make_task(make_space(small_problem("last", horizon=3, min_return=-0.5)), per_start=True)
    table = drawn(starts.space, 1)[0]
    values, given = starts.evaluate(table[None]), np.linspace(0.1, 0.5, starts.num_constraints)
    least, found = answer._first_order(starts, table, values, given)
    assert found is given
    assert least == first_order_gain(starts, table, lagrangian_slope(values, given[None])[0])
    nothing = replace(values, score_slope=np.zeros((1, 0, 0, 0)))
    assert np.isnan(answer._first_order(starts, table, nothing, given)[0])


def promised(target: list[float]) -> Any:
    """A convex function of multipliers that is least at some."""
    return lambda price: float(np.sum((price - target) ** 2))


@pytest.mark.parametrize(("target", "given", "slack", "wanted"), [
    ([0.7, 0.0, 1.2], [0.2, 0.3, 0.4], [0.0, 0.0, 0.0], [0.7, 0.0, 1.2]),
    ([0.7, 0.5, 1.2], [0.2, 0.3, 0.4], [0.0, 0.9e-3, -0.5], [0.7, 0.5, 1.2]),
    ([0.7, 0.5, 1.2], [0.2, 0.3, 0.4], [0.0, 1.1e-3, -0.5], [0.7, 0.0, 1.2]),  # one with slack has no price
    ([3.0], [0.0], [0.0], [3.0]),  # up to 0.5, 1.5, 3.5
])  # fmt: skip
def test_multipliers_of_several_constraints_are_those_at_which_least_is_promised(
    target: list[float], given: list[float], slack: list[float], wanted: list[float]
):
    gain = promised(target)
    least, found = answer._least_promise(gain, np.array(given), np.array(slack), 0)
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    assert least == gain(found)


@pytest.mark.parametrize(("target", "given", "slack", "wanted"), [
    ([0.8, 0.2, 0.6], [0.5, 0.5, 0.1], [0.0, 0.0, 0.0], [0.8, 0.2, 0.6]),
    ([0.8, 0.2, 0.6], [0.5, 0.5, 0.1], [0.0, 0.3, 0.3], [0.8, 0.2, 0.0]),  # weights of what is not least stay
    ([0.75, 0.25, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.75, 0.25, 0.0]),
    ([0.0, 1.0, 0.3], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.3]),
])  # fmt: skip
def test_weights_of_the_least_sum_to_one(
    target: list[float], given: list[float], slack: list[float], wanted: list[float]
):
    least, found = answer._least_promise(promised(target), np.array(given), np.array(slack), 2)
    assert found[:2].sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    assert least == promised(target)(found)


def test_where_one_weight_is_moved_the_others_keep_their_proportion():
    slack = np.array([0.0, 1.0, 1.0])
    _, found = answer._least_promise(lambda price: float(price[0] - 0.5) ** 2, np.array([0.2, 0.3, 0.5]), slack, 3)
    np.testing.assert_allclose(found, [0.5, 0.1875, 0.3125], atol=1e-3)


@pytest.mark.parametrize("name", ["constraints", "pairs"])
def test_several_constraints_or_pairs_have_the_prices_at_which_least_is_promised(name: str):
    task = make_task(make_space(constrained(), "timed")) if name == "constraints" else task_of(two_sensors(1, min=0.9))
    table = drawn(task.space, 1)[0]
    values, given = task.evaluate(table[None]), np.full(task.num_constraints, 5.0)
    values = replace(values, slack=np.zeros_like(values.slack))  # all of them bind
    least, found = answer._first_order(task, table, values, given)

    def gain(price: np.ndarray) -> float:
        return first_order_gain(task, table, lagrangian_slope(values, price[None])[0])

    assert least == gain(found)
    assert least < gain(given) - 0.1
    for number in range(len(found)):
        for factor in (0.5, 0.9, 1.1, 2.0):
            tried = np.where(np.arange(len(found)) == number, factor * found, found)
            assert least <= gain(tried) + 1e-3


# Candidates


def test_of_candidates_that_are_as_good_the_one_nearest_to_an_optimum_is_taken(monkeypatch: pytest.MonkeyPatch):
    task = task_at(None)
    tables = drawn(task.space, 3)
    promises = {0: 0.3, 1: 0.1, 2: 0.2}
    nothing: Any = None
    order = np.zeros(3)

    def first_order(task: Task, table: np.ndarray, values: Any, multiplier: np.ndarray) -> tuple[float, np.ndarray]:
        number = next(one for one in range(3) if np.array_equal(tables[one], table))
        return promises[number], np.array([float(number)])

    class Ordered:
        def __init__(self, numbers: np.ndarray):
            self.numbers = numbers

        @property
        def order(self) -> np.ndarray:
            return order[self.numbers]

        def part(self, chosen: np.ndarray) -> Any:
            return Ordered(self.numbers[chosen])

    monkeypatch.setattr(answer, "_first_order", first_order)
    monkeypatch.setattr(answer, "_candidates", lambda *_: (tables, Ordered(np.arange(3))))
    for given, chosen in (
        ([0.5, 0.5, 0.5], 1), ([0.5 + 2e-5, 0.5, 0.5], 0), ([0.5 + 0.9e-5, 0.5, 0.4], 1), ([0.4, 0.5, 0.5 + 2e-5], 2),
        ([0.5, 0.4, 0.5], 2),
    ):  # fmt: skip
        order[:] = given
        found: Any = answer._chosen(task, nothing, state_of(task, tables[0]), Clock())
        table, values, gap, multiplier = found
        np.testing.assert_array_equal(table, tables[chosen])
        assert (gap, multiplier[0]) == (promises[chosen], chosen)
        assert values.numbers.tolist() == [chosen]
    promises[1] = promises[2] = 0.05
    order[:] = 0.5
    np.testing.assert_array_equal(answer._chosen(task, nothing, state_of(task, tables[0]), Clock())[0], tables[2])


def test_candidates_are_evaluated_where_there_is_time():
    task = task_at()
    tables = drawn(task.space, 2)
    state = state_of(task, richest_table(task.space))
    found, values = answer._candidates(task, searched(tables), state, Clock())
    np.testing.assert_array_equal(found, tables)
    for number in range(2):
        assert values.score[number] == task.evaluate(tables[number][None]).score[0]
    task.secrecy.cost_seconds = 5.0
    for limit, count in ((10.1, 2), (9.9, 1)):
        assert len(answer._candidates(task, searched(tables), state, Clock(limit, now=lambda: 0.0))[0]) == count


@pytest.mark.parametrize("settings", [{}, {"min_opacity": 0.1}])
def test_without_time_the_best_known_table_is_the_candidate(settings: dict[str, Any]):
    task = task_at(**settings)
    best = richest_table(task.space)
    for score in (0.25, -np.inf):
        state = state_of(task, best, score)
        found, values = answer._candidates(task, searched(best[None], late=True), state, Clock())
        np.testing.assert_array_equal(found, best[None])
        assert (values.score[0], values.score_slope.size, values.slack_slope.size) == (score, 0, 0)
        assert np.isnan(values.secrecy[0])
        assert values.returns[0] == pytest.approx(veil.expected_return(task.space.problem, task.space.policy(best)))
        if settings:
            np.testing.assert_array_equal(values.slack, [[0.0 if score > 0 else -1.0]])
        else:
            np.testing.assert_array_equal(values.slack, task.slacks(best[None]))


def test_the_one_candidate_of_a_search_on_samples_is_not_evaluated_again():
    task = points_of(random_problem(0)).task
    best, other = richest_table(task.space), drawn(task.space, 1)
    state = state_of(task, best)
    found, values = answer._candidates(task, searched(other), state, Clock())
    assert found is other
    assert np.isnan(values.secrecy[0])
    assert len(answer._candidates(task, searched(drawn(task.space, 2)), state, Clock())[0]) == 2


def test_a_smaller_class_hands_on_its_bits_as_they_were_searched():
    task = task_at(goal="transparent")
    best = richest_table(task.space)
    table, bits, returns = best_candidate(
        task, searched(best[None], late=True), state_of(task, best, -0.4), PLAIN, Clock()
    )
    assert (bits, returns) == (0.4, pytest.approx(float(task.returns_by_start(best)[0])))
    assert table is not None
    evaluated = best_candidate(task, searched(best[None]), state_of(task, best, -0.4), PLAIN, Clock())
    assert evaluated[1] == pytest.approx(veil.opacity(task.space.problem, task.space.policy(best)).bits)
    kept = task_at(min_opacity=0.1)
    assert np.isnan(best_candidate(kept, searched(best[None], late=True), state_of(kept, best), PLAIN, Clock())[1])
    least = task_of(two_sensors(1), hide="own, other")
    safe = richest_table(least.space)
    assert np.isnan(best_candidate(least, searched(safe[None], late=True), state_of(least, safe), PLAIN, Clock())[1])


@pytest.mark.parametrize(("left", "seconds"), [(8.0, 8.0), (0.1, 0.5)])
@pytest.mark.parametrize("objective", ["entropy", "leakage"])
def test_on_samples_a_smaller_class_that_began_from_a_policy_hands_on_the_better_of_both(
    monkeypatch: pytest.MonkeyPatch, objective: Any, left: float, seconds: float
):
    """The bits are what is maximised: less those of the prior for a leakage; half a second at least to estimate them."""
    task, asked = points_of(random_problem(0)).task, list[float]()
    safe, other = richest_table(task.space), drawn(task.space, 1)[0]
    found = Bits(veil.Opacity(0.5, 0.5, 0.5, 0.75, "exact", 1))
    monkeypatch.setattr(answer, "_best_on_samples", lambda *given: asked.append(given[3]) or (found, safe))
    options = replace(PLAIN, start=task.space.policy(safe), objective=objective)
    closing = Clock(left, now=lambda: 0.0)
    state = state_of(task, other)
    table, bits, returns = best_candidate(task, searched(other[None]), state, options, closing)
    assert table is safe
    assert asked == [seconds]
    assert bits == pytest.approx(0.5 if objective == "entropy" else -0.25)
    assert returns == pytest.approx(float(task.returns_by_start(safe)[0]))
    best_candidate(task, searched(other[None]), state, replace(options, start=None), closing)
    assert len(asked) == 1


# What is hidden


def test_an_answer_may_take_a_second_and_what_is_left_unless_the_search_was_interrupted():
    clock = Clock(10.0, now=lambda: 0.0)
    assert answer._closing_clock(Status.TIME_LIMIT, clock).time_limit == 11.0
    assert answer._closing_clock(Status.INTERRUPTED, clock).time_limit == 1.0


@pytest.mark.parametrize(("cost", "way"), [(1.0, "final"), (29.9, "final"), (30.2, "measured")])
def test_exact_bits_are_evaluated_where_they_fit_a_third_of_a_gradient(
    cost: float, way: str, monkeypatch: pytest.MonkeyPatch
):
    task, given = task_at(), dict[str, Any]()
    task.secrecy.cost_seconds = cost
    hidden = veil.opacity(task.space.problem, task.space.policy(richest_table(task.space)))
    monkeypatch.setattr(answer, "final_opacity", lambda *arguments: given.update(final=arguments[3]) or hidden)
    monkeypatch.setattr(answer, "opacity", lambda *_, **named: given.update(measured=named) or hidden)
    table = richest_table(task.space)
    options = replace(PLAIN, seed=4)
    found, same = answer._closing_bits(task, table, options, Clock(10.0, now=lambda: 0.0))
    assert (found.own, found.pairs, list(given)) == (hidden, (), [way])
    assert same is table
    if way == "measured":
        assert given[way]["seed"] == 5
        assert given[way]["time_limit"] == pytest.approx(10.0, abs=1e-3)
        answer._closing_bits(task, table, options, Clock(0.0))
        assert given[way]["time_limit"] == 0.5
    else:
        assert given[way] == 4


def pair(name: str, bits: float, least: float | None = None, most: float | None = None) -> PairValue:
    hidden = veil.Opacity(bits, bits, bits, 1.0, "exact", 1)
    return PairValue(name, hidden, least, most)


def test_the_score_of_bits_is_what_was_maximised():
    own = veil.Opacity(0.6, 0.6, 0.6, 0.9, "exact", 1)
    found = Bits(own, (pair("other", 0.4), pair("start", 0.5)))
    plain = task_of(two_sensors(1))
    assert answer._score(plain, found, 0.0, PLAIN) == pytest.approx(0.6)
    assert answer._score(plain, found, 0.25, PLAIN) == pytest.approx(0.85)
    assert answer._score(plain, found, 0.0, replace(PLAIN, objective="leakage")) == pytest.approx(-0.3)
    assert answer._score(replace(plain, sign=-1.0), found, 0.25, PLAIN) == pytest.approx(-0.35)
    assert answer._score(task_of(two_sensors(1), hide="own, other, start"), found, 0.0, PLAIN) == pytest.approx(0.4)
    assert answer._score(task_of(two_sensors(1), hide="own, start"), found, 0.0, PLAIN) == pytest.approx(0.5)
    summed = task_of(two_sensors(1), task="0.5*H(start) - 2*H(other)")
    assert answer._score(summed, found, 0.0, PLAIN) == pytest.approx(0.6 + 0.25 - 0.8)
    missed = Bits(own, (pair("other", 0.4, least=0.5), pair("start", 0.5)))
    assert answer._score(plain, missed, 0.0, PLAIN) == pytest.approx(0.6 - 1e6)


def test_on_samples_the_better_of_the_answer_and_the_policy_it_began_from_is_taken(monkeypatch: pytest.MonkeyPatch):
    task = points_of(random_problem(0)).task
    space = task.space
    safe = richest_table(space)
    low, asked = drawn(space, 1)[0], list[tuple[int, float]]()
    score = {"safe": 0.5, "other": 0.4}

    def bits(task: Task, table: np.ndarray, count: int, options: SolveOptions, left: float) -> Bits:
        asked.append((count, left))
        own = score["safe" if np.array_equal(table, safe) else "other"]
        return Bits(veil.Opacity(own, own, own, 1.0, "exact", 1))

    monkeypatch.setattr(answer, "_sampled_bits", bits)
    mixed = 0.9 * safe + 0.1 * low
    partly = mixed.copy()
    partly[0, 0] = safe[0, 0]
    for begun, better, tables in ((safe, 0.5, 2), (partly, 0.4, 2), (mixed, 0.4, 1), (None, 0.4, 1), (low, 0.4, 1)):
        asked.clear()
        given = None if begun is None else space.policy(begun)
        options = replace(PLAIN, start=given, sequences=3000)
        found, table = answer._best_on_samples(task, mixed, options, 8.0)
        assert found.own.bits == better
        np.testing.assert_array_equal(table, safe if better == 0.5 else mixed)
        assert asked == [(30_000, 8.0 / tables)] * tables
    score["other"] = 0.6
    found, table = answer._best_on_samples(task, mixed, replace(PLAIN, start=space.policy(safe), sequences=100), 8.0)
    assert table is mixed
    assert asked[-1][0] == 20_000


def test_pairs_on_samples_share_the_time(monkeypatch: pytest.MonkeyPatch):
    task, asked = points_of(two_sensors(1, min=0.125, max=0.875)).task, list[tuple[int, int, float]]()
    hidden = veil.Opacity(0.5, 0.5, 0.5, 1.0, "exact", 1)

    def sampled(space: Any, table: np.ndarray, count: int, seed: int, seconds: float) -> veil.Opacity:
        asked.append((count, seed, seconds))
        return hidden

    monkeypatch.setattr(answer, "sampled_answer", sampled)
    found = answer._sampled_bits(task, richest_table(task.space), 70, replace(PLAIN, seed=2, memory="timed"), 9.0)
    assert asked == [(70, 2, 3.0)] * 3
    assert [(one.name, one.min, one.max) for one in found.pairs] == [("other", 0.125, 0.875), ("start", None, None)]


def test_a_pair_with_a_belief_on_samples_has_half_of_its_time_for_the_bits_and_as_many_sequences_for_the_loss(
    monkeypatch: pytest.MonkeyPatch,
):
    naive = veil.Pair("naive", belief=veil.Belief("uniform", doubt=0.1))
    task, asked = points_of(two_sensors(1).replace(pairs=[naive])).task, list[float]()
    hidden = veil.Opacity(0.5, 0.4, 0.6, 1.0, "sampled", 50)
    monkeypatch.setattr(answer, "sampled_answer", lambda *given: asked.append(given[4]) or hidden)
    table, options = richest_table(task.space), replace(PLAIN, seed=2, memory="timed")
    found = answer._sampled_bits(task, table, 70, options, 9.0).pairs[0]
    assert asked == [4.5, 2.25]
    loss = answer.sampled_column(task.space, naive, options).estimate(table, 50, 3, UNLIMITED)
    assert (found.loss_bits, found.loss_std_error) == (loss.bits, loss.std_error)


def test_pairs_that_count_are_measured_exactly_and_the_others_as_the_time_allows(monkeypatch: pytest.MonkeyPatch):
    task, asked = task_of(two_sensors(1), hide="own, other"), list[Any]()
    monkeypatch.setattr(answer, "pair_value", lambda *given, **named: asked.append((given[1].name, *given[3:], named)))
    answer._exact_pairs(task, task.space.policy(richest_table(task.space)), replace(PLAIN, seed=4), 6.0)
    assert asked == [("other", "exact", {}), ("start", {"seed": 4, "time_limit": 6.0})]


# Feasibility


def feasible(task: Task, table: np.ndarray, bits: float = 0.5, pairs: tuple[PairValue, ...] = ()) -> bool:
    policy = task.space.policy(table)
    own = veil.Opacity(bits, bits, bits, 1.0, "exact", 1)
    return is_feasible(task, table, policy, Bits(own, pairs), veil.expected_return(task.space.problem, policy))


def test_an_answer_is_feasible_where_it_meets_every_constraint():
    task = task_at("90%")
    safe, low = richest_table(task.space), task.space.softmax(np.zeros(task.space.shape))
    assert feasible(task, safe)
    assert not feasible(task, low)
    assert feasible(task_at(None), low)
    assert not feasible(task, safe, pairs=(pair("other", 0.3, least=0.4),))
    assert feasible(task, safe, pairs=(pair("other", 0.4, least=0.4),))
    kept = task_at("90%", min_opacity=0.5)
    assert feasible(kept, low, bits=0.5)
    assert not feasible(kept, low, bits=0.499)
    limited = make_task(make_space(constrained(), "timed"))
    assert feasible(limited, richest_table(limited.space))
    assert not feasible(limited, spending(limited))
    free = make_task(make_space(constrained().replace(min_return=None), "timed"))
    tables = drawn(free.space, 30, 1, 50.0)
    slack = free.constraints(tables)[2]
    one = tables[np.flatnonzero((slack[:, 0] < 0) & (slack[:, 1] > 0))[0]]
    other = tables[np.flatnonzero((slack[:, 0] > 0) & (slack[:, 1] < 0))[0]]
    assert not feasible(free, one)
    assert not feasible(free, other)


def test_every_start_state_must_reach_the_threshold_and_the_rounding_beyond():
    problem = small_problem("last", horizon=3, min_return=-0.5)
    task = make_task(make_space(problem), per_start=True)
    safe = richest_table(task.space)
    assert feasible(task, safe)
    least = float(task.returns_by_start(safe).min())
    near = make_task(make_space(problem.replace(min_return=least)), per_start=True)
    assert not feasible(near, safe)
    moved = within_reach(near, safe)
    assert moved.aim == least
    assert not feasible(moved, safe)  # which rounding may have raised


@pytest.mark.parametrize(("slack", "met"), [
    ([], True), ([0.0], True), ([1.0, 0.0], True), ([1.0, -1e-12], False), ([-1e-12, 1.0], False), ([-1.0, -1.0], False),
])  # fmt: skip
def test_constraints_but_those_on_bits_are_met_where_no_slack_is_below_zero(slack: list[float], met: bool):
    table, found = np.zeros((1, 1, 1)), np.array([slack])
    unused: Any = None
    free: Any = SimpleNamespace(num_kept=0, slacks=lambda _: found)
    kept: Any = SimpleNamespace(num_kept=1, constraints=lambda _: (unused, unused, found, unused))
    assert answer._meets_linear(free, table) == answer._meets_linear(kept, table) == met


def test_where_bits_are_kept_too_the_return_must_reach_its_threshold():
    """With a bound on a pair, and with a task under kept bits: slacks of returns come after those of bits."""
    bounded = task_of(two_sensors(1, min=0.1).replace(min_return="90%"))
    asked = make_task(make_space(constrained().replace(min_return="90%"), "timed"), terms=((1.0, 0),), min_opacity=0.1)
    for task, pairs in ((bounded, (pair("other", 0.2, least=0.1),)), (asked, ())):
        safe, low = richest_table(task.space), task.space.softmax(np.zeros(task.space.shape))
        assert task.num_kept == task.num_returns == 1
        task = replace(task, further=())
        assert feasible(task, safe, pairs=pairs)
        assert not feasible(task, low, pairs=pairs)


def test_of_two_start_states_each_must_reach_the_threshold_and_the_rounding_beyond():
    """The better action pays 1 or 0.5 at both times, by the start: the mean of 1.5 does not count."""
    stay = np.zeros((2, 2, 2))
    stay[0, :, 0] = stay[1, :, 1] = 1
    model = veil.Model(stay, [[0.0, 1.0], [0.0, 0.5]], [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.InitialState(), 2)
    for wanted, met in ((0.9, True), (1.0, False), (1.1, False)):
        task = make_task(make_space(problem.replace(min_return=wanted)), per_start=True)
        safe = richest_table(task.space)
        assert feasible(within_reach(task, safe), safe) is met


def test_statuses_of_an_answer():
    task = task_at("60%")
    safe = richest_table(task.space)
    found = answered(task, safe[None], Status.TIME_LIMIT)
    assert (found.status, found.feasible, found.iterations) == (Status.TIME_LIMIT, True, 3)
    assert found.settings == {"memory": found.settings["memory"], "evaluation": "exact", "starts": 7}
    assert found.detail == task.secrecy.reason
    assert len(found.history) == 1
    assert answered(task, safe[None], Status.TIME_LIMIT, iteration=0).status is Status.NOT_SEARCHED
    past: Any = np.ones((2, 6))
    after = make_answer(
        task, searched(safe[None]), state_of(task, safe, iteration=0), Status.TIME_LIMIT, PLAIN, Clock(), past
    )
    assert (after.status, len(after.history)) == (Status.TIME_LIMIT, 3)
    assert answered(task, safe[None], Status.INTERRUPTED, iteration=0).status is Status.INTERRUPTED
    gap = answered(task, drawn(task.space, 1), Status.CONVERGED)
    assert gap.stationarity_bits > 1e-3
    assert gap.status in (Status.ITERATION_LIMIT, Status.INFEASIBLE)
    low = answered(task_at("99%"), task.space.softmax(np.zeros((1, *task.space.shape))))
    assert (low.status, low.feasible) == (Status.INFEASIBLE, False)
    assert "below the threshold" in low.detail


def test_without_a_search_the_policy_to_begin_from_is_the_answer_where_it_is_feasible():
    task = task_at("60%")
    space, safe = task.space, richest_table(task.space)
    mixed, low = 0.9 * safe + 0.1 * drawn(space, 1)[0], space.softmax(np.zeros(space.shape))
    for given, wanted in ((None, safe), (mixed, mixed), (low, safe)):
        options = replace(PLAIN, start=None if given is None else space.policy(given))
        found = unsearched(task, safe, options, Clock(), Status.TIME_LIMIT)
        assert found.policy == space.policy(wanted)
        assert (found.status, found.feasible, found.iterations) == (Status.NOT_SEARCHED, True, 0)
        assert found.expected_return == pytest.approx(veil.expected_return(space.problem, found.policy))
    assert unsearched(task, safe, PLAIN, Clock(), Status.INTERRUPTED).status is Status.INTERRUPTED
    missed = unsearched(task_at("99%"), low, PLAIN, Clock(), Status.TIME_LIMIT)
    assert (missed.status, missed.feasible) == (Status.INFEASIBLE, False)
    kept = task_at("60%", min_opacity=0.0)
    found = unsearched(
        kept, safe, replace(PLAIN, start=space.policy(mixed), min_opacity=0.0), Clock(), Status.TIME_LIMIT
    )
    assert found.policy == space.policy(safe)


def test_an_answer_of_a_smaller_class_is_one_of_the_class_asked_for():
    task = task_at("60%")
    found = unsearched(task, richest_table(task.space), PLAIN, Clock(), Status.INTERRUPTED)
    assert in_class(task.space, found) is found
    space = make_space(task.space.problem.replace(agent_sees_observations=True), veil.ObservationMemory(1))
    larger = in_class(space, found)
    assert larger.policy_class == space.describe
    assert larger.needs_observations
    assert "while it searched stationary Markov policies" in larger.detail
    assert veil.expected_return(space.problem, larger.policy) == pytest.approx(found.expected_return)


# Why not


def test_what_a_class_misses_is_told_with_the_class_that_can():
    free = random_problem(5).replace(min_return=None)
    space = make_space(free)
    stationary, most = float(veil.expected_return(free, space.policy(richest_table(space)))), veil.max_return(free)
    low = space.softmax(np.zeros(space.shape))
    task = make_task(make_space(free.replace(min_return=most)))
    hidden = Bits(veil.opacity(free, space.policy(low)))
    words = answer._why_infeasible(task, low, hidden)
    assert "the best return found for stationary Markov policies is" in words
    assert f"below the threshold {most:.6g}" in words
    assert f"time-dependent policies reach {most:.6g}: use memory='timed'" in words
    assert stationary <= most
    timed = make_task(make_space(free.replace(min_return=most), "timed"))
    uniform = timed.space.softmax(np.zeros(timed.space.shape))
    assert answer._why_infeasible(timed, uniform, hidden).endswith(f"below the threshold {most:.6g}")
    kept = make_task(make_space(free), min_opacity=0.75)
    assert answer._why_infeasible(kept, low, hidden).startswith("no policy was found that hides 0.75 bits")


def test_what_rounding_leaves_undecided_is_told_with_its_size():
    free = random_problem(5).replace(min_return=None)
    space = make_space(free)
    table = richest_table(space)
    reached = float(make_task(space).returns_by_start(table)[0])
    task = make_task(make_space(free.replace(min_return=reached)))
    words = answer._why_infeasible(task, table, Bits(veil.opacity(free, space.policy(table))))
    assert words.startswith(f"whether stationary Markov policies reach the threshold {reached!r} is not decided")


def test_from_start_states_the_one_where_least_is_reached_is_told():
    problem = small_problem("last", horizon=3, min_return=-0.5)
    task = make_task(make_space(problem), per_start=True)
    low = greedy_for_least(task)
    worst = float(task.returns_by_start(low).min())
    above = make_task(make_space(problem.replace(min_return=worst + 0.1)), per_start=True)
    words = answer._why_infeasible(above, low, Bits(veil.opacity(problem, task.space.policy(low))))
    assert f"is {worst:.6g}, below the threshold" in words
    assert "from the start state where it is least" in words
    timed = make_space(problem, "timed")
    best = make_task(timed, per_start=True).returns_by_start(richest_table(timed)).min()
    assert f"time-dependent policies reach {best:.6g}" in words


def test_what_no_policy_reaches_is_told_only_where_it_is_known():
    """Right pays in both states, 1 in the first and 0.5 in the second; unknown models leave open what could be reached."""
    stay = np.zeros((2, 2, 2))
    stay[0, :, 0] = stay[1, :, 1] = 1
    pays = np.array([[0.0, 1.0], [0.0, 0.5]])
    known = veil.Problem(veil.Model(stay, pays, [0.5, 0.5]), veil.Observer(np.eye(2)), veil.InitialState(), 2)
    models = [veil.Model(stay, one, [0.5, 0.5]) for one in (pays, pays[:, ::-1])]
    unknown = known.replace(model=models, secret=veil.WhichModel([0.5, 0.5]))
    for problem, is_known in ((known, True), (unknown, False)):
        task = make_task(make_space(problem.replace(min_return=1.125 if is_known else 0.7)), per_start=True)
        assert len(task.starts) == 2
        low = task.space.softmax(np.zeros(task.space.shape))
        words = answer._why_infeasible(task, low, Bits(veil.opacity(problem, task.space.policy(low))))
        assert words.endswith("; no policy reaches more than 1 from every start state") == is_known
        assert is_known or words.endswith("from the start state where it is least")
    once = make_task(make_space(known.replace(min_return=1.75)))  # on the mean over both start states
    low = once.space.softmax(np.zeros(once.space.shape))
    words = answer._why_infeasible(once, low, Bits(veil.opacity(known, once.space.policy(low))))
    assert words == "the best return found for stationary Markov policies is 0.75, below the threshold 1.75"


def greedy_for_least(task: Task) -> np.ndarray:
    """The worst of some deterministic tables."""
    tables = drawn(task.space, 30, 1, 50.0)
    return min(tables, key=lambda table: float(task.returns_by_start(table).min()))


def spending(task: Task) -> np.ndarray:
    """Of some deterministic tables the one that spends most energy."""
    tables = drawn(task.space, 30, 1, 50.0)
    return tables[int(np.argmin(task.constraints(tables)[2][:, 1]))]


def test_of_several_constraints_those_that_are_missed_are_told():
    task = make_task(make_space(constrained(), "markov"))
    table = spending(task)
    words = answer._why_infeasible(task, table, Bits(veil.opacity(constrained(), task.space.policy(table))))
    assert words.startswith("no policy was found that meets all constraints; missed: ")
    assert "energy ≤" in words
    assert words.endswith(": use memory='timed'")
    timed = make_task(make_space(constrained(), "timed"), min_opacity=0.25)
    safe = spending(make_task(make_space(constrained(), "timed")))
    words = answer._why_infeasible(timed, safe, Bits(veil.opacity(constrained(), timed.space.policy(safe))))
    assert " and hides 0.25 bits; missed: " in words
    assert words.endswith(": relax a constraint, or allow more memory")
    bounded = task_of(two_sensors(1, min=0.9))
    safe = richest_table(bounded.space)
    hidden = Bits(veil.opacity(two_sensors(1), bounded.space.policy(safe)), (pair("other", 0.125, least=0.9),))
    words = answer._why_infeasible(bounded, safe, hidden)
    assert "H(other) ≥ 0.9" in words
    assert "0.125" in words
