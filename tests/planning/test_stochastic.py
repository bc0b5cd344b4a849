"""The steps of a search on fresh samples, one by one: Adam's by hand, batches, rounds, checks, and what follows a check."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.planning.small_problems import drawn, random_problem
from tests.planning.test_pairs import two_sensors
from tests.planning.test_stochastic_answers import sampled_task
from tests.policy.masked import masked_problem
from veil.common.clock import Clock, OutOfTime, Progress
from veil.planning import stochastic
from veil.planning.options import SolveOptions
from veil.planning.pair_terms import make_pair_task
from veil.planning.policy_class import make_space
from veil.planning.sampled_points import Point
from veil.planning.soft_starts import FACTORS
from veil.planning.starts import richest_table
from veil.planning.stochastic import StochasticAscent
from veil.planning.stochastic_state import Pace, State
from veil.planning.task import Task, make_task
from veil.planning.values import make_secrecy


class Ticking:
    """A time source that stands still unless it is told."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def searching(
    task: Task | None = None, limit: float | None = None, **options: Any
) -> tuple[StochasticAscent, State, Ticking]:
    """A search with one start, the state before its first iteration, and its time."""
    task, now = sampled_task(random_problem(0)) if task is None else task, Ticking()
    task = replace(task, clock=Clock(limit, now=now))
    given: dict[str, Any] = {"starts": 1} | options
    method = StochasticAscent(task, richest_table(task.space), SolveOptions(**given))
    return method, method.begin(), now


def paired(**options: Any) -> Task:
    """A task of three pairs on samples."""
    space, given = make_space(two_sensors(1), "timed"), SolveOptions(method="ascent", memory="timed", **options)
    secrecy, pairs = make_pair_task(space, given, make_secrecy(space, evaluation="sampled"), None)
    return make_task(space, secrecy=secrecy, pairs=pairs)


def test_a_pace_is_that_of_adam_with_falling_steps_and_a_growing_average():
    _, state, _ = searching()
    first = Pace.of(state)
    assert (first.iteration, first.rate, first.weight) == (0, state.rate, 1.0)
    assert (first.mean_scale, first.square_scale) == (pytest.approx(0.1), pytest.approx(0.01))
    later = Pace.of(replace(state, iteration=305, begun=5))
    assert later.iteration == 305
    assert later.rate == pytest.approx(state.rate / 2)  # 1/√(1 + 300/100)
    assert later.mean_scale == pytest.approx(1 - 0.9**301)
    assert later.square_scale == pytest.approx(1 - 0.99**301)
    assert later.weight == 0.02
    assert Pace.of(replace(state, iteration=9)).weight == pytest.approx(2 / 11)


def test_a_step_is_that_of_adam_on_the_lagrangian():
    """From its own moments and multipliers: the first moment, the second, and the average that follows."""
    method, state, _ = searching()
    theta, rng = state.theta[0], np.random.default_rng(3)
    mean, square = 0.1 * rng.normal(size=theta.shape), 0.01 * rng.uniform(size=theta.shape)
    state = replace(
        state, iteration=4, mean=[mean], square=[square], average=[theta + 1.0], multiplier=np.array([[0.7]]),
        worth=np.array([0.25]),
    )  # fmt: skip
    pace = Pace.of(state)
    table = method._table(theta)
    point, score_slope, slack_slope = method._evaluate(table, state.batch, method._seed(pace, 0))
    pull = max(0.0, 0.7 - 20.0 * point.slack[0])
    used = table.reshape(-1, table.shape[2])[method._rows]
    slope = score_slope + pull * slack_slope[0]
    gradient = used * (slope - np.sum(used * slope, axis=1, keepdims=True))
    mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
    moved = theta + pace.rate * (mean / pace.mean_scale) / np.sqrt(square / pace.square_scale)
    moved = np.maximum(moved - moved.max(axis=1, keepdims=True), -40.0)
    found = method._step(state, 0, pace)
    np.testing.assert_allclose(found.theta, moved, atol=1e-7)
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.square, square)
    np.testing.assert_allclose(found.average, theta + 1.0 + pace.weight * (found.theta - theta - 1.0))
    assert found.point.bits == point.bits
    assert found.multiplier[0] == pytest.approx(max(0.0, 0.7 - 2.0 * point.slack[0]))
    worth = point.score + min(point.slack[0], 0.0) * (1 + 2 * pull)
    assert found.worth == pytest.approx(0.7 * 0.25 + 0.3 * worth)
    assert method._priced(replace(state, begun=4), 0, point)[1] == pytest.approx(worth)


