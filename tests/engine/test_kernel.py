"""Dense and sparse transitions: the same numbers, the same adjoint, and the choice between them."""

import numpy as np
import scipy.sparse as sp

from veil.engine.kernel import SparseKernel, make_kernel, num_rows


def test_unsorted_indices_are_understood():
    matrix = sp.csr_array((np.array([0.25, 0.75, 1.0]), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    other = sp.csr_array((np.array([1.0, 1.0]), np.array([0, 0]), np.array([0, 1, 2])), shape=(2, 2))
    sparse = SparseKernel([matrix, other])
    weights = np.array([[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_array_equal(sparse.mix(weights).toarray(), [[0.875, 0.125], [0, 1]])
    np.testing.assert_array_equal(SparseKernel([matrix]).mix(np.ones((2, 1))).toarray(), [[0.75, 0.25], [0, 1]])


# The choice


def ring(states: int) -> list[sp.csr_array]:
    """Two actions that lead around a ring, in either direction: two entries a row in all."""
    ahead = sp.csr_array((np.ones(states), (np.arange(states), np.roll(np.arange(states), -1))), shape=(states, states))
    return [ahead, sp.csr_array(ahead.T)]


def test_a_large_ring_never_becomes_a_square_array():
    """A million states: a dense array would take eight terabytes."""
    matrices = ring(1_000_000)
    made = make_kernel(matrices)
    assert isinstance(made, SparseKernel)
    assert made.num_states == num_rows(matrices[0]) == 1_000_000
    mixed = made.mix(np.full((1_000_000, 2), 0.5))
    assert isinstance(mixed, sp.csr_array)
    assert mixed.nnz == 2_000_000
    row = np.zeros(1_000_000)
    row[0] = 1
    assert np.flatnonzero(row @ mixed).tolist() == [1, 999_999]
