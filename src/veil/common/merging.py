"""Which histories to merge so that few enough remain: those that leave nearly the same belief about the hidden state.

Not to tell the histories h of a cluster apart takes from the observer, about anything that follows from the hidden state,
`Σ_h P(h) KL(b_h ‖ b̄)` bits for beliefs b_h with the mean b̄. To second order that is `2/ln 2 · Σ_h P(h) Σ_x (√b_h(x) − √b̄(x))²`:
a distance between roots of probabilities costs the same wherever it is, and it costs less where histories are rare. So roots
are rounded, those of rare histories more coarsely. Whoever merges charges what it costs: bounds hold for any clusters.
"""

import numpy as np
from jaxtyping import Float, Int

_SAME = 40.0  # logarithm of the scale: roots that agree when they are rounded to multiples of 2^-40 are the same
_COARSEST, _HALVINGS = (
    -2.0,
    10,
)  # the same where all roots round to 0; of what lies between the two, to a scale within 3%
# Roots of histories that are rarer by a factor of 2^4 are rounded twice as coarsely, in whole steps, so that those of other
# masses are multiples of the same number. Set by five problems over 30 to 100 steps: 2^3 and 2^5 are nearly as good.
_MASS_BITS = 4


def merge_beliefs(
    history: Int[np.ndarray, " m"],
    state: Int[np.ndarray, " m"],
    mass: Float[np.ndarray, " m"],
    most: int,
    apart: Int[np.ndarray, " R"] | None = None,
) -> Int[np.ndarray, " R"]:
    """A cluster for each history: at most `most` of them, if the coarsest rounding allows.

    **Arguments:** entries `P(history, state) = mass > 0`, at least one for each history, numbered from 0 without gaps;
    `apart`: a number of each history, which those of a cluster share.

    Example: for the beliefs (0.9, 0.1), (0.88, 0.12) and (0.1, 0.9), masses of 1/3 and `most` = 2 the first two are merged.
    """
    total = np.bincount(history, mass)
    mix = np.random.default_rng(0).integers(1, 2**62, size=int(state.max(initial=0)) + 2)
    root, mixed = np.sqrt(mass / total[history]), mix[state]
    own = np.zeros(len(total), dtype=np.int64) if apart is None else apart * mix[-1]
    same = _rounded(history, root, mixed, np.full(len(total), 2.0**_SAME), own)
    _, first = np.unique(same, return_index=True)
    if len(first) <= most:
        return same
    kept = np.isin(history, first)
    history, root, mixed, own = same[history[kept]], root[kept], mixed[kept], own[first]
    coarser = 2.0 ** (np.frexp(np.bincount(same, total))[1] // _MASS_BITS)
    low, high = _COARSEST, _SAME
    cluster = _rounded(history, root, mixed, 2.0**low * coarser, own)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _rounded(history, root, mixed, 2.0**middle * coarser, own)
        if found.max() < most:
            cluster, low = found, middle
        else:
            high = middle
    return cluster[same]


def _rounded(
    history: Int[np.ndarray, " m"],
    root: Float[np.ndarray, " m"],
    mixed: Int[np.ndarray, " m"],
    scale: Float[np.ndarray, " R"],
    own: Int[np.ndarray, " R"],
) -> Int[np.ndarray, " R"]:
    """Numbers of the histories, the same for those whose roots agree when they are rounded, and whose `own` number is the same.

    A sum of rounded roots times random numbers, `mixed`, tells histories apart as well as the roots do, and sorts far faster.
    """
    keys = own.copy()
    np.add.at(keys, history, np.rint(root * scale[history]).astype(np.int64) * mixed)
    return np.unique(keys, return_inverse=True)[1].ravel()
