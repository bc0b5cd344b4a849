"""The public graph and its pairs: as many histories as the engine counts, and refusals before anything is built."""

import pytest

import veil
from veil.engine.chain import make_chain
from veil.engine.compile import build
from veil.engine.size import tree_size
from veil.game.pairs import (
    FullHistory,
    LastEvents,
    count_tree,
    make_pairs,
)


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


def test_what_does_not_fit_is_refused_before_it_is_built():
    problem = veil.gallery.load("paper-last-state").replace(horizon=60)
    with pytest.raises(veil.TooLargeError, match="the game on the whole history needs more than"):
        make_pairs(build(problem), FullHistory())
    with pytest.raises(veil.TooLargeError, match="an observer of bounded memory"):
        make_pairs(build(problem), LastEvents(3), memory_bytes=2**16)
