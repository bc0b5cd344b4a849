"""Soft starts: the weight of the return by bisection, which of the tables that are tried begin a search, and their bonuses."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from tests.planning.test_stochastic_answers import sampled_task
from tests.record.problems import endless, problem
from veil.common.clock import UNLIMITED, Clock, OutOfTime, Stop
from veil.engine.returns import values_afterwards
from veil.planning import soft_starts as module
from veil.planning.soft_starts import FACTORS, _Soft, _starts_of, _Wishes, soft_starts, terminal_values
from veil.planning.task import Task

TASK: Any = None  # which the stand-ins below do not look at


class Tried:
    """Stands in for the rounds of one weight: slack and uncertainty are functions of the weight."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slack: Any, even: Any = lambda weight: 1.0, most: int = 99):
        self.slack, self.even, self.weights, self.most = slack, even, list[float](), most
        monkeypatch.setattr(module, "_balanced", self._balanced)

    def _balanced(self, task: Task, wishes: _Wishes, factor: float, clock: Clock, avoided: Any) -> _Soft:
        if len(self.weights) == self.most:
            raise OutOfTime(Stop.TIME_LIMIT)
        self.weights.append(wishes.weight)
        bonus = wishes.bonus + 1.0
        return _Soft(
            np.full((1, 1, 1), wishes.weight),
            replace(wishes, bonus=bonus),
            self.slack(wishes.weight),
            self.even(wishes.weight),
        )

    def run(self, weight: float = 30.0) -> tuple[float, float]:
        begin = _Wishes(weight, np.zeros(1), np.zeros((1, 1)))
        best, uncertain = _starts_of(TASK, begin, 10.0, UNLIMITED, None)
        return best.wishes.weight, uncertain.wishes.weight


def test_the_weight_grows_threefold_until_the_return_suffices_and_is_then_bisected(monkeypatch: pytest.MonkeyPatch):
    tried = Tried(monkeypatch, lambda weight: (weight - 200.0) / 100)
    best, _ = tried.run()
    root = (90.0 * 270.0) ** 0.5
    assert tried.weights[:4] == pytest.approx([30.0, 90.0, 270.0, root])
    assert tried.weights[4] == pytest.approx((root * 270.0) ** 0.5)  # 205, near enough
    assert len(tried.weights) == 5
    assert best == tried.weights[-1]


def test_the_weight_falls_threefold_while_the_return_more_than_suffices(monkeypatch: pytest.MonkeyPatch):
    tried = Tried(monkeypatch, lambda weight: weight - 4.0)
    best, _ = tried.run()
    assert tried.weights[:4] == pytest.approx([30.0, 10.0, 10 / 3, (10 / 3 * 10) ** 0.5])
    assert 4.0 <= best <= 4.2
    assert len(tried.weights) <= 10


@pytest.mark.parametrize(("slack", "count"), [(0.1, 1), (0.11, 10), (0.0, 1)])
def test_a_tenth_of_the_range_of_returns_is_near_enough(monkeypatch: pytest.MonkeyPatch, slack: float, count: int):
    tried = Tried(monkeypatch, lambda weight: slack)
    tried.run()
    assert len(tried.weights) == count


def test_where_no_weight_suffices_the_largest_is_taken(monkeypatch: pytest.MonkeyPatch):
    tried = Tried(monkeypatch, lambda weight: -1.0)
    assert tried.run()[0] == tried.weights[-1] == pytest.approx(30.0 * 3**9)


def test_what_was_found_is_used_where_the_time_ends(monkeypatch: pytest.MonkeyPatch):
    tried = Tried(monkeypatch, lambda weight: -1.0, most=2)
    assert tried.run()[0] == 90.0
    with pytest.raises(OutOfTime):
        Tried(monkeypatch, lambda weight: -1.0, most=0).run()


@pytest.mark.parametrize(("even", "wanted"), [
    (lambda weight: 1.0, 270.0),  # all alike: the one that misses least
    (lambda weight: 1.0 if weight < 50 else 0.4, 30.0),  # far more uncertain than the rest
    (lambda weight: 1.0 if weight < 50 else 0.6, 270.0),
    (lambda weight: 0.3 if weight < 50 else 0.7, 270.0),
])  # fmt: skip
def test_of_what_is_about_as_uncertain_the_table_that_misses_least_is_the_other_start(
    monkeypatch: pytest.MonkeyPatch, even: Any, wanted: float
):
    tried = Tried(monkeypatch, lambda weight: (weight - 300.0) / 100, even, most=3)
    assert tried.run() == (270.0, wanted)


