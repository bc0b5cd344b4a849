"""Merged histories: the clusters, their messages, and the charge, against sums over all histories."""

import numpy as np
import pytest

from veil.engine.beliefs import merge_beliefs, merge_histories


def information_bits(mass: np.ndarray, state: np.ndarray, cluster: np.ndarray) -> float:
    """`I(X; history | cluster)` of masses `(history, column)`, column by column of each state, by its definition."""
    total = 0.0
    for one in np.unique(cluster):
        mine = mass[cluster == one]
        columns, rows = mine.sum(axis=0), mine.sum(axis=1)
        for history, column in zip(*np.nonzero(mine), strict=True):
            chance = mine[history, column]
            total += chance * np.log2(chance * mine.sum() / (rows[history] * columns[column]))
    assert len(state) == mass.shape[1]
    return total


def entries(mass: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The positive masses as (history, column, mass), histories by given numbers, in a mixed order."""
    history, column = np.nonzero(mass)
    order = np.random.default_rng(5).permutation(len(history))
    return number[history][order], column[order], mass[history, column][order]


@pytest.mark.parametrize("most", [6, 8, 50])
def test_clusters_and_what_they_cost(most: int):
    """Mass is kept column by column, the charge is the information lost, and histories that must stay apart do."""
    rng = np.random.default_rng(most)
    mass = rng.dirichlet(np.ones(4), size=12) * (rng.random((12, 4)) < 0.8) + 1e-3
    mass[6:9] = mass[0:3] * [[2.0], [0.5], [3.0]]  # proportional: the same beliefs
    mass[9] = mass[3] * (1 + 1e-4 * rng.random(4))
    numbers = np.array([3, 4, 5, 8, 13, 21, 34, 55, 56, 57, 60, 70])
    state = np.arange(4)
    messages, charge = merge_histories(*entries(mass, numbers), state, most)
    dense = messages.toarray()
    np.testing.assert_allclose(dense.sum(axis=0), mass.sum(axis=0), rtol=1e-12)
    assert len(dense) <= max(most, 9)
    if most == 50:  # only equal beliefs are merged, at no charge
        assert len(dense) == 9
        assert charge == pytest.approx(0.0, abs=1e-12)
        for number in range(3):
            assert np.isclose(dense, mass[number] + mass[number + 6]).all(axis=1).sum() == 1
        return
    assert len(dense) <= most
    cluster = _assigned(mass, dense)
    assert charge == pytest.approx(information_bits(mass, state, cluster), rel=1e-9)
    assert charge > 0


def _assigned(mass: np.ndarray, dense: np.ndarray) -> np.ndarray:
    """The partition of the rows of `mass` whose sums are the rows of `dense`: found from the beliefs' own clusters."""
    history, column = np.nonzero(mass)
    cluster = merge_beliefs(np.zeros(len(mass), dtype=np.int64), history, column, mass[history, column], len(dense))
    summed = np.zeros((int(cluster.max()) + 1, mass.shape[1]))
    np.add.at(summed, cluster, mass)
    np.testing.assert_allclose(np.sort(summed, axis=0), np.sort(dense, axis=0), rtol=1e-12)
    return cluster


def test_histories_of_different_groups_stay_apart():
    """Two nodes with the same beliefs on columns of their own: the columns say which node."""
    row, column = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 2, 3, 0, 1])
    mass = np.array([0.1, 0.2, 0.1, 0.2, 0.2, 0.4])
    state, node = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    messages, charge = merge_histories(row, column, mass, state, 1, apart=node)
    np.testing.assert_allclose(messages.toarray(), [[0.3, 0.6, 0, 0], [0, 0, 0.1, 0.2]])
    assert charge == pytest.approx(0.0, abs=1e-15)
    together, _ = merge_histories(row, column, mass, state, 1)
    assert together.shape == (1, 4)


def test_the_smallest_tolerance_that_suffices():
    """Beliefs that differ by 1e-7, 1e-5 and 0.03 are merged in this order, as fewer clusters are asked for."""
    first = np.array([0.0, 0.0 + 1e-7, 1e-5, 0.03])
    table = np.stack([0.1 + first, 0.9 - first], axis=1)
    row, state = np.repeat(np.arange(4), 2), np.tile([3, 8], 4)
    found = [merge_beliefs(np.zeros(4, dtype=np.int64), row, state, table.ravel(), most) for most in (4, 3, 2, 1)]
    sizes = [len(np.unique(cluster)) for cluster in found]
    assert sizes == [4, 3, 2, 1]
    assert found[1][0] == found[1][1] != found[1][2]
    assert found[2][0] == found[2][2] != found[2][3]
