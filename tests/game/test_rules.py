"""The observer's side: a rule proves a bound only where it knows all that can be reached."""

import numpy as np

from tests.game.cases import agent_of, small
from tests.seeds import in_blocks
from veil.common.logs import code_lengths_bits
from veil.game.rules import complete, covering_rule, upper_bound


@in_blocks(15, 40)
def test_a_rule_that_excludes_something_reachable_proves_nothing(seed):
    _, problem, threshold = small(seed)
    agent = agent_of(problem)
    rule = covering_rule(agent)
    (part,) = agent.table.parts
    np.testing.assert_allclose(agent.table.totals(rule), 1.0)
    place = seed % len(rule)
    assert np.isfinite(upper_bound(agent, code_lengths_bits(rule), threshold)[0])
    assert complete(rule, rule, agent) is rule
    excluding = rule.copy()
    excluding[place] = 0.0
    costs = code_lengths_bits(excluding)
    assert costs[place] == np.inf
    for multiplier in (0.0, 1.0, 1e6):
        assert agent.best_response(costs, multiplier)[0] == np.inf
    assert upper_bound(agent, costs, threshold)[0] == np.inf
    node = part.key // part.width
    other = node == (node[place] + 1) % agent.pairs.graph.sizes[-1]
    excluding[other] = 0.0  # a node that the rule does not know takes the other rule as it is
    completed = complete(excluding, rule, agent)
    np.testing.assert_array_equal(completed[other], rule[other])
    assert np.isfinite(upper_bound(agent, code_lengths_bits(completed), threshold)[0])
