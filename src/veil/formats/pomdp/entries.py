"""Probabilities that the `T` and `O` statements of a `.pomdp` file write: sparse rows; later entries override earlier."""

from array import array
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from .tokens import Tokens

Choice = int | None  # an index, or None for all of them


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of one action that are not zero: entries in order of row and column, and the last line that wrote each."""

    row: Int[np.ndarray, " n"]
    column: Int[np.ndarray, " n"]
    value: Float[np.ndarray, " n"]
    line: Int[np.ndarray, " n"]


class Entries:
    """Probabilities over (action, row, column), written by statements in order.

    **Arguments:** `shape`, `(A, R, C)`; `limit`, how many numbers all statements together may expand to; `tokens`, for
    the place of a fault.

    Cost: linear in the numbers of the file and in what wildcards expand to; zeros that override nothing cost nothing.
    """

    def __init__(self, shape: tuple[int, int, int], limit: int, tokens: Tokens):
        self.shape = shape
        self._limit = limit
        self._left = limit
        self._tokens = tokens
        self._ones: dict[int, tuple[array, array, array]] = {}
        self._blocks: dict[int, list[tuple[np.ndarray, np.ndarray, int | np.ndarray]]] = {}

    def put(self, action: Choice, row: Choice, column: Choice, values: float | np.ndarray, line: int) -> None:
        """Write one value, or `(C,)` values of a row, or an `(R, C)` matrix; None is every index."""
        _, num_rows, num_columns = self.shape
        if row is not None and column is not None and isinstance(values, float):
            self._put_one(action, row * num_columns + column, values, line)
            return
        covers_all = row is None and column is None
        table = np.asarray(values, dtype=np.float64)
        table = table.reshape(1, -1) if table.ndim < 2 else table
        if covers_all:
            self._clear(action)
        rows = np.arange(num_rows) if row is None else np.array([row])
        columns = np.arange(num_columns) if column is None else np.array([column])
        # Zeros need writing only where something stands already.
        fresh = self._is_empty(action)
        if fresh and not table.any():
            return
        if fresh and len(table) == 1 and table.size > 1:
            columns, table = columns[table[0] != 0], table[:, table[0] != 0]
        written = np.count_nonzero(table) if fresh else table.size
        cells = len(rows) * len(columns)
        self._spend(cells // table.size * int(written) * len(self._actions(action)), line)
        keys = (rows[:, None] * num_columns + columns).ravel()
        flat = np.broadcast_to(table, (len(rows), len(columns))).ravel()
        if fresh:
            keys, flat = keys[flat != 0], flat[flat != 0]
        for a in self._actions(action):
            self._flush(a)
            self._blocks.setdefault(a, []).append((keys, flat, line))

    def put_identity(self, action: Choice, line: int) -> None:
        """Write the identity matrix, over all that was there."""
        _, num_rows, num_columns = self.shape
        self._spend(num_rows * len(self._actions(action)), line)
        self._clear(action)
        keys = np.arange(num_rows) * (num_columns + 1)
        for a in self._actions(action):
            self._blocks.setdefault(a, []).append((keys, np.ones(num_rows), line))

    def resolve(self, action: int) -> Rows:
        """The entries of an action that hold in the end, without zeros."""
        self._flush(action)
        blocks = self._blocks.get(action)
        if not blocks:
            none = np.zeros(0, dtype=np.int64)
            return Rows(none, none, np.zeros(0), none)
        keys = np.concatenate([keys for keys, _, _ in blocks])
        order = np.argsort(keys, kind="stable")  # equal keys stay in order, so the last of them is the one that holds
        ordered = keys[order]
        order = order[np.append(ordered[1:] != ordered[:-1], True)]
        values = np.concatenate([values for _, values, _ in blocks])[order]
        lines = np.concatenate([np.broadcast_to(line, keys.shape) for keys, _, line in blocks])[order]
        kept = values != 0
        row, column = np.divmod(keys[order][kept], self.shape[2])
        return Rows(row, column, values[kept], lines[kept])

    def _actions(self, action: Choice) -> range:
        return range(self.shape[0]) if action is None else range(action, action + 1)

    def _is_empty(self, action: Choice) -> bool:
        if action is None:
            return not self._blocks and not self._ones
        return action not in self._blocks and action not in self._ones

    def _put_one(self, action: Choice, key: int, value: float, line: int) -> None:
        self._spend(len(self._actions(action)), line)
        for a in self._actions(action):
            keys, values, lines = self._ones.setdefault(a, (array("q"), array("d"), array("q")))
            keys.append(key)
            values.append(value)
            lines.append(line)

    def _flush(self, action: int) -> None:
        """Single entries written so far become a block, so that what comes later overrides them."""
        if action in self._ones:
            keys, values, lines = self._ones.pop(action)
            block = np.array(keys, dtype=np.int64), np.array(values), np.array(lines, dtype=np.int64)
            self._blocks.setdefault(action, []).append(block)

    def _clear(self, action: Choice) -> None:
        if action is None:
            self._blocks.clear()
            self._ones.clear()
        else:
            self._blocks.pop(action, None)
            self._ones.pop(action, None)

    def _spend(self, count: int, line: int) -> None:
        self._left -= count
        if self._left < 0:
            raise self._tokens.error(
                f"the statements so far expand to more than {self._limit:,} numbers, expected fewer: write only entries that"
                " are not zero, or raise limit",
                line,
            )
