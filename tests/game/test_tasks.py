"""Games with a task: rewards and probabilities of formulas that are maximised beside the bits, against a convex solver."""

import numpy as np
import pytest

import veil
from tests.game.cases import grown
from tests.game.plain_game import PlainGame
from tests.game.test_records import random_pairs
from tests.problem.test_constraints import make_problem
from tests.seeds import in_blocks
from veil.engine.compile import build
from veil.engine.feasibility import best_mixture, other_targets
from veil.engine.return_range import threshold
from veil.game.enclose import enclose
from veil.measure.constrained import quantity_values
from veil.problem.terms import terms_of, with_task


def random_problem(seed: int) -> tuple[veil.Problem, str]:
    """Some constraints, or none, and a task whose quantities are bounded or not."""
    rng = np.random.default_rng([seed, 17])
    task = ("-0.3*energy", "0.4*return + P(F s2)", "0.2*energy - 0.5*return", "3*P(F s2)")[seed % 4]
    while True:
        share = int(rng.integers(20, 80))
        limits = [veil.Return(max=f"{share}%", reward="energy")] if seed % 3 else []
        given = None if seed % 2 else f"{int(rng.integers(20, 80))}%"
        problem = make_problem(limits, int(rng.integers(10**6)), 1 + seed % 2, min_return=given)
        if not problem.others or best_mixture(problem).slack.min() > 1e-3:
            return with_task(problem, task), task


@in_blocks(4, 100)
def test_the_optimum_of_a_general_convex_solver(seed: int):
    problem, task = random_problem(seed)
    terms, hidden = terms_of(problem, task), build(problem)
    optimum = PlainGame.of(problem).convex_optimum(
        threshold(problem), other_targets(problem), [(factor, hidden.paid[number]) for factor, number in terms]
    )
    found = enclose(problem, task=terms, gap=1e-4)
    assert found.gap <= 1e-4
    assert found.lower - 1e-6 <= optimum <= found.upper + 1e-6
    policy = found.policy(problem)
    values = quantity_values(problem, policy)
    worth = sum(factor * values[number] for factor, number in terms)
    assert worth == pytest.approx(found.best.task_value, abs=1e-9)
    assert veil.opacity(problem, policy).bits + worth == pytest.approx(found.lower, abs=1e-9)
    assert all(one.met for one in veil.constraint_values(problem, policy))


@in_blocks(2, 20)
def test_memories_that_grow_enclose_it(seed: int):
    problem, task = random_problem(seed)
    terms = terms_of(problem, task)
    whole, found = enclose(problem, task=terms, gap=1e-3), grown(problem, task=terms, gap=0.02)
    assert found.lower <= whole.upper + 1e-9
    assert whole.lower - 1e-9 <= found.upper <= whole.upper + 0.02


@in_blocks(2, 10)
def test_the_least_of_several_pairs_with_a_task(seed: int):
    """A reward that counts more and more is what is maximised in the end; the bounds hold for policies that are drawn."""
    problem, rng = random_pairs(seed + 1), np.random.default_rng(seed)
    names = ("own", *(one.name for one in problem.pairs))
    free = problem.replace(min_return=None)
    for factor in (0.3, -0.3, 30.0):
        found = enclose(free, names, task=[(factor, 0)], gap=1e-3)
        assert found.gap <= 1e-3
        if factor > 1:
            assert found.lower >= factor * veil.max_return(free) - 1e-6
        for _ in range(3):
            policy = veil.TimedPolicy(rng.dirichlet([0.5, 0.5], size=(free.horizon, free.num_states)))
            bits = min(veil.opacity(free, policy, "exact", pair=name).bits for name in names)
            assert bits + factor * veil.expected_return(free, policy) <= found.upper + 1e-9


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_the_unit_of_rewards_does_not_change_the_answer(scale: float):
    """Rewards in another unit, with the factor and the bound in that unit: the same bits, prices in the other unit."""
    problem = make_problem([veil.Return(max="40%", reward="energy")], 3, horizon=2)
    other, number = scaled(problem, scale), next(number for name, number in problem.about if name == "energy")
    for factor in (0.0, 0.2):
        one, two = enclose(problem, task=[(factor, number)]), enclose(other, task=[(factor / scale, number)])
        assert two.lower == pytest.approx(one.lower, abs=1e-3)
        assert two.upper == pytest.approx(one.upper, abs=1e-3)
        assert two.games[0].prices[0] * scale == pytest.approx(one.games[0].prices[0], rel=0.3, abs=1e-2)


def scaled(problem: veil.Problem, scale: float) -> veil.Problem:
    """The same problem with all rewards in another unit."""
    named, model = problem.model.named_rewards, problem.model
    rewards = {name: scale * one.paid for name, one in named.items()}
    last = {name: scale * one.terminal for name, one in named.items()}
    made = veil.Model(model.matrices, rewards, model.initial, model.discount, last)
    return problem.replace(model=made)


@pytest.mark.parametrize("seed", [2, 5])
def test_it_is_a_method_of_solve(seed: int):
    """Between its bounds, above what a search finds in the same time, and with the task of the answer in its words."""
    problem, task = random_problem(seed)
    game = veil.solve(problem, "game", "history", task=task, gap=1e-3, certificate=False, progress=False)
    timed = veil.solve(problem, memory="timed", task=task, starts=1, iterations=20, certificate=False, progress=False)
    assert game.status is veil.Status.CONVERGED
    assert game.feasible
    worth = game.opacity.bits + game.task_value
    assert game.upper_bits - 1e-3 - 1e-9 <= worth <= game.upper_bits + 1e-9
    assert timed.opacity.bits + timed.task_value <= game.upper_bits + 1e-9
    assert veil.opacity(problem, game.policy, "exact").bits == pytest.approx(game.opacity.bits, abs=1e-9)
    assert f"{game.task_value:.6g} = {task}" in game.summary()


def test_bits_in_a_task_have_no_bound():
    problem = random_pairs(1)
    with pytest.raises(veil.InputError, match="no bound for bits in a task"):
        veil.solve(problem, "game", "history", task="-0.5*H(p0)", progress=False)