def test_each_factor_begins_where_the_one_before_ended(monkeypatch: pytest.MonkeyPatch):
    task = sampled_task(random_problem(0))
    given: list[tuple[float, _Wishes]] = []
    evens = iter([(1.0, 1.0), (0.2, 0.9), (0.25, 0.9), (0.24, 1.0)])

    def found(task: Task, wishes: _Wishes, factor: float, clock: Clock, avoided: Any) -> tuple[_Soft, _Soft]:
        given.append((factor, wishes))
        best, uncertain = next(evens)
        after = replace(wishes, weight=wishes.weight + 1)
        number = 10.0 * len(given)
        return _Soft(np.array(number), after, 0.0, best), _Soft(np.array(number + 1), after, 0.0, uncertain)

    monkeypatch.setattr(module, "_starts_of", found)
    assert [float(one) for one in soft_starts(task, UNLIMITED)] == [10.0, 20.0, 21.0, 30.0, 40.0, 41.0]
    assert [factor for factor, _ in given] == list(FACTORS)
    horizon, actions = task.space.hidden.horizon, task.space.shape[2]
    first = max(30.0, horizon * float(np.log(actions)))
    assert [wishes.weight for _, wishes in given] == pytest.approx([first, first + 1, first + 2, first + 3])
    assert given[0][1].cost.shape == (horizon + 1, task.space.hidden.num_events)
    assert not given[0][1].bonus.any()


def test_over_a_long_horizon_the_return_weighs_as_much_as_all_decisions(monkeypatch: pytest.MonkeyPatch):
    task, weights = sampled_task(random_problem(0).replace(horizon=50, min_return=None)), list[float]()

    def found(task: Task, wishes: _Wishes, *_: Any) -> tuple[_Soft, _Soft]:
        weights.append(wishes.weight)
        soft = _Soft(np.zeros(1), wishes, 0.0, 1.0)
        return soft, soft

    monkeypatch.setattr(module, "_starts_of", found)
    next(soft_starts(task, UNLIMITED))
    assert weights == [pytest.approx(50 * np.log(task.space.shape[2]))]


def test_a_secret_of_very_many_values_or_of_one_has_one_start(monkeypatch: pytest.MonkeyPatch):
    task, factors = sampled_task(random_problem(0)), list[float]()

    def found(task: Task, wishes: _Wishes, factor: float, *_: Any) -> tuple[_Soft, _Soft]:
        factors.append(factor)
        soft = _Soft(np.zeros(1), wishes, 0.0, 1.0)
        return soft, soft

    monkeypatch.setattr(module, "_starts_of", found)
    monkeypatch.setattr(module, "_MOST_VALUES", 1)
    assert len(list(soft_starts(task, UNLIMITED))) == 1
    assert factors == [0.0]
    monkeypatch.setattr(module, "_MOST_VALUES", 2)
    assert len(list(soft_starts(task, UNLIMITED))) == 4


def test_the_information_of_an_event_is_its_divergence_in_nats():
    seen = np.array([[[0.1, 0.3], [0.4, 0.2]], [[0.5, 0.5], [0.0, 0.0]]])
    found = module._information(seen)
    prior = np.array([0.5, 0.5])
    for event, joint in enumerate(seen[0]):
        posterior = joint / joint.sum()
        assert found[0, event] == pytest.approx(float(np.sum(posterior * np.log(posterior / prior))))
    assert found[1].tolist() == [0.0, 0.0]


def test_states_at_the_end_are_worth_their_terminal_rewards_or_what_comes_after():
    plain, forever = sampled_task(problem("last")), sampled_task(endless())
    assert terminal_values(plain) is plain.space.hidden.terminal
    np.testing.assert_array_equal(terminal_values(forever), values_afterwards(endless(), forever.space.hidden))
    assert terminal_values(forever).any()


