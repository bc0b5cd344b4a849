"""Keys that a secret, a memory or a feature of observers declares: their forms in files, and what a file gives for them."""

from collections.abc import Iterable
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin

from pydantic import Field, create_model

from ...common.checks import Defects
from ...problem.keys import SECRET_CELLS, Key
from ...problem.keys import States as StatesKey
from .types import Finite, Form, Name, States, StateSet, Table, listed

if TYPE_CHECKING:
    from .models import ScenarioModel

MOST_WORK = 2**21  # states times sets of states in a table

T = TypeVar("T", bound=Table)


def declared_form(declared: Any, ending: str, base: type[T], **more: Any) -> type[T]:
    """The form of the table of a class that declares `keys`, with further fields before them; its name has an `ending`."""
    first = (declared.__doc__ or "").strip().split("\n\n")[0]
    keys: dict[str, Any] = more | {key.name: _field(key) for key in declared.keys}
    return create_model(f"{declared.__name__}{ending}", __base__=base, __doc__=first, **keys)


def read_keys(keys: Iterable[Key], form: Table, model: "ScenarioModel", defects: Defects) -> dict[str, object]:
    """The value of every key, given or default, with states by their indices; every defect is noted."""
    grouped = getattr(form, "groups", None) is not None  # instead of a set of states
    return {key.name: _value(key, getattr(form, key.name), model, defects.under(key.name), grouped) for key in keys}


def _field(key: Key) -> tuple[object, object]:
    if get_origin(key.form) in (list, dict):
        limits = Field(max_length=None if key.most is None else int(key.most))
    elif key.form in (int, float):
        limits = Field(ge=key.least, le=key.most)
    else:
        limits = Field()
    form: Any = Annotated[_annotation(key.form), limits]
    if key.is_needed:
        return form, Field(description=key.help)
    if isinstance(key.default, (bool, int, float, str)):
        return form, Field(key.default, description=key.help)
    return form | None, Field(None, description=key.help)


def _annotation(form: object) -> Any:
    """A form that a class declares as pydantic reads it: strings are names, states have their forms in files."""
    if get_origin(form) is Annotated:
        inner, expected = get_args(form)
        return Annotated[_annotation(inner), Form(expected, f"`{expected}`")]
    if form == StatesKey:
        return States
    origin: Any = get_origin(form)
    parts = tuple(_annotation(argument) for argument in get_args(form))
    if origin is tuple:
        return Annotated[tuple[parts], listed]
    return GenericAlias(origin, parts) if origin in (list, dict) else {str: Name, float: Finite}.get(form, form)


def _value(key: Key, value: object, model: "ScenarioModel", defects: Defects, grouped: bool) -> object:
    """A value as the class takes it: states by their indices."""
    if key.default is SECRET_CELLS and value is None and not grouped:
        return _secret_cells(model, defects)
    return value if value is None else _found(key.form, value, model, defects)


def _found(form: object, value: object, model: "ScenarioModel", defects: Defects) -> object:
    if form == StatesKey:
        return model.find(cast(StateSet, value), defects)
    if not isinstance(value, (list, dict)) or not _names_states(form):
        return value
    if len(value) * model.model.num_states > MOST_WORK:
        found = f"found {len(value):,} sets of states over {model.model.num_states:,} states"
        defects.add(f"{found}, expected at most {MOST_WORK:,} pairs of them")
        return value
    inner = get_args(form)[-1]
    if isinstance(value, dict):
        return {name: _found(inner, item, model, defects.under(name)) for name, item in value.items()}
    return [_found(inner, item, model, defects.under(number)) for number, item in enumerate(value)]


def _names_states(form: object) -> bool:
    return form == StatesKey or any(map(_names_states, get_args(form)))


def _secret_cells(model: "ScenarioModel", defects: Defects) -> list[int]:
    if model.grid is not None and model.grid.secrets:
        return [model.state_numbers[model.grid.state(*cell)] for cell in model.grid.secrets]
    why = "which only a grid can leave out" if model.grid is None else "and no cell of the grid is secret (?)"
    defects.add(f"is missing, {why}: name the states")
    return []