def test_seeds_of_gradients_differ_between_iterations_starts_and_searches():
    method, state, _ = searching()
    other, _, _ = searching(seed=1)
    paces = [Pace.of(replace(state, iteration=one)) for one in range(3)]
    seeds = {method._seed(pace, number) for pace in paces for number in range(3)}
    assert len(seeds | {other._seed(paces[0], 0)}) == 10


def test_the_worth_of_what_misses_its_constraint_is_charged_its_price():
    method, state, _ = searching()
    for slack, multiplier, worth in ((-0.1, 0.5, 2.0 - 0.1 * (1 + 2 * 2.5)), (0.1, 3.0, 2.0), (0.0, 1.0, 2.0)):
        point = Point(1.0, 0.0, 2.0, np.array([slack]))
        found = method._priced(replace(state, multiplier=np.array([[multiplier]])), 0, point)
        assert found[1] == pytest.approx(worth)
        assert found[0][0] == pytest.approx(max(0.0, multiplier - 2.0 * slack))


def test_batches_are_doubled_where_noise_has_taken_over():
    method, state, _ = searching()
    ones = np.ones_like(state.theta[0])
    noisy = replace(state, inside=32, iteration=50, check_at=61, mean=[0.3 * ones], square=[ones], batch=64)
    found = method._louder(noisy)  # the mean has 0.09 of the square
    assert (found.batch, found.inside, found.check_at) == (128, 0, 50 + 6)
    assert method._louder(replace(noisy, check_at=60)).check_at == 55
    clear = np.sqrt(0.1 * (1 + 1e-12)) * ones
    for same in (
        replace(noisy, mean=[clear]),
        replace(noisy, inside=31),
        replace(noisy, batch=1024),
        replace(noisy, theta=[*noisy.theta, *noisy.theta]),
    ):
        assert method._louder(same) is same
    assert method._louder(replace(noisy, batch=512)).batch == 1024


def test_the_better_half_stays_once_a_round_is_over():
    method, state, _ = searching()
    theta = [np.full_like(state.theta[0], number) for number in range(5)]
    several = replace(
        state, theta=theta, mean=[2 * one for one in theta], square=[3 * one for one in theta],
        average=[4 * one for one in theta], multiplier=np.arange(5.0)[:, None], worth=np.array([0.1, 0.5, 0.3, 0.5, 0.2]),
        inside=7, length=7,
    )  # fmt: skip
    found = method._halved(several)
    assert [one.flat[0] for one in found.theta] == [1, 3, 2]
    assert [one.flat[0] for one in found.average] == [4, 12, 8]
    assert [one.flat[0] for one in (*found.mean, *found.square)] == [2, 6, 4, 3, 9, 6]
    assert found.multiplier[:, 0].tolist() == [1, 3, 2]
    assert found.worth.tolist() == [0.5, 0.5, 0.3]
    assert found.inside == 0
    earlier = replace(several, inside=6)
    assert method._halved(earlier) is earlier
    alone = replace(several, theta=theta[:1])
    assert method._halved(alone) is alone


def test_the_history_has_the_leading_point_with_the_largest_multiplier_and_it_is_reported():
    told: list[Progress] = []
    task = replace(sampled_task(random_problem(0)), clock=Clock(progress=told.append, now=lambda: 2.5))
    method = StochasticAscent(task, richest_table(task.space), SolveOptions(starts=2, iterations=33))
    state = replace(method.begin(), iteration=3, multiplier=np.array([[0.2], [0.6]]))
    given = ((0.5, 1.0, 0.1), (0.9, 2.0, -0.05), (0.8, 3.0, -0.05))
    points = [Point(bits, returns, bits, np.array([slack])) for bits, returns, slack in given]
    found = method._noted(state, points, 0.25)
    price = task.price(np.array([0.6]))
    assert found.history[-1].tolist() == [3, 0.9, 2.0, price, 0.25, 0.0]
    assert (told[-1].phase, told[-1].iteration, told[-1].of) == ("choosing", 3, 33)
    assert (told[-1].opacity_bits, told[-1].expected_return, told[-1].multiplier) == (0.9, 2.0, price)
    worse = [replace_slack(points[1], -0.11), points[0]]  # four times the violation counts
    found = method._noted(replace(state, theta=state.theta[:1]), worse, 0.25)
    assert found.history[-1, 1] == 0.5
    assert told[-1].phase == "sampling"
    better = [replace_slack(points[1], -0.09), points[0]]
    assert method._noted(state, better, 0.25).history[-1, 1] == 0.9


