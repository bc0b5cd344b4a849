"""Dense and sparse transitions: the same numbers, the same adjoint, and the choice between them."""

import numpy as np
import scipy.sparse as sp

from veil.engine.kernel import SparseKernel, make_kernel, num_rows


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
