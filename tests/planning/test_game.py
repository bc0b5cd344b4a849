"""The game as a method of `solve`: the best of all policies between proven bounds, on the tree and by finite memory."""

from typing import Any

import numpy as np
import pytest

import veil
from tests.planning.small_problems import FEW, changed, random_problem
from veil.game.windows import lasting


def play(problem: veil.Problem, **settings: Any) -> veil.Solution:
    options: dict[str, Any] = FEW | settings
    return veil.solve(problem, "game", **options)


def ascend(problem: veil.Problem, **settings: Any) -> veil.Solution:
    options: dict[str, Any] = FEW | {"memory": "timed"} | settings
    return veil.solve(problem, "ascent", **options)


@pytest.mark.parametrize("name", ["paper-last-state", "paper-initial-state"])
def test_on_the_tree(name: str):
    problem = veil.gallery.load(name, horizon=5).replace(min_return="80%")
    solution = play(problem, gap=5e-3)
    assert solution.status is veil.Status.CONVERGED
    assert solution.opacity.method == "exact"
    assert solution.upper_bits - solution.opacity.bits <= 5e-3
    assert veil.opacity(problem, solution.policy, method="exact").bits == pytest.approx(solution.opacity.bits, abs=1e-9)
    assert veil.expected_return(problem, solution.policy) == pytest.approx(solution.expected_return, abs=1e-9)
    assert solution.threshold is not None
    assert solution.expected_return >= solution.threshold - 1e-9
    assert solution.needs_observations


