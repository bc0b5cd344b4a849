"""Changes to the text of a scenario that leave everything else in it as it is, comments included."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...common.errors import Place, ScenarioError, VeilError
from .lines import Spans, spans
from .text import parse
from .toml import key_of, text_of, value_of

Change = tuple[tuple[str, ...], object]


def edit(text: str, changes: Iterable[Change]) -> str:
    """The text with some values set or removed.

    **Arguments:** `text`: of a scenario, valid TOML; `changes`: the keys that lead to a value through tables (not through lists
    of tables), and the value as TOML knows it, None to remove the key.

    **Guarantee:** the result parses as the tables of `text` with these values, and as nothing else.

    **Raises:** `ScenarioError` where the text is not TOML; `VeilError` where a key leads through a plain value.
    """
    for place, value in changes:
        wanted = copy.deepcopy(parse("scenario", text))
        _put(wanted, place, value)
        changed = _write(text, wanted, place, value)
        try:
            found = parse("scenario", changed)
        except ScenarioError:
            found = None
        if found != wanted:
            raise VeilError(f"{'.'.join(place)} cannot be changed where it stands in the text: change it by hand")
        text = changed
    return text


def _put(data: dict[str, object], place: tuple[str, ...], value: object) -> None:
    table: Any = data
    for part in place[:-1]:
        if value is None and part not in table:
            return
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise VeilError(f"{'.'.join(place)} leads through {part!r}, which is no table")
    if value is None:
        table.pop(place[-1], None)
    else:
        table[place[-1]] = value


def _write(text: str, wanted: Mapping[str, object], place: tuple[str, ...], value: object) -> str:
    """The text with one change, in the form that its neighbours have."""
    found = spans(text)
    # A key inside an inline table, or at the end of dotted keys: what holds it is written anew.
    holder = next((place[:n] for n in range(len(place), 0, -1) if place[:n] in found.values), None)
    if holder is not None and (value is not None or len(holder) < len(place)):
        _, begin, end = found.values[holder]
        return text[:begin] + _value(_get(wanted, holder)) + text[end:]
    if value is None:
        return _without(text, found, place)
    if isinstance(value, Mapping) and place in found.tables:
        raise VeilError(f"{'.'.join(place)} is a separate table: change its keys one by one")
    return _with(text, found, place, value)


def _with(text: str, found: Spans, place: Place, value: object) -> str:
    """A new key at the end of its table, which is made where there is none."""
    parent, line = place[:-1], f"{key_of(str(place[-1]))} = {_value(value)}\n"
    if parent and parent not in found.tables:
        header = f"[{'.'.join(key_of(str(part)) for part in parent)}]\n"
        related = [begin for table, (begin, _) in found.tables.items() if table[:1] == parent[:1]]
        end = _section_end(text, found, max(related)) if related else len(text)
        before = text[:end].rstrip("\n")
        return f"{before}\n\n{header}{line}" + ("\n" + text[end:].lstrip("\n") if text[end:].strip() else "")
    end = _own_end(text, found, parent)
    before = text[:end] if not end or text[end - 1] == "\n" else text[:end] + "\n"
    return before + line + text[end:]


def _without(text: str, found: Spans, place: Place) -> str:
    """The text without a key with its lines, or without a table and all tables in it."""
    if place in found.values:
        begin, _, end = found.values[place]
        return text[: _line_begin(text, begin)] + text[_line_end(text, end) :]
    for table, (begin, _) in reversed(found.tables.items()):
        if table[: len(place)] == place:
            text = text[: _line_begin(text, begin)] + text[_section_end(text, found, begin) :].lstrip("\n")
    return text


def _own_end(text: str, found: Spans, table: Place) -> int:
    """The end of the last line of a table that holds a key of its own, or of its header."""
    begin = found.tables[table][1] if table else 0
    headers = sorted(start for start, _ in found.tables.values())
    limit = next((start for start in headers if start >= begin), len(text))
    ends = [end for start, _, end in found.values.values() if begin <= start < limit]
    if not ends and not table:
        return 0
    return _line_end(text, max([begin, *ends]))


def _section_end(text: str, found: Spans, begin: int) -> int:
    """The end of the last line of the table whose header begins at an offset."""
    table = next(table for table, (start, _) in found.tables.items() if start == begin)
    return _own_end(text, found, table)


def _line_begin(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _get(data: Mapping[str, object], place: Place) -> object:
    found: Any = data
    for part in place:
        found = cast(Mapping[object, object], found)[part]
    return found


def _value(value: object) -> str:
    """A value as TOML writes it; text of several lines on lines of their own."""
    if not isinstance(value, str) or "\n" not in value:
        return value_of(value)
    escaped = "\n".join(text_of(line)[1:-1] for line in value.split("\n"))
    return f'"""\n{escaped}"""'
