"""Products with sparse matrices by SciPy's own kernels, without the objects and checks around them.

Between the states of one time a product takes some ten microseconds, and a matrix object of SciPy takes as long to make and
to check. Indices are trusted here: they come from matrices that were checked when they were made.
"""

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import _sparsetools as kernels


def add_product(
    indptr: Int[np.ndarray, " n+1"],
    indices: Int[np.ndarray, " e"],
    data: Float[np.ndarray, " e"],
    columns: Float[np.ndarray, "m *k"],
    out: Float[np.ndarray, "n *k"],
) -> None:
    """`out += M @ columns` for a matrix in CSR format, or for some of its rows: `indptr` need not begin at 0.

    `columns` and `out` lie in C order; both have one dimension, or two.
    """
    rows, size = len(indptr) - 1, len(columns)
    if columns.ndim == 1:
        kernels.csr_matvec(rows, size, indptr, indices, data, columns, out)
    else:
        kernels.csr_matvecs(rows, size, columns.shape[1], indptr, indices, data, columns.reshape(-1), out.reshape(-1))


def add_turned_product(
    indptr: Int[np.ndarray, " n+1"],
    indices: Int[np.ndarray, " e"],
    data: Float[np.ndarray, " e"],
    row: Float[np.ndarray, " n"],
    out: Float[np.ndarray, " m"],
) -> None:
    """`out += row @ M` for a matrix in CSR format."""
    kernels.csc_matvec(len(out), len(row), indptr, indices, data, row, out)
