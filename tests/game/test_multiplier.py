"""The multiplier of return: responses with just enough return, feasible whenever the search ends."""

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of, binding_threshold, small
from tests.seeds import in_blocks
from veil.common.clock import Clock, OutOfTime
from veil.game.multiplier import MultiplierSearch
from veil.game.pairs import LastEvents
from veil.game.rules import covering_rule, rule_costs


@in_blocks(10, 30)
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


# How close to the largest return a threshold is that return.


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_a_threshold_counts_as_the_largest_return_within_a_billionth_of_the_range(spread: float):
    """Of the range, not of the returns: here they lie between 10 and 10 and a spread."""
    model = veil.Model(np.ones((1, 2, 1)), np.array([[10.0, 10.0 + spread]]), 0)
    problem = veil.Problem(model, veil.Observer(np.ones((1, 1))), veil.LastState([0]), 1)
    agent = agent_of(problem)
    for below, binds in ((0.5, False), (-0.5, False), (0.0, False), (2.0, True), (1e6, True)):
        search = MultiplierSearch(agent, 10.0 + spread - below * 1e-9 * spread)
        assert (search.binds, search.at_largest) == (binds, not binds)
    with pytest.raises(veil.errors.InfeasibleError, match=r"required return is .*, but the largest of any policy is"):
        MultiplierSearch(agent, 10.0 + spread + 2e-9 * spread)
    free = MultiplierSearch(agent, None)
    assert (free.binds, free.at_largest) == (False, False)
