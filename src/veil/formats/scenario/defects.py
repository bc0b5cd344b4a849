"""What pydantic finds wrong with a scenario file, in the words of this project: the place, what was found and expected."""

from collections.abc import Mapping
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from .schema import FORMS, ScenarioFile, Table
from .text import MOST_LISTED, Notes, Path_, check_values, near, shown
from .types import ErrorBudget

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
    "greater_than_equal": ("ge", "or more"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "above"),
}


def read_tables(notes: Notes) -> ScenarioFile:
    """The tables of a file, checked one by one; every defect of form is noted, and all are raised at once.

    **Raises:** `ScenarioError`.
    """
    check_values(notes.source, notes)
    notes.raise_if_any()
    try:
        return ScenarioFile.model_validate(notes.source.data, context=ErrorBudget())
    except ValidationError as error:
        for found in error.errors(include_url=False):
            if len(notes) >= MOST_LISTED:  # counted, not put into words
                notes.add((), "")
                continue
            path, tables = _path(found["loc"])
            notes.add(path, _words(found, path, tables))
    notes.raise_if_any()
    raise AssertionError("a validation error without an error")


def _words(found: Mapping[str, Any], path: Path_, table: type[Table] | None) -> str:
    kind, context, value = found["type"], found.get("ctx", {}), found["input"]
    if kind == "missing":
        return f"is missing{_meaning(table, path)}"
    if kind == "extra_forbidden":
        known = table.model_fields if table is not None else ()
        return f"is an unknown key: {near(str(path[-1]), known)}"
    if kind == "literal_error":
        hint = near(value, _choices(table, path)) if isinstance(value, str) else ""
        hint = f": {hint}" if hint.startswith("did") else ""
        return f"found {shown(value)}, expected {context['expected']}{hint}"
    if kind == "union_tag_not_found":
        return "kind is missing, expected 'last_state', 'initial_state', 'state_at', 'automaton' or 'which_model'"
    if kind == "union_tag_invalid":
        expected = str(context["expected_tags"])
        hint = near(str(context["tag"]), expected.replace("'", "").split(", "))
        hint = f": {hint}" if hint.startswith("did") else ""
        return f"found kind {shown(context['tag'])}, expected one of {expected}{hint}"
    return f"found {shown(value)}, expected {_expected(kind, context, found['msg'])}"


def _expected(kind: str, context: Mapping[str, Any], message: str) -> str:
    if kind == "expected":
        return str(context["expected"])
    if kind in _KINDS:
        return _KINDS[kind]
    if kind in _BOUNDS:
        key, word = _BOUNDS[kind]
        return f"{context[key]:,} or more" if word == "or more" else f"{word} {context[key]:,}"
    if kind == "string_too_short":
        return "text that is not empty"
    if kind == "string_too_long":
        return f"at most {context['max_length']:,} characters"
    if kind == "too_long":
        return f"at most {context['max_length']:,} entries"
    return message[:1].lower() + message[1:]


def _meaning(table: type[Table] | None, path: Path_) -> str:
    field = table.model_fields.get(str(path[-1])) if table is not None else None
    text = field.description if field is not None else None
    return f", expected: {text[:1].lower()}{text[1:].rstrip('.')}" if text else ""


def _choices(table: type[Table] | None, path: Path_) -> tuple[str, ...]:
    field = table.model_fields.get(str(path[-1])) if table is not None else None
    found: list[str] = []
    pending = [field.annotation] if field is not None else []
    while pending:
        item = pending.pop()
        found += [item] if isinstance(item, str) else []
        pending += get_args(item)
    return tuple(found)


def _path(location: tuple[str | int, ...]) -> tuple[Path_, type[Table] | None]:
    """The keys on the way to a value, without the tags of its forms, and the table that holds the last of them."""
    path: list[str | int] = []
    form: Any = ScenarioFile
    holder: type[Table] | None = None
    for part in location:
        if part == "[key]":  # pydantic's mark for the key of an entry, which is named already
            continue
        if _is_table(form):
            holder = form
            field = form.model_fields.get(str(part))
            form = _plain(field.annotation) if field is not None else None
        elif part in FORMS and get_origin(form) is not dict:
            form = next((choice for choice in _forms(form) if _is_form(choice, str(part))), None)
            continue
        else:
            holder = None
            arguments = get_args(form)
            form = _plain(arguments[-1]) if arguments else None
        path.append(part)
    return tuple(path), holder


def _is_table(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, BaseModel)


def _plain(form: Any) -> Any:
    """An annotation without its metadata and without None; several forms stay together."""
    while get_origin(form) is Annotated:
        form = get_args(form)[0]
    if form is None or isinstance(form, type) or get_origin(form) in (dict, list, tuple):
        return form
    choices = [choice for choice in get_args(form) if choice is not type(None)]
    return _plain(choices[0]) if len(choices) == 1 else form


def _forms(form: Any) -> list[Any]:
    return [_plain(choice) for choice in get_args(form)]


def _is_form(form: Any, tag: str) -> bool:
    if not _is_table(form):
        return tag == "word"
    kind = form.model_fields.get("kind")
    return tag == "table" if kind is None else tag in get_args(kind.annotation)
