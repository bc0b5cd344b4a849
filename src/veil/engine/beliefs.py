"""Merging histories that leave nearly the same belief: which of them to take together so that few enough remain."""

import numpy as np
from jaxtyping import Float, Int

_TOLERANCES = (1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 3e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5)
_MIX = np.random.default_rng(0).integers(1, 2**62, size=4096, dtype=np.int64)
_MOST_NUMBERS = 2**27  # of the beliefs as one table


def merge_beliefs(
    group: Int[np.ndarray, " R"],
    row: Int[np.ndarray, " m"],
    state: Int[np.ndarray, " m"],
    mass: Float[np.ndarray, " m"],
    most: int,
) -> Int[np.ndarray, " R"]:
    """A cluster for each history: the same group, and beliefs that agree to the smallest tolerance that leaves `most`.

    **Arguments:** `group`, what must not be merged; the beliefs as entries `(row, state, mass)`, every row having one.
    """
    used, column = np.unique(state, return_inverse=True)
    rows, width = len(group), len(used)
    total = np.bincount(row, weights=mass, minlength=rows)
    if rows * width > _MOST_NUMBERS:  # a sketch of each belief tells them apart as well
        mix = np.random.default_rng(1).random((width, 8))
        beliefs = np.zeros((rows, 8))
        np.add.at(beliefs, row, (mass / total[row])[:, None] * mix[column.ravel()])
    else:
        flat = np.bincount(row * width + column.ravel(), weights=mass / total[row], minlength=rows * width)
        beliefs = flat.reshape(rows, width)
    cluster = np.arange(rows)
    for tolerance in _TOLERANCES:
        keys = np.column_stack([group, np.round(beliefs / tolerance)]).astype(np.int64)
        # A random projection tells rows apart as well as the rows do, and sorts far faster.
        mix = _MIX[: keys.shape[1]] if keys.shape[1] <= len(_MIX) else np.resize(_MIX, keys.shape[1])
        _, cluster = np.unique(keys @ mix, return_inverse=True)
        cluster = cluster.ravel()
        if cluster.max() < most:
            break
    return cluster
