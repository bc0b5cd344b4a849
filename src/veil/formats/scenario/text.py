"""The text of a scenario file: read within limits, parsed, with the line of every key and words for every place."""

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ...common.errors import ScenarioError
from .types import is_real

MOST_BYTES = 2**20
# What the parser of the standard library takes more than a second for, in a file of 1 MiB, is refused unread: keys of
# many parts (its time grows with their square) and hundreds of thousands of tiny entries.
_MOST_PARTS = 12
_MOST_ENTRIES = 260_000
_MOST_DEPTH = 12
_MOST_TABLES = 1_000
_MOST_SUGGESTIONS_FROM = 300
MOST_LISTED = 20

Path_ = tuple[str | int, ...]

# Strings and comments; an unclosed one runs to the end, so that the scan never looks at a character twice.
_STRING = (
    r'"""(?:[^"\\]++|\\.|"{1,2}+(?!"))*+"{0,5}'
    r"|'''(?:[^']++|'{1,2}+(?!'))*+'{0,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"?'
    r"|'[^'\n]*+'?"
)
_HIDDEN = re.compile(rf"(?:{_STRING})|#[^\n]*+", re.DOTALL)
_KEY_LIKE = re.compile(r"[\w\-. \t]+")
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|#[^\n]*+|(?P<mark>[\[\]{{}},=.\n])|(?P<word>[^\s\[\]{{}},=#.\"']+)", re.DOTALL
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class Source:
    """A parsed scenario file, and where everything stands in it.

    **Attributes:** `name`, shown in messages; `data`, the parsed tables.
    """

    def __init__(self, name: str, text: str):
        self.name = name
        self.data = _parse(name, text)
        self._lines: dict[Path_, int] = {}
        self._scan = _Walk(text).statements()

    def line(self, path: Path_) -> int | None:
        """The line of a key or entry, or of the nearest table that holds it; None for the file as a whole."""
        path = self._existing(path)
        # The scan goes on only as far as the path: most defects that are shown stand near the beginning.
        while path and path not in self._lines:
            found = next(self._scan, None)
            if found is None:
                path = path[:-1]
            else:
                self._lines.setdefault(*found)  # a table is where it is first named
        return self._lines.get(path)

    def _existing(self, path: Path_) -> Path_:
        """As much of a path as there is in the file."""
        found: Any = self.data
        for length, part in enumerate(path):
            if isinstance(found, list):
                inside = isinstance(part, int) and part < len(found)
            else:
                inside = isinstance(found, dict) and part in found
            if not inside:
                return path[:length]
            found = cast(Any, found)[part]
        return path

    def place(self, path: Path_) -> str:
        """Where a key stands, as `line 12, [grid] slip`."""
        line = self.line(path)
        return ", ".join(part for part in (f"line {line}" if line else "", self._words(path)) if part)

    def _words(self, path: Path_) -> str:
        first = next((i for i, part in enumerate(path) if isinstance(part, int)), len(path))
        keys = [_written(str(part)) for part in path[:first]]
        rest = "".join(
            f" entry {part + 1}" if isinstance(part, int) else f", {_written(part)}" for part in path[first:]
        )
        found: Any = self.data
        for part in path[:first]:
            found = found.get(part) if isinstance(found, dict) else None
        if isinstance(found, dict) and keys:
            return f"[{'.'.join(keys)}]{rest}"
        if isinstance(found, list) and found and isinstance(found[0], dict) and len(keys) == 1:
            return f"[[{keys[0]}]]{rest}"
        table = f"[{'.'.join(keys[:-1])}] " if len(keys) > 1 else ""
        return f"{table}{keys[-1]}{rest}" if keys else rest


