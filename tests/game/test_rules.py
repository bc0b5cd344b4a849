"""The observer's side: a rule proves a bound only where it knows all that can be reached; rules that need no search."""

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of, small
from tests.seeds import in_blocks
from veil.common.logs import code_lengths_bits, conditional_entropy_bits
from veil.game.rules import complete, covering_rule, simple_rules, upper_bound


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


def test_simple_rules_of_a_secret_settled_first():
    problem = veil.gallery.load("paper-initial-state", horizon=4)
    agent = agent_of(problem)
    hidden = agent.pairs.hidden
    even, prior, first = simple_rules(agent)
    (part,) = agent.table.parts
    node, value = np.divmod(part.key, part.width)
    np.testing.assert_allclose(even, 1 / np.bincount(node)[node])
    np.testing.assert_allclose(prior, (hidden.start @ hidden.label)[value])
    # The observer who stops looking after the first event: what it pays is H(Z | first event), whatever the policy.
    value, _ = agent.best_response(code_lengths_bits(first), 0.0)
    assert value == pytest.approx(conditional_entropy_bits(hidden.root.T @ hidden.label), abs=1e-12)


def test_the_rule_of_the_first_event_where_the_first_of_all_events_cannot_come_first():
    """The rows of all histories, by walking the tree from each first event that is possible."""
    model = veil.Model(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), [0.75, 0.25])
    observer = veil.Observer(np.array([[0.0, 0.5, 0.5], [0.0, 0.1, 0.9]]))
    agent = agent_of(veil.Problem(model, observer, veil.InitialState(), 2))
    graph = agent.pairs.graph
    *_, rule = simple_rules(agent)
    joint = np.array([[0.75 * 0.5, 0.25 * 0.1], [0.75 * 0.5, 0.25 * 0.9]])
    nodes = {int(graph.first[event]): row / row.sum() for event, row in zip((1, 2), joint, strict=True)}
    for table in graph.following:
        nodes = {int(after): row for node, row in nodes.items() for after in table[node] if after >= 0}
    (part,) = agent.table.parts
    found = part.dense(rule, graph.sizes[-1], 0.0)
    np.testing.assert_allclose(found, [nodes[node] for node in range(graph.sizes[-1])])
