"""Merging histories that leave nearly the same belief, so that few enough remain, and what the observer loses by it."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.logs import mean_log_ratio_bits
from ..common.merging import merge_beliefs
from ..common.numbering import number_keys


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
    cluster = merge_beliefs(number, state[column], mass, most, group)
    shape = (int(cluster.max(initial=-1)) + 1, len(state))
    messages = sp.csr_array(sp.coo_array((mass, (cluster[number], column)), shape=shape))
    messages.sum_duplicates()
    together = np.bincount(cluster, weights=arrived)
    mean = np.asarray(messages[cluster[number], column]).ravel()
    lost = mean_log_ratio_bits(mass, mass / arrived[number], mean / together[cluster[number]])
    return messages, max(0.0, lost)
