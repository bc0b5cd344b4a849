"""The pane Study: how far a study is, and its table so far, read from its folder while `veil study` is at work there."""

import os
from typing import TYPE_CHECKING, Any

from ..study.columns import SHOWN
from ..study.table import StudyResult
from .routes import Refused, Request, text_of

if TYPE_CHECKING:
    from .state import Studio

_MOST_ROWS = 500  # the newest; the whole table is in the study's folder


def show_study(request: Request, studio: "Studio") -> dict[str, Any]:
    """The study in a `folder`: counts, and a row for each run that has ended.

    **Raises:** `Refused` without a folder; `InputError` where it is not that of a study.
    """
    folder = text_of(request, "folder", "").strip()
    if not folder or "\0" in folder:
        raise Refused(400, "folder is empty, expected that of a study")
    result = StudyResult(os.path.abspath(os.path.expanduser(folder)))
    columns = [*result.factors, *(name for name in SHOWN if name not in result.factors), *result.derived_names]
    rows = [row for row in result.rows() if row["status"] != "TO_DO"]
    return {
        "name": result.name,
        "folder": str(result.folder),
        "counts": result.counts(),
        "limited": result.limited(rows),
        "columns": columns,
        "rows": [[row[name] for name in columns] for row in rows[-_MOST_ROWS:]],
        "left_out": max(0, len(rows) - _MOST_ROWS),
        "failed": [[result.runs[str(row["key"])].label, row["reason"]] for row in rows if row["status"] == "FAILED"],
    }
