"""Values that are given beside a scenario file, as `grid.slip=0.2`: each replaces what the file says, or removes it."""

import re
from collections.abc import Iterable
from typing import Any

from ...common.checks import Defects
from ...common.errors import InputError, Place, ScenarioError
from ...common.suggest import shortened
from .text import Source, parse

_MOST_CHARACTERS = 4_096
_MOST_BRACKETS = 64  # a value is a list or a small table: deeper ones are refused before they are parsed
_PART = re.compile(r'"([^"]*)"|([^."]+)')
_FORM = "expected KEY=VALUE, such as horizon=20 or grid.slip=0.2"


def apply_changes(source: Source, changes: Iterable[str]) -> None:
    """Change the tables of a scenario, whose defects then name the change instead of a line.

    **Arguments:** `changes`: texts `KEY=VALUE`. A key has its tables before it, joined by dots; a number counts the entries
    of a list from 1; a part with a dot in it is quoted. A value is one of TOML, or else text; an empty one removes the key.

    **Raises:** `InputError` listing the texts of another form and those that lead through a plain value.
    """
    defects = Defects("--set")
    for text in changes:
        try:
            place, value = read_change(text)
            _put(source, place, value)
            source.note_change(place, text)
        except InputError as error:
            for defect in error.defects:
                defects.add(str(defect))
    defects.raise_if_any()


def read_change(text: str) -> tuple[tuple[str, ...], Any]:
    """The key and the value of a text `KEY=VALUE`; None is the value of a key that is removed."""
    key, equals, value = text.partition("=")
    parts = [quoted or plain.strip() for quoted, plain in _PART.findall(key)]
    rebuilt = ".".join(found.group() for found in _PART.finditer(key))
    if not equals or not all(parts) or not parts or rebuilt != key:
        raise InputError("--set", [f"found {shortened(text, 80)!r}, {_FORM}"])
    if len(value) > _MOST_CHARACTERS or value.count("[") + value.count("{") > _MOST_BRACKETS:
        raise InputError("--set", [f"{key}: the value is too long or too deeply nested, put it into the scenario file"])
    return tuple(parts), _value(value.strip())


def _value(text: str) -> Any:
    """A value of TOML; text where it is none, as `80%` or `timed`."""
    if not text:
        return None
    try:
        found = parse("value", f"value = {text}")
    except ScenarioError:
        return text
    return found["value"] if len(found) == 1 else text


def _put(source: Source, place: Place, value: Any) -> None:
    """Set or remove the value at a place; tables that are not there are made."""
    table: Any = source.data
    for length, part in enumerate(place):
        found: Any = part
        if isinstance(table, list):
            if not (str(part).isdecimal() and 1 <= int(part) <= len(table)):
                words = f"{_key(place[: length + 1])}: expected the number of an entry, from 1 to {len(table)}"
                raise InputError("--set", [words])
            found = int(part) - 1
        elif not isinstance(table, dict):
            raise InputError("--set", [f"{_key(place)}: {_key(place[:length])} is a plain value, expected a table"])
        if length < len(place) - 1:
            table = table[found] if isinstance(table, list) else table.setdefault(found, {})
        elif value is None:
            if isinstance(table, list) or found not in table:
                raise InputError("--set", [f"{_key(place)}= removes a key that is not there"])
            del table[found]
        else:
            table[found] = value


def _key(place: Place) -> str:
    return ".".join(map(str, place))
