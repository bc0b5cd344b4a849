"""The game as a solver: a solution whose policy can be played and evaluated, on the tree and by finite memory."""

import pytest

import veil
from veil.game.refine import EnclosedGame
from veil.game.solve import GameResult
from veil.planning.game_method import lasting, search_game
from veil.planning.solution import Status


@pytest.mark.parametrize("name", ["paper-last-state", "paper-initial-state"])
def test_on_the_tree(name):
    problem = veil.gallery.load(name, horizon=6).replace(min_return="80%")
    solution = search_game(problem, gap=5e-3, progress=False)
    assert solution.status is Status.CONVERGED
    assert isinstance(solution.proof, GameResult)
    assert solution.opacity.method == "exact"
    assert solution.upper_bits - solution.opacity.bits <= 5e-3
    assert veil.opacity(problem, solution.policy, method="exact").bits == pytest.approx(solution.opacity.bits, abs=1e-9)
    assert veil.expected_return(problem, solution.policy) == pytest.approx(solution.expected_return, abs=1e-9)
    assert solution.threshold is not None
    assert solution.expected_return >= solution.threshold - 1e-9
    assert solution.needs_observations


@pytest.mark.parametrize("name", ["paper-last-state", "paper-initial-state"])
def test_by_finite_memory(name):
    problem = veil.gallery.load(name, horizon=40).replace(min_return="80%")
    solution = search_game(problem, gap=0.05, time_limit=30.0, progress=False)
    assert isinstance(solution.proof, EnclosedGame)
    assert isinstance(solution.policy, veil.HistoryPolicy)
    assert solution.policy.horizon == 40
    assert veil.expected_return(problem, solution.policy) == pytest.approx(solution.expected_return, abs=1e-9)
    assert solution.threshold is not None
    assert solution.expected_return >= solution.threshold - 1e-9
    assert solution.opacity.lower <= solution.upper_bits


def test_a_policy_on_the_first_steps_is_made_one_for_all():
    problem = veil.gallery.load("paper-initial-state", horizon=7).replace(min_return=None)
    short = problem.replace(horizon=3)
    first = search_game(short, gap=1e-2, progress=False)
    assert isinstance(first.policy, veil.HistoryPolicy)
    policy = lasting(problem, first.policy)
    assert policy.horizon == 7
    assert lasting(short, first.policy) is first.policy
    # What comes later can only tell the observer more, and the return of the rest is the best from where the first ended.
    assert veil.opacity(problem, policy, method="exact").bits <= first.opacity.bits + 1e-9
    most = veil.max_return(problem)
    assert veil.expected_return(problem, policy) <= most + 1e-9
    run = policy.start(problem, seed=1)
    state, observation = problem.model.initial.nonzero()[0][0], problem.observer.emissions[0].argmax()
    assert run.act(int(state), int(observation)) >= 0


def test_an_iteration_limit_says_so():
    problem = veil.gallery.load("paper-initial-state", horizon=6)
    solution = search_game(problem.replace(min_return="50%"), gap=1e-9, iterations=5, progress=False)
    assert solution.status is Status.ITERATION_LIMIT
    assert solution.iterations == 5
