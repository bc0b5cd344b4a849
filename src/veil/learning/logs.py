"""Recorded runs: read from CSV, JSON lines or Python, as flat columns of numbers with the names and lines they came from."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.checks import MOST_LISTED, Defects, Names
from ..common.errors import InputError, ModelFileError
from ..common.json_text import parse_json
from ..common.text import csv_name
from ..formats.text import read_rows, read_text, shown

Source = str | Path | Iterable[Mapping[str, object]]
"""A file, or runs `{"states": […], "actions": […], "observations": […]}`."""

UNKNOWN = -1
_MOST_BYTES = 2**28  # about ten million steps
_LONGEST_NAME = 1000
_REMEDY = "fit a part of the runs"
_KINDS = ("state", "action", "observation")
_VALUES = (*_KINDS, "reward")  # what a moment can have
_KEYS = {"state": "states", "action": "actions", "observation": "observations", "reward": "rewards"}
_SHAPE = '{"states": […], "actions": […], "observations": […]}'
LABEL = "label"
_LABELS = ("label", "labels", "secret", "secrets")  # columns and keys that name the secret of a run
FIELDS = ("run", "time", *_VALUES, LABEL)
"""What columns can be named for: see `read_logs`."""

Columns = Mapping[str, str]
"""The name of the column, or key, of each of some `FIELDS`."""


@dataclass(frozen=True, eq=False)
class Step:
    """One moment of a run as it was recorded; None where it is not known, `line` counted from 1."""

    line: int
    state: str | None = None
    action: str | None = None
    observation: str | None = None
    reward: float = math.nan


@dataclass(eq=False)
class Run:
    """One run as it was recorded: its name, its moments, and its label, if it has one."""

    name: str
    steps: list[Step] = field(default_factory=list)
    label: str | None = None


@dataclass(frozen=True, eq=False)
class Logs:
    """All runs one after the other, a place for each moment: what is `UNKNOWN` there was not recorded.

    **Attributes:** `names` of the states, actions and observations that occur, by kind; `state`, `action`, `observation`:
    the number of each among those names; `begins`, `ends`: whether a moment is the first or the last of its run; `line`
    of each, or its run where `unit` is "run"; `sees_actions`: whether the observations were recorded as pairs with the
    action before them; `reward` of each, NaN if it is not known; `runs`: the name of each run; `labels`: the label of each
    run, None if it has none; `unread`: columns of a file, or keys of runs, that mean nothing here.
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
    reward: Float[np.ndarray, " n"]
    runs: tuple[str, ...]
    labels: tuple[str | None, ...]
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

    @property
    def is_labelled(self) -> bool:
        """Whether any run has a label."""
        return any(label is not None for label in self.labels)

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


def read_logs(source: Source, columns: Columns | None = None) -> Logs:
    """The runs of a file, by its extension, or of a list of mappings.

    - `.csv`: columns `run`, `time`, and any of `state`, `action`, `observation`, `reward`, `label`; others are listed in
      `unread`. The times of a run are 0, 1, 2, … in that order; runs may alternate. An empty cell is not known.
    - `.jsonl`: a run on each line, `{"states": […], "actions": […], "observations": […], "rewards": […], "label": …}`, null
      where not known.
    - `.json`: one document `{"runs": […]}`, as `veil simulate --json` prints it.

    The label is that of the whole run; a column or key called `secret` counts as one too.

    **Arguments:** `columns`: the names of columns or keys that differ, such as `{"run": "episode"}`.

    **Raises:** `ModelFileError` naming the file and the line; `InputError` for runs that are no mappings.
    """
    unread: dict[str, None] = {}
    named = _checked_columns(columns)
    if not isinstance(source, str | Path):
        return replace(_flat("logs", _from_mappings(source, named, unread)), unit="run", unread=tuple(unread))
    readers = {".csv": _read_csv, ".jsonl": _read_lines, ".json": _read_document}
    reader = readers.get(Path(source).suffix.lower())
    if reader is None:
        raise ModelFileError(source, f"its extension is not one of {', '.join(readers)}")
    try:
        found = _flat(str(source), reader(source, read_text(source, _MOST_BYTES, _REMEDY), named, unread))
        unit = "run" if reader is _read_document else found.unit
        return replace(found, unit=unit, unread=tuple(unread))
    except InputError as error:
        raise ModelFileError(source, "; ".join(error.defects)) from None


def _checked_columns(columns: object) -> dict[str, str]:
    """The names that were given, once they are known to be names of fields."""
    if columns is None:
        return {}
    defects = Defects("columns")
    if not isinstance(columns, Mapping):
        raise InputError("columns", [f"found {columns!r}, expected names by field, such as {{'run': 'episode'}}"])
    for name, column in columns.items():
        if name not in FIELDS:
            defects.add(f"unknown field {name!r}, expected some of {', '.join(FIELDS)}")
        elif not isinstance(column, str) or not column:
            defects.add(f"{name} is {column!r}, expected the name of a column")
    defects.raise_if_any()
    return dict(columns)