class Notes:
    """The defects of a file: each with its place; raised all at once.

    **Attributes:** `written_at`: where a value stands that was taken over from another table; by default where it is used.
    """

    def __init__(self, source: Source):
        self.source = source
        self.written_at: Callable[[Path_], Path_] = lambda path: path
        self._found: list[str] = []
        self._more = 0

    def add(self, path: Path_, defect: str) -> None:
        """Note a defect of the value at a path."""
        if len(self._found) < MOST_LISTED:
            place = self.source.place(self.written_at(path))
            text = f"{place}: {_short(defect, 2000)}" if place else _short(defect, 2000)
            if text not in self._found:
                self._found.append(text)
        else:
            self._more += 1

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found) + self._more

    def raise_if_any(self) -> None:
        """Raise `ScenarioError` with all that was noted, if anything was."""
        if self._found:
            rest = [f"… and {self._more} more"] if self._more else []
            raise ScenarioError(self.source.name, self._found + rest)


def read_text(path: Path) -> str:
    """The text of a scenario file; raises `ScenarioError` where there is none, or it is too large, or not UTF-8."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise ScenarioError(str(path), ["it is not a file, expected a scenario in TOML"])
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, ScenarioError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError(str(path), [f"it cannot be read ({reason}), expected a scenario in TOML"]) from None
    if len(content) > MOST_BYTES:
        size = max(found.st_size, len(content))
        raise ScenarioError(
            str(path),
            [
                f"it has {size:,} bytes, expected at most {MOST_BYTES:,}: put a large model into a file of its own, [file]"
            ],
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        defect = f"line {line}: byte {content[error.start]:#04x} is not UTF-8, expected a text file in UTF-8"
        raise ScenarioError(str(path), [defect]) from None


def shown(value: Any) -> str:
    """A value of a file as a message shows it: short, and never itself a cause of trouble."""
    if isinstance(value, dict):
        keys = ", ".join(_short(repr(key), 40) for key in list(value)[:4])
        return f"a table with the keys {keys}{', …' if len(value) > 4 else ''}" if value else "an empty table"
    if isinstance(value, list):
        return (
            f"a list of {len(value)}: [{', '.join(shown(item) for item in value[:4])}{', …' if len(value) > 4 else ''}]"
        )
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length()} bits"
    return _short(repr(value), 80)


def near(name: str, known: Iterable[str]) -> str:
    """What may have been meant, or what there is."""
    listed = list(known)
    close: Sequence[str] = []
    if len(listed) <= _MOST_SUGGESTIONS_FROM and len(name) <= 40:
        close = difflib.get_close_matches(name, listed, n=2, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(_short(repr(item), 60) for item in close)}?"
    some = ", ".join(_short(repr(item), 60) for item in listed[:12])
    return f"known are {some}{', …' if len(listed) > 12 else ''}" if listed else "there are none"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _written(key: str) -> str:
    return key if _BARE.fullmatch(key) else _short(f'"{key}"', 60)


def _parse(name: str, text: str) -> dict[str, Any]:
    _check_bulk(name, text)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ScenarioError(name, ["lists or tables are nested too deeply, expected a few levels"]) from None
    except ValueError as error:  # a number of thousands of digits is a plain ValueError
        raise ScenarioError(name, [f"it is not TOML: {_short(str(error), 300)}"]) from None
    return data


def _check_bulk(name: str, text: str) -> None:
    """Refuse what would take the parser long, by counting alone."""
    plain = _HIDDEN.sub(lambda found: "" if found[0][0] == "#" else "q", text)
    parts = max((run.count(".") for run in _KEY_LIKE.findall(plain)), default=0) + 1
    if parts > _MOST_PARTS:
        raise ScenarioError(name, [f"a key has {parts} parts joined by dots, expected at most {_MOST_PARTS}"])
    entries = sum(plain.count(mark) for mark in ",=[.")
    if entries > _MOST_ENTRIES:
        defect = f"it has about {entries:,} entries, expected at most {_MOST_ENTRIES:,}"
        raise ScenarioError(name, [f"{defect}: put a large model into a file of its own, [file]"])


def check_values(source: Source, notes: Notes) -> None:
    """Note every value that no scenario can hold: dates, numbers that are not finite or beyond 64 bits, deep nests."""
    if len(source.data) > _MOST_TABLES:
        notes.add((), f"it has {len(source.data):,} keys and tables at its top, expected a dozen")
        return
    pending: list[tuple[Path_, Any]] = [((), source.data)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, (dict, list)):
            if len(path) >= _MOST_DEPTH:
                notes.add(path, f"is nested {len(path)} levels deep, expected at most {_MOST_DEPTH}")
                continue
            items = value.items() if isinstance(value, dict) else enumerate(value)
            # Plain text and small numbers, nearly everything in a large file, need no second look.
            pending.extend(
                ((*path, key), item)
                for key, item in items
                if not (type(item) is str or (type(item) is int and -(2**31) < item < 2**31))
            )
        elif isinstance(value, bool):
            continue
        elif isinstance(value, int) and value.bit_length() > 63:
            notes.add(path, f"found {shown(value)}, expected a number within 64 bits")
        elif isinstance(value, (int, float)):
            if not is_real(value):
                notes.add(path, f"found {value}, expected a finite number")
        elif not isinstance(value, str):
            notes.add(
                path, f"found the {type(value).__name__} {value}, expected text, a number, true, false or a table"
            )


class _Walk:
    """One pass over the tokens of a text that the parser has accepted: the path of every key and entry, with its line."""

    def __init__(self, text: str):
        self._text = text
        self._tokens = (found for found in _TOKEN.finditer(text) if found.lastgroup is not None)
        self._word, self._start = "", 0
        self._counted, self._line = 0, 1
        self._advance()

    def statements(self) -> Iterator[tuple[Path_, int]]:
        table: Path_ = ()
        counts: dict[Path_, int] = {}
        while self._word:
            if self._word == "\n":
                self._advance()
            elif self._word == "[":
                line = self._line_here()
                self._advance()
                several = self._word == "["
                if several:
                    self._advance()
                table = self._resolved(self._key("]"), counts)
                self._advance()
                if several:
                    self._advance()
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                for length in range(1, len(table) + 1):
                    yield table[:length], line
            else:
                yield from self._pair(table)

    def _pair(self, table: Path_) -> Iterator[tuple[Path_, int]]:
        line = self._line_here()
        path = (*table, *self._key("="))
        self._advance()
        for length in range(len(table) + 1, len(path) + 1):
            yield path[:length], line
        yield from self._value(path)

    def _value(self, path: Path_) -> Iterator[tuple[Path_, int]]:
        opening = self._word
        if opening not in ("[", "{"):
            while self._word and self._word not in (",", "]", "}", "\n"):
                self._advance()  # a number with a point and a date with a blank are several tokens
            return
        self._advance()
        number = 0
        while self._word and self._word not in ("]", "}"):
            if self._word in ("\n", ","):
                self._advance()
            elif opening == "{":
                yield from self._pair(path)
            else:
                yield (*path, number), self._line_here()
                yield from self._value((*path, number))
                number += 1
        self._advance()

    def _key(self, end: str) -> Path_:
        parts: list[str] = []
        while self._word and self._word != end:
            if self._word != ".":
                parts.append(_unquoted(self._word))
            self._advance()
        return tuple(parts)

    def _resolved(self, key: Path_, counts: dict[Path_, int]) -> Path_:
        """The key of a header with the number of the entry after each list of tables on the way."""
        path: Path_ = ()
        for position, part in enumerate(key):
            path = (*path, part)
            if position < len(key) - 1 and path in counts:
                path = (*path, counts[path])
        return path

    def _advance(self) -> None:
        found = next(self._tokens, None)
        self._word, self._start = (found.group(), found.start()) if found is not None else ("", len(self._text))

    def _line_here(self) -> int:
        self._line += self._text.count("\n", self._counted, self._start)
        self._counted = self._start
        return self._line


def _unquoted(token: str) -> str:
    if token[:1] == '"':
        return str(tomllib.loads(f"x = {token}")["x"])  # with its escapes
    return token[1:-1] if token[:1] == "'" else token