@pytest.mark.parametrize(
    ("seed", "weight", "factor", "back"), [(4, 30.0, 0.0, 0), (2, 3.0, 100.0, 1), (10, 3.0, 100.0, 1)]
)
def test_bonuses_even_out_the_values_of_the_secret(seed: int, weight: float, factor: float, back: int):
    """From a first round far from even, each round moves the bonus by −ln P(z) less its mean, and the cost half way.

    Where a cost lets a round go too far, the steps back are shorter.
    """
    task = sampled_task(random_problem(seed).replace(min_return=None))
    begin = _Wishes(weight, np.zeros(2), np.zeros((task.space.hidden.horizon + 1, task.space.hidden.num_events)))
    found = module._balanced(task, begin, factor, UNLIMITED)
    layers, terminal = task.space.layers, terminal_values(task)
    bonus, before, pace, cost = np.zeros(2), np.zeros(2), np.ones(2), begin.cost
    evens, turned = [], 0
    for _ in range(3):
        table = layers.soft_table(
            weight / task.unit, task.space.hidden.label @ bonus, factor * cost, terminal, task.space.available
        )
        prior, seen = layers.seen(table)
        evens.append(float(-np.sum(prior * np.log2(prior))))
        wanted = -np.log(prior)
        wanted -= wanted.mean()
        turned += int(np.any(wanted * before < 0))
        pace = np.where(wanted * before < 0, 0.4 * pace, pace)
        before, bonus = wanted, bonus + pace * wanted
        bonus = bonus - bonus.mean()
        cost = 0.5 * (cost + module._information(seen))
    assert found.even == pytest.approx(max(evens))
    np.testing.assert_allclose(found.wishes.bonus, bonus)
    np.testing.assert_allclose(found.wishes.cost, cost)
    assert found.slack == np.inf
    assert found.wishes.weight == weight
    assert turned == back


class Checked(Clock):
    """A clock that counts how often it is asked."""

    count = 0

    def check(self, ahead: float = 0.0) -> None:
        self.count += 1


@pytest.mark.parametrize(
    ("chances", "rounds"),
    [((0.5, 0.5), 3), ((0.12, 0.88), 3), ((0.1, 0.9), 8), ((0.2, 0.78, 0.02), 3), ((0.05, 0.07, 0.88), 8)],
)
def test_rounds_go_on_while_the_secret_keeps_less_than_half_of_its_bits(chances: tuple[float, ...], rounds: int):
    """No policy changes what is likely of the initial state: a share of 0.53, 0.47, 0.54 or 0.41 of its bits stays."""
    given, values = random_problem(4), len(chances)
    initial = np.pad(chances, (0, given.num_states - values))
    model = veil.Model(given.model.transitions, given.model.rewards, initial)
    task = sampled_task(given.replace(model=model, secret=veil.InitialState(), min_return=None))
    hidden, clock = task.space.hidden, Checked()
    assert hidden.num_values == values
    begin = _Wishes(30.0, np.zeros(values), np.zeros((hidden.horizon + 1, hidden.num_events)))
    module._balanced(task, begin, 0.0, clock)
    assert clock.count == rounds


def test_rounds_end_where_a_bonus_is_as_large_as_it_may_be(monkeypatch: pytest.MonkeyPatch):
    """No policy evens out what is likely of the initial state: bonuses grow until they are cut off, in the second round."""
    monkeypatch.setattr(module, "_LARGEST_BONUS", 2.0)
    given = random_problem(4)
    model = veil.Model(given.model.transitions, given.model.rewards, np.pad([0.1, 0.9], (0, given.num_states - 2)))
    task = sampled_task(given.replace(model=model, secret=veil.InitialState(), min_return=None))
    hidden = task.space.hidden
    begin = _Wishes(1.0, np.zeros(2), np.zeros((hidden.horizon + 1, hidden.num_events)))
    clock = Checked()
    found = module._balanced(task, begin, 0.0, clock)
    assert clock.count == 3
    np.testing.assert_array_equal(np.abs(found.wishes.bonus), 2.0)


def test_a_table_that_is_more_than_twice_as_uncertain_is_the_other_start_though_it_misses_more(
    monkeypatch: pytest.MonkeyPatch,
):
    tried = Tried(monkeypatch, lambda weight: -weight / 100, lambda weight: 0.3 if weight < 50 else 0.7, most=3)
    assert tried.run() == (270.0, 90.0)


@pytest.mark.parametrize(("values", "factors"), [(1, [0.0]), (2, list(FACTORS))])
def test_events_that_tell_nothing_cost_nothing(monkeypatch: pytest.MonkeyPatch, values: int, factors: list[float]):
    """Those of a secret with one value, as whole paths have it."""
    tried = list[float]()

    def found(task: Task, wishes: _Wishes, factor: float, clock: Clock, avoided: Any) -> tuple[_Soft, _Soft]:
        tried.append(factor)
        soft = _Soft(np.zeros((1, 1, 1)), wishes, 0.0, 1.0)
        return soft, soft

    monkeypatch.setattr(module, "_starts_of", found)
    hidden = SimpleNamespace(horizon=2, num_values=values, num_events=2)
    task: Any = SimpleNamespace(space=SimpleNamespace(hidden=hidden, shape=(2, 1, 2)))
    assert len(list(soft_starts(task, UNLIMITED))) == len(factors)
    assert tried == factors