def label_field(names: Iterable[str], columns: Columns) -> str | None:
    """Which of some columns or keys is the label: the one that was named, or the only one that is called as labels are.

    **Raises:** `InputError` if several could be.
    """
    if LABEL in columns:
        return columns[LABEL]
    found = [name for name in names if name.strip().lower() in _LABELS]
    if len(found) > 1:
        words = f"{shown(found[0])} and {shown(found[1])} could both be the label of a run"
        raise InputError("labels", [f"{words}: name it, such as columns={{'label': {found[0]!r}}}"])
    return found[0] if found else None


def _find(names: Names, name: str) -> int | None:
    """The number of a name; or the number that it is, if nothing has that name."""
    if name in names:
        return names.find(name)
    number = int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else -1
    return number if 0 <= number < len(names) else None


def _read_csv(path: str | Path, text: str, named: Columns, unread: dict[str, None]) -> Iterator[Run]:
    rows = ((line, [cell.strip() for cell in cells]) for line, cells in read_rows(path, text))
    _, header = next(rows)
    place = _columns(path, header, named)
    unread.update(dict.fromkeys(name for number, name in enumerate(header) if number not in place.values()))
    runs: dict[str, Run] = {}
    for line, row in rows:
        cells = {name: csv_name(row[position]) for name, position in place.items()}
        run = runs.setdefault(cells["run"], Run(cells["run"]))
        if cells["time"] != str(len(run.steps)):
            wanted = f"expected {len(run.steps)}: a line for each time of a run, in order, cells empty if not known"
            raise ModelFileError(path, f"run {shown(run.name)} has time {shown(cells['time'])}, {wanted}", line)
        reward = _number(cells.get("reward"), f"{path}, line {line}")
        run.steps.append(Step(line, **{kind: cells.get(kind) or None for kind in _KINDS}, reward=reward))
        label = cells.get(LABEL) or None
        if None not in (run.label, label) and run.label != label:
            both = f"run {shown(run.name)} has the labels {shown(str(run.label))} and {shown(str(label))}"
            raise ModelFileError(path, f"{both}, expected one for the whole run", line)
        run.label = run.label or label
    yield from runs.values()


def _number(cell: object, where: str) -> float:
    """A reward; NaN if it is not known."""
    if cell is None or cell == "":
        return math.nan
    try:
        found = math.nan if isinstance(cell, bool) else float(cell)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise InputError("logs", [f"{where}: the reward is {shown(str(cell))}, expected a finite number"])
    return found


def _columns(path: str | Path, header: list[str], named: Columns) -> dict[str, int]:
    """The places of the columns that are read, by field."""
    wanted = {name: named.get(name, name) for name in ("run", "time", *_VALUES)}
    try:
        label = label_field([name for name in header if name not in wanted.values()], named)
    except InputError as error:
        raise ModelFileError(path, "; ".join(error.defects), 1) from None
    if label is not None:
        wanted[LABEL] = label
    place = {name: header.index(column) for name, column in wanted.items() if column in header}
    missing = [name for name in ("run", "time", *named) if name not in place]
    if missing or not set(_KINDS) & set(place):
        found = ", ".join(map(shown, header[:8]))
        needed = ", ".join(wanted[name] for name in dict.fromkeys(("run", "time", *named)) if name not in _KINDS)
        kinds = ", ".join(wanted[name] for name in _KINDS)
        remedy = "" if named else "; give other names of columns by columns, such as run=episode"
        raise ModelFileError(path, f"the columns are {found}, expected {needed}, and any of {kinds}{remedy}", 1)
    twice = [header[number] for number in place.values() if header.count(header[number]) > 1]
    if twice:
        raise ModelFileError(path, f"two columns are called {twice[0]!r}", 1)
    return place


def _read_lines(path: str | Path, text: str, named: Columns, unread: dict[str, None]) -> Iterator[Run]:
    for number, line in enumerate(text.split("\n"), 1):  # other line ends may be part of a text
        if line.strip():
            yield _from_mapping(_parsed(path, line, number), number, f"line {number}", named, unread)


def _read_document(path: str | Path, text: str, named: Columns, unread: dict[str, None]) -> Iterator[Run]:
    document = _parsed(path, text, None)
    runs = document.get("runs") if isinstance(document, Mapping) else None
    if not isinstance(runs, list):
        raise ModelFileError(path, 'expected a document {"runs": […]}, as veil simulate --json prints it')
    yield from _from_mappings(runs, named, unread)


def _parsed(path: str | Path, text: str, line: int | None) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise ModelFileError(path, f"not JSON: {error}", line) from None


def _from_mappings(runs: object, named: Columns, unread: dict[str, None]) -> Iterator[Run]:
    if not isinstance(runs, Iterable):
        raise InputError("logs", [f"found {runs!r}, expected a file or a list of runs {_SHAPE}"])
    for number, run in enumerate(runs, 1):
        yield _from_mapping(run, number, f"run {number}", named, unread)


