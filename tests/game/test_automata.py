"""Automata of beliefs: both bounds enclose the whole game, merging is never understated, policies are lifted."""

import pytest

import veil
from tests.game.cases import first_or_last, grown
from tests.game.plain_game import play_history
from tests.seeds import in_blocks
from veil.common.clock import Clock, Progress
from veil.engine.compile import build
from veil.game.arrivals import make_arrivals
from veil.game.clusters import clustered_graph, opacity_lower_bound
from veil.game.lift import lift
from veil.game.pairs import LastEvents, make_pairs
from veil.game.redirect import redirected_graph
from veil.game.responses import AgentProblem
from veil.game.rule_tables import charged_table
from veil.game.solve import game_of_policy, solve_game


@in_blocks(5, 40)
@pytest.mark.slow
def test_automata_of_beliefs_enclose_the_whole(seed):
    problem, threshold = first_or_last(seed)
    whole = solve_game(problem, threshold=threshold, gap=1e-3, iterations=500)
    told: list[Progress] = []
    clock = Clock(3.0, progress=told.append)
    grown(problem, threshold=threshold, gap=1e-3, nodes=2, most_nodes=16, windows=False, clock=clock)
    assert told
    for one in told:
        assert one.opacity_bits <= whole.upper + 1e-9
        assert one.upper_bits >= whole.lower - 1e-9


@in_blocks(2, 6)
def test_both_ways_together_enclose_the_whole(seed):
    problem, threshold = first_or_last(seed)
    whole = solve_game(problem, threshold=threshold, gap=1e-3, iterations=500)
    result = grown(problem, threshold=threshold, gap=1e-3, nodes=4, clock=Clock(2.0))
    assert result.lower <= whole.upper + 1e-9
    assert result.upper >= whole.lower - 1e-9


def test_turns_raise_one_bound_and_lower_the_other():
    problem = veil.gallery.load("paper-last-state", horizon=6).replace(min_return="80%")
    told: list[Progress] = []
    result = grown(problem, gap=1e-4, nodes=4, most_nodes=16, windows=False, clock=Clock(progress=told.append))
    assert result.stopped in ("nodes", "gap reached")
    assert told[0].iteration == 5  # the last event
    assert len({one.upper_bits for one in told}) > 1
    assert len({one.opacity_bits for one in told}) > 1
    assert [one.opacity_bits for one in told] == sorted(one.opacity_bits for one in told)
    assert [one.upper_bits for one in told] == sorted((one.upper_bits for one in told), reverse=True)
    assert veil.opacity(problem, result.policy(problem), "exact").bits >= result.lower - 1e-9


# The opacity of a policy when histories are merged.


@in_blocks(10, 40)
def test_what_a_policy_hides_is_never_overstated(seed):
    problem, threshold = first_or_last(seed)
    pairs = make_pairs(build(problem), LastEvents(1))
    result = solve_game(problem, threshold=threshold, gap=1e-2, iterations=200, pairs=pairs)
    exact = play_history(problem, result.policy())[0]
    whole = opacity_lower_bound(pairs, result.tables)
    assert whole.bits == pytest.approx(exact, abs=1e-5)
    few = opacity_lower_bound(pairs, result.tables, most=3)
    assert few.bits <= exact + 1e-9
    assert few.num_beliefs <= whole.num_beliefs
    assert whole.num_beliefs >= max(len(set(layer.node.tolist())) for layer in pairs.layers[1:])
    assert exact <= result.lower + 1e-9
    pruned = opacity_lower_bound(pairs, result.tables, prune_below=0.05)
    assert pruned.bits <= exact + 1e-9


# Lifting a policy, and redirecting an automaton.


@in_blocks(8, 24)
@pytest.mark.slow
def test_a_lifted_policy_hides_what_it_says_and_a_redirected_automaton_bounds_all(seed):
    problem, threshold = first_or_last(seed)
    pairs = make_pairs(build(problem), LastEvents(1))
    game = solve_game(problem, threshold=threshold, gap=1e-2, iterations=100, pairs=pairs)
    clustered = clustered_graph(AgentProblem(problem, pairs), game.tables, 4)
    moved = make_pairs(build(problem), clustered.memory)
    agent = AgentProblem(problem, moved, charged_table(moved, make_arrivals(moved)))
    tables = clustered.moved(pairs, game.tables, agent)
    first = agent.table.entropy(agent.outcome(tables).joint)
    lifted = lift(agent, tables, threshold, game.multiplier, 15, Clock())
    result = game_of_policy(AgentProblem(problem, moved), lifted.tables, game)
    exact, earned = play_history(problem, result.policy())[:2]
    assert lifted.bits <= exact + 1e-9
    assert lifted.outcome.expected_return >= threshold - 1e-9 * (1 + abs(threshold))
    assert earned >= threshold - 1e-6 * (1 + abs(threshold))
    if agent.outcome(tables).expected_return >= threshold:
        assert lifted.bits >= first - 1e-12
    redirected = make_pairs(build(problem), redirected_graph(AgentProblem(problem, pairs), game).memory)
    bound = solve_game(problem, threshold=threshold, gap=1e-2, iterations=100, pairs=redirected)
    whole = solve_game(problem, threshold=threshold, gap=1e-2, iterations=300)
    assert min(bound.upper, result.upper) >= whole.lower - 1e-9


@pytest.mark.parametrize(("name", "horizon"), [("later-last-state", 9), ("paper-last-state", 6)])
def test_lifting_raises_what_is_proven_of_a_policy(name: str, horizon: int):
    """It keeps the return, with a surplus that costs less than a thousandth of a bit."""
    problem = veil.gallery.load(name, horizon=horizon).replace(min_return="80%")
    game = solve_game(problem, LastEvents(1), gap=1e-2)
    clustered = clustered_graph(AgentProblem(problem, game.pairs), game.tables, 16)
    pairs = make_pairs(build(problem), clustered.memory)
    agent = AgentProblem(problem, pairs, charged_table(pairs, make_arrivals(pairs)))
    tables = clustered.moved(game.pairs, game.tables, agent)
    before = agent.table.entropy(agent.outcome(tables).joint)
    lifted = lift(agent, tables, game.threshold, game.multiplier, 20, Clock())
    assert lifted.bits > before + 0.1
    assert lifted.bits == agent.table.entropy(lifted.outcome.joint)
    assert lifted.bits <= opacity_lower_bound(pairs, lifted.tables).bits
    assert 0 <= lifted.outcome.expected_return - (game.threshold or 0.0) <= 1e-3


def test_automata_end_where_the_next_one_does_not_fit():
    """Where not even the first does, the game without memory gives both bounds."""
    problem = veil.gallery.load("paper-last-state", horizon=6).replace(min_return="80%")
    for budget in (2**10, 2**18):
        result = grown(problem, gap=1e-3, nodes=64, memory_bytes=budget, windows=False)
        assert result.stopped == "memory"
        assert 0 <= result.lower <= result.upper
        assert (result.games[0].graph.kind == "the last 0 events") == (budget == 2**10)
