"""Prices of further constraints: what they pay to the agent is what the constraints' values say, under every policy."""

import numpy as np
import pytest

import veil
from tests.game.test_responses import divergence, drawn, payoff, some_costs
from tests.problem.test_constraints import make_model
from tests.seeds import in_blocks
from veil.engine.compile import build
from veil.engine.feasibility import other_targets
from veil.game.enclose import enclose
from veil.game.pairs import FullHistory, LastEvents, make_pairs
from veil.game.responses import AgentProblem

_LIMITS = (
    veil.Return(max="60%", reward="energy"),
    veil.Probability("F (s2 & X s1)", "30%"),
)


def priced(seed: int) -> AgentProblem:
    """A discounted problem with two further constraints, each with a price."""
    rng, model = np.random.default_rng([seed, 3]), make_model(seed, discount=0.8)
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=4))
    problem = veil.Problem(model, observer, veil.LastState([0]), 1 + seed % 3, "40%", constraints=_LIMITS)
    memory = FullHistory() if seed % 2 else LastEvents(1)
    return AgentProblem(problem, make_pairs(build(problem), memory), prices=np.array([0.7, 1.3]))


@in_blocks(6, 6)
def test_what_the_prices_pay(seed: int):
    """`Σ_k λ_k sign_k (V_k − δ_k)`, with the values that the policy has, in every response."""
    agent = priced(seed)
    costs, tables = some_costs(agent, seed), drawn(agent, seed)
    outcome, flows = agent.flows(tables)
    targets = other_targets(agent.problem)
    values = agent.other_values(flows)
    expected = sum(
        price * one.sign * (value - one.bound) for price, one, value in zip(agent.prices, targets, values, strict=True)
    )
    assert outcome.bonus == pytest.approx(expected, abs=1e-12)
    for multiplier in (0.0, 0.6):
        best, earned = agent.best_response(costs, multiplier)
        assert best >= payoff(agent, costs, multiplier, tables) + expected - 1e-10
        soft = agent.soft_response(costs, multiplier)
        gained = payoff(agent, costs, multiplier, soft.tables) + agent.outcome(soft.tables).bonus
        assert gained - divergence(agent, soft.tables) == pytest.approx(soft.value, abs=1e-10)
        # What is paid 10^6 times over outweighs the divergence: the soft response is then the best.
        many = 1e6
        sharp = agent.soft_response(many * costs, many * multiplier, scale=many)
        assert best == pytest.approx(sharp.value / many, abs=1e-5)
        assert earned == pytest.approx(agent.outcome(sharp.tables).expected_return, abs=1e-4)


@in_blocks(4, 4)
def test_values_of_further_constraints_are_those_of_the_policy(seed: int):
    """A policy that acts on the state alone has them by `constraint_values` too."""
    agent = priced(seed)
    policy = veil.MarkovPolicy(np.random.default_rng(seed).dirichlet(np.ones(2), size=4))
    hidden = agent.pairs.hidden
    tables = [policy.probabilities[hidden.state[layer.x]].T for layer in agent.pairs.layers[:-1]]
    outcome, flows = agent.flows(tables)
    expected = [one.value for one in veil.constraint_values(agent.problem, policy)]
    assert [outcome.expected_return, *agent.other_values(flows)] == pytest.approx(expected, abs=1e-12)


# The prices that games find.


def dear(unit: float, *, is_return: bool) -> veil.Problem:
    """One decision with odds q: it hides `h(0.05 + q/2)` bits, and q is at most 0.1, by a bound on a quantity.

    The quantity pays `unit` for the decision and a million units or more for an action that is never worth it.
    """
    moves, paid = np.zeros((4, 3, 4)), np.zeros((4, 3))
    moves[0] = [0, 0.55, 0.45, 0], [0, 0.05, 0.95, 0], [0, 0, 0, 1]
    moves[range(1, 4), :, range(1, 4)] = 1.0
    paid[0] = (0.0, unit, -1.0) if is_return else (unit, 0.0, 1.0)
    rewards = paid if is_return else {"paid": np.zeros((4, 3)), "energy": paid}
    limits = [] if is_return else [veil.Return(max=0.1 * unit, reward="energy")]
    model, observer = veil.Model(moves, rewards, 0), veil.Observer(np.ones((4, 1)))
    least = 0.9 * unit if is_return else None
    return veil.Problem(model, observer, veil.LastState([1]), 1, min_return=least, constraints=limits)


@pytest.mark.parametrize("unit", [1.0, 2e-3, 1e-6])
@pytest.mark.parametrize("is_return", [True, False])
def test_a_true_price_may_have_any_size(unit: float, is_return: bool):
    """Prices of 1.6, 790 and 1.6 million bits for a unit of the return, and of another quantity."""
    found, odds = enclose(dear(unit, is_return=is_return)), 0.1
    optimum = -odds * np.log2(odds) - (1 - odds) * np.log2(1 - odds)
    assert found.lower - 1e-9 <= optimum <= found.upper + 1e-9
    assert found.gap <= 1e-3
    game = found.games[0]
    price = game.multiplier if is_return else game.prices[0]
    assert price * unit == pytest.approx(np.log2((1 - odds) / odds) / 2, rel=0.1)


@pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-6])
def test_the_largest_return_has_a_bound_in_any_unit(unit: float):
    """Only the second action attains it, though the first gives up little more than nothing beside the largest reward."""
    found = enclose(dear(unit, is_return=True).replace(min_return="100%"))
    assert found.lower == pytest.approx(-0.05 * np.log2(0.05) - 0.95 * np.log2(0.95), abs=1e-9)
    assert found.gap <= 1e-3
