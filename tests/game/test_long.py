"""Long horizons: the two games around the secret's time and automata of beliefs enclose the value of the whole game."""

import random

import numpy as np
import pytest

import veil
from tests.game.plain_game import play_history
from tests.policy.test_history import play
from tests.random_problems import random_spec, to_problem
from veil.engine.hidden import build
from veil.game.long import hidden_at_least, solve_long_game
from veil.game.pairs import FullHistory, GivenGraph, LastEvents, TailEvents, make_pairs
from veil.game.refine import cluster_beliefs, clustered_graph, enclose_game, hides_at_least, refine_game
from veil.game.responses import Game
from veil.game.solve import solve_game


def case(seed: int, kinds=("last", "initial", "automaton", "model")) -> tuple[veil.Problem, float]:
    """A small problem whose secret is settled at the first or last time, and a threshold that binds in most cases."""
    rng = random.Random(seed)
    while True:
        problem = to_problem(random_spec(rng, kind=kinds[seed % len(kinds)], work=3000), rng)
        game = Game(problem, make_pairs(build(problem), FullHistory()))
        if game.pairs.num_pairs < 5000 and problem.horizon > 1:
            break
    most, even = game.max_return_response()[0], game.outcome(game.uniform()).expected_return
    return problem, even + 0.7 * (most - even)


def history_bits(problem: veil.Problem, result) -> float:
    """`H(Z|Y)` of a result's policy against an observer who remembers everything, by plain enumeration."""
    return play_history(problem, result.policy(problem))[0]


@pytest.mark.parametrize("seed", range(40))
def test_the_two_games_enclose_the_whole(seed):
    problem, threshold = case(seed)
    whole = solve_game(problem, threshold=threshold, gap=1e-3, iterations=500)
    ends = []
    solve_long_game(problem, threshold=threshold, gap=0.0, steps=1, time_limit=3.0, callback=ends.append)
    for point in ends:
        assert point.lower <= whole.upper + 1e-9
        assert point.upper >= whole.lower - 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_automata_of_beliefs_enclose_the_whole(seed):
    problem, threshold = case(seed)
    whole = solve_game(problem, threshold=threshold, gap=1e-3, iterations=500)
    points = []
    refine_game(problem, threshold=threshold, gap=1e-3, nodes=2, most_nodes=16, time_limit=3.0, callback=points.append)
    for point in points:
        assert point.lower <= whole.upper + 1e-9
        assert point.upper >= whole.lower - 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_what_a_policy_hides_is_never_overstated(seed):
    problem, threshold = case(seed)
    pairs = make_pairs(build(problem), LastEvents(1))
    result = solve_game(problem, threshold=threshold, gap=1e-2, iterations=200, pairs=pairs)
    exact = history_bits(problem, result)
    assert hides_at_least(pairs, result.tables).bits == pytest.approx(exact, abs=1e-5)
    assert hides_at_least(pairs, result.tables, most=3).bits <= exact + 1e-9
    assert exact <= result.lower + 1e-9
    if problem.secret_table.time == problem.horizon:
        assert hidden_at_least(Game(problem, pairs), result.tables).bits <= exact + 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_a_policy_that_was_told_can_be_played(seed):
    problem, threshold = case(seed, kinds=("last",))
    pairs = make_pairs(build(problem), TailEvents(1), told_at=1)
    result = solve_game(problem, threshold=threshold, gap=1e-2, iterations=100, pairs=pairs)
    policy, rng = result.policy(problem), np.random.default_rng(seed)
    returns = [play(problem, policy, rng, run) for run in range(300)]
    assert np.mean(returns) == pytest.approx(result.expected_return, abs=5 * np.std(returns) / np.sqrt(300) + 1e-2)


def test_clusters_keep_what_differs_most_apart():
    beliefs = np.array([[0.9, 0.1], [0.88, 0.12], [0.1, 0.9], [0.12, 0.88], [0.5, 0.5]])
    cluster = cluster_beliefs(beliefs, 3)
    assert cluster[0] == cluster[1]
    assert cluster[2] == cluster[3]
    assert len(set(cluster.tolist())) == 3
    assert len(set(cluster_beliefs(beliefs, 10).tolist())) == 5


def test_a_clustered_graph_places_every_history():
    problem = veil.gallery.load("paper-last-state")
    pairs = make_pairs(build(problem), LastEvents(1))
    game = Game(problem, pairs)
    graph = clustered_graph(game, game.uniform(), 20)
    assert max(graph.sizes) <= 20
    refined = make_pairs(build(problem), GivenGraph(graph))
    for layer, step in zip(refined.layers, refined.steps, strict=False):
        assert np.asarray(step.sum(axis=1)) == pytest.approx(np.ones(5 * len(layer)))


@pytest.mark.parametrize("seed", range(6))
def test_both_ways_together_enclose_the_whole(seed):
    problem, threshold = case(seed)
    whole = solve_game(problem, threshold=threshold, gap=1e-3, iterations=500)
    result = enclose_game(problem, threshold=threshold, gap=1e-3, time_limit=2.0, nodes=4)
    assert result.lower <= whole.upper + 1e-9
    assert result.upper >= whole.lower - 1e-9


def test_sixty_steps_on_the_papers_grid():
    problem = veil.gallery.load("paper-last-state").replace(horizon=60)
    result = solve_long_game(problem, threshold=4.9, gap=0.05, time_limit=60)
    assert result.gap <= 0.05
    assert result.told.expected_return >= 4.9
