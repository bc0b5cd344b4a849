"""The pairs (secret, observer) of a scenario beside its own, read from the `[[pairs]]` tables."""

from collections.abc import Callable

from ...common.checks import Defects
from ...common.errors import VeilError
from ...policy.policy import Policy
from ...problem.belief import UNIFORM, Belief
from ...problem.model import Model
from ...problem.pairs import Pair
from .forms import read_secret_form
from .models import ScenarioModel
from .observer import read_observer
from .schema import BeliefTable, ScenarioFile
from .secret import read_secret

ReadModel = Callable[[BeliefTable, Defects], Model | None]
ReadPolicy = Callable[[str, Defects], Policy | None]


def read_pairs(
    tables: ScenarioFile, first: ScenarioModel, defects: Defects, model: ReadModel, policy: ReadPolicy
) -> list[Pair]:
    """The pairs of the `[[pairs]]` tables; those with defects are left out, each noted.

    **Arguments:** `first`: the first model; `defects`: those of the file as a whole; `model`, `policy`: how the model and the
    policy file are read that an observer assumes.
    """
    made: list[Pair] = []
    for number, table in enumerate(tables.pairs):
        part, before = defects.under("pairs", number), len(defects)
        observer = secret = belief = None
        if table.observer is not None:
            observer = read_observer(table.observer, first, tables.horizon, part.under("observer"), further=True)
        if table.secret is not None:
            form = read_secret_form(table.secret, part.under("secret"))
            if form is not None:
                secret = read_secret(form, tables.models, first, defects, at=("pairs", number, "secret"))
        if table.belief is not None:
            belief = _belief(table.belief, first, tables.horizon, part.under("belief"), model, policy)
        if len(defects) > before:
            continue
        try:
            made.append(Pair(table.name, observer, secret, table.min, table.max, belief))
        except VeilError as error:
            part.take(error)
    return made


def _belief(
    table: BeliefTable, first: ScenarioModel, horizon: int, part: Defects, model: ReadModel, policy: ReadPolicy
) -> Belief | None:
    before, assumed = len(part), None
    acting = UNIFORM if table.policy == UNIFORM else policy(table.policy, part.under("policy"))
    if table.observer is not None:
        assumed = read_observer(table.observer, first, horizon, part.under("observer"), further=True)
    other = model(table, part)
    if len(part) > before or acting is None:
        return None
    return Belief(acting, other, assumed, table.doubt)
