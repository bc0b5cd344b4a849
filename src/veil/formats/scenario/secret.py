"""The secret of a scenario: its table read by the class of its kind, and written by it."""

from collections.abc import Mapping, Sequence
from typing import cast, get_args

from ...common.checks import Defects
from ...common.errors import InputError
from ...problem.secrets.holds import Holds
from ...problem.secrets.registry import SECRETS
from ...problem.secrets.secret import SECRET_CELLS, Key, Secret, States
from ..propositions import meanings
from .models import ScenarioModel, normalised
from .schema import OneOfSeveral, SecretForm
from .types import StateSet

MOST_WORK = 2**21  # states times sets of states in a table


def read_secret(
    form: SecretForm,
    models: Sequence[OneOfSeveral],
    model: ScenarioModel,
    defects: Defects,
    at: tuple[str | int, ...] = ("secret",),
) -> Secret | None:
    """The secret of a `[secret]` table; None with every defect noted.

    **Arguments:** `models`: the entries of `[[models]]`; `defects`: those of the file as a whole; `at`: where the table is.
    """
    secret, before = SECRETS.get(form.kind), len(defects)
    part = defects.under(*at)
    grouped = getattr(form, "groups", None) is not None  # instead of a set of states
    table = {
        key.name: _value(key, getattr(form, key.name), model, part.under(key.name), grouped) for key in secret.keys
    }
    if secret is Holds and len(defects) == before:
        try:
            labels = cast(Mapping[str, list[int]], table["labels"] or {})
            table["labels"] = meanings(cast(list[str], table["formulas"]), labels, model.proposition)
        except InputError as error:
            part.take(error, "formulas")
    if secret.several_models:
        table |= {"names": [one.name or f"model {number}" for number, one in enumerate(models)]}
        table |= {"weights": _weights(models, defects.under("models"))}
    return secret.from_table(table, model.model, part) if len(defects) == before else None


def _value(key: Key, value: object, model: ScenarioModel, defects: Defects, grouped: bool) -> object:
    """A value as `Secret.from_table` takes it: states by their indices."""
    if key.default is SECRET_CELLS and value is None and not grouped:
        return _secret_cells(model, defects)
    return value if value is None else _found(key.form, value, model, defects)


def _found(form: object, value: object, model: ScenarioModel, defects: Defects) -> object:
    if form == States:
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
    return form == States or any(map(_names_states, get_args(form)))


def _secret_cells(model: ScenarioModel, defects: Defects) -> list[int]:
    if model.grid is not None and model.grid.secrets:
        return [model.state_numbers[model.grid.state(*cell)] for cell in model.grid.secrets]
    why = "which only a grid can leave out" if model.grid is None else "and no cell of the grid is secret (?)"
    defects.add(f"is missing, {why}: name the states")
    return []


def _weights(models: Sequence[OneOfSeveral], defects: Defects) -> list[float] | None:
    given = [model.weight for model in models]
    weights = [weight for weight in given if weight is not None]
    if weights and len(weights) < len(given):
        missing = given.index(None)
        defects.add("is missing, expected a weight for each model or for none", missing, "weight")
    elif weights and not sum(weights):
        defects.add("all weights are 0, expected one above 0", 0, "weight")
    elif weights:
        return list(normalised(dict(enumerate(weights))).values())
    return None
