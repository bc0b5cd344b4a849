"""Many policies on one tree: each exactly as it is alone."""

import numpy as np
import pytest

import veil
from veil.engine.batch import BatchTree
from veil.engine.size import tree_size
from veil.planning.policy_class import Space, make_space


def tree_of(space: Space) -> BatchTree:
    return BatchTree(space.hidden, space.available, stationary=space.stationary)


def stay_or_leave(horizon: int) -> veil.Problem:
    """Four ways out of a room and one way to stay; the observer hears the door. Uniform play stays for T steps with 0.2^T."""
    transitions = np.zeros((3, 5, 3))
    transitions[0, 0, 0] = transitions[1:, :, 2] = 1
    transitions[0, 1:, 1] = 1
    model = veil.Model(transitions, np.zeros((3, 5)), 0)
    return veil.Problem(model, veil.Observer([[1, 0], [0.5, 0.5], [0, 1]]), veil.LastState({0}), horizon)


def test_what_uniform_play_hardly_ever_does_is_not_lost():
    """Staying for 600 steps has probability 0.2^600 under the uniform policy, below the least double."""
    space = make_space(stay_or_leave(600))
    table = np.array([[[0.9999, 0.0001, 0, 0, 0], [0.2] * 5, [0.2] * 5]])
    tree = tree_of(space)
    value, _ = tree.evaluate(table[None], lambda joint: (joint.sum(axis=(1, 2)), np.ones(joint.shape)))
    assert value[0] == pytest.approx(1, abs=1e-9)  # the probabilities of all sequences
    assert tree.num_rows == tree.num_sequences
    assert tree.num_sequences == tree_size(space.chain(table)).num_sequences
