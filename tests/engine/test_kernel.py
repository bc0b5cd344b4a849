"""Dense and sparse transitions: the same numbers, the same adjoint, and the choice between them."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.seeds import in_blocks
from veil.engine.kernel import DenseKernel, SparseKernel, make_kernel, num_rows


def random_matrices(seed: int, states: int = 7, actions: int = 3, fill: float = 0.4) -> list[sp.csr_array]:
    """Transitions whose pattern differs from action to action; some rows are empty, as of an action not available."""
    rng = np.random.default_rng(seed)
    arrays = rng.random((actions, states, states)) * (rng.random((actions, states, states)) < fill)
    arrays[0, 0] = 0
    sums = arrays.sum(axis=2, keepdims=True)
    return [sp.csr_array(array) for array in np.divide(arrays, sums, out=np.zeros_like(arrays), where=sums > 0)]


def both(seed: int, **sizes: int) -> tuple[DenseKernel, SparseKernel]:
    matrices = random_matrices(seed, **sizes)
    return DenseKernel(matrices), SparseKernel(matrices)


def as_array(matrix: np.ndarray | sp.csr_array) -> np.ndarray:
    return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()


@in_blocks(10, 10, 10)
def test_mixing_is_the_weighted_sum_of_the_actions(seed: int):
    matrices = random_matrices(seed)
    weights = np.random.default_rng(seed).random((7, 3))
    weights[2] = [0, 1, 0]
    expected = sum(weights[:, [a]] * matrix.toarray() for a, matrix in enumerate(matrices))
    for kind in (DenseKernel, SparseKernel):
        np.testing.assert_allclose(as_array(kind(matrices).mix(weights)), expected, rtol=1e-15, atol=1e-16)


@in_blocks(10, 10, 10)
def test_outer_products_agree_where_there_is_a_transition(seed: int):
    dense, sparse = both(seed)
    left, right = np.random.default_rng(seed).normal(size=(2, 11, 7))
    full = dense.outer(left, right)
    expected = sum(np.outer(a, b) for a, b in zip(left, right, strict=True))
    np.testing.assert_allclose(full, expected, rtol=1e-13, atol=1e-14)  # sums of 11 terms may cancel
    np.testing.assert_allclose(sparse.outer(left, right), full[sparse.rows, sparse.indices], rtol=1e-13, atol=1e-14)
    assert len(sparse.rows) < 49  # the pattern is not everything


@in_blocks(10, 10, 10)
def test_contracting_agrees_and_is_the_adjoint_of_mixing(seed: int):
    dense, sparse = both(seed)
    rng = np.random.default_rng(seed)
    (left, right), weights = rng.normal(size=(2, 5, 7)), rng.random((7, 3))
    slopes = [kind.contract(kind.outer(left, right)) for kind in (dense, sparse)]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-14)
    # Σ_n left_n K right_n is linear in the weights, with the contraction as its slope.
    value = np.einsum("nx,xy,ny->", left, dense.mix(weights), right)
    assert np.sum(slopes[0] * weights) == pytest.approx(value, abs=1e-13)


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
