"""Bounds on the entropy of the event sequences of a chain, where they are too many: histories merged by their beliefs.

Let C_t be a cluster of the histories up to t, a function of C_{t-1} and the event E_t. Then

    H(E_0) + Σ_t H(E_{t+1}|C_t) − Σ_t I(X_t; C_{t-1}, E_t | C_t)  ≤  H(E_0 … E_T)  ≤  H(E_0) + Σ_t H(E_{t+1}|C_t),

since an observer who knows less is less sure of what follows, and what merging takes from it about the events that follow is
at most what it takes about the hidden state.
"""

import numpy as np
import scipy.sparse as sp

from ..common.errors import TooLargeError
from ..common.logs import entropy_bits, mean_log_ratio_bits
from ..engine.beliefs import merge_histories
from ..engine.chain import Chain, sum_over
from ..engine.hidden import Emitter
from ..engine.kernel import Matrix, num_columns, num_rows
from .exact import Budget
from .merged import Merged

_ENTRY_BYTES = 150  # of a step, with its sorting
_ENTRY_SECONDS = 4e-7


def event_bounds(chain: Chain, most: int, budget: Budget) -> Merged:
    """Bounds on `H(E_0 … E_T)`, the entropy of the event sequences of a chain, with at most so many histories kept apart.

    **Raises:** `OutOfTime`; `TooLargeError` where a step does not fit the memory.
    """
    hidden = chain.hidden
    messages, lost = sp.csr_array(hidden.first.T), 0.0
    largest = num_rows(messages)
    bits = float(entropy_bits(messages.sum(axis=1)))
    labelled = [_with_events(emitter) for emitter in hidden.emitters]
    for time in range(hidden.horizon):
        budget.clock.check()
        row, state, mass = _extended(messages, chain.matrices(time), labelled, budget)
        bits += _event_bits(row, mass, hidden.num_events)
        if time < hidden.horizon - 1:
            messages, charge = merge_histories(row, state, mass, np.arange(hidden.num_states), most)
            lost, largest = lost + charge, max(largest, num_rows(messages))
    return Merged(bits - lost, bits, largest)


def _with_events(emitter: Emitter) -> sp.csr_array:
    """`B[x, e·N + x]`, the probability of event e in x: it turns messages on states into messages on events and states."""
    table = sp.coo_array(emitter.table)
    size, events = num_rows(emitter.table), num_columns(emitter.table)
    column = table.col.astype(np.int64) * size + table.row
    return sp.csr_array(sp.coo_array((table.data, (table.row, column)), shape=(size, events * size)))


def _extended(
    messages: sp.csr_array, matrices: tuple[Matrix, ...], labelled: list[sp.csr_array], budget: Budget
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each history by each event: entries (`history · E + event`, next state, mass)."""
    moved = [sp.csr_array(messages @ matrix) for matrix in matrices]
    count = sum(int(np.diff(table.indptr)[one.indices].sum()) for one, table in zip(moved, labelled, strict=True))
    if count * _ENTRY_BYTES > budget.memory_bytes:
        raise TooLargeError(f"a step has {count:,} entries, which do not fit the memory")
    budget.clock.check(ahead=count * _ENTRY_SECONDS)
    found = sp.coo_array(sum_over(one @ table for one, table in zip(moved, labelled, strict=True)))
    size = num_rows(labelled[0])
    event, state = np.divmod(found.col.astype(np.int64), size)
    row = found.row.astype(np.int64) * (num_columns(labelled[0]) // size) + event
    positive = found.data > 0
    return row[positive], state[positive], found.data[positive]


def _event_bits(row: np.ndarray, mass: np.ndarray, num_events: int) -> float:
    """`H(E|C)` from entries (`cluster · E + event`, mass)."""
    key, number = np.unique(row, return_inverse=True)
    chance = np.bincount(number.ravel(), weights=mass)
    _, cluster = np.unique(key // num_events, return_inverse=True)
    return mean_log_ratio_bits(chance, np.bincount(cluster.ravel(), weights=chance)[cluster.ravel()], chance)
