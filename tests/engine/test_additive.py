"""The expected return: over long and infinite horizons, of many tables, and what is best afterwards."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import (
    chain_of,
    on_sparse_kernel,
    return_and_gradient,
    small_cases,
)
from tests.random_problems import KINDS
from tests.seeds import in_blocks, looped
from veil.engine.additive import Play, expected_sums, sums_and_gradients
from veil.engine.chain import Chain, make_chain
from veil.engine.compile import build
from veil.engine.hidden import Hidden
from veil.engine.paid import Paid
from veil.planning.policy_class import Space, make_space


def random_model(seed: int, discount: float, states: int = 4, actions: int = 3, masked: bool = True) -> veil.Model:
    rng = np.random.default_rng(seed)
    available = rng.random((states, actions)) < 0.7 if masked else np.ones((states, actions), dtype=bool)
    available[np.arange(states), rng.integers(actions, size=states)] = True
    transitions = rng.dirichlet(np.full(states, 0.5), size=(states, actions)) * available[:, :, None]
    return veil.Model(
        transitions, rng.normal(size=(states, actions)), rng.dirichlet(np.ones(states)), discount, available=available
    )


def infinite(model: veil.Model | list[veil.Model], horizon: int, secret=None) -> veil.Problem:
    states = model.num_states if isinstance(model, veil.Model) else model[0].num_states
    observer = veil.Observer(np.ones((states, 1)))
    return veil.Problem(model, observer, secret or veil.LastState({0}), horizon, return_over="infinite")


def random_policy(problem: veil.Problem, seed: int, timed: bool = False) -> veil.MarkovPolicy | veil.TimedPolicy:
    shape = (problem.num_cells, problem.num_actions)
    theta = np.random.default_rng(seed).normal(size=(problem.horizon, *shape) if timed else shape)
    return (veil.TimedPolicy if timed else veil.MarkovPolicy).softmax(theta, problem)


# For ever


@looped("discount", [0.0, 0.5, 0.9])
@in_blocks(5, 5, 5)
def test_for_ever_is_the_limit_of_long_horizons(seed: int, discount: float):
    model = random_model(seed, discount)
    problem = infinite(model, horizon=3)
    policy = random_policy(problem, seed)
    # What comes after time n is worth at most γ^n max|R| / (1 - γ).
    long = problem.replace(return_over="horizon", horizon=400)
    expected = veil.expected_return(long, policy)
    assert veil.expected_return(problem, policy) == pytest.approx(expected, abs=1e-12)
    sparse = on_sparse_kernel(make_chain(problem, policy))
    assert return_and_gradient(sparse)[0] == pytest.approx(expected, abs=1e-12)
    theta = np.random.default_rng(seed + 50).normal(size=(4, 3))
    for found, wanted in zip(
        veil.measures.return_gradient(problem, theta), veil.measures.return_gradient(long, theta), strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=1e-11)


# Many tables at once


def several_tables(problem: veil.Problem, memory: str, count: int, seed: int) -> tuple[Space, np.ndarray]:
    space, rng = make_space(problem, memory), np.random.default_rng(seed)
    weights = rng.exponential(size=(count, *space.shape)) * space.available
    weights *= (rng.random(weights.shape) < 0.7) | (weights == weights.max(axis=-1, keepdims=True))
    return space, weights / weights.sum(axis=-1, keepdims=True)


@looped("memory", ["markov", "timed", veil.Controller(2)])
@looped("forever", [False, True])
def test_each_table_may_begin_in_a_distribution_of_its_own(memory, forever: bool):
    for seed in range(4):
        model = random_model(seed, 0.8)
        problem = (
            infinite(model, 3) if forever else veil.Problem(model, veil.Observer(np.eye(4)), veil.LastState({0}), 3)
        )
        space, tables = several_tables(problem, memory, 4, seed)
        states = np.arange(4)
        starts = np.where(space.hidden.state == states[:, None], space.hidden.start, 0.0)
        starts /= starts.sum(axis=1, keepdims=True)
        values, slopes = returns(space, tables, starts=starts)
        for state, table, value in zip(states, tables, values, strict=True):
            moved = veil.Model(model.transitions, model.rewards, int(state), 0.8, available=model.available)
            own = problem.replace(model=moved)
            assert value == pytest.approx(veil.expected_return(own, space.policy(table)), abs=1e-12)
        mean = returns(space, tables[:1])
        parts = returns(space, np.repeat(tables[:1], 4, axis=0), starts=starts)
        assert mean[0][0] == pytest.approx(model.initial @ parts[0], abs=1e-12)
        np.testing.assert_allclose(mean[1][0], np.tensordot(model.initial, parts[1], 1), atol=1e-12)
        assert slopes.shape == tables.shape


# Many tables at once


def returns(at: Chain | Space, tables: np.ndarray, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """The returns of some tables and their gradients."""
    paid = at.hidden.paid[:1]
    values, slopes = sums_and_gradients(at.hidden, tables, paid, stationary=at.stationary, **settings)
    return values[0], slopes[0]


def some_tables(chain: Chain, count: int) -> np.ndarray:
    weights = np.random.default_rng(1).exponential(size=(count, *chain.table.shape)) * (chain.table > 0)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
def test_many_tables_together_are_to_the_last_bit_what_they_are_alone(kind: str):
    for case in small_cases(12, kind):
        for chain in (chain_of(case), on_sparse_kernel(chain_of(case))):
            tables = some_tables(chain, 9)
            values, slopes = returns(chain, tables)
            for count in (1, 2, 5):
                some = returns(chain, tables[:count])
                np.testing.assert_array_equal(some[0], values[:count])
                np.testing.assert_array_equal(some[1], slopes[:count])
            starts = np.broadcast_to(chain.hidden.start, (9, chain.hidden.num_states))
            np.testing.assert_array_equal(returns(chain, tables, starts=starts)[0], values)
            only = expected_sums(chain.hidden, tables, chain.hidden.paid[:1], stationary=chain.stationary)
            np.testing.assert_array_equal(only[0], values)


def other_quantities(hidden: Hidden, count: int) -> tuple[Paid, ...]:
    """Random rewards on hidden states, with discounts of their own."""
    rng, shape = np.random.default_rng(4), hidden.paid[0].reward.shape
    return tuple(Paid(rng.normal(size=shape), rng.normal(size=shape[0]), 1 - 0.1 * one) for one in range(count))


@pytest.mark.parametrize("kind", KINDS)
def test_several_quantities_together_are_to_the_last_bit_what_they_are_alone(kind: str):
    for case in small_cases(6, kind):
        chain = chain_of(case)
        paid, tables = (*chain.hidden.paid, *other_quantities(chain.hidden, 3)), some_tables(chain, 3)
        values, slopes = sums_and_gradients(chain.hidden, tables, paid, stationary=chain.stationary)
        np.testing.assert_array_equal(values, expected_sums(chain.hidden, tables, paid, stationary=chain.stationary))
        for number, one in enumerate(paid):
            alone = sums_and_gradients(chain.hidden, tables, (one,), stationary=chain.stationary)
            np.testing.assert_array_equal(alone[0][0], values[number])
            np.testing.assert_array_equal(alone[1][0], slopes[number])


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_play_of_a_weighted_sum_reaches_what_it_says_and_no_drawn_policy_more(kind: str):
    rng = np.random.default_rng(5)
    for case in small_cases(6, kind):
        hidden = build(case.problem)
        on_states = replace(hidden, cell=np.arange(hidden.num_states), num_cells=hidden.num_states)
        available = case.problem.model.available[hidden.state]
        play, weights = Play(on_states, other_quantities(hidden, 2), available), rng.normal(size=2)
        actions, reached = play.best(weights)
        table = np.eye(available.shape[1])[actions].reshape(1, hidden.horizon, *available.shape)
        sums = expected_sums(on_states, table, play.paid, stationary=False)[:, 0]
        np.testing.assert_allclose(reached, sums, atol=1e-12)
        drawn = rng.exponential(size=(20, *table.shape[1:])) * available
        drawn /= drawn.sum(axis=-1, keepdims=True)
        others = weights @ expected_sums(on_states, drawn, play.paid, stationary=False)
        assert others.max() <= weights @ reached + 1e-12


@looped(("discount", "over", "expected"), [(1.0, "horizon", 4.5), (0.5, "horizon", 1.90625), (0.5, "infinite", 2.0)])
def test_a_return_that_no_choice_moves_does_not_round(discount: float, over: Any, expected: float):
    """1 a step for four steps and 1/2 for the end, whatever the rows of the policy sum to."""
    rng = np.random.default_rng(0)
    model = veil.Model(
        rng.dirichlet(np.ones(5), size=(5, 3)), np.ones((5, 3)), rng.dirichlet(np.ones(5)), discount,
        terminal_rewards=np.full(5, 0.5) if over == "horizon" else None,
    )  # fmt: skip
    problem = veil.Problem(model, veil.Observer(np.ones((5, 1))), veil.LastState({0}), 4, return_over=over)
    for _ in range(50):
        policy = veil.MarkovPolicy(rng.dirichlet(np.ones(3), size=5))
        assert veil.expected_return(problem, policy) == expected
