"""Graphs of queries: what they say they leave is at least the least, and at least what they leave as policies."""

import numpy as np
import pytest
from benchmarks.querying import grid

import veil
from tests.querying.test_best import Asked, by_all_plans, random_asked, toy
from tests.seeds import in_blocks
from veil.common.clock import Clock
from veil.querying.beliefs import BeliefSteps
from veil.querying.best import policy_of
from veil.querying.finer import FinerAnswers
from veil.querying.graph import BeliefGraph
from veil.querying.rules import follow, greedy_rule
from veil.querying.vectors import BeliefVectors


def vectors_of(problem: veil.Problem, price: float = 0.0, most: int | None = None) -> BeliefVectors:
    steps = BeliefSteps(problem, price)
    found = BeliefVectors(steps)
    found.most = most or found.most
    found.improve(greedy_rule(steps), 0, 1e-6, Clock(3))
    return found


def asked_problem(asked: Asked) -> veil.Problem:
    problem, walker, tables, _, _ = asked
    sensors = {"left": veil.Observer(tables[0]), "right": veil.Observer(tables[1])}
    return veil.Querying(sensors, {"left": 0.5, "right": 1.0}, walker=walker).apply(problem)


@in_blocks(12, 240, size=12)
def test_bounds_hold_and_are_those_of_a_policy(seed: int):
    asked, price = random_asked(seed), 0.1 if seed % 4 == 3 else 0.0
    problem, least = asked_problem(asked), by_all_plans(asked, (0.5, 1.0), price)
    few, many = vectors_of(problem, price, most=2), vectors_of(problem, price)
    for found in (few, many):
        policy = policy_of(found.steps, found.plan())
        measured = veil.opacity(problem, policy, "exact").bits + price * veil.expected_return(problem, policy)
        assert least - 1e-9 <= measured <= found.value + 1e-9
    assert many.value == pytest.approx(least, abs=1e-2)


@in_blocks(4, 60, size=4)
def test_where_actions_move_the_state(seed: int):
    """An agent that moves by what it sees, and shall see much: the bound holds, and the graph can be played."""
    rng, states = np.random.default_rng(seed), 3
    model = veil.Model(rng.dirichlet(np.full(states, 0.4), size=(states, 2)), rng.random((states, 2)), 0)
    eyes = veil.Observer(rng.dirichlet(np.full(2, 0.5), size=states), sees_actions=True)
    secret = veil.LastState([0]) if seed % 2 else veil.StateNow([1])
    problem = veil.Problem(model, eyes, secret, 3, agent_sees="observations")
    price, plan = 0.1 * (seed % 3), veil.best_queries(problem, gap=1e-9, price=0.1 * (seed % 3))
    found = vectors_of(problem, price)
    policy = policy_of(found.steps, found.plan())
    measured = veil.opacity(problem, policy, "exact").bits + price * veil.expected_return(problem, policy)
    assert plan.lower - 1e-9 <= measured <= found.value + 1e-9


def test_bounds_hold_at_every_belief():
    for kind in (1, 3):
        problem = toy(kind, 2)
        found, rng = vectors_of(problem), np.random.default_rng(kind)
        steps = found.steps
        rule = found.rule(greedy_rule(steps))
        for time in range(steps.last):
            beliefs = rng.dirichlet(np.full(steps.hidden.num_states, 0.3), size=5)
            assert (found.bound(time, beliefs) >= steps.placed(time, beliefs) - 1e-9).all()
        exact = follow(steps, rule, Clock(10))
        assert exact is not None
        assert exact.value <= found.value + 1e-9


def test_less_is_left_than_by_the_greedy_rule():
    """On a grid with five cameras and eleven queries, with bounds far from the trivial ones on both sides."""
    _, problem = grid()
    found = vectors_of(problem)
    steps = found.steps
    greedy = follow(steps, greedy_rule(steps), Clock(60))
    rule = follow(steps, found.rule(greedy_rule(steps)), Clock(60))
    assert greedy is not None
    assert rule is not None
    assert rule.value <= found.value + 1e-9
    assert rule.value < greedy.value - 0.005
    search = BeliefGraph(steps, found, FinerAnswers(steps, Clock(60)))
    assert 0.5 < search.total("lower") < search.total("upper") == found.value
