"""Drawing observation sequences from the chain: all runs at once, one vectorised step at a time."""

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from .chain import Chain


class _Rows:
    """Draws from the rows of a non-negative sparse matrix by inverting one running sum over all of its entries."""

    def __init__(self, matrix: sp.csr_array):
        matrix = sp.csr_array(matrix)
        matrix.eliminate_zeros()
        self._columns = matrix.indices
        self._first, self._end = matrix.indptr[:-1], matrix.indptr[1:]
        self._sums = np.concatenate([[0.0], np.cumsum(matrix.data)])

    def draw(self, rows: Int[np.ndarray, " n"], uniform: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        first, end = self._first[rows], self._end[rows]
        low, high = self._sums[first], self._sums[end]
        entry = np.searchsorted(self._sums, low + uniform * (high - low), side="right") - 1
        # Rounding in the running sum may step over the edge of the row.
        return self._columns[np.clip(entry, first, end - 1)]


def draw_events(chain: Chain, num_sequences: int, generator: np.random.Generator) -> Int[np.ndarray, "n T+1"]:
    """Event sequences of independent runs; column 0 is the first event (0 where nothing is received then).

    Cost: `O(T · n · log nnz)`. The same generator state gives the same sequences.
    """
    hidden = chain.hidden
    size = hidden.num_states
    events = np.empty((num_sequences, hidden.horizon + 1), dtype=np.int32)
    flat = _Rows(sp.csr_array(hidden.root.reshape(1, -1)))
    drawn = flat.draw(np.zeros(num_sequences, dtype=np.int64), generator.random(num_sequences))
    states, events[:, 0] = np.divmod(drawn, hidden.root.shape[1])
    emitting = [_Rows(sp.csr_array(channel.emission)) for channel in hidden.channels]
    rows: _Rows | None = None
    for time in range(hidden.horizon):
        if rows is None or not chain.stationary:
            rows = _Rows(sp.csr_array(sp.hstack([sp.csr_array(matrix) for matrix in chain.matrices(time)])))
        channel, states = np.divmod(rows.draw(states, generator.random(num_sequences)), size)
        uniform = generator.random(num_sequences)
        for number, emission in enumerate(emitting):
            here = np.flatnonzero(channel == number) if len(emitting) > 1 else slice(None)
            events[here, time + 1] = emission.draw(states[here], uniform[here])
    return events
