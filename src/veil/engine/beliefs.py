"""Merging histories that leave nearly the same belief, so that few enough remain, and what the observer loses by it."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.logs import mean_log_ratio_bits
from ..common.numbering import number_keys

_SAME = -12.0  # logarithm (base 10) of the tolerance to which beliefs are the same
_HALVINGS = 8  # of the logarithms from there to 0: a tolerance to 12%
_MASS_BITS = 2  # histories are merged whose masses differ by less than a factor of 4, which moves the tolerance by 2
_MIX = np.random.default_rng(0).integers(1, 2**62, size=4096, dtype=np.int64)
_MOST_NUMBERS = 2**27  # of the beliefs as one table


def merge_histories(
    row: Int[np.ndarray, " m"],
    column: Int[np.ndarray, " m"],
    mass: Float[np.ndarray, " m"],
    state: Int[np.ndarray, " n"],
    most: int,
    *,
    apart: Int[np.ndarray, " n"] | None = None,
    prune_below: float = 0.0,
) -> tuple[sp.csr_array, float]:
    """Messages `P(cluster of histories, column)`, and the bits about the hidden state that merging may have cost.

    The charge is `I(X; history | cluster)`, in bits: what the observer loses about anything that follows from the hidden
    state by not telling the histories of a cluster apart.

    **Arguments:** entries (`row`, a number of the history; `column`; `mass` > 0); for each column its hidden `state`, and
    `apart`, a number that histories must share to be merged; `most`: clusters at most, if the largest tolerance allows;
    histories whose mass is `prune_below` or less are left out.

    Example: histories 7 and 9 with beliefs (0.6, 0.4) and (0.6, 0.4) over two columns and masses 0.5 and 0.25 become one
    row (0.45, 0.3) at no charge.
    """
    _, number = number_keys(row)
    arrived = np.bincount(number, weights=mass)
    kept = arrived > prune_below
    chosen, arrived = kept[number], arrived[kept]
    number, column, mass = (np.cumsum(kept) - 1)[number[chosen]], column[chosen], mass[chosen]
    group = np.zeros(len(arrived), dtype=np.int64)
    if apart is not None:
        group[number] = apart[column]
    cluster = merge_beliefs(group, number, state[column], mass, most)
    shape = (int(cluster.max(initial=-1)) + 1, len(state))
    messages = sp.csr_array(sp.coo_array((mass, (cluster[number], column)), shape=shape))
    messages.sum_duplicates()
    together = np.bincount(cluster, weights=arrived)
    mean = np.asarray(messages[cluster[number], column]).ravel()
    lost = mean_log_ratio_bits(mass, mass * together[cluster[number]], arrived[number] * mean)
    return messages, max(0.0, lost)


def merge_beliefs(
    group: Int[np.ndarray, " R"],
    row: Int[np.ndarray, " m"],
    state: Int[np.ndarray, " m"],
    mass: Float[np.ndarray, " m"],
    most: int,
) -> Int[np.ndarray, " R"]:
    """A cluster for each history: the same group, and beliefs that agree to the smallest tolerance that leaves `most`.

    What merging costs grows with the mass of a history and with the square of how much its belief differs: where not all
    beliefs can be kept, the tolerance is inverse to the root of the mass, and histories of about the same mass are merged.

    **Arguments:** `group`, what must not be merged; the beliefs as entries `(row, state, mass)`, every row having one.
    """
    used, column = number_keys(state)
    column = column.astype(np.int64)
    rows, width = len(group), len(used)
    total = np.bincount(row, weights=mass, minlength=rows)
    if rows * width > _MOST_NUMBERS:  # a sketch of each belief tells them apart as well
        mix = np.random.default_rng(1).random((width, 8))
        beliefs = np.zeros((rows, 8))
        np.add.at(beliefs, row, (mass / total[row])[:, None] * mix[column])
    else:
        flat = np.bincount(row * width + column, weights=mass / total[row], minlength=rows * width)
        beliefs = flat.reshape(rows, width)
    same = _agreeing(beliefs, _SAME, group)
    _, first = np.unique(same, return_index=True)
    if len(first) <= most:
        return same
    about = np.frexp(np.bincount(same, weights=total))[1] // _MASS_BITS
    weighted = beliefs[first] * 2.0 ** (_MASS_BITS / 2 * (about - about.max()))[:, None]
    low, high = _SAME, 0.0
    cluster = _agreeing(weighted, high, group[first])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _agreeing(weighted, middle, group[first], about)
        if found.max() < most:
            cluster, high = found, middle
        else:
            low = middle
    return cluster[same]


def _agreeing(rows: Float[np.ndarray, "R k"], tolerance: float, *apart: np.ndarray) -> Int[np.ndarray, " R"]:
    """Numbers of rows, the same for those that agree to a tolerance (its logarithm) and in the numbers that keep them apart."""
    keys = np.column_stack([*apart, np.round(rows / 10.0**tolerance)]).astype(np.int64)
    # A random projection tells rows apart as well as the rows do, and sorts far faster.
    return np.unique(keys @ np.resize(_MIX, keys.shape[1]), return_inverse=True)[1].ravel()
