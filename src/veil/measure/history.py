"""The opacity of a history policy: its observation sequences one by one, or merged where they are too many.

Messages are sparse, a row for each history and a column for each situation that the policy reaches at that time, so that
on a graph that is the observation tree they hold no more than the pairs of the game do. Where histories C are merged,
what that may have hidden from the observer is charged (`game/clusters.py` derives it):

    H(Z|C_T) − Σ_t I(X_{t+1}; C_t, O_{t+1} | C_{t+1})  ≤  H(Z|Y)  ≤  H(Z|C_T).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import Clock, OutOfTime
from ..common.errors import TooLargeError
from ..common.logs import conditional_entropy_bits, entropy_bits
from ..engine.beliefs import merge_histories
from ..engine.followed import Followed
from ..engine.kernel import num_rows
from ..engine.returns import values_afterwards
from ..problem.problem import Problem
from .exact import Budget
from .result import Opacity

_BYTES = 40  # a number of a message, with its place and what the next one takes meanwhile
_EXACT_SHARE = 0.5  # of the time, where a bracket may follow
_FIRST_MOST = 512  # histories that a bracket keeps apart, at first
_LARGEST_MOST = 2**15


@dataclass(frozen=True, eq=False)
class _Histories:
    """Those of one time: `messages[h, i] = P(history h, situation i)`; each extends `parent[h]` by `event[h]`."""

    messages: sp.csr_array
    parent: Int[np.ndarray, " h"]
    event: Int[np.ndarray, " h"]


def history_opacity(followed: Followed, method: str, budget: Budget, width: float) -> Opacity:
    """`H(Z|Y)` of a history policy: `"exact"`, `"bracket"`, or `"auto"` for the first that fits the budget.

    Cost: exact, the numbers of all messages (on the observation tree the situations, about 100 ns each); a bracket keeps
    more and more histories apart until the width or the time is reached.

    **Raises:** `TooLargeError` where an exact value does not fit.
    """
    if method in ("exact", "auto"):
        try:
            joint = _joint(followed, budget if method == "exact" else budget.share(_EXACT_SHARE))
            bits, reason = conditional_entropy_bits(joint), f"all {len(joint):,} possible sequences were enumerated"
            return Opacity(bits, bits, bits, _prior(joint), "exact", len(joint), reason=reason)
        except TooLargeError:
            if method == "exact":
                raise
    return _bracket(followed, budget, width)


def history_return(problem: Problem, followed: Followed) -> float:
    """The expected return, over the horizon or an infinite one; after T the policy then acts optimally for the return."""
    forever = problem.return_over == "infinite"
    return followed.earned(values_afterwards(problem, followed.hidden) if forever else followed.hidden.terminal)


def history_table(followed: Followed, budget: Budget) -> tuple[Float[np.ndarray, "Y Z"], Int[np.ndarray, "Y L"]]:
    """`P(z,y)` of every possible sequence, and the sequences; raises `TooLargeError` where they do not fit."""
    layers = list(_layers(followed, budget))
    events, row = [], np.arange(num_rows(layers[-1].messages))
    for layer in reversed(layers):
        events.append(layer.event[row])
        row = layer.parent[row]
    return _by_value(followed, layers[-1].messages), np.stack(events[::-1], axis=1).astype(np.int32)


def _joint(followed: Followed, budget: Budget) -> np.ndarray:
    (last,) = deque(_layers(followed, budget), maxlen=1)
    return _by_value(followed, last.messages)


def _by_value(followed: Followed, messages: sp.csr_array) -> Float[np.ndarray, "Y Z"]:
    """`P(z,y)`: the situations of the last time summed by the value of the secret."""
    last = followed.layers[-1]
    values = np.zeros((len(last), followed.hidden.label.shape[1]))
    values[np.arange(len(last)), last.z] = 1.0
    return messages @ values


def _prior(joint: np.ndarray) -> float:
    return float(entropy_bits(joint.sum(axis=0)))


def _layers(followed: Followed, budget: Budget) -> Iterator[_Histories]:
    """The histories of each time, all apart."""
    clock = budget.clock
    here = _first(followed)
    yield here
    for time, matrix in enumerate(followed.matrices()):
        need = _BYTES * _products(here.messages, matrix)
        if need > budget.memory_bytes or clock.reason is not None:
            raise TooLargeError(
                f"the exact value of this policy needs {num_rows(here.messages):,} histories at time {time} of"
                f" {followed.hidden.horizon} and more after it, beyond the budget of {budget.memory_bytes / 2**30:.2g} GiB"
                f" and {budget.time_limit:g} s. Instead: method='bracket', or memory_bytes=… and time_limit=… to allow more"
            )
        row, column, mass = _extended(followed, here.messages, matrix, time)
        found, number = np.unique(row, return_inverse=True)
        parent, event = np.divmod(found, followed.hidden.num_events)
        shape = (len(found), len(followed.layers[time + 1]))
        messages = sp.csr_array(sp.coo_array((mass, (number.ravel(), column)), shape=shape))
        here = _Histories(messages, parent, event)
        yield here


def _products(messages: sp.csr_array, matrix: sp.csr_array) -> int:
    """An upper bound on the numbers of the next messages."""
    return int(np.diff(matrix.indptr)[messages.indices].sum())


def _first(followed: Followed) -> _Histories:
    layer = followed.layers[0]
    event, number = np.unique(layer.event, return_inverse=True)
    places = (number.ravel(), np.arange(len(layer)))
    return _Histories(sp.csr_array(sp.coo_array((followed.start, places))), np.zeros(len(event), dtype=np.int64), event)


def _extended(
    followed: Followed, messages: sp.csr_array, matrix: sp.csr_array, time: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each history by each event: entries (`history · E + event`, next situation, mass)."""
    product = sp.coo_array(messages @ matrix)
    column = product.col.astype(np.int64)
    event = followed.layers[time + 1].event[column]
    positive = product.data > 0
    row = product.row.astype(np.int64) * followed.hidden.num_events + event
    return row[positive], column[positive], product.data[positive]