def _from_mapping(run: object, line: int, where: str, named: Columns, unread: dict[str, None]) -> Run:
    """The moments of one run; actions may be one fewer than states, observations too where none is received at time 0."""
    keys = {kind: named.get(kind, key) for kind, key in _KEYS.items()}
    if not isinstance(run, Mapping) or not set(run) & {keys[kind] for kind in _KINDS}:
        shape = _SHAPE if not named else "{" + ", ".join(f'"{keys[kind]}": […]' for kind in _KINDS) + "}"
        raise InputError("logs", [f"{where}: found {shown(str(run))}, expected {shape}"])
    label = label_field((str(key) for key in run if key not in keys.values()), named)
    unread.update(dict.fromkeys(str(key) for key in run if key not in (*keys.values(), label)))
    columns = {kind: _entries(run.get(keys[kind]), keys[kind], where, kind) for kind in _KINDS}
    rewards = [_number(one, where) for one in _listed(run.get(keys["reward"]), keys["reward"], where)]
    if not any(columns.values()):
        raise InputError("logs", [f"{where}: nothing was recorded: leave the run out"])
    size = max(len(columns["state"]), len(columns["observation"]), len(columns["action"]) + (not columns["state"]))
    for kind, given in (*columns.items(), ("reward", rewards)):
        allowed = {0, size, size - 1} if kind in ("action", "reward") else {0, size}
        if len(given) not in allowed:
            remedy = ": write null for what is not known"
            raise InputError("logs", [f"{where}: {len(given)} {keys[kind]} for {size} times{remedy}"])
    moments = [columns[kind] + [None] * (size - len(columns[kind])) for kind in _KINDS]
    steps = zip(*moments, rewards + [math.nan] * (size - len(rewards)), strict=True)
    given = None if label is None else run.get(label)
    value = str(given) if isinstance(given, bool | np.bool_) else _entry(given, str(label), where, observed=True)
    return Run(str(line - 1), [Step(line, *moment) for moment in steps], value)


def _listed(given: object, key: str, where: str) -> Sequence[object]:
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray):
        raise InputError("logs", [f"{where}: {key} is {shown(str(given))}, expected a list"])
    return list(given)


def _entries(given: object, key: str, where: str, kind: str) -> list[str | None]:
    return [_entry(one, key, where, observed=kind == "observation") for one in _listed(given, key, where)]


def _entry(one: object, key: str, where: str, *, observed: bool = False) -> str | None:
    """A name. What is observed may be any number, and a pair (action, observation), as the text that `veil simulate` writes."""
    if observed and isinstance(one, list | tuple) and len(one) == 2:
        return ",".join(str(_entry(part, "", where)) for part in one)
    if one is None or one == "":
        return None
    if observed and isinstance(one, float | np.floating) and math.isfinite(one):
        return f"{one:.15g}"
    if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
        wanted = "names, finite numbers or null" if observed else "names, whole numbers or null"
        raise InputError("logs", [f"{where}: {key} has {shown(str(one))}, expected {wanted}"])
    return str(one)


def _flat(source: str, runs: Iterable[Run]) -> Logs:
    """The columns of all runs."""
    recorded = [run for run in runs if run.steps]
    if not recorded:
        raise InputError(source, ["there are no runs, expected at least one"])
    sees_actions = _are_pairs([run.steps for run in recorded])
    index: dict[str, dict[str, int]] = {kind: {} for kind in _KINDS}
    columns: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    for run in recorded:
        before: str | None = None
        for step in run.steps:
            seen = step.observation
            if sees_actions and seen is not None and before is not None:
                seen = seen.removeprefix(f"{before},")
            for kind, name in (("state", step.state), ("action", step.action), ("observation", seen)):
                columns[kind].append(UNKNOWN if name is None else index[kind].setdefault(name, len(index[kind])))
            before = step.action
    for kind, names in index.items():
        if any(len(name) > _LONGEST_NAME for name in names):
            raise InputError(source, [f"the name of a {kind} has more than {_LONGEST_NAME:,} characters"])
    lengths = np.array([len(run.steps) for run in recorded])
    begins, ends = np.zeros(lengths.sum(), dtype=bool), np.zeros(lengths.sum(), dtype=bool)
    last = np.cumsum(lengths) - 1
    begins[last - lengths + 1], ends[last] = True, True
    line = np.array([step.line for run in recorded for step in run.steps])
    state, action, observation = (np.array(columns[kind], dtype=np.int64) for kind in _KINDS)
    names = {kind: tuple(found) for kind, found in index.items()}
    reward = np.array([step.reward for run in recorded for step in run.steps])
    runs_named, labels = tuple(run.name for run in recorded), tuple(run.label for run in recorded)
    return Logs(source, names, state, action, observation, begins, ends, line, sees_actions, reward, runs_named, labels)


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
