"""Controlled transitions of the hidden chain, dense or sparse behind one interface, with their adjoint."""

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from .products import add_product, add_turned_product

Matrix = np.ndarray | sp.csr_array

# Dense products win on small or well-filled chains; beyond, the sparse pass never forms an N × N matrix.
ALWAYS_DENSE_STATES = 128
_DENSE_FILL = 0.05
_DENSE_NUMBERS = 2**27


class Kernel(Protocol):
    """`P(x'|x,a)` over N hidden states and A actions."""

    num_states: int
    num_actions: int
    num_entries: int
    is_sparse: bool

    @cached_property
    def stacked(self) -> Matrix:
        """`P(x'|x,a)` as one matrix with a row for each pair, pair `(x, a)` in row `x · A + a`."""
        ...

    def pull(self, values: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "B A N"]:
        """`Σ_x' P(x'|x,a) values(x')`, for each row to the last bit what it is alone."""
        ...

    def push(self, flows: Float[np.ndarray, "B A N"]) -> Float[np.ndarray, "B N"]:
        """`Σ_x,a flows(a,x) P(x'|x,a)`, likewise."""
        ...

    def mix(self, weights: Float[np.ndarray, "N A"]) -> Matrix:
        """`K(x,x') = Σ_a weights(x,a) P(x'|x,a)`."""
        ...

    def outer(self, left: Float[np.ndarray, "n N"], right: Float[np.ndarray, "n N"]) -> np.ndarray:
        """`G(x,x') = Σ_n left(n,x) right(n,x')`, at least where a transition exists; an array that can be added up."""
        ...

    def contract(self, outer: np.ndarray) -> Float[np.ndarray, "N A"]:
        """`Σ_x' P(x'|x,a) G(x,x')`: the gradient in the weights of `mix`, from the gradient G in K."""
        ...


