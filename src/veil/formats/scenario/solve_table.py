"""The form of the `[solve]` table, with a key for each option of the solver that a file can give."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema, create_model

from ...common.settings import Setting, settings
from ...planning.methods import METHODS
from ...planning.options import SolveOptions
from .types import Name, States, Table


class MemoryTable(Table):
    """What the policy may remember. Give one of the first four."""

    observations: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="The last k events that the observer received; the agent must see them too."
    )
    states: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="The k states before the current one."
    )
    zones: Annotated[list[States], Field(max_length=60)] | None = Field(
        None, description="Which of these sets of states were visited."
    )
    controller: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None, description="A controller with this many nodes, whose meaning is found by the search."
    )
    clock: bool | None = Field(
        None, description="Whether the policy also depends on the time: true by default, for a controller false."
    )


def _memory_form(value: object) -> str:
    return "table" if isinstance(value, (dict, MemoryTable)) else "word"


# The tags under which pydantic reports defects of a value with two forms; they are no keys of the file.
FORMS = ("table", "word")
Memory = Annotated[
    Annotated[Literal["markov", "timed", "history"], Tag("word")] | Annotated[MemoryTable, Tag("table")],
    Discriminator(_memory_form),
]
_METHODS = ", ".join(f'`"{name}"`' for name in METHODS.builtin)
# Options whose values are written otherwise in a file than in Python.
_WRITTEN: dict[str, object] = {
    "memory": Memory,
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
    """How to solve it: what `veil solve` uses unless told otherwise. All can be left out."""