def _bracket(followed: Followed, budget: Budget, width: float) -> Opacity:
    """Bounds from histories merged by their beliefs, more of them kept apart each time."""
    clock, most = budget.clock, _FIRST_MOST
    prior = _prior(_by_value(followed, sp.csr_array(followed.occupancies()[-1][None])))
    lower, upper, rows = 0.0, prior, 0
    while True:
        begin = clock.spent
        try:
            bits, lost, joint, largest = _merged(followed, most, clock)
        except OutOfTime:
            break
        prior = _prior(joint)
        lower, upper, rows = max(lower, bits - lost), min(upper, bits), max(rows, largest)
        # Twice as many histories take up to three times as long.
        late = 3 * (clock.spent - begin) > clock.left
        if upper - lower <= width or late or largest < most or most >= _LARGEST_MOST:
            break
        most *= 2
    reason = f"histories with nearly the same belief were merged, at most {rows:,} kept apart"
    return Opacity(lower, lower, max(lower, upper), prior, "bracket", rows, reason=reason)


def _merged(followed: Followed, most: int, clock: Clock) -> tuple[float, float, np.ndarray, int]:
    """`H(Z|C_T)`, what merging may have lost, the table behind it, and the most clusters of any time."""
    messages, lost, largest = _first(followed).messages, 0.0, 0
    for time, matrix in enumerate(followed.matrices()):
        clock.check()
        row, column, mass = _extended(followed, messages, matrix, time)
        messages, charge = merge_histories(row, column, mass, np.arange(len(followed.layers[time + 1])), most)
        lost, largest = lost + charge, max(largest, num_rows(messages))
    joint = _by_value(followed, messages)
    return conditional_entropy_bits(joint), lost, joint, largest