class DenseKernel:
    """Transitions as one array `(A, N, N)`."""

    is_sparse = False

    def __init__(self, matrices: Sequence[sp.csr_array]):
        self.array: Float[np.ndarray, "A N N"] = np.stack([matrix.toarray() for matrix in matrices])
        self.num_actions, self.num_states, _ = self.array.shape
        self.num_entries = self.num_states**2

    @cached_property
    def stacked(self) -> Float[np.ndarray, "N*A N"]:
        """See `Kernel`."""
        return np.ascontiguousarray(self.array.transpose(1, 0, 2)).reshape(-1, self.num_states)

    def pull(self, values: np.ndarray) -> np.ndarray:
        """See `Kernel`."""
        flat = self.array.reshape(-1, self.num_states)  # a product of all rows together would round otherwise
        return np.matmul(flat, values[:, :, None]).reshape(len(values), *self.array.shape[:2])

    def push(self, flows: np.ndarray) -> np.ndarray:
        """See `Kernel`."""
        return np.matmul(flows.reshape(len(flows), 1, -1), self.array.reshape(-1, self.num_states))[:, 0]

    def mix(self, weights: np.ndarray) -> np.ndarray:
        """See `Kernel`."""
        return np.einsum("xa,axy->xy", weights, self.array)

    def outer(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """See `Kernel`."""
        return left.T @ right

    def contract(self, outer: np.ndarray) -> np.ndarray:
        """See `Kernel`."""
        return np.einsum("axy,xy->xa", self.array, outer)


class SparseKernel:
    """Transitions as the pattern that all actions share, with a row of A probabilities for each pair `(x, x')` in it."""

    is_sparse = True
    _chunk = 2**22  # numbers gathered at a time in `outer`

    def __init__(self, matrices: Sequence[sp.csr_array]):
        self.num_actions, self.num_states = len(matrices), num_rows(matrices[0])
        pattern = sp.csr_array(sum(abs(matrix) for matrix in matrices))
        pattern.sort_indices()
        self.indices, self.indptr = pattern.indices, pattern.indptr
        self.num_entries = len(self.indices)
        self.rows = np.repeat(np.arange(self.num_states), np.diff(self.indptr))
        self.probabilities: Float[np.ndarray, "E A"] = np.zeros((pattern.nnz, self.num_actions))
        place = self.rows.astype(np.int64) * self.num_states + self.indices
        for action, matrix in enumerate(matrices):
            entries = matrix.tocoo()
            wanted = entries.row.astype(np.int64) * self.num_states + entries.col
            self.probabilities[np.searchsorted(place, wanted), action] = entries.data

    @cached_property
    def stacked(self) -> sp.csr_array:
        """See `Kernel`."""
        pairs = self.rows[:, None].astype(np.int64) * self.num_actions + np.arange(self.num_actions)
        places = (pairs.ravel(), np.repeat(self.indices, self.num_actions))
        shape = (self.num_states * self.num_actions, self.num_states)
        result = sp.csr_array((self.probabilities.ravel(), places), shape=shape)
        result.eliminate_zeros()
        return result

    @cached_property
    def _by_action(self) -> sp.csr_array:
        """The same with pair `(x, a)` in row `a · N + x`, so that what is found for an action lies together."""
        rows = np.arange(self.num_states * self.num_actions).reshape(-1, self.num_actions)
        return narrowed(self.stacked[rows.T.ravel()])

    def pull(self, values: np.ndarray) -> np.ndarray:
        """See `Kernel`."""
        found, matrix = np.zeros((len(values), self.num_actions, self.num_states)), self._by_action
        for row, out in zip(np.ascontiguousarray(values), found, strict=True):
            add_product(matrix.indptr, matrix.indices, matrix.data, row, out.reshape(-1))
        return found

    def push(self, flows: np.ndarray) -> np.ndarray:
        """See `Kernel`."""
        found, matrix = np.zeros((len(flows), self.num_states)), self._by_action
        for row, out in zip(flows.reshape(len(flows), -1), found, strict=True):
            add_turned_product(matrix.indptr, matrix.indices, matrix.data, row, out)
        return found

    def mix(self, weights: np.ndarray) -> sp.csr_array:
        """See `Kernel`; the result keeps the shared pattern."""
        data = np.einsum("ea,ea->e", self.probabilities, weights[self.rows])
        return sp.csr_array((data, self.indices, self.indptr), shape=(self.num_states, self.num_states))

    def outer(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """See `Kernel`; only the entries of the pattern are computed."""
        result = np.zeros(len(self.rows))
        step = max(1, self._chunk // max(1, len(self.rows)))
        for begin in range(0, len(left), step):
            part = slice(begin, begin + step)
            result += np.einsum("ne,ne->e", left[part][:, self.rows], right[part][:, self.indices])
        return result

    def contract(self, outer: np.ndarray) -> np.ndarray:
        """See `Kernel`."""
        sums = sp.csr_array((outer, np.arange(len(outer)), self.indptr), shape=(self.num_states, len(outer)))
        return sums @ self.probabilities


def narrowed(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix with indices of 32 bits where they suffice: products read them as often as the numbers."""
    if max(matrix.nnz, num_columns(matrix)) < 2**31:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def num_rows(matrix: sp.csr_array) -> int:
    """How many rows a sparse matrix has."""
    return len(matrix.indptr) - 1


def num_columns(matrix: sp.csr_array) -> int:
    """How many columns a sparse matrix has."""
    shape = matrix.shape
    assert shape is not None
    return shape[1]


def make_kernel(matrices: Sequence[sp.csr_array]) -> DenseKernel | SparseKernel:
    """The kernel that suits the size and the fill of the transitions."""
    states = num_rows(matrices[0])
    filled = max(matrix.nnz for matrix in matrices) / states**2
    fits = states**2 * len(matrices) <= _DENSE_NUMBERS
    dense = states <= ALWAYS_DENSE_STATES or (fits and filled > _DENSE_FILL)
    return DenseKernel(matrices) if dense else SparseKernel(matrices)
