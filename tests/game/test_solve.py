"""The game: bounds that close, agreement with a general convex solver, and no policy above the bound."""

import random

import numpy as np
import pytest

import veil
from tests.game.plain_game import PlainGame, everything, last
from tests.random_problems import random_spec, to_policy, to_problem
from veil.common.errors import InfeasibleError
from veil.engine.hidden import build
from veil.game.pairs import FullHistory, LastEvents, Pairs, make_pairs
from veil.game.responses import Game
from veil.game.rules import covering_rule, rule_costs, upper_bound
from veil.game.solve import GameResult, solve_game


def small(seed: int, work: int = 3000, most_pairs: int = 20_000):
    """A random problem that the plain game can walk, its specification, and a threshold that binds in most cases."""
    rng = random.Random(seed)
    while True:
        spec = random_spec(rng, work=work)
        problem = to_problem(spec, rng)
        game = Game(problem, make_pairs(build(problem), FullHistory()))
        if game.pairs.num_pairs <= most_pairs:
            break
    most = game.max_return_response()[0]
    even = game.outcome(game.uniform()).expected_return
    threshold = None if rng.random() < 0.2 else even + rng.choice((0.3, 0.7, 0.95)) * (most - even)
    return spec, problem, threshold


def labels(pairs: Pairs, remember) -> list[dict[tuple[int, ...], int]]:
    """For each layer the node of each remembered history, by walking the graph."""
    graph = pairs.graph
    layers = [{remember((e,)): int(n) for e, n in enumerate(graph.first) if n >= 0}]
    for table in graph.following:
        after = {}
        for history, node in layers[-1].items():
            for event in np.flatnonzero(table[node] >= 0):
                after[remember((*history, int(event)))] = int(table[node, event])
        layers.append(after)
    return layers


def chooser(result: GameResult, remember):
    """The result's policy as a function of (time, situation)."""
    nodes = labels(result.pairs, remember)
    numbers = [
        {(int(m), int(x), int(z)): p for p, (m, x, z) in enumerate(zip(layer.node, layer.x, layer.z, strict=True))}
        for layer in result.pairs.layers
    ]
    return lambda time, situation: result.tables[time][
        :, numbers[time][nodes[time][situation[0]], situation[1], situation[2]]
    ]


@pytest.mark.parametrize("seed", range(60))
def test_the_bounds_hold_and_the_policy_does_what_is_said(seed):
    _, problem, threshold = small(seed)
    memory, remember = (FullHistory(), everything) if seed % 3 else (LastEvents(seed % 2 + 1), last(seed % 2 + 1))
    result = solve_game(problem, memory, threshold=threshold, gap=1e-3, iterations=400)
    assert 0 <= result.lower <= result.upper + 1e-9
    assert result.upper <= np.log2(len(problem.secret_values)) + 1e-12
    plain = PlainGame.of(problem, remember)
    bits, gained = plain.play(chooser(result, remember))
    assert bits == pytest.approx(result.lower, abs=1e-10)
    assert gained == pytest.approx(result.expected_return, abs=1e-10)
    assert threshold is None or gained >= threshold - 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_no_policy_of_any_class_exceeds_the_upper_bound(seed):
    spec, problem, _ = small(seed)
    policy = to_policy(spec, problem)
    gained = veil.expected_return(problem, policy)
    result = solve_game(problem, threshold=gained, gap=1e-2, iterations=100)
    assert veil.opacity(problem, policy, method="exact").bits <= result.upper + 1e-9
    plain, rng = PlainGame.of(problem), np.random.default_rng(seed)
    drawn: dict = {}

    def choose(time, situation):
        if (time, situation) not in drawn:
            weights = plain.available[situation[1]] * rng.dirichlet(np.full(problem.num_actions, 0.3))
            weights = weights + 1e-12 * plain.available[situation[1]]
            drawn[time, situation] = weights / weights.sum()
        return drawn[time, situation]

    bits, gained = plain.play(choose)
    assert bits <= solve_game(problem, threshold=gained, gap=1e-2, iterations=100).upper + 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_the_bound_is_plain_backward_induction(seed):
    _, problem, _ = small(seed)
    remember = everything if seed % 2 else last(2)
    game = Game(problem, make_pairs(build(problem), FullHistory() if seed % 2 else LastEvents(2)))
    rng = np.random.default_rng(seed)
    rule = rng.dirichlet(np.ones(len(problem.secret_values)), size=game.pairs.graph.sizes[-1])
    costs = rule_costs(rule, game.pairs.reachable)
    plain = PlainGame.of(problem, remember)
    node = labels(game.pairs, remember)[-1]
    table = {(history, z): float(costs[node[history], z]) for history, z in plain.ends()}
    for price in (0.0, 0.7):
        assert game.best_response(costs, price)[0] == pytest.approx(plain.best_response(table, price), abs=1e-10)


