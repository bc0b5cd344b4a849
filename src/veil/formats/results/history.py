"""The history of a search as CSV: `history.csv` of a result folder."""

import csv
import io
from pathlib import Path

from ...common.errors import InputError, ModelFileError
from ...common.files import LARGEST_FILE
from ...planning.solution import History
from ..text import read_rows, read_text

COLUMNS = ("iteration", "opacity_bits", "expected_return", "multiplier", "step", "seconds")


def history_csv(history: History) -> bytes:
    """The history as CSV: one line for each iteration, numbers to the last digit.

    Where the method keeps the multipliers of K constraints, further columns hold them: `multiplier_1` to `multiplier_K`.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    table = history.rows()
    lines.writerow([*COLUMNS, *(f"multiplier_{number}" for number in range(1, table.shape[1] - len(COLUMNS) + 1))])
    lines.writerows([int(first), *rest] for first, *rest in table.tolist())
    return text.getvalue().encode()


def read_history(path: Path) -> History:
    """The history that `history_csv` wrote; raises `InputError` naming the line."""
    rows = []
    try:
        lines = read_rows(path, read_text(path, LARGEST_FILE))
        _, columns = next(lines)
        if tuple(columns[: len(COLUMNS)]) != COLUMNS:
            raise ModelFileError(path, f"expected the columns {','.join(COLUMNS)}", 1)
        for line, cells in lines:
            try:
                rows.append(tuple(map(float, cells)))
            except ValueError as error:
                raise ModelFileError(path, str(error), line) from None
    except ModelFileError as error:
        raise InputError(str(path), [f"line {error.line}: {error.message}" if error.line else error.message]) from None
    return History.of(rows)
