"""The observer's side: rules as costs, the bound that each proves for every multiplier, rules that need no search."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of, small
from veil.common.clock import Clock
from veil.common.logs import conditional_entropy_bits
from veil.game.pairs import LastEvents
from veil.game.responses import AgentProblem
from veil.game.rule_tables import ValueTable
from veil.game.rules import complete, covering_rule, rule_costs, simple_rules, spread, upper_bound


class Counted:
    """An agent's problem that counts best responses."""

    def __init__(self, agent: AgentProblem):
        self.agent, self.pairs, self.multipliers = agent, agent.pairs, []

    def best_response(self, costs: np.ndarray, multiplier: float) -> tuple[float, float]:
        self.multipliers.append(multiplier)
        return self.agent.best_response(costs, multiplier)


def test_sums_and_even_odds_are_those_of_each_row():
    pairs: Any = SimpleNamespace(reachable=np.array([[True, True], [True, False], [False, False]]))
    table = ValueTable(pairs)
    np.testing.assert_array_equal(table.even_odds(), [[0.5, 0.5], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(table.totals(np.array([[0.5, 0.25], [0.0, 0.0]])), [[0.75], [0.0]])


def test_costs_of_a_rule():
    rule = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    reachable = np.array([[True, True, False], [True, True, False]])
    np.testing.assert_array_equal(rule_costs(rule, reachable), [[1.0, 2.0, 0.0], [np.inf, 0.0, 0.0]])


def test_a_spread_rule_and_a_node_that_the_rule_does_not_know():
    rule, base = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_allclose(spread(rule, base, 0.1, np.array([[True], [False]])), [[0.95, 0.05], [0.25, 0.75]])


@pytest.mark.parametrize("seed", range(40))
def test_a_rule_that_excludes_something_reachable_proves_nothing(seed):
    _, problem, threshold = small(seed)
    agent = agent_of(problem)
    rule = covering_rule(agent)
    np.testing.assert_allclose(rule.sum(axis=1), 1.0)
    node, z = np.argwhere(agent.pairs.reachable)[seed % agent.pairs.reachable.sum()]
    assert np.isfinite(upper_bound(agent, rule_costs(rule, agent.pairs.reachable), threshold)[0])
    assert complete(rule, rule, agent) is rule
    excluding = rule.copy()
    excluding[node, z] = 0.0
    costs = rule_costs(excluding, agent.pairs.reachable)
    assert costs[node, z] == np.inf
    for multiplier in (0.0, 1.0, 1e6):
        assert agent.best_response(costs, multiplier)[0] == np.inf
    assert upper_bound(agent, costs, threshold)[0] == np.inf
    completed = complete(excluding, rule, agent)
    assert np.isfinite(upper_bound(agent, rule_costs(completed, agent.pairs.reachable), threshold)[0])


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_is_near_the_smallest_over_all_multipliers(seed):
    _, problem, threshold = small(seed, work=300)
    agent = agent_of(problem, LastEvents(1))
    costs = rule_costs(covering_rule(agent), agent.pairs.reachable)
    if threshold is None:
        assert upper_bound(agent, costs, None) == (agent.best_response(costs, 0.0)[0], 0.0)
        return
    found, multiplier = upper_bound(agent, costs, threshold, trials=60)
    assert found == agent.best_response(costs, multiplier)[0] - multiplier * threshold
    grid = [agent.best_response(costs, one)[0] - one * threshold for one in np.linspace(0, 2 * multiplier + 1, 200)]
    assert found <= min(grid) + 1e-9
    early, _ = upper_bound(agent, costs, threshold, trials=2)
    assert early >= found - 1e-12


def test_trials_end_at_the_deadline_after_the_first():
    problem = veil.gallery.load("paper-last-state", horizon=5)
    agent = Counted(agent_of(problem, LastEvents(1)))
    costs = rule_costs(covering_rule(agent.agent), agent.pairs.reachable)
    largest = agent.agent.max_return_response()[0]
    bound, multiplier = upper_bound(agent, costs, 0.9 * largest, 0.3, 6, Clock(0.0))  # type: ignore[arg-type]
    assert agent.multipliers == [0.3] == [multiplier]
    assert bound == agent.agent.best_response(costs, 0.3)[0] - 0.3 * 0.9 * largest
    upper_bound(agent, costs, 0.9 * largest, 0.3, 6)  # type: ignore[arg-type]
    assert len(agent.multipliers) > 2


def test_simple_rules_of_a_secret_settled_first():
    problem = veil.gallery.load("paper-initial-state", horizon=4)
    agent = agent_of(problem)
    hidden = agent.pairs.hidden
    even, prior, first = simple_rules(agent)
    assert np.ptp(even) == 0
    np.testing.assert_allclose(prior, np.broadcast_to(hidden.start @ hidden.label, prior.shape))
    # The observer who stops looking after the first event: what it pays is H(Z | first event), whatever the policy.
    value, _ = agent.best_response(rule_costs(first, agent.pairs.reachable), 0.0)
    assert value == pytest.approx(conditional_entropy_bits(hidden.root.T @ hidden.label), abs=1e-12)


def test_simple_rules_of_a_secret_settled_last():
    (rule,) = simple_rules(agent_of(veil.gallery.load("paper-last-state", horizon=4)))
    assert (rule == 0.5).all()
