"""The secret of a scenario: its table read by the class of its kind, and written by it."""

from collections.abc import Sequence

from ...common.checks import Defects
from ...common.errors import InputError
from ...problem.secrets.registry import SECRETS
from ...problem.secrets.secret import Secret
from ..propositions import with_meanings
from .keys import read_keys
from .models import ScenarioModel, normalised
from .schema import OneOfSeveral, SecretForm


def read_secret(
    form: SecretForm,
    models: Sequence[OneOfSeveral],
    model: ScenarioModel,
    part: Defects,
    defects: Defects,
) -> Secret | None:
    """The secret of a `[secret]` table; None with every defect noted.

    **Arguments:** `models`: the entries of `[[models]]`; `part`, `defects`: those of the table, and of the file as a whole.
    """
    secret, before = SECRETS.get(form.kind), len(defects)
    table = read_keys(secret.keys, form, model, part)
    if secret.several_models:
        table |= {"names": [one.name or f"model {number}" for number, one in enumerate(models)]}
        table |= {"weights": _weights(models, defects.under("models"))}
    found = secret.from_table(table, model.model, part) if len(defects) == before else None
    try:
        return None if found is None else with_meanings(found, model.proposition)
    except InputError as error:
        part.take(error, "formulas")
        return None


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
