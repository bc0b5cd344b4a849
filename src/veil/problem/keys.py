"""The keys that a class declares for its table in scenario files: secrets, memories, observers, constraints, pairs, masks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NewType, get_args, get_origin

from ..common.checks import Names

States = tuple[int, ...]  # the form of a key that holds a set of states; they are read as indices
Limit = NewType("Limit", object)  # that of a bound: a number, or a percentage of a range
PolicyFile = NewType("PolicyFile", object)  # that of a policy: the path of its file, or `"uniform"`


class _Default(Enum):
    NEEDED = "needed"
    SECRET_CELLS = "the secret cells of the grid"


SECRET_CELLS = _Default.SECRET_CELLS


@dataclass(frozen=True)
class Key:
    """One key of a table in scenario files; the schema, its messages and the reference are made of these.

    **Arguments:**

    - `name`: the key.
    - `form`: the type of its value: `bool`, `int`, `float`, `str` (of at most 200 characters), `States`, a `Literal`
      of strings, and `list[…]`, `dict[str, …]` and `tuple[…, …]` (a list of fixed length) of these. States are given in a
      file by name, index, expression or drawing. `Annotated[form, "words"]` says what is expected in an error message.
    - `help`: one sentence on its meaning.
      `Limit`, `PolicyFile`, `Observer` and `Secret` are for classes of veil.
    - `default`: what holds where the key is left out; `SECRET_CELLS`, for `States`: the secret cells of the grid, and needed
      where there is no grid. Without a default the key is needed.
    - `least`, `most`: the range of a number; `most` also bounds the entries of a list or table, and the characters of a text.
    """

    name: str
    form: object
    help: str
    default: object = _Default.NEEDED
    least: float | None = None
    most: float | None = None

    @property
    def is_needed(self) -> bool:
        """Whether every file must give the key."""
        return self.default is _Default.NEEDED


Writers = Mapping[object, Callable[[Any], object]]
"""How values of some forms are written."""


def written(value: Any, form: object, states: Names, writers: Writers | None = None) -> object:
    """A value as a scenario file gives it: states by name, in their order."""
    if form == States:
        return [states[index] for index in sorted({states.find(key) for key in value})]
    if get_origin(form) is dict:
        return {str(name): written(item, get_args(form)[1], states) for name, item in value.items()}
    return writers[form](value) if writers is not None and form in writers else value


def table_of(value: object, keys: Iterable[Key], states: Names, writers: Writers | None = None) -> dict[str, object]:
    """The keys of a table whose attributes differ from their defaults, as a scenario file gives them."""
    given = [(key, getattr(value, key.name)) for key in keys]
    return {
        key.name: written(one, key.form, states, writers)
        for key, one in given
        if one is not None and one != key.default
    }


def defect_of_kind(entry: object, base: type, path: str) -> str | None:
    """What keeps the class of another package from being a kind of `base`, whose `path` is in the message; None if nothing."""
    if not (isinstance(entry, type) and issubclass(entry, base)):
        return f"expected a subclass of {path}"
    if not isinstance(getattr(entry, "kind", None), str):
        return "expected the class attribute kind, its name in scenario files"
    return defect_of_keys(getattr(entry, "keys", None))


def defect_of_keys(keys: object) -> str | None:
    """What keeps the class attribute `keys` of another package from being used; None if it is a tuple of `Key`."""
    if not isinstance(keys, tuple) or not all(isinstance(key, Key) for key in keys):
        return "expected the class attribute keys, a tuple of Key"
    wrong = [f"key {key.name!r} has the form {key.form!r}" for key in keys if not _is_form(key.form)]
    return f"{wrong[0]}, expected one that veil.problem.keys.Key describes" if wrong else None


def _is_form(form: object) -> bool:
    origin, parts = get_origin(form), get_args(form)
    if form == States or form in (bool, int, float, str):
        return True
    if origin is Annotated:
        return len(parts) == 2 and isinstance(parts[1], str) and _is_form(parts[0])
    if origin is Literal:
        return all(isinstance(part, str) for part in parts)
    return origin in (list, tuple, dict) and all(map(_is_form, parts)) and (origin is not dict or parts[0] is str)