def replace_slack(point: Point, slack: float) -> Point:
    return replace(point, slack=np.array([slack]))


@pytest.mark.parametrize(
    ("iteration", "begun", "batch", "starts", "sequences", "until"),
    [
        (100, 0, 1024, 1, 256, 31),  # to 1.3 times as many iterations, and one more
        (100, 60, 1024, 1, 256, 13),
        (10, 0, 32, 1, 256, 32),  # so that a check costs no more than a fourth of the gradients
        (10, 0, 32, 2, 256, 16),
        (10, 0, 32, 2, 250, 16),
        (10, 0, 1024, 1, 256, 4),
    ],
)
def test_checks_follow_at_growing_intervals(iteration, begun, batch, starts, sequences, until):
    method, state, _ = searching()
    at = replace(state, iteration=iteration, begun=begun, batch=batch, theta=[state.theta[0]] * starts)
    assert method._until_check(at, sequences) == until


@pytest.mark.parametrize(("iteration", "batch", "sequences"), [(14, 32, 256), (114, 64, 640), (1004, 1024, 20_000)])
def test_a_check_has_a_tenth_of_the_sequences_of_all_gradients(iteration, batch, sequences):
    method, state, _ = searching()
    assert method._sequences_of_check(replace(state, iteration=iteration, begun=4, batch=batch)) == pytest.approx(
        min(sequences, 20_000), abs=64
    )


