"""JSON texts from files: nested no deeper than a parser can follow."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np

_JSON_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^\[\]{}]++")
MOST_LEVELS = 100  # far above any file of veil's, far below the interpreter's own limit


def levels(plain: str) -> int:
    """How deep the brackets and braces of a text without strings are nested."""
    brackets = np.frombuffer(_NO_BRACKETS.sub("", plain).encode(), np.uint8)
    opens = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.cumsum(np.where(opens, 1, -1)).max(initial=0))


def parse_json(text: str | bytes, pairs: Callable[[list[tuple[str, object]]], object] | None = None) -> Any:
    """The value that a JSON text from a file holds; `pairs`: what makes a value of an object's pairs.

    The nesting is counted first: a parser that recurses until the interpreter stops it may crash the process, since a
    garbage collection there runs other libraries' code without any stack left.

    **Raises:** `ValueError` where it is not JSON, or is nested deeper than 100 levels.
    """
    found = text if isinstance(text, str) else text.decode()
    depth = levels(_JSON_STRING.sub("", found))
    if depth > MOST_LEVELS:
        raise ValueError(f"lists or objects are nested {depth:,} levels deep, expected at most {MOST_LEVELS}")
    return json.loads(found, object_pairs_hook=pairs)
