"""The history of a search as CSV: `history.csv` of a result folder."""

import csv
import io
from pathlib import Path

from ...common.errors import InputError
from ...common.files import read_whole
from ...planning.solution import History

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
    try:
        lines = read_whole(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), [f"it cannot be read: {error}"]) from None
    columns = lines[0].split(",") if lines else []
    if tuple(columns[: len(COLUMNS)]) != COLUMNS:
        raise InputError(str(path), [f"line 1: expected the columns {','.join(COLUMNS)}"])
    rows = []
    for number, line in enumerate(lines[1:], 2):
        cells = line.split(",")
        try:
            rows.append(tuple(map(float, cells)))
        except ValueError as error:
            raise InputError(str(path), [f"line {number}: {error}"]) from None
        if len(cells) != len(columns):
            raise InputError(str(path), [f"line {number}: {len(cells)} cells found, expected {len(columns)}"])
    return History.of(rows)
