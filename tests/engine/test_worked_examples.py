"""The worked examples in the docstrings of the engine are true."""

import numpy as np
import pytest

import veil
from veil.engine.batch import BatchTree, _Pass
from veil.engine.chain import make_chain
from veil.engine.hidden import build
from veil.engine.tree import Prefixes


@pytest.fixture
def problem() -> veil.Problem:
    return veil.gallery.load("two-rooms").replace(horizon=2)


def test_prefixes_expand(problem: veil.Problem):
    walk = Prefixes(make_chain(problem, veil.MarkovPolicy.uniform(problem)), 2)
    root = walk.root()
    np.testing.assert_allclose(root.weight, [1])
    np.testing.assert_allclose(root.message, [[[1, 0]]])
    children, _ = walk.expand(root, 0)
    np.testing.assert_allclose(children.weight, [0.625, 0.375])
    np.testing.assert_allclose(children.message, [[[0.8, 0.2]], [[0, 1]]])


def test_batch_tree(problem: veil.Problem):
    tree = BatchTree(build(problem), np.ones((2, 2), dtype=bool), stationary=True)
    assert (tree.num_sequences, tree.meet, tree.prefix_nodes, tree.suffix_nodes) == (4, 1, 2, 2)
    one_pass = _Pass(tree, np.full((3, 1, 2, 2), 0.5))
    assert [message.shape for message in one_pass.forward()] == [(3, 1, 1, 2), (3, 1, 2, 2)]
    assert [message.shape for message in one_pass.backward()] == [(3, 2, 1, 2), (3, 2, 2, 2)]
    assert tree.places.shape == (4, 2)
