"""What may have been meant by a name that does not exist: the end of the message about it."""

import difflib
from collections.abc import Iterable

_MOST_COMPARED = 1_000  # names: comparing them takes about 10 ms
_MOST_LISTED = 12


def suggestion(name: object, known: Iterable[str]) -> str:
    """`did you mean 'a' or 'b'?` where known names are near, else `known are 'a', 'b', …`."""
    names = list(known)
    close: list[str] = []
    if isinstance(name, str) and len(name) <= 40 and len(names) <= _MOST_COMPARED:
        close = difflib.get_close_matches(name, names, n=2)
    if close:
        return f"did you mean {' or '.join(_quoted(item) for item in close)}?"
    some = ", ".join(map(_quoted, names[:_MOST_LISTED]))
    return f"known are {some}{', …' if len(names) > _MOST_LISTED else ''}" if names else "there are none"


def shortened(text: str, most: int) -> str:
    """At most so many characters of a text."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _quoted(name: str) -> str:
    return shortened(repr(name), 60)
