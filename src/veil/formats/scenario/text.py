"""The text of a scenario file: read within limits, parsed, and its defects, each with its line and key."""

import math
import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import cast

from ...common.checks import MOST_LISTED, Defects
from ...common.errors import Defect, ModelFileError, Place, ScenarioError
from ...common.json_text import MOST_LEVELS, levels
from ...common.suggest import shortened
from ..text import read_text
from .lines import STRING, spans

MOST_BYTES = 2**20
# What the parser of the standard library takes more than a second for, in a file of 1 MiB, is refused unread: keys of
# many parts (its time grows with their square) and hundreds of thousands of tiny entries.
_MOST_PARTS = 12
_MOST_ENTRIES = 260_000
_MOST_DEPTH = 12
_MOST_TABLES = 1_000

_HIDDEN = re.compile(rf"(?:{STRING})|#[^\n]*+", re.DOTALL)
_KEY_LIKE = re.compile(r"[\w\-. \t]+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Source:
    """A parsed scenario file, with the place of every key.

    **Attributes:** `name`, shown in messages; `text`; `data`, the parsed tables.
    """

    def __init__(self, name: str, text: str):
        self.name, self.text = name, text
        self.data = parse(name, text)
        self._changes: dict[Place, str] = {}

    def line(self, path: Place) -> int | None:
        """The line of a key or entry, or of the nearest table that holds it; None for the file as a whole."""
        path = self._existing(path)
        while path and path not in self._begins:
            path = path[:-1]
        return self.text.count("\n", 0, self._begins[path]) + 1 if path else None

    @cached_property
    def _begins(self) -> dict[Place, int]:
        return spans(self.text).begins

    def _existing(self, path: Place) -> Place:
        """As much of a path as there is in the file."""
        found: object = self.data
        for length, part in enumerate(path):
            keys = found if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else ()
            if part not in keys:
                return path[:length]
            found = cast(dict[str | int, object], found)[part]
        return path

    def note_change(self, path: Place, text: str) -> None:
        """Note that the value at a place is not the file's: its defects name the text that gave it."""
        self._changes[tuple(str(part) for part in path)] = text

    def place(self, path: Place) -> str:
        """Where a key stands, as `line 12, [grid] slip`; what leads into a plain value ends at that value."""
        parts = tuple(str(part + 1) if isinstance(part, int) else part for part in path)
        for length in range(len(parts), 0, -1):
            if parts[:length] in self._changes:
                return f"--set {shortened(self._changes[parts[:length]], 80)}"
        known = len(self._existing(path))
        is_value = known and not isinstance(self._get(path[:known]), (dict, list))
        words, line = self._words(path[:known] if is_value else path), self.line(path)
        return ", ".join(part for part in (f"line {line}" if line else "", words) if part)

    def _get(self, path: Place) -> object:
        found: object = self.data
        for part in path:
            found = cast(dict[str | int, object], found)[part]
        return found

    def _words(self, path: Place) -> str:
        first = next((i for i, part in enumerate(path) if isinstance(part, int)), len(path))
        keys = [_written(str(part)) for part in path[:first]]
        rest = "".join(
            f" entry {part + 1}" if isinstance(part, int) else f", {_written(part)}" for part in path[first:]
        )
        found = self._get(path[:first]) if self._existing(path[:first]) == path[:first] else None
        if isinstance(found, dict) and keys:
            return f"[{'.'.join(keys)}]{rest}"
        if isinstance(found, list) and found and isinstance(found[0], dict) and len(keys) == 1:
            return f"[[{keys[0]}]]{rest}"
        table = f"[{'.'.join(keys[:-1])}] " if len(keys) > 1 else ""
        return f"{table}{keys[-1]}{rest}" if keys else rest


class ScenarioDefects(Defects):
    """The defects of a file, each with its place; raised all at once, in the order of their lines."""

    def __init__(self, source: Source):
        super().__init__(source.name)
        self.source = source
        self._placed: list[tuple[int, Defect]] = []

    def add(self, message: str, *at: str | int, where: str = "") -> None:
        """Note a defect of the value at a place; `where` says in other words what the line and key tell."""
        if len(self._placed) == MOST_LISTED:
            self._more += 1
            return
        line, place = self.source.line(at), self.source.place(at)
        text = shortened(message, 2000)
        found = (line or 0, Defect(f"{place}: {text}" if place else text, at))
        if found not in self._placed:
            self._placed.append(found)

    def __len__(self) -> int:
        return len(self._placed) + self._more

    def raise_if_any(self) -> None:
        """Raise `ScenarioError` with all that was noted, if anything was."""
        if self._placed:
            rest = [f"… and {self._more} more"] if self._more else []
            found = [defect for _, defect in sorted(self._placed, key=lambda placed: placed[0])]
            raise ScenarioError(self.subject, [*found, *rest])


def read_scenario_text(path: Path) -> str:
    """The text of a scenario file; raises `ScenarioError` where there is none, or it is too large, or not UTF-8."""
    try:
        return read_text(path, MOST_BYTES, "put a large model into a separate file, [file]")
    except ModelFileError as error:
        line = f"line {error.line}: " if error.line is not None else ""
        raise ScenarioError(str(path), [f"{line}{error.message}"]) from None


def shown(value: object) -> str:
    """A value of a file as a message shows it: short, and never itself a cause of trouble."""
    if isinstance(value, dict):
        keys = ", ".join(shortened(repr(key), 40) for key in list(value)[:4])
        return f"a table with the keys {keys}{', …' if len(value) > 4 else ''}" if value else "an empty table"
    if isinstance(value, list):
        return (
            f"a list of {len(value)}: [{', '.join(shown(item) for item in value[:4])}{', …' if len(value) > 4 else ''}]"
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length()} bits"
    return shortened(repr(value), 80)


def _written(key: str) -> str:
    return key if _BARE.fullmatch(key) else shortened(f'"{key}"', 60)


def parse(name: str, text: str) -> dict[str, object]:
    """The tables of a TOML text; raises `ScenarioError`."""
    _check_bulk(name, text)
    try:
        data = tomllib.loads(text)
    except ValueError as error:  # a number of thousands of digits is a plain ValueError
        raise ScenarioError(name, [f"it is not TOML: {shortened(str(error), 300)}"]) from None
    return data


def _check_bulk(name: str, text: str) -> None:
    """Refuse what would take the parser long, by counting alone."""
    plain = _HIDDEN.sub(lambda found: "" if found[0][0] == "#" else "q", text)
    parts = max((run.count(".") for run in _KEY_LIKE.findall(plain)), default=0) + 1
    if parts > _MOST_PARTS:
        raise ScenarioError(name, [f"a key has {parts} parts joined by dots, expected at most {_MOST_PARTS}"])
    depth = levels(plain)
    if depth > MOST_LEVELS:
        raise ScenarioError(name, [f"lists or tables are nested {depth:,} levels deep, expected at most {_MOST_DEPTH}"])
    entries = sum(plain.count(mark) for mark in ",=[.")
    if entries > _MOST_ENTRIES:
        defect = f"it has about {entries:,} entries, expected at most {_MOST_ENTRIES:,}"
        raise ScenarioError(name, [f"{defect}: put a large model into a separate file, [file]"])


def check_values(data: dict[str, object], defects: Defects) -> None:
    """Note every value that no scenario can hold: dates, numbers that are not finite or beyond 64 bits, deep nests."""
    if len(data) > _MOST_TABLES:
        defects.add(f"it has {len(data):,} keys and tables at its top, expected a dozen")
        return
    pending: list[tuple[Place, object]] = [((), data)]
    while pending:
        place, value = pending.pop()
        if isinstance(value, (dict, list)):
            if len(place) >= _MOST_DEPTH:
                defects.add(f"is nested {len(place)} levels deep, expected at most {_MOST_DEPTH}", *place)
                continue
            items = value.items() if isinstance(value, dict) else enumerate(value)
            # Plain text and small numbers, nearly everything in a large file, need no second look.
            pending.extend(
                ((*place, key), item)
                for key, item in items
                if not (type(item) is str or (type(item) is int and -(2**31) < item < 2**31))
            )
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int) and value.bit_length() > 63:
            defects.add(f"found {shown(value)}, expected a number within 64 bits", *place)
        elif isinstance(value, (int, float)):
            if not math.isfinite(value):
                defects.add(f"found {value}, expected a finite number", *place)
        elif not isinstance(value, str):
            found = f"found the {type(value).__name__} {value}"
            defects.add(f"{found}, expected text, a number, true, false or a table", *place)
