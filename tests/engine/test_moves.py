"""Moves of the hidden chain and the layers that they lead through, against loops over all of them."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_case
from tests.seeds import looped
from veil.engine.compile import build, one_hot
from veil.engine.hidden import Hidden
from veil.engine.moves import Layer, Moves, situations, transitions

CASES = [(kind, seed, fixed)
         for kind in ("last", "at", "initial", "automaton", "model")
         for seed, fixed in enumerate(({}, {"sees_actions": True}, {"on_actions": True}))]  # fmt: skip


def hidden_of(kind: str, seed: int, fixed: dict[str, bool], *, sparse: bool = False) -> Hidden:
    chain = chain_of(small_case(seed, kind, work=300, **fixed))
    return on_sparse_kernel(chain).hidden if sparse else chain.hidden


def all_moves(hidden: Hidden) -> dict[tuple[int, int], list[tuple[int, int, float]]]:
    """`(x', event, probability)` of each (action, x), in order."""
    kernel = np.asarray(
        hidden.kernel.stacked.toarray() if hidden.kernel.is_sparse else hidden.kernel.stacked  # pyright: ignore[reportAttributeAccessIssue]
    ).reshape(hidden.num_states, -1, hidden.num_states)
    found = defaultdict(list)
    for action in range(kernel.shape[1]):
        emitter = next(one for one in hidden.emitters if one.actions[action])
        for x, target, event in np.ndindex(hidden.num_states, hidden.num_states, hidden.num_events):
            chance = kernel[x, action, target] * emitter.emission[target, event]
            if chance > 0:
                found[action, x].append((target, event, chance))
    return found


def layer_of(hidden: Hidden, *, settled: bool) -> Layer:
    """Some pairs of node and hidden state, in order, with values of the secret where they are settled."""
    rng = np.random.default_rng(hidden.num_states)
    pairs = [(node, x) for node in range(3) for x in range(hidden.num_states) if rng.random() < 0.7] or [(0, 0)]
    node, x = (np.array(part, dtype=np.int32) for part in zip(*pairs, strict=True))
    z = rng.integers(0, hidden.num_values, len(pairs)) if settled else np.full(len(pairs), -1)
    return Layer(node, x, z.astype(np.int32))


@looped(("kind", "seed", "fixed"), CASES)
def test_every_move_with_its_event(kind: str, seed: int, fixed: dict[str, bool]):
    for sparse in (False, True):
        hidden = hidden_of(kind, seed, fixed, sparse=sparse)
        found, expected = Moves.of(hidden), all_moves(hidden)
        assert found.num_events == hidden.num_events
        assert found.degree.shape == (hidden.kernel.num_actions, hidden.num_states)
        for (action, x), degree in np.ndenumerate(found.degree):
            part = slice(found.begin[action, x], found.begin[action, x] + degree)
            listed = list(zip(found.target[part].tolist(), found.event[part].tolist(), strict=True))
            assert listed == [one[:2] for one in expected[action, x]]
            np.testing.assert_allclose(found.probability[part], [one[2] for one in expected[action, x]])
        assert found.degree.sum() == len(found.target)
        action, source, target, chance = transitions(hidden)
        assert len(set(zip(action.tolist(), source.tolist(), target.tolist(), strict=True))) == len(chance)
        assert (chance > 0).all()
        sums = np.zeros(found.degree.shape)
        np.add.at(sums, (action, source), chance)
        np.testing.assert_allclose(sums[found.degree > 0], 1.0)


@looped(("kind", "seed", "fixed"), CASES)
def test_the_step_from_a_layer(kind: str, seed: int, fixed: dict[str, bool]):
    """Which events can follow, the next layer in order, and a row for each action and pair."""
    hidden = hidden_of(kind, seed, fixed)
    hidden = replace(hidden, labels=one_hot(np.arange(hidden.num_states) % 2, 2))  # every state has a value
    moves, every = Moves.of(hidden), all_moves(hidden)
    actions, nodes = hidden.kernel.num_actions, 3
    table = np.random.default_rng(seed).integers(0, 4, (nodes, hidden.num_events))
    for split in range(3):
        placed, time = replace(hidden, split_time=split), 1
        layer = layer_of(placed, settled=split <= time)
        assert moves.count(layer) == sum(len(every[a, int(x)]) for a in range(actions) for x in layer.x)
        possible = np.zeros((nodes, hidden.num_events), dtype=bool)
        rows: list[dict[tuple[int, int, int], float]] = []
        for action in range(actions):
            pair, move = moves.entries(layer, action)
            listed = [(p, m) for p, x in enumerate(layer.x) for m in range(moves.begin[action, x],
                      moves.begin[action, x] + moves.degree[action, x])]  # fmt: skip
            assert list(zip(pair.tolist(), move.tolist(), strict=True)) == listed
            for node, x, z in zip(layer.node.tolist(), layer.x.tolist(), layer.z.tolist(), strict=True):
                row: dict[tuple[int, int, int], float] = defaultdict(float)
                for target, event, chance in every[action, x]:
                    possible[node, event] = True
                    value = z if split <= time else int(placed.value[target]) if split == time + 1 else -1
                    row[int(table[node, event]), target, value] += chance
                rows.append(row)
        np.testing.assert_array_equal(moves.possible(layer, nodes), possible)
        after, step = moves.advance(placed, time, layer, table)
        keys = list(zip(after.node.tolist(), after.x.tolist(), after.z.tolist(), strict=True))
        assert keys == sorted({key for row in rows for key in row})
        assert step.shape == (actions * len(layer), len(after))
        expected = np.array([[row.get(key, 0.0) for key in keys] for row in rows])
        np.testing.assert_allclose(step.toarray(), expected)
        assert step.nnz == np.count_nonzero(expected)


@pytest.mark.parametrize("kind", ["automaton", "model", "last", "at"])
def test_the_situation_behind_a_hidden_state(kind: str):
    """Where the agent knows model and memory, its cells are the situations; else both follow from the way to a state."""
    seen = set()
    for seed in range(12):
        problem = small_case(seed, kind, work=300).problem
        secret = problem.secret
        if isinstance(secret, veil.Automaton | veil.WhichModel):
            problem = problem.replace(secret=replace(secret, agent_knows=True))
            hidden = build(problem)
            np.testing.assert_array_equal(situations(problem, hidden), hidden.cell)
            seen |= set(hidden.cell.tolist())
        else:
            hidden = build(problem)
            np.testing.assert_array_equal(situations(problem, hidden), hidden.state)
    assert len(seen) > 4 or kind in ("last", "at")
