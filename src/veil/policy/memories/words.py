"""A memory as one word, such as `timed`, `states:2` or `observations:1+clock`: on the command line, in files and forms."""

from typing import TYPE_CHECKING

from ...common.errors import InputError
from .registry import MEMORIES

if TYPE_CHECKING:
    from .memory import PolicyMemory

NAMES = ("markov", "timed", "history")


def numbered() -> dict[str, str]:
    """The kinds of memory that one number describes, with what it means."""
    keys = {kind: MEMORIES.get(kind).keys[0] for kind in MEMORIES}
    return {kind: key.help for kind, key in keys.items() if key.form is int}


def expected() -> str:
    """The words that there are, for messages."""
    return ", ".join((*NAMES, *(f"{kind}:NUMBER" for kind in numbered())))


def memory_of(word: str) -> "PolicyMemory":
    """The memory that a word names; `+clock` and `-clock` say whether the policy also depends on the time.

    **Raises:** `InputError` if there is none; `PluginError` if the package that adds it cannot be loaded.
    """
    if word in NAMES:
        return word
    kind, _, rest = word.partition(":")
    number = rest.removesuffix("+clock").removesuffix("-clock")
    known = MEMORIES.get(kind) if kind in MEMORIES else None
    if known is None or known.keys[0].form is not int or not number.isdecimal() or len(number) > 6:
        raise InputError("memory", [f"found {word!r}, expected {expected()}, or in a file a table"])
    clock = {"clock": rest.endswith("+clock")} if rest != number else {}
    return known.from_table({kind: int(number)} | clock)
