"""The two text formats of policies: one JSON document, and CSV with the header as JSON in a comment.

Numbers are written in full, so that a policy comes back bit for bit; zeros are left out.
"""

import base64
import csv
import io
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import singledispatch
from pathlib import Path
from typing import Annotated, cast

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError
from pydantic.json_schema import JsonSchemaValue

from ...common.errors import InputError, ModelFileError, PolicyFileError
from ...common.json_text import parse_json
from ...common.text import csv_cell, csv_name
from ...policy.history import HistoryPolicy
from ...policy.policy import Policy
from ...policy.tabular import TablePolicy
from ...policy.tabulated import packed_table
from ...problem.problem import Problem
from ..documents import Part, json_text, published, refuse_document
from ..text import is_whole, read_rows, read_text, shown, to_number, write_file
from .history import HistoryHeader, history_of_tables, named_history
from .tables import FORM, MOST_NUMBERS, Header, NamedTable, Row, named_tables, policy_of_tables

MOST_BYTES = 2**28
_COLUMNS = ("time", "row", "action", "probability")


class RowPart(Part):
    """A row of a table: its name, and the probability of each action that is not zero."""

    row: str
    probabilities: dict[str, float]


class TablePart(Part):
    """The rows of one time, or of all where the time is null."""

    time: int | None
    rows: list[RowPart]


class PackedPart(Part):
    """The probabilities of a large table: the little-endian bytes of numbers of 64 bits, compressed by zlib, in base64."""

    shape: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=3, max_length=3)]
    packed: str


class TableDocument(Header):
    """A policy given by tables, as JSON."""

    tables: list[TablePart] | PackedPart


class HistoryDocument(HistoryHeader):
    """A history policy, as JSON."""

    tables: list[TablePart]


def policy_schema() -> JsonSchemaValue:
    """The JSON schema (draft 2020-12) of policies as JSON."""
    return published(FORM, TypeAdapter(TableDocument | HistoryDocument).json_schema())


MOST_LISTED = 50_000  # numbers of a table that JSON lists one by one
_TABLES = TypeAdapter(list[TablePart])


def policy_to_json(path: str | Path, problem: Problem, policy: Policy) -> None:
    """Write a policy as one JSON document, complete or not at all.

    Fields: `format` (`"veil-policy-table-2"`), `problem`, `kind` (`markov`, `timed`, `memory` or `history`), `horizon`,
    `actions` and `rows` in order, and `tables`: one for each time, or one for all (`"time": null`), each with `rows`:
    `{"row": name, "probabilities": {action: probability}}`, zeros left out. A table of more than 50,000 numbers is packed:
    `tables` is `{"shape": [times, rows, actions], "packed": …}`, the bytes of little-endian numbers of 64 bits, compressed by
    zlib, in base64. `memory` is what a memory policy remembers; `player`, where the rows are not the states, what
    `policy.player()` needs. A history policy has rows `"node N: state"` and the `graph` that says to which node the events
    lead.

    **Raises:** `InputError` where the policy does not fit the problem; `PolicyFileError` where it cannot be written.
    """
    _write(path, json_text(policy_document(problem, policy)))


def policy_document(problem: Problem, policy: Policy) -> dict[str, object]:
    """The document that `policy_to_json` writes."""
    policy = policy.on(problem)
    header, tables = _named(policy, problem)
    if isinstance(policy, TablePolicy) and policy.table.size > MOST_LISTED:
        return {**header, "tables": packed_table(policy.table)}
    written = [
        {"time": table.time, "rows": [{"row": name, "probabilities": row} for name, row in _rows(table, header)]}
        for table in tables
    ]
    return {**header, "tables": written}


def policy_from_json(path: str | Path, problem: Problem | None = None) -> Policy:
    """The policy in a JSON document; see `policy_to_json`.

    **Arguments:** `problem`: where it is given, rows and actions are found in it by their names, in any order.

    **Raises:** `PolicyFileError` naming the line; `InputError` naming each entry that is wrong, and each row that is missing,
    unknown or not a distribution.
    """
    document = _object(path)
    tables = document.pop("tables", None)
    header = _header(document, path)
    try:
        packed = isinstance(tables, dict)
        found = PackedPart.model_validate(tables) if packed else _TABLES.validate_python(tables)
    except ValidationError as error:
        refuse_document(str(path), error, "tables.")
    if isinstance(found, PackedPart):
        if not isinstance(header, Header):
            raise PolicyFileError(f"{path}: tables are packed in a history policy, expected a list of rows")
        return policy_of_tables(header, _unpacked(found, path), problem, path)
    rows = [
        Row(f"tables[{number}].rows[{place}]", table.time, row.row, row.probabilities)
        for number, table in enumerate(found)
        for place, row in enumerate(table.rows)
    ]
    return _policy(header, rows, problem, path)


def _unpacked(part: PackedPart, path: str | Path) -> np.ndarray:
    count = math.prod(part.shape)
    if count > MOST_NUMBERS:
        raise PolicyFileError(f"{path} describes {count:,} probabilities, expected at most {MOST_NUMBERS:,}")
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.b64decode(part.packed, validate=True), 8 * count + 1)
    except (ValueError, zlib.error) as error:
        raise PolicyFileError(f"{path}: tables.packed cannot be unpacked: {error}") from None
    if len(content) != 8 * count:
        found = f"more than {8 * count:,}" if len(content) > 8 * count else f"{len(content):,}"
        raise PolicyFileError(f"{path}: tables.packed has {found} bytes, expected {8 * count:,}, as its shape says")
    return np.frombuffer(content, dtype="<f8").astype(np.float64).reshape(part.shape)


