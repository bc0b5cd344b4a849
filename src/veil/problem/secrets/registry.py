"""The kinds of secret: veil's own, and those of other packages through the entry points `veil.secrets`."""

from typing import Annotated, Literal, get_args, get_origin

from ...common.registry import Registry
from .secret import Key, Secret, States


def _check(entry: object) -> str | None:
    """What keeps the class of another package from being a secret."""
    if not (isinstance(entry, type) and issubclass(entry, Secret)):
        return "expected a subclass of veil.problem.secrets.Secret"
    if not isinstance(getattr(entry, "kind", None), str):
        return "expected the class attribute kind, its name in scenario files"
    if not all(isinstance(key, Key) for key in entry.keys):
        return "expected the class attribute keys, a tuple of Key"
    wrong = [f"key {key.name!r} has the form {key.form!r}" for key in entry.keys if not _is_form(key.form)]
    return f"{wrong[0]}, expected one that veil.problem.secrets.Key describes" if wrong else None


def _is_form(form: object) -> bool:
    origin, parts = get_origin(form), get_args(form)
    if form == States or form in (bool, int, float, str):
        return True
    if origin is Annotated:
        return len(parts) == 2 and isinstance(parts[1], str) and _is_form(parts[0])
    if origin is Literal:
        return all(isinstance(part, str) for part in parts)
    return origin in (list, tuple, dict) and all(map(_is_form, parts)) and (origin is not dict or parts[0] is str)


# By the name in scenario files, `kind = "last_state"`.
SECRETS: Registry[type[Secret]] = Registry(
    "secret",
    "veil.secrets",
    {
        "last_state": "veil.problem.secrets.last_state:LastState",
        "initial_state": "veil.problem.secrets.initial_state:InitialState",
        "state_at": "veil.problem.secrets.state_at:StateAt",
        "automaton": "veil.problem.secrets.automaton:Automaton",
        "automaton_state": "veil.problem.secrets.automaton_state:AutomatonState",
        "formula": "veil.problem.secrets.holds:Holds",
        "visited": "veil.problem.secrets.visited:Visited",
        "first_reached": "veil.problem.secrets.visited:FirstReached",
        "trajectory": "veil.problem.secrets.trajectory:Trajectory",
        "which_model": "veil.problem.secrets.which_model:WhichModel",
    },
    _check,
)