class Checked:
    """A search whose tables have the scores that are given for them: of the best so far, the average, the newest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, best: float, average: float, newest: float):
        self.method, state, _ = searching()
        self.asked: list[int] = []
        theta, average_theta = (self.method._parameters(self.method._safe, share) for share in (0.05, 0.1))
        self.state = replace(
            state, iteration=40, batch=64, check_at=40, idle=2, theta=[theta], average=[average_theta], worth=np.array([0.5]),
            multiplier=np.array([[0.75]]), best=self.method._safe, best_score=0.123,
        )  # fmt: skip
        self.tables = [
            self.method._safe,
            *(self.method._contender(one, is_elsewhere=False)["best"] for one in (average_theta, theta)),
        ]
        self.scores = (best, average, newest)
        monkeypatch.setattr(self.method, "_score", self._score)

    def _score(self, table: np.ndarray, sequences: int) -> float:
        self.asked.append(sequences)
        return next(score for one, score in zip(self.tables, self.scores, strict=True) if np.array_equal(one, table))

    def run(self, **changes: Any) -> State:
        return self.method._considered(replace(self.state, **changes))


@pytest.mark.parametrize(
    ("scores", "chosen", "idle"),
    [
        ((0.5, 0.5, 0.4995), 0, 3),
        ((0.5, 0.5 + 0.5e-4, 0.5), 1, 3),
        ((0.5, 0.5 + 2e-4, 0.5), 1, 0),
        ((0.5, 0.6, 0.7), 2, 0),
        ((0.5, 0.7, 0.6), 1, 0),
        ((0.5, 0.6, 0.6), 1, 0),
    ],
)
def test_a_check_keeps_the_best_of_what_it_compares(monkeypatch: pytest.MonkeyPatch, scores, chosen, idle):
    checked = Checked(monkeypatch, *scores)
    found = checked.run()
    assert found.best_score == scores[chosen]
    np.testing.assert_array_equal(found.best, checked.tables[chosen])
    assert found.idle == idle
    assert found.check_at == 40 + checked.method._until_check(checked.state, 256)
    assert checked.asked == [256] * 3
    expected = checked.state.best_multiplier if chosen == 0 else checked.state.multiplier[0]
    np.testing.assert_array_equal(found.best_multiplier, expected)


def test_a_check_of_several_starts_looks_at_the_one_that_is_worth_most(monkeypatch: pytest.MonkeyPatch):
    checked = Checked(monkeypatch, 0.5, 0.4, 0.45)
    theta, average = checked.state.theta[0], checked.state.average[0]
    other = np.zeros_like(theta)
    found = checked.run(
        theta=[other, theta], average=[other, average], worth=np.array([0.1, 0.2]), multiplier=np.array([[1.0], [2.0]])
    )
    assert (found.idle, found.best_score) == (0, 0.5)
    assert len(found.theta) == 2  # and does not direct it
    assert checked.run().rate == checked.state.rate / 2  # as it does one start alone


@pytest.mark.parametrize(("begun", "elsewhere"), [(0, False), (1, True), (30, True)])
def test_only_what_begins_again_is_mended_without_the_safe_table(
    monkeypatch: pytest.MonkeyPatch, begun: int, elsewhere: bool
):
    checked, told = Checked(monkeypatch, 0.5, 0.4, 0.45), list[bool]()
    plain = checked.method._contender

    def contender(theta: np.ndarray, *, is_elsewhere: bool) -> dict[str, Any]:
        told.append(is_elsewhere)
        return plain(theta, is_elsewhere=False)

    monkeypatch.setattr(checked.method, "_contender", contender)
    checked.run(begun=begun)
    assert told == [elsewhere] * 2


@pytest.mark.parametrize(("newest", "rate"), [(0.5, 1.0), (0.4951, 1.0), (0.4949, 0.5), (-np.inf, 0.5)])
def test_a_search_goes_back_to_its_best_answer_once_it_is_lost(newest: float, rate: float):
    method, state, _ = searching()
    state = replace(state, batch=300, inside=9, best_multiplier=np.array([0.4]))
    found = method._directed(state, newest, 0.5)
    assert found.rate == rate * state.rate
    if rate == 1.0:
        assert found is state
        return
    assert (found.batch, found.inside, found.exploring, found.lacking) == (600, 0, 0, np.inf)
    assert method._directed(replace(state, batch=600), newest, 0.5).batch == 1024
    for moment in (*found.mean, *found.square):
        np.testing.assert_array_equal(moment, np.zeros_like(state.theta[0]))
    assert found.average[0] is found.theta[0]
    np.testing.assert_allclose(
        method._table(found.theta[0]), 0.999 * state.best + 0.001 * method._table(0 * found.theta[0]), atol=1e-9
    )
    assert found.average[0] is found.theta[0]
    assert not found.mean[0].any()
    assert not found.square[0].any()
    np.testing.assert_array_equal(found.multiplier, [[0.4]])


@pytest.mark.parametrize(
    ("lacking", "newest", "worth", "exploring"),
    [
        (np.inf, 0.1, 0.0, 1),
        (0.5, 0.1, 0.0, 0),  # 0.4 is lacking still: a gain of 0.1, no more than a fourth of it
        (0.5001, 0.1, 0.0, 1),
        (0.5001, 0.0, 0.1, 1),
        (0.0150, 0.49, 0.0, 0),  # less than 0.005 gained
        (0.0151, 0.49, 0.0, 1),
    ],
)
def test_a_search_elsewhere_goes_on_while_it_rises(lacking: float, newest: float, worth: float, exploring: int):
    method, state, _ = searching()
    state = replace(state, exploring=1, lacking=lacking, worth=np.array([worth]))
    found = method._directed(state, newest, 0.5)
    assert found.exploring == exploring
    assert found.lacking == (pytest.approx(0.5 - max(newest, worth)) if exploring else np.inf)


def test_a_search_elsewhere_that_is_better_is_the_search_from_then_on():
    method, state, _ = searching()
    state = replace(state, exploring=1, restarts=2, lacking=0.1)
    for newest in (0.5, 0.501, 0.6):
        found = method._directed(state, newest, 0.5)
        assert (found.exploring, found.restarts) == (0, 0)
        assert found.theta is state.theta


@pytest.mark.parametrize(
    ("changes", "spent", "wanted"),
    [
        ({}, 20.0, True), ({}, 15.0, True), ({}, 14.9, False), ({}, 59.0, True), ({}, 60.0, False),
        ({"restarts": 2}, 20.0, True), ({"restarts": 3}, 20.0, False),
        ({"batch": 0}, 20.0, False), ({"batch": 0, "exploring": 1}, 20.0, True),
        ({"best_score": 0.97}, 20.0, True), ({"best_score": 0.99}, 20.0, False),
    ],
)  # fmt: skip
def test_a_search_begins_again_in_the_middle_of_its_time(changes: dict[str, Any], spent: float, wanted: bool):
    """Between 15 and 60 of a hundred seconds, where more than 0.02 bits may be gained, three times at most."""
    method, state, now = searching(limit=100.0, starts=None)
    state = replace(state, best_score=0.5, batch=method._first_batch + changes.get("batch", 1))
    now.at = spent
    assert method._most_bits == 1.0
    assert method._begins_again(replace(state, **changes | {"batch": state.batch})) is wanted


def test_starts_that_take_long_are_not_begun_late():
    method, state, now = searching(limit=100.0, starts=None)
    state = replace(state, best_score=0.5, batch=2 * method._first_batch)
    now.at = 50.0
    for seconds, wanted in ((4.9, True), (5.1, False)):
        method._seconds_of_start, method._seconds = seconds, 0.0
        assert method._begins_again(state) is wanted
        method._seconds_of_start, method._seconds = 0.0, seconds / 16
        assert method._begins_again(state) is wanted


def test_a_search_to_show_begins_again_unless_nothing_is_hidden():
    problem = random_problem(0)
    method, state, now = searching(sampled_task(problem, goal="transparent"), limit=100.0, starts=None)
    now.at = 20.0
    state = replace(state, batch=2 * method._first_batch)
    assert method._begins_again(replace(state, best_score=-0.03))
    assert not method._begins_again(replace(state, best_score=-0.01))


def test_starts_elsewhere_begin_a_search_of_their_own():
    method, state, now = searching(limit=100.0, starts=None)
    now.at = 20.0
    state = replace(state, iteration=30, begun=10, restarts=1, batch=2 * method._first_batch, best_score=0.4,
                    theta=state.theta[:1],
                    best_multiplier=np.array([0.3]))  # fmt: skip
    found = method._restarted(state)
    assert (found.iteration, found.begun, found.restarts, found.exploring, found.inside) == (30, 30, 2, 1, 0)
    assert found.check_at == 30 + found.length + 4
    assert (found.best_score, found.batch) == (0.4, method._first_batch)
    assert found.best is state.best
    np.testing.assert_array_equal(found.best_multiplier, [0.3])
    assert len(found.theta) == 2
    assert found.earning.sum() == pytest.approx(1.0, abs=1e-9)


def test_where_no_time_is_left_for_starts_elsewhere_the_search_goes_back():
    method, state, now = searching(limit=100.0, starts=None)
    now.at = 100.0
    found = method._restarted(replace(state, theta=state.theta[:1]))
    assert (found.exploring, found.begun, found.rate) == (0, 0, state.rate / 2)


def test_a_search_is_done_after_its_iterations_or_where_checks_gain_nothing():
    method, state, _ = searching()
    assert not method.is_done(replace(state, iteration=4999))
    assert method.is_done(replace(state, iteration=5000))
    assert method.is_done(replace(state, idle=6, batch=1024))
    assert not method.is_done(replace(state, idle=5, batch=1024))
    assert not method.is_done(replace(state, idle=6, batch=512))
    asked, state, _ = searching(iterations=20)
    assert not asked.is_done(replace(state, idle=6, batch=1024, iteration=19))
    assert asked.is_done(replace(state, iteration=20))


def test_a_search_ends_while_its_answer_can_still_be_evaluated():
    method, state, now = searching(limit=100.0)
    now.at = 93.9
    assert method.advance(state).iteration == 1
    now.at = 94.1
    with pytest.raises(OutOfTime):
        method.advance(state)
    assert searching()[0]._closing == 0.0


def test_rounds_take_their_share_of_the_time():
    """A fourth of the time for all rounds, between 4 and 16 iterations for the first, and an eighth of all iterations."""
    method, _, _ = searching(limit=100.0)
    for seconds, starts, length in ((1.0, 5, 5), (1.0, 3, 8), (0.1, 2, 16), (10.0, 2, 4), (1.0, 2, 12)):
        method._seconds = seconds
        assert method._round(starts) == length
    assert [searching(iterations=count)[0]._round(3) for count in (1, 40, 80, 800)] == [4, 5, 10, 16]
    assert searching()[0]._round(9) == 16


@pytest.mark.parametrize(
    ("seconds", "least", "batch"),
    [(0.03 / 100, 32, 64), (0.03 / 128.5, 32, 128), (0.03 / 127, 32, 64), (1.0, 32, 32), (1e-9, 32, 512), (1.0, 8, 8),
     (0.029, 1, 1)],
)  # fmt: skip
def test_the_first_batch_is_a_power_of_two_that_takes_about_thirty_milliseconds(seconds, least, batch):
    assert StochasticAscent._batch_of(seconds, least) == batch


def test_the_seconds_of_a_gradient_are_those_of_all_pairs():
    one, several = searching(sampled_task(two_sensors(1)))[0], searching(paired(hide="own, other, start"))[0]
    entries, horizon = one.task.space.layers.num_entries, one.task.space.hidden.horizon
    assert one._seconds == pytest.approx(4e-9 * entries * one._first_batch + 4e-4 * horizon)
    total = sum(each.space.layers.num_entries for each in several._evaluated)
    assert len(several._evaluated) == 3
    assert several._seconds == pytest.approx(4e-9 * total * several._first_batch + 3 * 4e-4 * horizon)


@pytest.mark.parametrize(
    ("given", "starts", "most", "wanted"),
    [(0, None, 99, (0, 4)), (2, None, 99, (2, 4)), (2, 3, 99, (2, 1)), (3, 2, 99, (2, -1)), (2, None, 3, (2, 1)),
     (0, 1, 99, (0, 1))],
)  # fmt: skip
def test_given_tables_come_first_among_the_starts(
    given: int, starts: int | None, most: int, wanted: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    method, _, _ = searching(starts=starts)
    assert len(FACTORS) == 4
    asked: list[int] = []
    monkeypatch.setattr(method, "_soft_starts", lambda count: asked.append(count) or ["soft"] * max(0, count))
    method._most_starts = most
    tables = list(range(given))
    assert method._starts(tables) == [*tables[: wanted[0]], *["soft"] * max(0, wanted[1])]  # type: ignore[arg-type,comparison-overlap]
    assert asked == [wanted[1]]


def test_pairs_have_starts_of_their_own_and_a_friend_has_the_safe_table(monkeypatch: pytest.MonkeyPatch):
    for options, count, safe in (
        ({"hide": "own, other, start"}, 8, False),
        ({"hide": "other, start"}, 6, False),
        ({"task": "H(other)"}, 6, False),
        ({"task": "-H(other)"}, 5, True),
    ):
        method, _, _ = searching(paired(**options), starts=None)
        monkeypatch.setattr(method, "_soft_starts", lambda count: ["soft"] * count)
        found = method._starts([])
        assert len(found) == count
        assert (found[0] is method._safe) is safe


def test_without_soft_starts_the_safe_table_is_one(monkeypatch: pytest.MonkeyPatch):
    method, _, _ = searching()
    monkeypatch.setattr(method, "_soft_starts", lambda count: [])
    assert method._starts([])[0] is method._safe


def test_soft_starts_of_pairs_are_taken_in_turn(monkeypatch: pytest.MonkeyPatch):
    method, _, _ = searching(paired(hide="own, other, start"), limit=50.0)
    clocks = []

    def tables(task: Task, clock: Clock, avoided: object):
        clocks.append(clock.time_limit)
        number = method._raised.index(task.space) if avoided is None else 9
        yield from [10 * number + one for one in range(number + 1)]

    monkeypatch.setattr(stochastic, "soft_starts", tables)
    assert method._soft_starts(9) == [0, 10, 20, 11, 21, 22]
    assert clocks == [10.0] * 3
    assert method._soft_starts(2) == [0, 10]
    assert method._soft_starts(-3) == []
    assert method._soft_starts(3, "avoided") == [90, 91, 92]  # type: ignore[arg-type,comparison-overlap]


def test_the_time_of_a_start_is_the_mean_of_those_made(monkeypatch: pytest.MonkeyPatch):
    method, _, now = searching(limit=50.0)

    def tables(task: Task, clock: Clock, avoided: object):
        for number in range(9):
            now.at += 3.0
            clock.check()
            yield number

    monkeypatch.setattr(stochastic, "soft_starts", tables)
    assert method._soft_starts(2) == [0, 1]
    assert method._seconds_of_start == 3.0
    assert method._soft_starts(9) == [0, 1]  # of 44 s that are left a fifth
    assert method._seconds_of_start == 4.5
    assert method._soft_starts(1) == [0]
    assert method._seconds_of_start == 3.0
    assert method._soft_starts(0) == []
    assert method._seconds_of_start == 0.0


def test_the_best_known_table_is_in_the_history_before_the_first_iteration():
    method, state, _ = searching()
    assert state.history.shape == (1, 6)
    iteration, bits, returns, *rest = state.history[0].tolist()
    assert (iteration, rest) == (0, [0.0, 0.0, 0.0])
    assert returns == pytest.approx(float(method._constraints(method._safe)[0]))
    assert bits == method._score(method._safe, 64)
    shown, state, _ = searching(sampled_task(random_problem(0), goal="transparent"))
    assert state.history[0, 1] == -shown._score(shown._safe, 64) >= 0
    _, state, _ = searching(sampled_task(random_problem(0), min_opacity=0.1))
    assert state.history.shape == (0, 6)
    assert method._first_row(method._safe, -np.inf).shape == (0, 6)


def test_of_all_tables_that_are_known_the_best_feasible_one_is_the_first_answer():
    method, state, _ = searching()
    tables = drawn(method.task.space, 6, 3, 2.0)
    begun = method.begin(tables)
    known = [method._safe, *map(method._mended, tables)]
    scores = [method._score(table, 64) for table in known]
    assert begun.best_score == max(begun.best_score, *scores)
    assert begun.best_score >= state.best_score
    same = method._best_of([known[0], known[0]], known[1], scores[0])
    assert same[0] is known[1]


def test_a_search_starts_from_every_table_that_is_given():
    method, _, _ = searching(starts=2)
    tables = drawn(method.task.space, 2, 3, 2.0)
    begun = method.begin(tables)
    assert len(begun.theta) == 2
    for theta, table in zip(begun.theta, tables, strict=True):
        np.testing.assert_array_equal(theta, method._parameters(table))


@pytest.mark.parametrize("seed", [1, 2, 6])
def test_the_history_begins_with_the_best_table_that_is_known_however_few_there_are(seed: int):
    method, _, _ = searching(sampled_task(random_problem(seed)))
    tables = drawn(method.task.space, 6, 3, 2.0)
    scores = [method._score(method._mended(table), 64) for table in tables]
    best = int(np.argmax(scores))
    assert scores[best] > method._score(method._safe, 64)
    for known in (tables, tables[best : best + 1]):
        assert method.begin(known).history[0, 1] == scores[best]


def test_the_first_state_is_before_all_rounds():
    method, state, _ = searching()
    theta = [state.theta[0], np.zeros_like(state.theta[0])]
    first = method._first_state(theta, state.best, 0.25)
    assert (first.iteration, first.begun, first.inside, first.idle, first.restarts, first.exploring) == (0,) * 6
    assert (first.check_at, first.batch, first.lacking, first.best_score) == (4, method._first_batch, np.inf, 0.25)
    assert not any(one.any() for one in (*first.mean, *first.square))
    np.testing.assert_array_equal(first.multiplier, np.zeros((2, 1)))
    assert first.worth.tolist() == [0.0, 0.0]
    _, state, _ = searching(paired(hide="own, other, start"))
    np.testing.assert_allclose(state.multiplier[:, :3], 1 / 3)


def test_candidates_are_the_best_answer_with_the_newest_parameters_compared(monkeypatch: pytest.MonkeyPatch):
    checked = Checked(monkeypatch, 0.5, 0.4, 0.6)
    method = checked.method
    np.testing.assert_array_equal(method.candidates(checked.state), checked.tables[2][None])
    fresh = replace(checked.state, iteration=0)
    np.testing.assert_array_equal(method.candidates(fresh), checked.tables[0][None])
    assert len(checked.asked) == 3
    words = method.describe()
    assert words == {"gradients": "fresh samples", "sequences": f"{method._first_batch} to 1024 for each gradient"}


def test_moments_are_zero_at_first_and_where_a_search_goes_back_even_in_rows_with_one_action():
    """The one logarithm of such a row is zero."""
    method, state, _ = searching(sampled_task(masked_problem(3)))
    assert (state.theta[0] == 0).any()
    for one in (state, method._taken_back(state)):
        assert (one.theta[0] == 0).any()
        for moment in (*one.mean, *one.square):
            np.testing.assert_array_equal(moment, np.zeros_like(one.theta[0]))
