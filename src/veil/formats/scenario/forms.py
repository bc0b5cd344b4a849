"""The tables of a scenario file checked by pydantic, and what it finds wrong in the words of this project."""

from collections.abc import Iterable, Mapping
from typing import Annotated, TypeGuard, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ...common.checks import MOST_LISTED, Defects
from ...common.errors import Place
from ...common.suggest import suggestion
from ...problem.secrets.registry import SECRETS
from .schema import ScenarioFile, SecretForm, secret_form
from .text import shown
from .types import ErrorBudget, Table

_KINDS = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text in quotes",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_BOUNDS = {
    "greater_than_equal": "{ge:,} or more",
    "less_than_equal": "at most {le:,}",
    "greater_than": "above {gt:,}",
    "string_too_short": "text that is not empty",
    "string_too_long": "at most {max_length:,} characters",
    "too_long": "at most {max_length:,} entries",
}

T = TypeVar("T", bound=Table)


def read_tables(data: Mapping[str, object], defects: Defects) -> tuple[ScenarioFile, set[str]]:
    """The tables of a file, and the top-level keys of a wrong form, which are left out; every defect of form is noted.

    With what is in order the remaining checks can go on; a needed key of a wrong form has a value that fits.
    """
    try:
        return ScenarioFile.model_validate(data, context=ErrorBudget()), set()
    except ValidationError as error:
        _note(error, ScenarioFile, defects)
        wrong = {str(found["loc"][0]) for found in error.errors(include_url=False, include_input=False)}
    usable = {key: value for key, value in data.items() if key not in wrong}
    return ScenarioFile.model_validate({"horizon": 0} | usable, context=ErrorBudget()), wrong


def read_secret_form(given: Mapping[str, object] | None, defects: Defects) -> SecretForm | None:
    """The `[secret]` table in the form of its kind; None with every defect noted. Without a table, `last_state`."""
    table = {"kind": SECRETS.builtin[0]} if given is None else given
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in SECRETS:
        found = f"found {shown(kind)}" if "kind" in table else "is missing"
        defects.add(f"{found}, expected one of {', '.join(map(repr, SECRETS))}{_hint(kind, SECRETS)}", "kind")
        return None
    return validated(secret_form(kind), table, defects)


def validated(form: type[T], data: Mapping[str, object], defects: Defects) -> T | None:
    """Tables in a form; None with every defect noted."""
    try:
        return form.model_validate(data, context=ErrorBudget())
    except ValidationError as error:
        _note(error, form, defects)
        return None


def _note(error: ValidationError, form: type[Table], defects: Defects) -> None:
    for found in error.errors(include_url=False):
        if len(defects) < MOST_LISTED:
            place, table = _place(found["loc"], form)
            defects.add(_words(found, place, table), *place)
        else:
            defects.add("")  # counted, not put into words


def _words(found: ErrorDetails, place: Place, table: type[Table] | None) -> str:
    kind, context, value = found["type"], found.get("ctx", {}), found["input"]
    if kind == "missing":
        return f"is missing{_meaning(table, place)}"
    if kind == "extra_forbidden":
        return f"is an unknown key: {suggestion(str(place[-1]), table.model_fields if table is not None else ())}"
    if kind == "literal_error":
        return f"found {shown(value)}, expected {context['expected']}{_hint(value, _choices(table, place))}"
    return f"found {shown(value)}, expected {_expected(kind, context, found['msg'])}"


def _hint(value: object, known: Iterable[str]) -> str:
    hint = suggestion(value, known)
    return f": {hint}" if hint.startswith("did") else ""


def _expected(kind: str, context: Mapping[str, object], message: str) -> str:
    if kind == "expected":
        return str(context["expected"])
    if kind in _KINDS:
        return _KINDS[kind]
    return _BOUNDS[kind].format(**context) if kind in _BOUNDS else message[:1].lower() + message[1:]


def _meaning(table: type[Table] | None, place: Place) -> str:
    field = table.model_fields.get(str(place[-1])) if table is not None else None
    text = field.description if field is not None else None
    return f", expected: {text[:1].lower()}{text[1:].rstrip('.')}" if text else ""


def _choices(table: type[Table] | None, place: Place) -> list[str]:
    field = table.model_fields.get(str(place[-1])) if table is not None else None
    found: list[str] = []
    pending = [field.annotation] if field is not None else []
    while pending:
        item = pending.pop()
        found += [item] if isinstance(item, str) else []
        pending += get_args(item)
    return found


def _place(location: tuple[str | int, ...], form: object) -> tuple[Place, type[Table] | None]:
    """The keys that lead to a value, and the table that holds the last of them."""
    place: list[str | int] = []
    holder: type[Table] | None = None
    for part in location:
        if part == "[key]":  # pydantic's mark for the key of an entry, which is named already
            continue
        if _is_table(form):
            holder = form
            field = form.model_fields.get(str(part))
            form = _plain(field.annotation) if field is not None else None
        else:
            holder = None
            arguments = get_args(form)
            form = _plain(arguments[-1]) if arguments else None
        place.append(part)
    return tuple(place), holder


def _is_table(form: object) -> TypeGuard[type[Table]]:
    return isinstance(form, type) and issubclass(form, Table)


def _plain(form: object) -> object:
    """An annotation without its metadata and without None; several forms stay together."""
    while get_origin(form) is Annotated:
        form = get_args(form)[0]
    if form is None or isinstance(form, type) or get_origin(form) in (dict, list, tuple):
        return form
    choices = [choice for choice in get_args(form) if choice is not type(None)]
    return _plain(choices[0]) if len(choices) == 1 else form
