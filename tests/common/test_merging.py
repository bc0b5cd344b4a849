"""Which histories are merged: those of nearly the same belief, rare ones more coarsely, and never more than may remain."""

import numpy as np
import pytest

from veil.common.merging import merge_beliefs


def entries(beliefs: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    history, state = np.nonzero(beliefs)
    return history, state, (mass[:, None] * beliefs)[history, state]


def charge(beliefs: np.ndarray, mass: np.ndarray, cluster: np.ndarray) -> float:
    """`Σ_h P(h) KL(b_h ‖ b̄)` in bits."""
    joint = np.zeros((cluster.max() + 1, beliefs.shape[1]))
    np.add.at(joint, cluster, mass[:, None] * beliefs)
    mean = joint / joint.sum(axis=1, keepdims=True)
    ratio = np.divide(beliefs, mean[cluster], out=np.ones_like(beliefs), where=beliefs > 0)
    return float((mass[:, None] * beliefs * np.log2(ratio)).sum())


def case(seed: int, size: int = 400, states: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Beliefs near each other and near corners, with masses over many orders."""
    rng = np.random.default_rng(seed)
    mass = 10.0 ** rng.uniform(-7, 0, size)
    return rng.dirichlet(np.full(states, 0.5), size), mass / mass.sum()


def even_rounding(beliefs: np.ndarray, most: int) -> np.ndarray:
    """Probabilities, and not their roots, rounded alike for all histories: to the finest of many steps that leaves so few."""
    for step in 2.0 ** np.arange(-8, 2, 0.1):
        cluster = np.unique(np.rint(beliefs / step), axis=0, return_inverse=True)[1].ravel()
        if cluster.max() < most:
            return cluster
    raise AssertionError


@pytest.mark.parametrize("most", [1, 10, 40, 150, 400])
def test_no_more_remain_than_may(most: int):
    beliefs, mass = case(0)
    cluster = merge_beliefs(*entries(beliefs, mass), most)
    assert 0.7 * most <= len(np.unique(cluster)) == cluster.max() + 1 <= most


@pytest.mark.parametrize(("size", "states", "most"), [(400, 3, 150), (1000, 6, 400)])
def test_little_is_lost(size: int, states: int, most: int):
    """Less than half of what is lost if probabilities are rounded alike for all histories."""
    lost = np.zeros(2)
    for seed in range(3):
        beliefs, mass = case(seed, size, states)
        found = merge_beliefs(*entries(beliefs, mass), most), even_rounding(beliefs, most)
        lost += [charge(beliefs, mass, cluster) for cluster in found]
    assert lost[0] < 0.5 * lost[1]


def test_equal_beliefs_are_one_whatever_their_masses():
    beliefs, mass = case(0, size=5)
    again, masses = np.tile(beliefs, (4, 1)), np.concatenate([10.0**-power * mass for power in (0, 3, 6, 20)])
    cluster = merge_beliefs(*entries(again, masses), 5)
    np.testing.assert_array_equal(cluster.reshape(4, 5), np.tile(cluster[:5], (4, 1)))
    assert len(set(cluster[:5].tolist())) == 5


def test_entries_may_come_in_any_order():
    beliefs, mass = case(1)
    history, state, masses = entries(beliefs, mass)
    order = np.random.default_rng(0).permutation(len(history))
    found = merge_beliefs(history[order], state[order], masses[order], 30)
    np.testing.assert_array_equal(found, merge_beliefs(history, state, masses, 30))


def test_what_is_kept_apart_is_not_merged():
    beliefs, mass = case(2)
    apart = np.arange(len(mass)) % 7
    cluster = merge_beliefs(*entries(beliefs, mass), 60, apart)
    assert cluster.max() < 60
    assert all(len(set(apart[cluster == one].tolist())) == 1 for one in np.unique(cluster).tolist())
    assert len(np.unique(merge_beliefs(*entries(beliefs, mass), 3, apart))) == 7  # and if that leaves too many


def test_rare_histories_are_merged_more_coarsely():
    """Of two pairs that differ alike the rare one is merged; where nothing need be merged neither is."""
    beliefs = np.array([[0.5, 0.5], [0.52, 0.48], [0.1, 0.9], [0.12, 0.88]])
    for rare, mass in (([0, 1], [1e-6, 1e-6, 0.5, 0.5]), ([2, 3], [0.5, 0.5, 1e-6, 1e-6])):
        cluster = merge_beliefs(*entries(beliefs, np.array(mass)), 3)
        assert [cluster.tolist().count(one) for one in cluster.tolist()] == [1 + (row in rare) for row in range(4)]
    assert len(set(merge_beliefs(*entries(beliefs, np.full(4, 0.25)), 4).tolist())) == 4
