"""The secret of a scenario: its table read by the class of its kind, and written by it."""

from collections.abc import Mapping, Sequence
from typing import cast

from ...common.checks import Defects
from ...common.errors import InputError
from ...problem.secrets.holds import Holds
from ...problem.secrets.registry import SECRETS
from ...problem.secrets.secret import Secret
from ..propositions import meanings
from .keys import read_keys
from .models import ScenarioModel, normalised
from .schema import OneOfSeveral, SecretForm


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
    table = read_keys(secret.keys, form, model, part)
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
