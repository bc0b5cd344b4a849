"""Mixtures in the search: the best weights of tables are those of a fine grid, and what they lead to is feasible."""

from itertools import product

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, random_problem, tiny_problem
from tests.seeds import looped
from veil.common.clock import UNLIMITED, Clock
from veil.planning.mixing import best_mixture, can_mix, mixed_until, occupancy_table, parts_of, weighed
from veil.planning.objective import Objective
from veil.planning.options import SolveOptions
from veil.planning.plan import planned
from veil.planning.policy_class import make_space
from veil.planning.safe_tables import richest_table

GRID = [np.array(one) / 20 for one in product(range(21), repeat=3) if sum(one) == 20]


def objective_of(problem: veil.Problem, memory: object, **given: object) -> Objective:
    return planned(problem, SolveOptions(method="ascent", memory=memory, **given))[1][-1]  # type: ignore[arg-type]


def some_tables(problem: veil.Problem, seed: int) -> list[veil.TimedPolicy]:
    rng, shape = np.random.default_rng(seed), (problem.horizon, *problem.available.shape)
    return [veil.TimedPolicy.softmax(3 * rng.normal(size=shape), problem) for _ in range(3)]


def bits(problem: veil.Problem, policies: list[veil.TimedPolicy], weights: np.ndarray) -> float:
    return veil.opacity(problem, veil.MemoryPolicy.mixture(problem, list(zip(policies, weights, strict=True)))).bits


@looped("seed", range(6))
def test_the_best_weights_are_those_of_a_fine_grid(seed: int):
    problem = tiny_problem(seed, states=3, horizon=3)
    policies = some_tables(problem, seed)
    earned = np.array([veil.expected_return(problem, one) for one in policies])
    least = float(np.sort(earned)[1])
    problem = problem.replace(min_return=least)
    objective, tables = objective_of(problem, "timed"), np.stack([one.table for one in policies])
    found = weighed(objective, tables, 0, UNLIMITED)
    assert found is not None
    assert found.weights.sum() == pytest.approx(1)
    assert found.weights @ earned >= least - 1e-9
    assert found.bits == pytest.approx(bits(problem, policies, found.weights), abs=1e-9)
    best = max(bits(problem, policies, one) for one in GRID if one @ earned >= least)
    assert found.bits >= best - 1e-6
    assert found.bits >= found.alone.max() - 1e-9


@looped("seed", range(3))
def test_drawn_sequences_weigh_nearly_as_all_of_them(seed: int):
    problem = tiny_problem(seed, states=3, horizon=3).replace(min_return=None)
    policies = some_tables(problem, seed)
    tables = np.stack([one.table for one in policies])
    exact = weighed(objective_of(problem, "timed"), tables, 0, UNLIMITED)
    drawn = weighed(objective_of(problem, "timed", evaluation="sampled"), tables, 0, UNLIMITED)
    assert exact is not None
    assert drawn is not None
    assert bits(problem, policies, drawn.weights) >= exact.bits - 0.02


@looped("seed", range(4))
def test_a_table_of_the_occupancies_earns_what_the_mixture_earns(seed: int):
    problem = tiny_problem(seed, states=3, horizon=4)
    policies, weights = some_tables(problem, seed), np.array([0.5, 0.3, 0.2])
    space = make_space(problem, "timed")
    table = occupancy_table(space, [one.table for one in policies], weights)
    wanted = sum(weight * veil.expected_return(problem, one) for weight, one in zip(weights, policies, strict=True))
    assert veil.expected_return(problem, veil.TimedPolicy(table)) == pytest.approx(wanted, abs=1e-12)


def test_no_mixture_where_one_table_is_best_or_none_is_feasible():
    problem = tiny_problem(1, states=3, horizon=3)
    policies, options = some_tables(problem, 1), SolveOptions(memory="timed")
    tables = [one.table for one in policies]
    easy, hard = problem.replace(min_return=-100.0), problem.replace(min_return=veil.max_return(problem))
    assert best_mixture(objective_of(hard, "timed"), options, tables, UNLIMITED) is None
    assert best_mixture(objective_of(easy, "timed"), options, tables[:1], UNLIMITED) is None
    assert not can_mix(objective_of(easy, "timed", goal="transparent"), options)
    assert not can_mix(objective_of(easy, "timed"), SolveOptions(objective="leakage"))


@looped("seed", range(3))
def test_a_coin_has_the_mixture_itself(seed: int):
    problem = tiny_problem(seed, states=3, horizon=3).replace(min_return=None)
    policies, coin = some_tables(problem, seed), veil.Mixture(3, clock=True)
    objective, options = objective_of(problem, coin), SolveOptions(memory=coin)
    lifted = [objective.space.table_of(one) for one in policies]
    found = best_mixture(objective, options, lifted, UNLIMITED)
    alone = max(veil.opacity(problem, one).bits for one in policies)
    if found is None:
        return
    policy = objective.space.policy(found)
    assert veil.opacity(problem, policy).bits > alone
    best = max(bits(problem, policies, one) for one in GRID)
    assert veil.opacity(problem, policy).bits >= best - 1e-6
    for part in parts_of(objective.space, found):
        assert any(np.allclose(part, one.table) for one in policies)


def test_tables_of_a_coin_come_apart_on_samples():
    """The answer of the class without a coin, from which the search begins, has the same table on both sides."""
    given = FEW | {"evaluation": "sampled", "iterations": 100, "sequences": 500}
    single = veil.solve(random_problem(0), **given)
    several = veil.solve(random_problem(0), memory=veil.Mixture(2), **given)
    assert several.feasible
    assert several.opacity.bits >= single.opacity.bits + 0.015  # 0.804 and 0.828 bits on exact values


def test_a_table_is_made_feasible_as_far_as_the_time_goes():
    """With no time it is the feasible one itself; with time a mixture with little of it."""
    problem = random_problem(4)
    objective = objective_of(problem, "markov")
    safe, rng = richest_table(objective.space), np.random.default_rng(0)
    tables = [objective.space.softmax(rng.normal(size=safe.shape)) for _ in range(12)]

    def slack(table: np.ndarray) -> float:
        return float(objective.slacks(table[None]).min())

    tables = [one for one in tables if slack(one) < 0]
    assert tables
    for table in tables:
        np.testing.assert_array_equal(mixed_until(slack, table, safe, Clock(0.0)), safe)
        mended = mixed_until(slack, table, safe)
        assert 0 <= slack(mended) < 1e-4
