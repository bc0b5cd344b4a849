"""A lane of sequences over a sparse model, whose steps are compiled loops.

A step of the plain lane goes over its messages about ten times: emissions, products and outer products are arrays of their
own. Here it goes over them once or twice.
"""

from typing import Any

import numpy as np

from .backends.column_steps import ColumnSteps
from .backends.compiled import loops
from .columns import Lane
from .each_time import Reading
from .hidden import Emitter


class CompiledLane(Lane):
    """See `Lane`: the same numbers up to rounding."""

    def __init__(self, steps: ColumnSteps, readings: list[Reading], events: np.ndarray, *others: Any):
        self._loops = loops()
        self._events_at = np.ascontiguousarray(events.T, dtype=np.uint32)
        self._actions = [emitter.actions.astype(np.float64) for emitter in steps.hidden.emitters]
        super().__init__(steps, readings, events, *others)

    def _factor(self, emitter: Emitter, time: int, scale: np.ndarray) -> tuple[Any, ...]:
        """`F`, as the loops take it."""
        return emitter.columns.dense, self.steps.patterns[time].there, self._events_at[time + 1], scale

    def _ahead(self, time: int, messages: np.ndarray, scale: np.ndarray) -> np.ndarray:
        result = self._take(len(self.steps.patterns[time].there))
        for number, matrix in enumerate(self.steps.matrices(time, turned=True)):
            factor = self._factor(self.hidden.emitters[number], time, scale)
            self._loops.ahead(matrix.indptr, matrix.indices, matrix.data, messages, *factor, number > 0, result)
        return result

    def _pull_ahead(self, time: int, messages: np.ndarray, scale: np.ndarray, slope: np.ndarray) -> np.ndarray:
        return self._against(time, scale, slope, messages, self._take(len(messages)))

    def _against(
        self, time: int, scale: np.ndarray, columns: np.ndarray, left: np.ndarray | None, out: np.ndarray
    ) -> np.ndarray:
        pattern, inside = self.steps.patterns[time], self._buffer("inside", len(columns))
        for number, matrix in enumerate(self.steps.matrices(time, turned=False)):
            self._loops.weigh(columns, *self._factor(self.hidden.emitters[number], time, scale), inside)
            if left is not None:
                given = matrix.indptr, matrix.indices, matrix.data, pattern.probabilities, inside, left, pattern.here
                self._loops.against(*given, self._actions[number], number > 0, out, self._found[self.steps.row(time)])
            elif number:
                out += matrix.product(inside, out=self._buffer("product", len(out)))
            else:
                matrix.product(inside, out=out)
        return out

    def _pull_back(self, time: int, messages: np.ndarray, scale: np.ndarray, slope: np.ndarray) -> np.ndarray:
        pattern, result = self.steps.patterns[time], self._take(len(messages))
        about = pattern.turned[0], pattern.indptr, pattern.probabilities, slope, messages
        for number, matrix in enumerate(self.steps.matrices(time, turned=True)):
            factor = self._factor(self.hidden.emitters[number], time, scale)
            given = matrix.indptr, matrix.indices, matrix.data, *about, *factor, pattern.here, self._actions[number]
            self._loops.turned(*given, number > 0, result, self._found[self.steps.row(time)])
        return result
