"""The form of the `[solve]` table, with a key for each option of the solver that a file can give."""

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema, create_model

from ...common.settings import Setting, settings
from ...planning.methods import METHODS
from ...planning.options import SolveOptions
from ...policy.memories.registry import MEMORIES
from .keys import declared_form
from .types import Form, Name, Table

_Memory = Annotated[
    Name | dict[str, object],
    Form(
        '"markov", "timed", "history", a word such as "states:2", or a table such as { states = 2 }',
        '`"markov"`, `"timed"`, `"history"`, a word such as `"states:2"`, or table',
    ),
]


@cache
def memory_form(kind: str) -> type[Table]:
    """The form of a `[solve.memory]` table of one kind, from the keys that its class declares.

    **Raises:** `PluginError` if the package that adds it cannot be loaded.
    """
    return declared_form(MEMORIES.get(kind), "Table", Table)


_METHODS = ", ".join(f'`"{name}"`' for name in METHODS.builtin)
# Options whose values are written otherwise in a file than in Python.
_WRITTEN: dict[str, object] = {
    "memory": _Memory,
    "method": Annotated[Name, WithJsonSchema({"type": "string", "x-form": f"{_METHODS}, or that of a package"})],
}
_PLAIN: dict[str, object] = {"switch": bool, "whole number": int, "number": float, "text": Name}


def _key(option: Setting) -> tuple[object, object]:
    """A key as pydantic takes it: its form, and its default with the help text."""
    about, bounds = option.about, {"ge": option.about.least, "gt": option.about.above, "le": option.about.most}
    limits: dict[str, Any] = {name: value for name, value in bounds.items() if value is not None}
    if option.kind == "number":
        limits["allow_inf_nan"] = False
    form: Any = _WRITTEN.get(option.name)
    if form is None:
        form = Literal[option.choices] if option.choices else Annotated[_PLAIN[option.kind], Field(**limits)]
    notes = [f"Methods: {', '.join(about.methods)}."] if about.methods else []
    notes += [f"Default: {about.unset}."] if about.unset else []
    words = " ".join([about.help, *notes])
    return form | None if option.optional else form, Field(option.default, description=words)


def _table() -> type[Table]:
    keys: dict[str, Any] = {name: _key(one) for name, one in settings(SolveOptions).items() if one.about.in_file}
    return create_model("Settings", __base__=Table, **keys)


class Settings(_table()):
    """The options of `veil solve`, all optional; its flags replace them."""
