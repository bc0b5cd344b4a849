"""Bounds on the opacity of a history policy whose observation sequences are too many: histories merged by their beliefs.

Messages are sparse, a row for each cluster C of histories and a column for each situation that the policy reaches at that
time. What merging may have hidden from the observer is charged (`game/clusters.py` derives it):

    H(Z|C_T) − Σ_t I(X_{t+1}; C_t, O_{t+1} | C_{t+1})  ≤  H(Z|Y)  ≤  H(Z|C_T).
"""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from ..common.clock import Clock
from ..common.logs import conditional_entropy_bits, entropy_bits
from ..engine.beliefs import merge_histories
from ..engine.followed import Followed
from ..engine.kernel import num_rows
from .exact import Budget
from .merged import Merged, keep_apart
from .result import Opacity


def history_bracket(followed: Followed, budget: Budget, width: float) -> Opacity:
    """Bounds from histories merged by their beliefs, more of them kept apart until the width or the time is reached."""
    prior = float(entropy_bits(_by_value(followed, followed.occupancies()[-1][None])[0]))
    best = keep_apart(lambda most: _merged(followed, most, budget.clock), Merged(0.0, prior, 0), budget, width)
    return Opacity(best.lower, best.lower, best.upper, prior, "bracket", best.rows, reason=best.text)


def _by_value(followed: Followed, messages: sp.csr_array | np.ndarray) -> Float[np.ndarray, "Y Z"]:
    """`P(z,y)`: the situations of the last time summed by the value of the secret."""
    last = followed.layers[-1]
    values = np.zeros((len(last), followed.hidden.label.shape[1]))
    values[np.arange(len(last)), last.z] = 1.0
    return messages @ values


def _first(followed: Followed) -> sp.csr_array:
    """`messages[h, i] = P(history h, situation i)` of time 0."""
    layer = followed.layers[0]
    event, number = np.unique(layer.event, return_inverse=True)
    places = (number.ravel(), np.arange(len(layer)))
    return sp.csr_array(sp.coo_array((followed.start, places), shape=(len(event), len(layer))))


def _extended(
    followed: Followed, messages: sp.csr_array, matrix: sp.csr_array, time: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each history by each event: entries (`history · E + event`, next situation, mass)."""
    product = sp.coo_array(messages @ matrix)
    column = product.col.astype(np.int64)
    event = followed.layers[time + 1].event[column]
    positive = product.data > 0
    row = product.row.astype(np.int64) * followed.num_events + event
    return row[positive], column[positive], product.data[positive]


def _merged(followed: Followed, most: int, clock: Clock) -> Merged:
    """Bounds where at most so many clusters are kept apart."""
    messages = _first(followed)
    lost, largest = 0.0, num_rows(messages)
    for time, matrix in enumerate(followed.matrices()):
        clock.check()
        row, column, mass = _extended(followed, messages, matrix, time)
        messages, charge = merge_histories(row, column, mass, np.arange(len(followed.layers[time + 1])), most)
        lost, largest = lost + charge, max(largest, num_rows(messages))
    bits = conditional_entropy_bits(_by_value(followed, messages))
    return Merged(bits - lost, bits, largest)
