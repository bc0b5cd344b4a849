"""What earlier modules do by later ones, such as writing files: the package declares these, each is imported when used."""

from collections.abc import Callable
from typing import Any

WRITERS: dict[str, str] = {}
"""By what is read, written or solved, the function `"module:name"` that does it; `veil/__init__.py` declares them."""


def writer(kind: str) -> Callable[..., Any]:
    """The function that reads, writes or solves a kind."""
    from importlib.metadata import EntryPoint

    return EntryPoint("", WRITERS[kind], "").load()
