"""The public graph and its pairs: the tree of the engine, windows, counts made beforehand, and steps that lose nothing."""

import random

import numpy as np
import pytest

import veil
from tests.game.plain_game import PlainGame, everything, last
from tests.random_problems import random_spec, to_problem
from tests.seeds import in_blocks
from veil.engine.chain import make_chain
from veil.engine.compile import build
from veil.engine.size import tree_size
from veil.game.pairs import (
    FullHistory,
    GivenGraph,
    LastEvents,
    PublicGraph,
    count_tree,
    make_pairs,
)


def some_problem(seed: int) -> veil.Problem:
    rng = random.Random(seed)
    return to_problem(random_spec(rng, work=3000), rng)


@pytest.mark.parametrize(("name", "leaves"), [("paper-last-state", 2579), ("later-last-state", 69_405)])
def test_the_tree_has_the_histories_of_the_engine(name, leaves):
    problem = veil.gallery.load(name)
    pairs = make_pairs(build(problem), FullHistory())
    assert pairs.graph.sizes[-1] == leaves
    assert tree_size(make_chain(problem, veil.MarkovPolicy.uniform(problem))).num_sequences == leaves
    counted = count_tree(build(problem))
    assert counted.exact
    assert counted.num_histories == leaves
    assert counted.num_pairs == pairs.num_pairs


@in_blocks(10, 60)
def test_pairs_are_the_situations_that_can_be_reached(seed):
    problem = some_problem(seed)
    for memory, remember in ((FullHistory(), everything), (LastEvents(1), last(1)), (LastEvents(3), last(3))):
        pairs, plain = make_pairs(build(problem), memory), PlainGame.of(problem, remember)
        for layer, step in zip(pairs.layers, plain.moves, strict=False):
            assert len(layer) == len(step)
        assert pairs.reachable.sum() == len(plain.ends())
        assert pairs.start.sum() == pytest.approx(1.0)
        for layer, step in zip(pairs.layers, pairs.steps, strict=False):
            sums = np.asarray(step.sum(axis=1)).reshape(problem.num_actions, -1)
            available = problem.model.available[build(problem).state[layer.x]].T
            assert sums == pytest.approx(available.astype(float), abs=1e-9)
    counted = count_tree(build(problem))
    tree = make_pairs(build(problem), FullHistory())
    assert (counted.num_pairs, counted.num_histories) == (tree.num_pairs, tree.graph.sizes[-1])


def test_what_does_not_fit_is_refused_before_it_is_built():
    problem = veil.gallery.load("paper-last-state").replace(horizon=60)
    with pytest.raises(veil.TooLargeError, match="the game on the whole history needs more than"):
        make_pairs(build(problem), FullHistory())
    with pytest.raises(veil.TooLargeError, match="an observer of bounded memory"):
        make_pairs(build(problem), LastEvents(3), memory_bytes=2**16)


def test_a_graph_that_is_used_again_drops_what_no_policy_reaches():
    """Nodes are numbered anew without gaps, `kept` says which they were, and -1 stays where nothing is possible."""
    hidden = build(veil.gallery.load("paper-last-state", horizon=3))
    graph = make_pairs(hidden, LastEvents(1)).graph
    first = np.where(graph.first >= 0, graph.first + 2, -1)  # two nodes more in each layer, to which nothing leads
    following = [np.full((size + 2, hidden.num_events), 1) for size in graph.sizes[:-1]]
    for larger, table in zip(following, graph.following, strict=True):
        larger[2:] = np.where(table >= 0, table + 2, -1)
    sizes = tuple(size + 2 for size in graph.sizes)
    memory = GivenGraph(PublicGraph(first, tuple(following), sizes, False, "larger"))
    for _ in range(2):  # as often as it is used
        again = make_pairs(hidden, memory)
        assert again.graph.sizes == graph.sizes
        np.testing.assert_array_equal(again.graph.first, graph.first)
        for one, other in zip(again.graph.following, graph.following, strict=True):
            np.testing.assert_array_equal(one, other)
        assert [kept.tolist() for kept in memory.kept] == [list(range(2, size)) for size in sizes]
    assert (graph.first == -1).any()
    assert any((table == -1).any() for table in graph.following)
