"""The agent's side: best and soft responses against plain dictionaries and their definitions, flows and outcomes."""

import numpy as np
import pytest

import veil
from tests.game.cases import agent_of, labels, small
from tests.game.plain_game import PlainGame, everything, last
from tests.seeds import in_blocks
from veil.common.logs import log2_or_zero
from veil.game.pairs import FullHistory, LastEvents
from veil.game.responses import AgentProblem
from veil.game.rules import rule_costs


def some_costs(agent: AgentProblem, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = agent.pairs.reachable.shape[1]
    return rule_costs(rng.dirichlet(np.ones(values), size=agent.pairs.graph.sizes[-1]), agent.pairs.reachable)


def drawn(agent: AgentProblem, seed: int) -> list[np.ndarray]:
    """A random policy that takes available actions only."""
    rng = np.random.default_rng(seed)
    tables = [even * rng.gamma(0.3, size=even.shape) + 1e-9 * even for even in agent.uniform()]
    return [table / table.sum(axis=0) for table in tables]


def payoff(agent: AgentProblem, costs: np.ndarray, multiplier: float, tables: list[np.ndarray]) -> float:
    """`E[w + λ G]` of a policy."""
    outcome = agent.outcome(tables)
    return float(np.vdot(outcome.joint, costs)) + multiplier * outcome.expected_return


def divergence(agent: AgentProblem, tables: list[np.ndarray]) -> float:
    """`KL(π ‖ uniform)` of trajectories, in bits."""
    flows = agent.flows(tables)[1]
    ratios = zip(flows, tables, agent.uniform(), strict=True)
    return sum(float(np.vdot(flow, log2_or_zero(table) - log2_or_zero(even))) for flow, table, even in ratios)


@in_blocks(15, 40)
def test_the_best_response_is_plain_backward_induction(seed):
    _, problem, _ = small(seed)
    remember = everything if seed % 2 else last(2)
    agent = agent_of(problem, FullHistory() if seed % 2 else LastEvents(2))
    costs, plain = some_costs(agent, seed), PlainGame.of(problem, remember)
    node = labels(agent.pairs, remember)[-1]
    table = {(history, z): float(costs[node[history], z]) for history, z in plain.ends()}
    for multiplier in (0.0, 0.7):
        value, earned = agent.best_response(costs, multiplier)
        assert value == pytest.approx(plain.best_response(table, multiplier), abs=1e-10)
        assert value >= payoff(agent, costs, multiplier, drawn(agent, seed)) - 1e-10
        slightly = agent.best_response(costs, multiplier + 1e-7)[0]  # the return is the derivative in λ
        assert slightly >= value + 1e-7 * earned - 1e-10


@in_blocks(10, 20)
def test_the_soft_response_maximises_the_payoff_less_the_divergence(seed):
    _, problem, _ = small(seed)
    agent = agent_of(problem, LastEvents(1))
    costs = some_costs(agent, seed)
    for multiplier in (0.0, 1.5):
        found = agent.soft_response(costs, multiplier)
        attained = payoff(agent, costs, multiplier, found.tables) - divergence(agent, found.tables)
        assert attained == pytest.approx(found.value, abs=1e-9)
        for other in (agent.uniform(), drawn(agent, seed)):
            assert payoff(agent, costs, multiplier, other) - divergence(agent, other) <= found.value + 1e-9


@in_blocks(10, 20)
def test_the_largest_return_and_a_policy_that_has_it(seed):
    _, problem, _ = small(seed)
    agent = agent_of(problem, LastEvents(1))
    largest, tables = agent.max_return_response()
    assert agent.outcome(tables).expected_return == pytest.approx(largest, abs=1e-9)
    if len(problem.models) == 1 or problem.secret_table.agent_knows:
        assert largest == pytest.approx(veil.max_return(problem), abs=1e-9)
    else:  # the game's policies know the model
        assert largest >= veil.max_return(problem) - 1e-9


@in_blocks(10, 20)
def test_flows_are_laws_and_mix_as_policies_do(seed):
    _, problem, _ = small(seed)
    agent = agent_of(problem)
    first, second = agent.uniform(), drawn(agent, seed)
    (one, flows), (other, others) = agent.flows(first), agent.flows(second)
    for flow in flows:
        assert flow.min() >= 0
        assert flow.sum() == pytest.approx(1.0)
    mixed = [0.7 * mine + 0.3 * theirs for mine, theirs in zip(flows, others, strict=True)]
    tables = [np.where(f.sum(axis=0) > 0, f / np.maximum(f.sum(axis=0), 1e-300), 0.0) for f in mixed]
    expected, found = one.mixed(other, 0.3), agent.outcome(tables)
    np.testing.assert_allclose(found.joint, expected.joint, atol=1e-12)
    assert found.expected_return == pytest.approx(expected.expected_return, abs=1e-9)
