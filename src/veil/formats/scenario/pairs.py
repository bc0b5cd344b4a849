"""The pairs (secret, observer) of a scenario beside its own, read from the `[[pairs]]` tables."""

from collections.abc import Sequence

from ...common.checks import Defects
from ...common.errors import VeilError
from ...problem.pairs import Pair
from .forms import read_secret_form
from .models import ScenarioModel
from .observer import read_observer
from .schema import OneOfSeveral, PairTable
from .secret import read_secret


def read_pairs(
    tables: Sequence[PairTable], models: Sequence[OneOfSeveral], first: ScenarioModel, defects: Defects
) -> list[Pair]:
    """The pairs of the `[[pairs]]` tables; those with defects are left out, each noted.

    **Arguments:** `models`: the entries of `[[models]]`; `first`: the first model; `defects`: those of the file as a whole.
    """
    made: list[Pair] = []
    for number, table in enumerate(tables):
        part, before = defects.under("pairs", number), len(defects)
        observer = secret = None
        if table.observer is not None:
            observer = read_observer(table.observer, first, part.under("observer"), further=True)
        if table.secret is not None:
            form = read_secret_form(table.secret, part.under("secret"))
            if form is not None:
                secret = read_secret(form, models, first, defects, at=("pairs", number, "secret"))
        if len(defects) > before:
            continue
        try:
            made.append(Pair(table.name, observer, secret, table.min, table.max))
        except VeilError as error:
            part.take(error)
    return made