def policy_to_csv(path: str | Path, problem: Problem, policy: Policy) -> None:
    """Write a policy as lines `time,row,action,probability`, complete or not at all.

    Zeros are left out; the time is empty where one table serves all times. The first line is a comment, `#` and the fields
    of the JSON document without its tables.

    **Raises:** as `policy_to_json`.
    """
    header, tables = _named(policy.on(problem), problem)
    header.pop("player", None)  # too long for a line
    buffer = io.StringIO()
    buffer.write(f"# {json.dumps(header, ensure_ascii=False)}\n")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for table in tables:
        time = "" if table.time is None else table.time
        for name, row in _rows(table, header):
            for action, probability in row.items():
                writer.writerow([time, csv_cell(name), csv_cell(action), repr(probability)])
    _write(path, buffer.getvalue())


def policy_from_csv(path: str | Path, problem: Problem | None = None) -> Policy:
    """The policy in a CSV file; see `policy_to_csv`.

    **Arguments:** `problem`: where it is given, rows and actions are found in it by their names, in any order; then the
    comment may be missing, for a Markov policy (no times) or a time-dependent policy written by hand.

    **Raises:** as `policy_from_json`.
    """
    with _of_policies():
        text = read_text(path, MOST_BYTES)
    header, skipped = None, 0
    if text.startswith("#"):
        comment, _, text = text.partition("\n")
        header, skipped = _header(_object(path, comment[1:]), path), 1
    return _policy(header, _csv_rows(text, path, skipped), problem, path)


def _csv_rows(text: str, path: str | Path, skipped: int) -> list[Row]:
    """The rows of the lines, those of one time and name together; the place of a row is its first line."""
    rows: dict[tuple[int | None, str], Row] = {}
    found: dict[tuple[int | None, str], dict[str, float]] = {}
    with _of_policies():
        lines = read_rows(path, text, skipped + 1)
        _, columns = next(lines)
        if sorted(columns) != sorted(_COLUMNS):
            listed = ", ".join(columns)[:80]
            raise ModelFileError(path, f"columns {listed!r} found, expected {','.join(_COLUMNS)}", skipped + 1)
        for line, cells in lines:
            time, name, action, probability = (cells[columns.index(column)] for column in _COLUMNS)
            name, action = csv_name(name), csv_name(action)
            if time and not (is_whole(time) and len(time) < 10):
                raise ModelFileError(path, f"time {shown(time)} found, expected a whole number or nothing", line)
            value = to_number(probability)
            if value is None:
                raise ModelFileError(path, f"{shown(probability)} found, expected a probability", line)
            key = (int(time) if time else None, name)
            row = found.setdefault(key, {})
            if action in row:
                raise ModelFileError(path, f"action {action!r} of row {name!r} is given again", line)
            row[action] = value
            rows.setdefault(key, Row(f"line {line}", key[0], name, row))
    return list(rows.values())


@singledispatch
def _named(policy: Policy, problem: Problem) -> tuple[dict[str, object], list[NamedTable]]:
    """The header of a policy and its tables; each structure has its own."""
    raise InputError("policy", [f"{policy.describe()} cannot be written as text"])


@_named.register
def _(policy: HistoryPolicy, problem: Problem) -> tuple[dict[str, object], list[NamedTable]]:
    return named_history(problem, policy)


@_named.register
def _(policy: TablePolicy, problem: Problem) -> tuple[dict[str, object], list[NamedTable]]:
    return named_tables(problem, policy)


def _policy(
    header: Header | HistoryHeader | None, rows: Sequence[Row], problem: Problem | None, path: str | Path
) -> Policy:
    if isinstance(header, HistoryHeader):
        return history_of_tables(header, rows, problem, path)
    return policy_of_tables(header, rows, problem, path)


def _rows(table: NamedTable, header: dict[str, object]) -> list[tuple[str, dict[str, float]]]:
    """Each row with the probabilities of its actions, zeros left out."""
    actions = cast(list[str], header["actions"])
    return [
        (name, {actions[action]: float(row[action]) for action in np.flatnonzero(row).tolist()})
        for name, row in zip(table.rows, table.probabilities, strict=True)
    ]


@contextmanager
def _of_policies() -> Iterator[None]:
    """Faults of files as faults of policies."""
    try:
        yield
    except ModelFileError as error:
        raise PolicyFileError(str(error)) from None


def _write(path: str | Path, text: str) -> None:
    with _of_policies():
        write_file(path, text)


def _object(path: str | Path, text: str | None = None) -> dict[str, object]:
    """The JSON object in a file, or in a text of it; a key that is there twice is refused."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise PolicyFileError(f"{path}: the key {twice!r} occurs twice in one object, expected once")
        return found

    try:
        with _of_policies():
            document = parse_json(read_text(path, MOST_BYTES) if text is None else text, once)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise PolicyFileError(f"{path}, {where}: this is not JSON: {error.msg}") from None
    except ValueError as error:
        if isinstance(error, PolicyFileError):
            raise
        raise PolicyFileError(f"{path}: this is not JSON that can be read: {error}") from None
    if not isinstance(document, dict):
        raise PolicyFileError(f"{path}: a {type(document).__name__} found, expected a JSON object")
    return document


def _header(document: dict[str, object], path: str | Path) -> Header | HistoryHeader:
    if document.get("format") != FORM:
        raise PolicyFileError(
            f"{path} is not a policy of veil: its format is {document.get('format')!r}, expected {FORM!r}"
        )
    try:
        kind = HistoryHeader if document.get("kind") == "history" else Header
        return kind.model_validate(document)
    except ValidationError as error:
        refuse_document(str(path), error)
