"""The results of a study as one table: a row for each run, as CSV and Parquet, and the difference of two tables."""

import csv
import io
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.errors import InputError
from ..common.files import file_errors, write_whole
from ..common.json_text import parse_json
from ..common.text import csv_cell
from ..formats.results.document import decoded
from ..formats.results.folder import DOCUMENT, read_result
from ..measure.gates import Gate, gates
from .columns import COLUMNS, column_values
from .definition import Run
from .derived import Derived
from .folder import StudyFolder

TABLE = "table.csv"
PARQUET = "table.parquet"
_HEAD = ("key",)
_REASON = "reason"
_COMPARED = ("status", "feasible", "bits", "expected_return", "proven_upper", "fingerprint")
_OF_PROOFS = ("proven_upper",)  # which always have a time limit
Row = dict[str, Any]


class StudyResult:
    """What a study found so far, read from its folder.

    **Arguments:** `folder`: that of `Study.run` or `veil study`.

    **Raises:** `InputError` if it is not the folder of a study.
    """

    def __init__(self, folder: str | Path):
        self._kept = StudyFolder(folder)
        manifest = self._kept.manifest()
        try:
            self.name = str(manifest["name"])
            self.factors = tuple(str(name) for name in manifest["factors"])
            self._derived = [Derived(name, text) for name, text in manifest["definition"]["derived"].items()]
            self.runs = {
                str(key): Run(str(one["scenario"]), tuple(one["changes"]), dict(one["factors"]), str(key))
                for key, one in manifest["keys"].items()
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(str(self._kept.path), [f"its manifest is damaged: {error!r}"]) from None

    @property
    def folder(self) -> Path:
        """The folder."""
        return self._kept.path

    @property
    def derived_names(self) -> tuple[str, ...]:
        """The names of the derived quantities."""
        return tuple(one.name for one in self._derived)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, factors first."""
        own = [name for name in COLUMNS if name not in self.factors]
        return (*_HEAD, *self.factors, *own, *self.derived_names, _REASON)

    def counts(self) -> dict[str, int]:
        """How many runs are done, failed, and still to do."""
        done = sum(map(self._kept.is_done, self.runs))
        failed = sum(not self._kept.is_done(key) and self._kept.failure(key) is not None for key in self.runs)
        return {"done": done, "failed": failed, "to_do": len(self.runs) - done - failed}

    def rows(self) -> Iterator[Row]:
        """A row for each run in order, with None if a value is not known; results are read one at a time."""
        for key in self.runs:
            yield self.row(key)

    def row(self, key: str) -> Row:
        """The row of one run."""
        run, document = self.runs[key], self._document(key)
        found: Row = dict.fromkeys(self.columns)
        found |= {"key": key, **{name: run.factors.get(name) for name in self.factors}}
        if document is None:
            failure = self._kept.failure(key)
            found["status"] = "TO_DO" if failure is None else "FAILED"
            found[_REASON] = None if failure is None else failure.get("reason")
            return found
        found |= {name: value for name, value in column_values(document).items() if name not in self.factors}
        for one in self._derived:
            found[one.name] = one.value(found)
        return found

    def limited(self, rows: Iterable[Row] | None = None) -> str:
        """How many of the finished runs ended at their time limit, in words; empty if none did. `rows`, if they are read."""
        known = self.rows() if rows is None else rows
        statuses = [row["status"] for row in known if row["status"] not in ("TO_DO", "FAILED")]
        count = statuses.count("TIME_LIMIT")
        if not count:
            return ""
        if count < len(statuses):
            return f"{count} of {len(statuses)} runs ended at their time limit"
        remedy = "raise solve.time_limit, or limit solve.iterations instead"
        return f"every run ended at its time limit, so differences between runs may come from the limit: {remedy}"

    def missed_gates(self, min_opacity: float | None, max_leakage: float | None) -> list[tuple[str, Gate]]:
        """The limits that finished runs miss, each with the run; `Gate` says with which end of a value they are compared."""
        found: list[tuple[str, Gate]] = []
        for key in filter(self._kept.is_done, self.runs):
            hidden = decoded(read_result(self._kept.result(key), check_files=False).document.answer.opacity)
            missed = [one for one in gates(hidden, min_opacity, max_leakage) if not one.met]
            found += [(self.runs[key].label, one) for one in missed]
        return found

    def brief(self, key: str) -> Row:
        """The numbers of a run that a progress line shows."""
        row = self.row(key)
        return {name: row[name] for name in ("bits", "expected_return", "status", "seconds")}

    def _document(self, key: str) -> Mapping[str, Any] | None:
        try:
            found = parse_json((self._kept.result(key) / DOCUMENT).read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def write_table(self) -> list[Path]:
        """Write `table.csv`, and `table.parquet` if pyarrow is installed; returns the paths."""
        rows = list(self.rows())
        with file_errors(self.folder, "the table cannot be written"):
            write_whole(self.folder / TABLE, _csv(self.columns, rows), marker=b"key,")
            parquet = _parquet(self.columns, rows)
            if parquet is not None:
                write_whole(self.folder / PARQUET, parquet, marker=b"PAR1")
        return [self.folder / name for name in (TABLE, PARQUET) if name == TABLE or parquet is not None]

    def set_aside_damaged(self) -> list[str]:
        """Move result folders whose files do not match their hashes out of the way, so that their runs are made again."""
        damaged: list[str] = []
        for key in filter(self._kept.is_done, self.runs):
            try:
                read_result(self._kept.result(key))
            except InputError:
                place = self._kept.result(key)
                os.rename(place, place.with_name(f".damaged-{key}-{secrets.token_hex(4)}"))
                damaged.append(key)
        return damaged

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in self.counts().items())
        return f"StudyResult({str(self.folder)!r}: {counts})"


def seconds_of(kept: StudyFolder, key: str) -> float | None:
    """How long a finished run took."""
    try:
        found = column_values(parse_json((kept.result(key) / DOCUMENT).read_bytes()))["seconds"]
    except (OSError, ValueError):
        return None
    return float(found) if isinstance(found, (int, float)) else None


def difference(
    one: StudyResult, other: StudyResult, tolerance: float = 0.0, columns: Sequence[str] | None = None
) -> list[Row]:
    """The runs that two studies do not share or in which they differ, matched by scenario and factors.

    **Arguments:** `tolerance`: differences of numbers up to this do not count; `columns`: what is compared, all of it without
    exception; None for status, feasibility, bits, return, upper bound and problem.

    **Returns:** a row for each: its factors, `bits` and `return` of both, `change` of the bits; `what`: `only in the first`,
    `only in the second`, or the names of what differs; and `time_limited`: the names of what differs, but depends on how far a
    search or a proof came in its time, and so on the machine and the number of workers. These are the bounds of certificates,
    and every number of a run that ended at its time limit.
    """
    names = [name for name in one.factors if name in other.factors]
    ours, theirs = ({_identity(row, names): row for row in study.rows()} for study in (one, other))
    found: list[Row] = []
    for identity in [*ours, *(key for key in theirs if key not in ours)]:
        first, second = ours.get(identity), theirs.get(identity)
        what, timed = _what_differs(first, second, tolerance, columns)
        if what or timed:
            given = first or second or {}
            bits = [None if row is None else row["bits"] for row in (first, second)]
            earned = [None if row is None else row["expected_return"] for row in (first, second)]
            change = None if bits[0] is None or bits[1] is None else bits[1] - bits[0]
            found.append({**{name: given[name] for name in names}, "bits_1": bits[0], "bits_2": bits[1], "change": change,
                          "return_1": earned[0], "return_2": earned[1], "what": what, "time_limited": timed})  # fmt: skip
    return found


def _identity(row: Row, names: Sequence[str]) -> str:
    return repr([row[name] for name in names])


def _what_differs(
    first: Row | None, second: Row | None, tolerance: float, columns: Sequence[str] | None
) -> tuple[str, str]:
    """The names of what differs, and of what differs but depends on time."""
    if first is None or second is None:
        return ("only in the second" if first is None else "only in the first"), ""
    differing = [name for name in columns or _COMPARED if not _same(first[name], second[name], tolerance)]
    ended = columns is None and "TIME_LIMIT" in (first["status"], second["status"])
    timed = () if columns else tuple(name for name in _COMPARED if name != "fingerprint") if ended else _OF_PROOFS
    plain, late = ([name for name in differing if (name in timed) is wanted] for wanted in (False, True))
    return ", ".join(plain), ", ".join(late)


def _same(first: object, second: object, tolerance: float) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=0.0, abs_tol=tolerance)
    return first == second


def _csv(columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows([_cell(row[name]) for name in columns] for row in rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    return value if isinstance(value, (int, float)) else csv_cell("" if value is None else str(value))


def _parquet(columns: Sequence[str], rows: Sequence[Row]) -> bytes | None:
    """The table as Parquet, values of several types in one column as text; None without pyarrow."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return None
    arrays = {name: _column([row[name] for row in rows]) for name in columns}
    content = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), content)
    return content.getvalue()


def _column(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        return [None if value is None else float(value) for value in values]
    plain = len(kinds) <= 1 and kinds <= {int, float, bool, str}
    return values if plain else [None if value is None else str(value) for value in values]
