"""The API reference describes everything that it shows: every public class, function and parameter."""

import enum
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import veil


def members(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """A public name with all public functions, methods and properties inside it that the reference shows."""
    yield path, thing
    inside = vars(thing) if isinstance(thing, (type, ModuleType)) else {}
    for name, member in inside.items():
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if name.startswith("_"):
            continue
        if isinstance(thing, ModuleType):
            if getattr(plain, "__module__", None) == thing.__name__ and (
                inspect.isfunction(plain) or isinstance(plain, type)
            ):
                yield from members(f"{path}.{name}", plain)
        elif inspect.isfunction(plain) or isinstance(plain, property):
            yield f"{path}.{name}", plain


PUBLIC = dict(pair for name in sorted(veil.__all__) for pair in members(f"veil.{name}", getattr(veil, name)))


def parameters(thing: Any) -> list[str]:
    """The names that a caller may give; none for what is not called."""
    if (isinstance(thing, type) and issubclass(thing, (Exception, enum.Enum))) or not callable(thing):
        return []
    try:
        found = inspect.signature(thing).parameters
    except ValueError:
        return []
    return [name for name in found if name not in ("self", "cls")]


def test_everything_public_is_described():
    texts = {path: inspect.getdoc(thing) or "" for path, thing in PUBLIC.items()}
    assert len(texts) > 300
    # A text that begins as the call does is the one that dataclass makes.
    assert not [path for path, text in texts.items() if not text or text.startswith(f"{path.rsplit('.', 1)[-1]}(")]


# A parameter whose meaning its name and type say already.
PLAIN = {"problem", "policy", "path", "seed"}
# Functions and classes; what a method shares with others its class describes. The problems of the gallery share theirs.
CALLED = [
    path
    for path, thing in PUBLIC.items()
    if (inspect.isfunction(thing) or isinstance(thing, type))
    and not isinstance(PUBLIC.get(path.rsplit(".", 1)[0]), type)
    and not path.startswith("veil.gallery.")
]


def test_every_parameter_is_described():
    missing = []
    for path in CALLED:
        named = set(re.findall(r"\w+", " ".join(re.findall(r"`+([^`]+)`+", inspect.getdoc(PUBLIC[path]) or ""))))
        missing += [(path, name) for name in parameters(PUBLIC[path]) if name not in named and name not in PLAIN]
    assert len(CALLED) > 80
    assert not missing
