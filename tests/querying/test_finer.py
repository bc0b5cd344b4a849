"""The answers to all queries at every later time: what they leave is what all sensors at once leave, and less than any plan."""

import pytest

import veil
from tests.querying.test_best import by_all_plans, random_asked, toy
from tests.querying.test_vectors import asked_problem
from tests.seeds import in_blocks
from veil.common.clock import Clock
from veil.querying import finer
from veil.querying.beliefs import BeliefSteps
from veil.querying.finer import FinerAnswers
from veil.querying.graph import BeliefGraph


def at_start(problem: veil.Problem) -> float:
    return FinerAnswers(BeliefSteps(problem), Clock(20)).at_start()


@in_blocks(12, 240, size=12)
def test_equals_all_sensors_at_once_and_is_less_with_few_outcomes(seed: int, monkeypatch: pytest.MonkeyPatch):
    asked = random_asked(seed)
    problem, walker, tables, _, _ = asked
    guard = asked_problem(asked)
    both = problem.replace(observer=veil.Together(*(veil.Observer(table) for table in tables)))
    expected = veil.opacity(both, walker, "exact").bits
    assert at_start(guard) == pytest.approx(expected, abs=1e-9)
    with monkeypatch.context() as patch:
        patch.setattr(finer, "_MOST_OUTCOMES", 4)
        few = at_start(guard)
    assert -1e-12 <= few <= expected + 1e-9
    assert few <= by_all_plans(asked) + 1e-9


@in_blocks(6, 60, size=6)
def test_a_search_with_few_outcomes_stays_below_the_least(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(finer, "_MOST_OUTCOMES", 4 + seed % 3)
    asked = random_asked(seed)
    least, steps = by_all_plans(asked), BeliefSteps(asked_problem(asked))
    search = BeliefGraph(steps, None, FinerAnswers(steps, Clock(20)))
    assert search.total("lower") <= least + 1e-9
    search.run(1e-9, Clock(20))
    assert search.total("lower") == pytest.approx(least, abs=1e-7)
    assert search.total("upper") == pytest.approx(least, abs=1e-7)


def test_long_walks_are_written_in_few_outcomes(monkeypatch: pytest.MonkeyPatch):
    """More outcomes never say less by much, and the value is nearly that of all sensors."""
    problem = toy(3, 2)
    floor = veil.best_queries(problem).floor
    assert floor is not None
    found = []
    for most in (4, 16, 64):
        monkeypatch.setattr(finer, "_MOST_OUTCOMES", most)
        found.append(at_start(problem))
    assert max(found) <= floor + 1e-9
    assert found[-1] == pytest.approx(floor, abs=1e-3)
