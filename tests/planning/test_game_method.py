"""The game as a solver: a policy that can be played and evaluated, on the tree and by finite memory, never below ascent."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import random_problem
from veil.game.refine import EnclosedGame
from veil.game.solve import GameResult
from veil.planning import game_method
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


def frozen_lake() -> veil.Problem:
    """The 4×4 FrozenLake: a move goes ahead or to either side, a third each; holes and the goal end the walk."""
    ends, transitions = {5, 7, 11, 12, 15}, np.zeros((16, 4, 16))
    steps = ((0, -1), (1, 0), (0, 1), (-1, 0))
    for state in range(16):
        for action in range(4):
            for turn in (-1, 0, 1):
                (down, right), (row, column) = steps[(action + turn) % 4], divmod(state, 4)
                there = 4 * min(max(row + down, 0), 3) + min(max(column + right, 0), 3)
                transitions[state, action, state if state in ends else there] += 1 / 3
    transitions /= transitions.sum(axis=-1, keepdims=True)
    is_east = np.arange(16) % 4 >= 2
    seen = np.where(is_east[:, None], [0.1, 0.9], [0.9, 0.1])
    terminal = (np.arange(16) == 15).astype(float)
    model = veil.Model(transitions, np.zeros((16, 4)), np.eye(16)[0], terminal_rewards=terminal)
    return veil.Problem(model, veil.Observer(seen), veil.LastState({5, 7, 11, 12}), 7, min_return="60%")


def both(problem: veil.Problem, **limits: Any) -> tuple[veil.Solution, veil.Solution]:
    plain: dict[str, Any] = {"certificate": False, "progress": False} | limits
    own = {name: value for name, value in plain.items() if name != "gap"}
    return veil.solve(problem, "game", "history", **plain), veil.solve(problem, "ascent", "timed", **own)


@pytest.mark.parametrize("limits", [{"iterations": 4, "gap": 1e-9}, {"iterations": 12, "time_limit": 1e5}])
@pytest.mark.parametrize("name", [*range(6), "lake"])
def test_the_game_is_not_below_ascent_at_the_same_limit(name, limits):
    problem = frozen_lake() if name == "lake" else random_problem(name)
    game, ascent = both(problem, **limits)
    assert game.feasible
    assert game.opacity.bits >= ascent.opacity.bits - 1e-6
    assert game.upper_bits >= game.opacity.bits - 1e-9
    assert veil.opacity(problem, game.policy, method="exact").bits == pytest.approx(game.opacity.bits, abs=1e-9)
    assert game.needs_observations == isinstance(game.policy, veil.HistoryPolicy)
    assert ("found by ascent" in game.policy_class) != isinstance(game.policy, veil.HistoryPolicy)
    assert game.method == "game"


def test_under_a_time_limit_the_policy_is_not_evaluated_anew(monkeypatch):
    problem = frozen_lake()
    free = search_game(problem, iterations=6, gap=1e-9, progress=False)

    def evaluated(*arguments):
        raise AssertionError("a policy on the tree was evaluated anew")

    monkeypatch.setattr(game_method, "expected_return", evaluated)
    limited = search_game(problem, iterations=6, gap=1e-9, time_limit=100.0, progress=False)
    assert limited.policy == free.policy
    assert limited.feasible
    assert limited.expected_return == pytest.approx(free.expected_return, rel=1e-12)


def test_some_answer_of_a_limited_game_is_that_of_ascent():
    game, ascent = both(random_problem(3), iterations=4, gap=1e-9)
    assert game.opacity.bits == ascent.opacity.bits
    assert game.status is Status.ITERATION_LIMIT
    assert "the best known is one of time-dependent policies, found by ascent" in game.summary()
    assert game.detail.startswith("the game's own policy hides 0.")
    assert veil.certify(random_problem(3), game.policy, 5.0, game=game.proof).upper >= game.opacity.bits


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1.0, 1e12), (1e-12, 1.0)])
@pytest.mark.parametrize("seed", [0, 4])
def test_the_largest_return_of_any_scale_is_met_as_by_ascent(seed, scale, offset):
    problem = random_problem(seed)
    model = problem.model
    moved = veil.Model(
        model.transitions,
        scale * model.rewards + offset,
        model.initial,
        terminal_rewards=scale * model.terminal_rewards,
    )
    problem = problem.replace(model=moved, min_return=None)
    problem = problem.replace(min_return=veil.max_return(problem))
    assert not search_game(problem, iterations=4, progress=False).feasible
    game, ascent = both(problem, iterations=4)
    assert ascent.feasible
    assert game.feasible
    assert game.status is not Status.INFEASIBLE
    assert game.opacity.bits >= ascent.opacity.bits - 1e-6
    assert veil.certify(problem, game.policy, 0.0).feasible
