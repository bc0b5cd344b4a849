"""The public graph and its pairs: the tree of the engine, windows, counts made beforehand, and steps that lose nothing."""

import random

import numpy as np
import pytest

import veil
from tests.game.plain_game import PlainGame, everything, last
from tests.random_problems import random_spec, to_problem
from veil.engine.chain import make_chain
from veil.engine.hidden import build
from veil.engine.moves import situations
from veil.engine.size import tree_size
from veil.game.pairs import (
    FullHistory,
    GivenGraph,
    LastEvents,
    TailEvents,
    count_tree,
    event_step,
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


@pytest.mark.parametrize("seed", range(60))
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


@pytest.mark.parametrize("seed", range(30))
def test_steps_with_events_apart_sum_to_the_step(seed):
    problem = some_problem(seed)
    for memory in (FullHistory(), LastEvents(1), TailEvents(1)):
        told_at = 1 if seed % 2 and problem.horizon > 1 and not isinstance(memory, LastEvents) else None
        pairs = make_pairs(build(problem), memory, told_at=told_at)
        rng = np.random.default_rng(seed)
        for time, step in enumerate(pairs.steps):
            if pairs.graph.told_at == time + 1:
                continue
            table = rng.random((problem.num_actions, len(pairs.layers[time])))
            apart = event_step(pairs, time, table)
            events = build(problem).num_events
            summed = np.asarray(apart.sum(axis=0)).reshape(events, -1).sum(axis=0)
            assert summed == pytest.approx(step.T @ table.ravel(), abs=1e-12)


def test_the_examples_of_the_docstrings():
    model = veil.Model([[[0.75, 0.25]], [[0.0, 1.0]]], [[0.0], [0.0]], 0)
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), horizon=1)
    pairs = make_pairs(build(problem), FullHistory())
    assert [(layer.node.tolist(), layer.x.tolist()) for layer in pairs.layers] == [([0], [0]), ([0, 1], [0, 1])]
    np.testing.assert_array_equal(pairs.steps[0].toarray(), [[0.75, 0.25]])
    np.testing.assert_array_equal(event_step(pairs, 0, np.ones((1, 1))).toarray(), [[0.75, 0.0, 0.0, 0.25]])


def test_a_graph_can_be_used_again():
    problem = veil.gallery.load("paper-last-state")
    pairs = make_pairs(build(problem), LastEvents(2))
    again = make_pairs(build(problem), GivenGraph(pairs.graph))
    assert again.graph.sizes == pairs.graph.sizes
    assert again.num_pairs == pairs.num_pairs


def test_what_is_told_parts_the_states():
    problem = veil.gallery.load("paper-last-state")
    pairs = make_pairs(build(problem), TailEvents(8), told_at=8)
    layer = pairs.layers[8]
    assert pairs.graph.sizes[8] == len(layer) == len(np.unique(layer.node))
    assert pairs.graph.sizes[7] == 1
    assert not pairs.graph.is_tree


def test_long_horizons_repeat_their_steps():
    problem = veil.gallery.load("paper-last-state").replace(horizon=60)
    pairs = make_pairs(build(problem), LastEvents(3))
    assert len({id(step) for step in pairs.steps}) < 20


def test_what_does_not_fit_is_refused_before_it_is_built():
    problem = veil.gallery.load("paper-last-state").replace(horizon=60)
    with pytest.raises(veil.TooLargeError, match="the game on the whole history needs more than"):
        make_pairs(build(problem), FullHistory())
    with pytest.raises(veil.TooLargeError, match="an observer of bounded memory"):
        make_pairs(build(problem), LastEvents(3), memory_bytes=2**16)


@pytest.mark.parametrize("seed", range(30))
def test_situations_name_model_memory_and_state(seed):
    problem = some_problem(seed)
    hidden = build(problem)
    found = situations(problem, hidden)
    assert (found % problem.num_states == hidden.state).all()
    if problem.secret_table.agent_knows:
        reached = (make_chain(problem, veil.MarkovPolicy.uniform(problem)).occupancies > 0).any(axis=0)
        assert (found == hidden.cell)[reached].all()