@pytest.mark.parametrize("name", ["paper-last-state", pytest.param("paper-initial-state", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_by_finite_memory(name: str):
    """Where the tree does not fit, the policy acts on what a window leaves, and its value lies between proven bounds."""
    problem = veil.gallery.load(name, horizon=40).replace(min_return="80%")
    solution = play(problem, gap=0.05, time_limit=3.0)
    if isinstance(solution.policy, veil.HistoryPolicy):
        assert solution.policy.horizon == 40
    assert solution.feasible
    assert veil.expected_return(problem, solution.policy) == pytest.approx(solution.expected_return, abs=1e-9)
    assert solution.threshold is not None
    assert solution.expected_return >= solution.threshold - 1e-9
    hidden = solution.opacity
    assert 0 < hidden.bits <= solution.upper_bits + 6 * hidden.std_error
    assert hidden.lower <= solution.upper_bits


def test_the_answer_is_proven_by_its_certificate():
    problem = veil.gallery.load("two-rooms", min_return="50%")
    game = veil.solve(problem, gap=1e-4, method="game", progress=False)
    assert game.method == "game"
    assert game.status is veil.Status.CONVERGED
    assert game.upper_bits - game.opacity.bits <= 1e-4
    assert game.certificate is not None
    veil.verify(game.certificate, problem, game.policy)
    assert game.certificate.gap <= 1.01e-4
    for memory in ("markov", "timed"):
        assert ascend(problem, memory=memory, starts=4).opacity.bits <= game.upper_bits


def test_no_smaller_class_is_above_the_bound():
    for seed in range(2):
        problem = random_problem(seed)
        game = play(problem, gap=1e-3)
        assert game.feasible, seed
        assert game.opacity.bits <= game.upper_bits <= game.opacity.bits + 1e-3 + 1e-9, seed
        for memory in ("markov", "timed"):
            assert ascend(problem, memory=memory, starts=2, iterations=40).opacity.bits <= game.upper_bits + 1e-9, seed


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


@pytest.mark.parametrize("limits", [{"iterations": 4}, {"iterations": 12, "time_limit": 1e5}])
@pytest.mark.parametrize("name", [0, 3, "lake"])
@pytest.mark.slow
def test_a_limited_game_is_not_below_ascent_at_the_same_limit(name: Any, limits: dict[str, Any]):
    problem = frozen_lake() if name == "lake" else random_problem(name)
    game, ascent = play(problem, gap=1e-9, **limits), ascend(problem, **limits)
    assert game.feasible
    assert game.opacity.bits >= ascent.opacity.bits - 1e-6
    assert game.upper_bits >= game.opacity.bits - 1e-9
    assert veil.opacity(problem, game.policy, method="exact").bits == pytest.approx(game.opacity.bits, abs=1e-9)
    assert game.needs_observations == isinstance(game.policy, veil.HistoryPolicy)
    assert ("found by ascent" in game.policy_class) != isinstance(game.policy, veil.HistoryPolicy)
    assert game.method == "game"


def test_some_answer_of_a_limited_game_is_that_of_ascent():
    game, ascent = play(random_problem(3), iterations=4, gap=1e-9), ascend(random_problem(3), iterations=4)
    assert game.opacity.bits == ascent.opacity.bits
    assert game.status is veil.Status.ITERATION_LIMIT
    assert "the best known is one of time-dependent policies, found by ascent" in game.summary()
    assert game.detail.startswith("the game's own policy hides 0.")
    assert veil.certify(random_problem(3), game.policy, 5.0, game=game.proof).upper >= game.opacity.bits


@pytest.mark.parametrize(("scale", "offset"), [(1e-12, 0.0), (1.0, 1e12), (1e-12, 1.0)])
def test_the_largest_return_of_any_scale_is_met_as_by_ascent(scale: float, offset: float):
    for seed in (0, 4):
        problem = changed(random_problem(seed).replace(min_return=None), scale=scale, offset=offset)
        problem = problem.replace(min_return=veil.max_return(problem))
        game, ascent = play(problem, iterations=4), ascend(problem, iterations=4)
        assert ascent.feasible, seed
        assert game.feasible, seed
        assert game.status is not veil.Status.INFEASIBLE
        assert game.opacity.bits >= ascent.opacity.bits - 1e-6, seed
        assert veil.certify(problem, game.policy, 0.0).feasible


def test_an_interrupt_says_so_and_keeps_an_answer():
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    found = play(random_problem(0), gap=1e-9, progress=interrupt)
    assert found.status is veil.Status.INTERRUPTED
    assert found.opacity.bits <= found.upper_bits + 1e-9


@pytest.mark.parametrize(("constraints", "is_plan"), [((), True), ((veil.Probability("F s1", 0.01),), False)])
def test_a_policy_that_acts_on_more_than_the_agent_knows_is_called_a_bound(constraints: tuple[Any, ...], is_plan: bool):
    """The agent of a formula does not know how far the formula has come."""
    found = play(random_problem(3).replace(min_return=None, constraints=constraints), gap=0.1)
    assert isinstance(found.policy, veil.HistoryPolicy)
    assert found.policy.executable == is_plan
    assert ("it is a bound, not a plan" in found.detail) != is_plan


# A policy for the first steps made one for all


@pytest.mark.parametrize("sees_actions", [False, True])
@pytest.mark.parametrize(("count", "constraints"), [(1, ()), (2, ()), (1, (veil.Probability("F s1", 0.1),))])
def test_after_the_first_steps_a_lasting_policy_earns_the_most_from_where_these_end(sees_actions, count, constraints):
    """Its return is that of the first steps with the largest return of the rest as their terminal rewards.

    A formula of a constraint has a memory of its own, on which the largest return of the rest does not depend.
    """
    moves = np.random.default_rng(1).dirichlet(np.ones(3), size=(2, 3, 2))
    rewards, last = np.array([[0.0, 1.0], [3.0, 2.0], [0.0, 1.0]]), np.array([1.0, 0.0, 2.0])

    def problem(ends: list[np.ndarray], horizon: int) -> veil.Problem:
        """With one model, or with two, of which the agent knows which runs."""
        observer = veil.Observer(np.random.default_rng(5).dirichlet([0.5, 0.5], size=3), sees_actions=sees_actions)
        models = [
            veil.Model(moves[one], rewards * (1 - 2 * one), [0.2, 0.3, 0.5], 0.9, terminal_rewards=ends[one])
            for one in range(count)
        ]
        secret = veil.StateAt(1, {0}) if count == 1 else veil.WhichModel([0.4, 0.6], agent_knows=True)
        model = models[0] if count == 1 else models
        return veil.Problem(model, observer, secret, horizon, constraints=constraints)

    whole, rests = problem([last] * 2, 5), [last, last]
    assert len(whole.secret_table.memory_names) == 1 + len(constraints)
    for _ in range(3):
        rests = [np.max(rewards * (1 - 2 * one) + 0.9 * moves[one] @ rest, axis=1) for one, rest in enumerate(rests)]
    short = problem(rests, 2)
    first = play(problem([np.zeros(3)] * 2, 2), gap=1e-2).policy
    assert isinstance(first, veil.HistoryPolicy)
    policy = lasting(whole, first)
    assert policy.horizon == 5
    assert veil.expected_return(whole, policy) == pytest.approx(veil.expected_return(short, first), abs=1e-12)
    assert [one.shape for one in policy.following[2:]] == [(1, 4 if sees_actions else 2)] * 3


def test_a_lasting_policy_hides_no_more_than_its_first_steps():
    problem = veil.gallery.load("paper-initial-state", horizon=7).replace(min_return=None)
    short = problem.replace(horizon=3)
    first = play(short, gap=1e-2)
    assert isinstance(first.policy, veil.HistoryPolicy)
    policy = lasting(problem, first.policy)
    assert policy.horizon == 7
    assert lasting(short, first.policy) is first.policy
    # What comes later can only tell the observer more, and the return of the rest is the best from where the first ended.
    assert veil.opacity(problem, policy, method="exact").bits <= first.opacity.bits + 1e-9
    assert veil.expected_return(problem, policy) <= veil.max_return(problem) + 1e-9
    run = policy.start(problem, seed=1)
    state, observation = problem.model.initial.nonzero()[0][0], problem.observer.emissions[0].argmax()
    assert run.act(int(state), int(observation)) >= 0


def test_over_an_infinite_horizon_a_lasting_policy_takes_the_action_that_is_best_forever():
    """Waiting pays 0.2 each time, moving nothing once and 0.5 each time after it: at the last time less, forever more."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, :, 1] = 1
    model = veil.Model(transitions, [[0.2, 0.0], [0.5, 0.5]], [0.5, 0.5], 0.9)
    observer = veil.Observer(np.array([[0.75, 0.25], [0.25, 0.75]]))
    problem = veil.Problem(model, observer, veil.StateAt(0, {0}), 3, return_over="infinite")
    first = play(problem.replace(horizon=1, return_over="horizon"), gap=0.1).policy
    assert isinstance(first, veil.HistoryPolicy)
    policy = lasting(problem, first)
    assert policy.horizon == 3
    for decisions in policy.decisions[1:]:
        rows = decisions.probabilities[decisions.situation % 2 == 0]
        assert rows.tolist() == [[0.0, 1.0]] * len(rows)
    ends = lasting(problem.replace(horizon=4, return_over="horizon"), first)
    for decisions, best in zip(ends.decisions[1:], ([0.0, 1.0], [0.0, 1.0], [1.0, 0.0]), strict=True):
        rows = decisions.probabilities[decisions.situation % 2 == 0]
        assert rows.tolist() == [best] * len(rows)
