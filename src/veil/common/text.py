"""Text for people and for other programs: columns, names without control characters, cells that are no formulas."""

import re
from collections.abc import Iterable

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def in_parentheses(words: str) -> str:
    """The words after a number: ` (exact)`; empty if there are none."""
    return f" ({words})" if words else ""


def aligned(facts: Iterable[tuple[str, str]]) -> str:
    """A line for each name and value, the values below each other."""
    rows = list(facts)
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def printable(text: str) -> str:
    """The text with control characters and those that change the direction of writing as `\\u001b`, line ends and tabs kept.

    Names come from files, and a terminal would obey what they contain. The form is that of JSON, which stays valid.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def csv_cell(name: str) -> str:
    """A name as the cell of a table: with an apostrophe in front where a spreadsheet would take it for a formula."""
    return f"'{name}" if name.lstrip("'").startswith(_FORMULAS) else name


def csv_name(cell: str) -> str:
    """The name in a cell; the opposite of `csv_cell`."""
    return cell[1:] if cell.startswith("'") and cell.lstrip("'").startswith(_FORMULAS) else cell
