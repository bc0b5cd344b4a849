"""How objects of early rooms write files by later ones: the package declares the writers, each is imported when used."""

from collections.abc import Callable

WRITERS: dict[str, str] = {}
"""By what is written, the function `"module:name"` that writes it; `veil/__init__.py` declares them."""


def writer(kind: str) -> Callable[..., None]:
    """The function that writes objects of a kind."""
    from importlib.metadata import EntryPoint

    return EntryPoint("", WRITERS[kind], "").load()
