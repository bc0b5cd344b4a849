"""Recorded runs: read from CSV, JSON lines or Python, as flat columns of numbers with the names and lines they came from."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int

from ..common.checks import MOST_LISTED, Defects, Names
from ..common.errors import InputError, ModelFileError
from ..common.text import csv_name, parse_json
from ..formats.text import read_text, shown

Source = str | Path | Iterable[Mapping[str, object]]
"""A file, or runs `{"states": […], "actions": […], "observations": […]}`."""

UNKNOWN = -1
_MOST_BYTES = 2**28  # about ten million steps
_LONGEST_NAME = 1000
_REMEDY = "fit a part of the runs"
_KINDS = ("state", "action", "observation")
_KEYS = {"states": "state", "actions": "action", "observations": "observation"}
_SHAPE = '{"states": […], "actions": […], "observations": […]}'


@dataclass(frozen=True, eq=False)
class Step:
    """One moment of a run as it was recorded; None where it is not known, `line` counted from 1."""

    line: int
    state: str | None = None
    action: str | None = None
    observation: str | None = None


@dataclass(frozen=True, eq=False)
class Logs:
    """All runs one after the other, a place for each moment: what is `UNKNOWN` there was not recorded.

    **Attributes:** `names` of the states, actions and observations that occur, by kind; `state`, `action`, `observation`:
    the number of each among those names; `begins`, `ends`: whether a moment is the first or the last of its run; `line`
    of each, or its run where `unit` is "run"; `sees_actions`: whether the observations were recorded as pairs with the
    action before them; `unread`: columns of a file, or keys of runs, that mean nothing here.
    """

    source: str
    names: dict[str, tuple[str, ...]]
    state: Int[np.ndarray, " n"]
    action: Int[np.ndarray, " n"]
    observation: Int[np.ndarray, " n"]
    begins: Bool[np.ndarray, " n"]
    ends: Bool[np.ndarray, " n"]
    line: Int[np.ndarray, " n"]
    sees_actions: bool
    unit: str = "line"
    unread: tuple[str, ...] = ()

    @property
    def num_runs(self) -> int:
        """How many runs there are."""
        return int(self.begins.sum())

    @property
    def longest(self) -> int:
        """The decisions of the longest run."""
        first, last = np.flatnonzero(self.begins), np.flatnonzero(self.ends)
        return int((last - first).max())

    def numbered(self, known: Mapping[str, Names]) -> "Logs":
        """The same moments, numbered as the names of a problem are.

        **Raises:** `InputError` naming each name that the problem does not have, with its line.
        """
        defects, columns = Defects(self.source), {}
        for kind, names in known.items():
            column: np.ndarray = getattr(self, kind)
            target = np.full(len(self.names[kind]) + 1, UNKNOWN)  # the last entry is that of UNKNOWN
            for number, name in enumerate(self.names[kind]):
                found = _find(names, name)
                if found is None and len(defects) < MOST_LISTED:
                    names.find_or_note(name, self.where(int(np.argmax(column == number))), defects)
                target[number] = UNKNOWN if found is None else found
            columns[kind] = target[column]
        defects.raise_if_any()
        return replace(self, names={kind: names.all() for kind, names in known.items()}, **columns)

    def where(self, moment: int) -> str:
        """The place of a moment, for messages."""
        return f"{self.unit} {int(self.line[moment])}"


def read_logs(source: Source) -> Logs:
    """The runs of a file, by its extension, or of a list of mappings.

    - `.csv`: columns `run`, `time`, and any of `state`, `action`, `observation`; others are listed in `unread`. The times of a
      run are 0, 1, 2, … in that order; runs may alternate. An empty cell is not known.
    - `.jsonl`: a run on each line, `{"states": […], "actions": […], "observations": […]}`, null where not known.
    - `.json`: one document `{"runs": […]}`, as `veil simulate --json` prints it.

    **Raises:** `ModelFileError` naming the file and the line; `InputError` for runs that are no mappings.
    """
    unread: dict[str, None] = {}
    if not isinstance(source, str | Path):
        return replace(_flat("logs", _from_mappings(source, unread)), unit="run", unread=tuple(unread))
    readers = {".csv": _read_csv, ".jsonl": _read_lines, ".json": _read_document}
    reader = readers.get(Path(source).suffix.lower())
    if reader is None:
        raise ModelFileError(source, f"its extension is none of {', '.join(readers)}, which fit reads")
    try:
        found = _flat(str(source), reader(source, read_text(source, _MOST_BYTES, _REMEDY), unread))
        unit = "run" if reader is _read_document else found.unit
        return replace(found, unit=unit, unread=tuple(unread))
    except InputError as error:
        raise ModelFileError(source, "; ".join(error.defects)) from None


def _find(names: Names, name: str) -> int | None:
    """The number of a name; or the number that it is, if nothing has that name."""
    if name in names:
        return names.find(name)
    number = int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else -1
    return number if 0 <= number < len(names) else None


def _read_csv(path: str | Path, text: str, unread: dict[str, None]) -> Iterator[list[Step]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    runs: dict[str, list[Step]] = {}
    try:
        header = [cell.strip() for cell in next(reader, [])]
        place = _columns(path, header)
        unread.update(dict.fromkeys(name for name in header if name not in place))
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                found = f"{len(row)} cells, expected {len(header)}, as the first line has"
                raise ModelFileError(path, found, reader.line_num)
            cells = {name: csv_name(row[position].strip()) for name, position in place.items()}
            run = runs.setdefault(cells["run"], [])
            if cells["time"] != str(len(run)):
                wanted = f"expected {len(run)}: a line for each time of a run, in order, with empty cells for what is not known"
                raise ModelFileError(
                    path, f"run {shown(cells['run'])} has time {shown(cells['time'])}, {wanted}", reader.line_num
                )
            run.append(Step(reader.line_num, *(cells.get(kind) or None for kind in _KINDS)))
    except csv.Error as error:
        raise ModelFileError(path, f"not a CSV file: {error}", reader.line_num) from None
    yield from runs.values()


def _columns(path: str | Path, header: list[str]) -> dict[str, int]:
    """The places of the columns that are read."""
    place = {name: header.index(name) for name in ("run", "time", *_KINDS) if name in header}
    missing = [name for name in ("run", "time") if name not in place]
    if missing or not set(_KINDS) & set(place):
        found = ", ".join(map(shown, header[:8])) or "nothing"
        wanted = "run, time, and any of state, action, observation"
        raise ModelFileError(path, f"the columns are {found}, expected {wanted}", 1)
    twice = [name for name in place if header.count(name) > 1]
    if twice:
        raise ModelFileError(path, f"two columns are called {twice[0]!r}", 1)
    return place


def _read_lines(path: str | Path, text: str, unread: dict[str, None]) -> Iterator[list[Step]]:
    for number, line in enumerate(text.split("\n"), 1):  # other line ends may be part of a text
        if line.strip():
            yield _from_mapping(_parsed(path, line, number), number, f"line {number}", unread)


def _read_document(path: str | Path, text: str, unread: dict[str, None]) -> Iterator[list[Step]]:
    document = _parsed(path, text, None)
    runs = document.get("runs") if isinstance(document, Mapping) else None
    if not isinstance(runs, list):
        raise ModelFileError(path, 'expected a document {"runs": […]}, as veil simulate --json prints it')
    yield from _from_mappings(runs, unread)


def _parsed(path: str | Path, text: str, line: int | None) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise ModelFileError(path, f"not JSON: {error}", line) from None


def _from_mappings(runs: object, unread: dict[str, None]) -> Iterator[list[Step]]:
    if not isinstance(runs, Iterable):
        raise InputError("logs", [f"found {runs!r}, expected a file or a list of runs {_SHAPE}"])
    for number, run in enumerate(runs, 1):
        yield _from_mapping(run, number, f"run {number}", unread)


def _from_mapping(run: object, line: int, where: str, unread: dict[str, None]) -> list[Step]:
    """The moments of one run; actions may be one fewer than states, observations too where none is received at time 0."""
    if not isinstance(run, Mapping) or not set(run) & set(_KEYS):
        raise InputError("logs", [f"{where}: found {shown(str(run))}, expected {_SHAPE}"])
    unread.update(dict.fromkeys(str(key) for key in run if key not in _KEYS))
    columns = {kind: _entries(run.get(key), key, where) for key, kind in _KEYS.items()}
    if not any(columns.values()):
        raise InputError("logs", [f"{where}: nothing was recorded: leave the run out"])
    size = max(len(columns["state"]), len(columns["observation"]), len(columns["action"]) + (not columns["state"]))
    for key, kind in _KEYS.items():
        given = columns[kind]
        allowed = {0, size, size - 1} if kind == "action" else {0, size}
        if len(given) not in allowed:
            remedy = ": write null for what is not known"
            raise InputError("logs", [f"{where}: {len(given)} {key} for {size} times{remedy}"])
        columns[kind] = given + [None] * (size - len(given))
    return [Step(line, *moment) for moment in zip(*(columns[kind] for kind in _KINDS), strict=True)]


def _entries(given: object, key: str, where: str) -> list[str | None]:
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InputError("logs", [f"{where}: {key} is {shown(str(given))}, expected a list"])
    return [_entry(one, key, where) for one in given]


def _entry(one: object, key: str, where: str) -> str | None:
    """A name; a pair (action, observation) becomes the text that `veil simulate` writes for it."""
    if key == "observations" and isinstance(one, list | tuple) and len(one) == 2:
        return ",".join(str(_entry(part, "", where)) for part in one)
    if one is None or one == "":
        return None
    if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
        raise InputError("logs", [f"{where}: {key} has {shown(str(one))}, expected names, whole numbers or null"])
    return str(one)


def _flat(source: str, runs: Iterable[list[Step]]) -> Logs:
    """The columns of all runs."""
    recorded = [run for run in runs if run]
    if not recorded:
        raise InputError(source, ["there are no runs, expected at least one"])
    sees_actions = _are_pairs(recorded)
    index: dict[str, dict[str, int]] = {kind: {} for kind in _KINDS}
    columns: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    for run in recorded:
        before: str | None = None
        for step in run:
            seen = step.observation
            if sees_actions and seen is not None and before is not None:
                seen = seen.removeprefix(f"{before},")
            for kind, name in (("state", step.state), ("action", step.action), ("observation", seen)):
                columns[kind].append(UNKNOWN if name is None else index[kind].setdefault(name, len(index[kind])))
            before = step.action
    for kind, names in index.items():
        if any(len(name) > _LONGEST_NAME for name in names):
            raise InputError(source, [f"the name of a {kind} has more than {_LONGEST_NAME:,} characters"])
    lengths = np.array([len(run) for run in recorded])
    begins, ends = np.zeros(lengths.sum(), dtype=bool), np.zeros(lengths.sum(), dtype=bool)
    last = np.cumsum(lengths) - 1
    begins[last - lengths + 1], ends[last] = True, True
    line = np.array([step.line for run in recorded for step in run])
    state, action, observation = (np.array(columns[kind], dtype=np.int64) for kind in _KINDS)
    names = {kind: tuple(found) for kind, found in index.items()}
    return Logs(source, names, state, action, observation, begins, ends, line, sees_actions)


def _are_pairs(runs: Sequence[Sequence[Step]]) -> bool:
    """Whether every observation after a known action begins with that action and a comma: the observer saw both."""
    found = False
    for run in runs:
        for before, step in pairwise(run):
            if before.action is not None and step.observation is not None:
                if not step.observation.startswith(f"{before.action},"):
                    return False
                found = True
    return found
