"""The multiplier of return: responses with just enough return, feasible whenever the search ends."""

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of, binding_threshold, small
from veil.common.clock import Clock, OutOfTime
from veil.game.multiplier import MultiplierSearch
from veil.game.pairs import LastEvents
from veil.game.rules import covering_rule, rule_costs


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("start", [0.0, 0.5, 1e3])
def test_the_return_is_just_enough(seed, start):
    _, problem, threshold = small(seed, work=600)
    agent = agent_of(problem, LastEvents(1))
    costs = rule_costs(covering_rule(agent), agent.pairs.reachable)
    search = MultiplierSearch(agent, threshold)
    found = search.respond(costs, start, 1e-3, lambda: None)
    earned = found.point.outcome.expected_return
    if threshold is None:
        assert not search.binds
        assert found.multiplier == 0
    elif search.binds:
        assert earned >= threshold
        assert earned <= threshold + 1e-3 or found.multiplier == 0 or found.multiplier < 1e-9
    value = agent.soft_response(costs, found.multiplier).value
    if search.binds or threshold is None:
        assert found.value == pytest.approx(value - found.multiplier * earned, abs=1e-8)


def test_it_ends_when_told_and_is_feasible():
    agent = agent_of(veil.gallery.load("paper-last-state", horizon=6), LastEvents(1))
    threshold = binding_threshold(agent, 0.9)
    search, costs = MultiplierSearch(agent, threshold), np.zeros(agent.pairs.reachable.shape)
    calls = []
    found = search.respond(costs, 0.0, 1e-6, lambda: calls.append(1) or True)
    assert len(calls) == 1
    assert found.multiplier == 0
    assert found.point.outcome.expected_return == pytest.approx(threshold, abs=1e-12)  # by mixing
    with pytest.raises(OutOfTime):
        search.respond(costs, 0.0, 1e-6, Clock(0.0).check)


def test_the_largest_return_leaves_only_best_actions():
    agent = agent_of(veil.gallery.load("paper-last-state", horizon=6), LastEvents(1))
    largest, _ = agent.max_return_response()
    search = MultiplierSearch(agent, largest)
    assert not search.binds
    found = search.respond(np.zeros(agent.pairs.reachable.shape), 0.0, 1e-3, lambda: None)
    assert found.point.outcome.expected_return == pytest.approx(largest, abs=1e-12)
    with pytest.raises(veil.errors.InfeasibleError, match="lower min_return"):
        MultiplierSearch(agent, largest + 1e-6)


def test_points_mix():
    agent = agent_of(veil.gallery.load("paper-last-state", horizon=4), LastEvents(1))
    search = MultiplierSearch(agent, None)
    one = search.respond(np.zeros(agent.pairs.reachable.shape), 0.0, 1.0, lambda: None).point
    mixed = one.mixed(search.max_return, 0.25)
    expected = 0.75 * one.outcome.expected_return + 0.25 * search.max_return.outcome.expected_return
    assert mixed.outcome.expected_return == pytest.approx(expected)
    np.testing.assert_allclose(mixed.flows[1], 0.75 * one.flows[1] + 0.25 * search.max_return.flows[1])
