"""How objects read and write files by later modules: the package declares these, each is imported when it is used."""

from collections.abc import Callable
from typing import Any

WRITERS: dict[str, str] = {}
"""By what is read or written, the function `"module:name"` that does it; `veil/__init__.py` declares them."""


def writer(kind: str) -> Callable[..., Any]:
    """The function that reads or writes objects of a kind."""
    from importlib.metadata import EntryPoint

    return EntryPoint("", WRITERS[kind], "").load()
