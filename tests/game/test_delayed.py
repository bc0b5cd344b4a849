"""The game of an agent that learns each observation one step late: its pairs, its value, its place between the classes."""

import numpy as np
import pytest

import veil
from tests.game.cases import small
from tests.proof.cases import noisy_problem
from veil.engine.compile import build
from veil.game.delayed import delayed_pairs
from veil.game.pairs import FullHistory, LastEvents, make_pairs
from veil.game.responses import AgentProblem
from veil.game.solve import solve_game
from veil.proof.checked_problem import can_delay
from veil.proof.compiled import record_of


def cases(number: int) -> list[tuple[int, veil.Problem]]:
    """Random problems whose observations depend on the state alone, by their seeds."""
    found = ((seed, small(seed, work=400, most_pairs=600)[1]) for seed in range(10**6))
    good = ((seed, problem) for seed, problem in found if can_delay(record_of(problem)) and problem.horizon)
    return [next(good) for _ in range(number)]


@pytest.mark.parametrize("memory", [FullHistory, lambda: LastEvents(1)])
def test_a_policy_of_the_state_has_the_same_outcome_on_both_kinds_of_pairs(memory):
    """The uniform policy acts on neither node, so its joint table and its return are those of the ordinary game."""
    for _, problem in cases(12):
        pairs = make_pairs(build(problem), memory())
        late = delayed_pairs(pairs)
        agents = AgentProblem(problem, pairs), AgentProblem(problem, late)
        usual, delayed = (agent.outcome(agent.uniform()) for agent in agents)
        np.testing.assert_allclose(delayed.joint, usual.joint, atol=1e-12)
        assert delayed.expected_return == pytest.approx(usual.expected_return, abs=1e-9)
        assert all((layer.z >= -1).all() for layer in late.layers)
        for step in late.steps:
            sums = step.sum(axis=1)
            assert np.all((np.abs(sums - 1) < 1e-9) | (sums == 0))


def test_its_value_lies_between_time_dependent_and_all_policies():
    strictly = 0
    for seed in range(12):
        problem = noisy_problem(seed)
        pairs = make_pairs(build(problem), FullHistory())
        whole = solve_game(problem, pairs=pairs, gap=1e-3, iterations=60)
        late = solve_game(problem, pairs=delayed_pairs(pairs), gap=1e-3, iterations=60)
        assert late.lower <= whole.upper + 1e-9
        strictly += late.upper < whole.lower - 1e-3
        rng = np.random.default_rng(seed)
        for _ in range(5):
            weights = rng.gamma(0.3, size=(problem.horizon, *problem.available.shape)) * problem.available + 1e-12
            policy = veil.TimedPolicy(
                weights * problem.available / (weights * problem.available).sum(-1, keepdims=True)
            )
            enough = late.threshold is None or veil.expected_return(problem, policy) >= late.threshold
            assert not enough or veil.opacity(problem, policy).bits <= late.upper + 1e-9
    assert strictly >= 2


@pytest.mark.parametrize("memory", [FullHistory, lambda: LastEvents(0)])
def test_nothing_is_left_to_learn_at_horizon_0(memory):
    problem = veil.gallery.load("paper-initial-state", horizon=0)
    pairs = make_pairs(build(problem), memory())
    late = delayed_pairs(pairs)
    assert (late.layers, late.steps) == ((pairs.layers[0],), ())
    np.testing.assert_allclose(late.start, pairs.start, atol=1e-15)
    assert AgentProblem(problem, late).outcome([]).joint.sum() == pytest.approx(1.0)
