"""Event sequences of runs over a sparse model, drawn by a compiled loop."""

import numpy as np
from jaxtyping import Float, Int

from .backends.compiled import loops
from .hidden import Hidden
from .sampling import Emissions, RowDraws

_MOST_UNIFORM = 2**20  # uniform numbers that are drawn at a time: 8 MiB


class CompiledDraws:
    """What `Layers.draw` finds, to the last bit and from the same uniform numbers."""

    def __init__(self, hidden: Hidden, moves: RowDraws, emissions: Emissions):
        self._hidden, self._first, self._loops = hidden, emissions, loops()
        emitter_of = np.argmax([emitter.actions for emitter in hidden.emitters], axis=0)
        cell = np.ascontiguousarray(hidden.cell, dtype=np.int64)
        self._about = cell, *_joined([moves]), *_joined(emissions.emitters), emitter_of

    def draw(
        self, table: Float[np.ndarray, "T C A"], count: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "k T+1"]:
        """See `Layers.draw`."""
        horizon, table = self._hidden.horizon, np.ascontiguousarray(table)
        events = np.empty((count, horizon + 1), dtype=np.int64)
        starts, events[:, 0] = self._first.first(generator.random(count))
        states, step = starts.astype(np.int64), max(1, _MOST_UNIFORM // max(1, 3 * count))
        for begin in range(0, horizon, step):
            uniform = generator.random((min(step, horizon - begin), 3, count))
            self._loops.walk(begin, uniform, table, *self._about, states, events)
        return events


def _joined(draws: list[RowDraws]) -> tuple[np.ndarray, ...]:
    """`RowDraws.arrays` of the rows of all matrices, one matrix after the other; each keeps its own running sum."""
    first, end, columns, sums = zip(*(one.arrays for one in draws), strict=True)
    begins = np.cumsum([0, *map(len, sums[:-1])])
    places = [
        np.concatenate([part + begin for part, begin in zip(parts, begins, strict=True)]) for parts in (first, end)
    ]
    padded = np.concatenate([np.append(part, 0) for part in columns])  # as many as running sums
    return *(array.astype(np.int32) for array in (*places, padded)), np.concatenate(sums)