@pytest.mark.parametrize("seed", range(40))
def test_a_rule_that_excludes_something_reachable_proves_nothing(seed):
    _, problem, threshold = small(seed)
    game = Game(problem, make_pairs(build(problem), FullHistory()))
    rule = covering_rule(game)
    node, z = np.argwhere(game.pairs.reachable)[seed % game.pairs.reachable.sum()]
    assert np.isfinite(upper_bound(game, rule_costs(rule, game.pairs.reachable), threshold)[0])
    rule[node, z] = 0.0
    costs = rule_costs(rule, game.pairs.reachable)
    assert costs[node, z] == np.inf
    for price in (0.0, 1.0, 1e6):
        assert game.best_response(costs, price)[0] == np.inf
    assert upper_bound(game, costs, threshold)[0] == np.inf


@pytest.mark.parametrize("seed", range(210))
def test_agreement_with_a_general_convex_solver(seed):
    pytest.importorskip("cvxpy")
    _, problem, threshold = small(1000 + seed, work=300, most_pairs=600)
    plain = PlainGame.of(problem)
    optimum = plain.convex_optimum(threshold)
    result = solve_game(problem, threshold=threshold, gap=1e-5, iterations=5000)
    assert result.gap <= 1e-5
    assert result.lower - 2e-6 <= optimum <= result.upper + 2e-6


def test_a_return_beyond_reach_is_refused():
    problem = veil.gallery.load("paper-last-state")
    with pytest.raises(InfeasibleError, match=r"largest that any policy has is 0\.45"):
        solve_game(problem, threshold=0.5)


def test_the_largest_return_itself_can_be_asked_for():
    problem = veil.gallery.load("paper-last-state")
    game = Game(problem, make_pairs(build(problem), FullHistory()))
    most = game.max_return_response()[0]
    result = solve_game(problem, threshold=most, gap=2e-3, iterations=200)
    assert result.expected_return == pytest.approx(most, abs=1e-12)
    assert result.lower <= result.upper + 1e-9


def test_the_papers_problems():
    result = solve_game(veil.gallery.load("paper-last-state"), gap=2e-3)
    assert result.gap <= 2e-3
    assert result.expected_return >= 0.3
    assert result.lower > 0.996
    assert result.graph.is_tree
    assert result.graph.sizes[-1] == 2579
    assert [point.iteration for point in result.history] == sorted(point.iteration for point in result.history)


def test_it_stops_when_told_and_is_the_same_every_time():
    problem = veil.gallery.load("paper-initial-state")
    first = solve_game(problem, gap=0.0, iterations=7)
    assert first.stopped == "iterations"
    assert first.iterations == 7
    again = solve_game(problem, gap=0.0, iterations=7)
    assert (first.lower, first.upper, first.price) == (again.lower, again.upper, again.price)
    assert solve_game(problem, gap=0.0, should_stop=lambda: True).stopped == "asked to stop"

    def interrupt(point):
        if point.iteration:
            raise KeyboardInterrupt

    result = solve_game(problem, gap=0.0, callback=interrupt)
    assert result.stopped == "interrupted"
    assert result.lower <= result.upper
