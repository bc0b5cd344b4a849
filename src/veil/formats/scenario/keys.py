"""Tables of declared keys: their forms in files, and the object that a file gives by them."""

from collections.abc import Callable, Iterable
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, cast, get_args, get_origin

from pydantic import Field, create_model

from ...common.checks import Defects
from ...common.errors import VeilError
from ...problem.keys import SECRET_CELLS, Key, Limit, PolicyFile
from ...problem.keys import States as StatesKey
from .types import FilePath, Finite, Form, Name, States, StateSet, Table, Threshold, listed

if TYPE_CHECKING:
    from .models import ScenarioModel

MOST_WORK = 2**21  # states times sets of states in a table

FORMS: dict[object, Any] = {str: Name, float: Finite, StatesKey: States, Limit: Threshold, PolicyFile: FilePath}
"""How a file gives values of some forms; `schema` adds those that are tables."""

T = TypeVar("T", bound=Table)
M = TypeVar("M")


class Declared(Protocol):
    """A class with `keys`, which are arguments of its constructor."""

    keys: tuple[Key, ...]
    __name__: str


def declared_form(declared: Any, ending: str, base: type[T], **more: Any) -> type[T]:
    """The form of the table of a class that declares `keys`, with further fields before them; its name has an `ending`."""
    first = (declared.__doc__ or "").strip().split("\n\n")[0]
    return create_model(
        f"{declared.__name__}{ending}", __base__=base, __doc__=first, **more, **fields_of(declared.keys)
    )


def fields_of(keys: Iterable[Key]) -> dict[str, Any]:
    """The fields of a form that has some keys."""
    return {key.name: _field(key) for key in keys}


def make(declared: Callable[..., M], form: Table, where: "ScenarioModel", defects: Defects, **more: object) -> M | None:
    """The object of a table; None with every defect noted. `more`: arguments that are no keys."""
    before = len(defects)
    given = read_keys(cast(Declared, declared).keys, form, where, defects)
    try:
        return declared(**given, **more) if len(defects) == before else None
    except VeilError as error:
        defects.take(error)
        return None


def read_keys(keys: Iterable[Key], form: Table, model: "ScenarioModel", defects: Defects) -> dict[str, Any]:
    """The value of every key, given or default, with states by their indices; every defect is noted."""
    grouped = getattr(form, "groups", None) is not None  # instead of a set of states
    return {key.name: _value(key, getattr(form, key.name), model, defects.under(key.name), grouped) for key in keys}


def _field(key: Key) -> tuple[object, object]:
    form: Any = _annotation(key.form)
    most = None if key.most is None else int(key.most)
    if key.form is str and most is not None:
        form = Annotated[str, Field(min_length=1, max_length=most)]
    elif get_origin(key.form) in (list, dict):
        form = Annotated[form, Field(max_length=most)]
    elif key.form in (int, float):
        form = Annotated[form, Field(ge=key.least, le=key.most)]
    if key.is_needed:
        return form, Field(description=key.help)
    if key.default is None or key.default is SECRET_CELLS:
        return form | None, Field(None, description=key.help)
    return form, Field(key.default, description=key.help)


def _annotation(form: object) -> Any:
    """A form that a class declares as pydantic reads it: strings are names, states have their forms in files."""
    if get_origin(form) is Annotated:
        inner, expected = get_args(form)
        return Annotated[_annotation(inner), Form(expected, f"`{expected}`")]
    if form in FORMS:
        return FORMS[form]
    origin: Any = get_origin(form)
    parts = tuple(_annotation(argument) for argument in get_args(form))
    if origin is tuple:
        return Annotated[tuple[parts], listed]
    return GenericAlias(origin, parts) if origin in (list, dict) else form


def _value(key: Key, value: object, model: "ScenarioModel", defects: Defects, grouped: bool) -> object:
    """A value as the class takes it: states by their indices."""
    if key.default is SECRET_CELLS and value is None and not grouped:
        return _secret_cells(model, defects)
    return value if value is None else _found(key.form, value, model, defects)


def _found(form: object, value: object, model: "ScenarioModel", defects: Defects) -> object:
    if form == StatesKey:
        return model.find(cast(StateSet, value), defects)
    if form in model.readers:
        return model.readers[form](value, defects)
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
