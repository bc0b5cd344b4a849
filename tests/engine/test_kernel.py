"""Dense and sparse transitions: the same numbers, the same adjoint, and the choice between them."""

import numpy as np
import pytest
import scipy.sparse as sp

from veil.engine import kernel
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


SEEDS = range(10)


@pytest.mark.parametrize("seed", SEEDS)
def test_mixing_is_the_weighted_sum_of_the_actions(seed: int):
    matrices = random_matrices(seed)
    weights = np.random.default_rng(seed).random((7, 3))
    weights[2] = [0, 1, 0]
    expected = sum(weights[:, [a]] * matrix.toarray() for a, matrix in enumerate(matrices))
    for kind in (DenseKernel, SparseKernel):
        np.testing.assert_allclose(as_array(kind(matrices).mix(weights)), expected, rtol=1e-15, atol=1e-16)


@pytest.mark.parametrize("seed", SEEDS)
def test_outer_products_agree_where_there_is_a_transition(seed: int):
    dense, sparse = both(seed)
    left, right = np.random.default_rng(seed).normal(size=(2, 11, 7))
    full = dense.outer(left, right)
    np.testing.assert_allclose(full, sum(np.outer(a, b) for a, b in zip(left, right, strict=True)), rtol=1e-13)
    np.testing.assert_allclose(sparse.outer(left, right), full[sparse.rows, sparse.indices], rtol=1e-13)
    assert len(sparse.rows) < 49  # the pattern is not everything


@pytest.mark.parametrize("seed", SEEDS)
def test_contracting_agrees_and_is_the_adjoint_of_mixing(seed: int):
    dense, sparse = both(seed)
    rng = np.random.default_rng(seed)
    (left, right), weights = rng.normal(size=(2, 5, 7)), rng.random((7, 3))
    slopes = [kind.contract(kind.outer(left, right)) for kind in (dense, sparse)]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-14)
    # Σ_n left_n K right_n is linear in the weights, with the contraction as its slope.
    value = np.einsum("nx,xy,ny->", left, dense.mix(weights), right)
    assert np.sum(slopes[0] * weights) == pytest.approx(value, abs=1e-13)


def test_outer_products_in_pieces_are_the_same(monkeypatch: pytest.MonkeyPatch):
    _, sparse = both(3)
    left, right = np.random.default_rng(0).random((2, 100, 7))
    whole = sparse.outer(left, right)
    for numbers in (1, 7 * len(sparse.rows), 10**9):
        monkeypatch.setattr(SparseKernel, "_chunk", numbers)
        np.testing.assert_allclose(sparse.outer(left, right), whole, rtol=1e-14)


def test_no_rows_give_zeros():
    dense, sparse = both(1)
    nothing = np.zeros((0, 7))
    assert not dense.outer(nothing, nothing).any()
    assert not sparse.outer(nothing, nothing).any()
    assert sparse.contract(sparse.outer(nothing, nothing)).shape == (7, 3)


def test_unsorted_indices_are_understood():
    matrix = sp.csr_array((np.array([0.25, 0.75, 1.0]), np.array([1, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    other = sp.csr_array((np.array([1.0, 1.0]), np.array([0, 0]), np.array([0, 1, 2])), shape=(2, 2))
    sparse = SparseKernel([matrix, other])
    weights = np.array([[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_array_equal(sparse.mix(weights).toarray(), [[0.875, 0.125], [0, 1]])
    np.testing.assert_array_equal(SparseKernel([matrix]).mix(np.ones((2, 1))).toarray(), [[0.75, 0.25], [0, 1]])


def test_one_state_and_one_action():
    matrices = [sp.csr_array(np.ones((1, 1)))]
    for kind in (DenseKernel, SparseKernel):
        made = kind(matrices)
        assert (made.num_states, made.num_actions) == (1, 1)
        np.testing.assert_array_equal(as_array(made.mix(np.array([[0.5]]))), [[0.5]])
        np.testing.assert_array_equal(made.contract(made.outer(np.array([[2.0]]), np.array([[3.0]]))), [[6.0]])


# The choice


def ring(states: int) -> list[sp.csr_array]:
    """Two actions that lead around a ring, in either direction: two entries a row in all."""
    ahead = sp.csr_array((np.ones(states), (np.arange(states), np.roll(np.arange(states), -1))), shape=(states, states))
    return [ahead, sp.csr_array(ahead.T)]


def test_small_chains_are_dense_whatever_their_fill():
    assert isinstance(make_kernel(ring(100)), DenseKernel)
    assert isinstance(make_kernel(random_matrices(0)), DenseKernel)


def test_large_chains_are_sparse_unless_they_are_well_filled():
    assert isinstance(make_kernel(ring(300)), SparseKernel)
    assert isinstance(make_kernel(random_matrices(0, states=150, fill=0.5)), DenseKernel)
    assert isinstance(make_kernel(random_matrices(0, states=150, fill=0.01)), SparseKernel)


def test_the_fullest_action_decides():
    full = random_matrices(0, states=150, actions=1, fill=0.5)
    assert isinstance(make_kernel([*ring(150), *full]), DenseKernel)


def test_what_would_not_fit_is_sparse(monkeypatch: pytest.MonkeyPatch):
    matrices = random_matrices(0, states=150, fill=0.5)
    monkeypatch.setattr(kernel, "_DENSE_NUMBERS", 150**2 * 3 - 1)
    assert isinstance(make_kernel(matrices), SparseKernel)
    monkeypatch.setattr(kernel, "_DENSE_NUMBERS", 150**2 * 3)
    assert isinstance(make_kernel(matrices), DenseKernel)


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
