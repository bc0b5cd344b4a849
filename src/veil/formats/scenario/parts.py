"""What the tables of a scenario declare by keys: secrets, features of observers, constraints, settings; and rewards."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...common.checks import Defects
from ...common.errors import InputError, VeilError
from ...common.settings import Given
from ...common.suggest import suggestion
from ...planning.methods import METHODS, unsupported
from ...policy.memories import Memory
from ...policy.memories.registry import MEMORIES
from ...policy.memories.words import memory_of
from ...problem.constraints import Probability, Return
from ...problem.model import Model
from ...problem.observers.feature import ObserverFeature
from ...problem.observers.registry import OBSERVERS
from ...problem.problem import Problem
from ...problem.secrets.registry import SECRETS
from ...problem.secrets.secret import Secret
from ..imported import changed_model
from ..propositions import with_meanings
from ..rows import normalised
from .forms import validated
from .keys import make, read_keys
from .models import ScenarioModel, paid_states
from .schema import ConstraintTable, ObserverTable, OneOfSeveral, PaidStates, SecretForm, feature_form
from .solve_table import Settings, memory_form
from .text import shown


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


def read_features(table: ObserverTable, model: ScenarioModel, defects: Defects) -> list[ObserverFeature]:
    """The features that the further keys of a table give, in the order of the file; every defect is noted."""
    found = [_feature(kind, given, model, defects) for kind, given in (table.model_extra or {}).items()]
    return [feature for feature in found if feature is not None]


def _feature(kind: str, given: object, model: ScenarioModel, defects: Defects) -> ObserverFeature | None:
    if kind not in OBSERVERS:
        known = (*ObserverTable.model_fields, *OBSERVERS)
        defects.add(f"is an unknown key: {suggestion(kind, known)}", kind)
        return None
    try:
        feature = OBSERVERS.get(kind)
        alone = feature.given_alone()
    except VeilError as error:
        defects.take(error, kind)
        return None
    part = defects if alone else defects.under(kind)
    given = {kind: given} if alone else given
    if not isinstance(given, dict):
        part.add(f"found {shown(given)}, expected a table")
        return None
    form = validated(feature_form(kind), given, part)
    return None if form is None else make(feature, form, model, part)


def with_rewards(found: ScenarioModel, tables: Mapping[str, list[PaidStates]], defects: Defects) -> Model | None:
    """The model with the further rewards of `[[rewards.NAME]]`; None with every defect noted."""
    model, before = found.model, len(defects)
    if not tables:
        return model
    paid, ends = dict(model.all_rewards), dict(model.all_terminal_rewards)
    for name, parts in tables.items():
        part = defects.under(name)
        if name in model.named_rewards:
            part.add("the model has a reward of this name already: use another one")
        paid[name], ends[name] = paid_states(parts, found, part)
    if len(defects) > before:
        return None
    return changed_model(model, rewards=paid, terminal_rewards=ends)


def read_constraints(
    tables: Sequence[ConstraintTable], model: ScenarioModel, defects: Defects
) -> list[Return | Probability]:
    """The constraints of the `[[constraints]]` tables; those with defects are left out, each noted."""
    found: list[Return | Probability] = []
    for number, table in enumerate(tables):
        part, before, given = defects.under(number), len(defects), dict(table)
        kind, other = (Return, Probability) if given["formula"] is None else (Probability, Return)
        for key in (key for key in other.keys if key not in kind.keys and given[key.name] != key.default):
            together = "beside a formula, expected one of them: make two [[constraints]]"
            part.add(f"found {together if kind is Probability else 'without a formula, expected one'}", key.name)
        one = make(kind, table, model, part) if len(defects) == before else None
        try:
            found += [] if one is None else [with_meanings(one, model.proposition)]
        except VeilError as error:
            part.take(error)
    return found


def rewards_table(problem: Problem) -> dict[str, object]:
    """The `[[rewards.NAME]]` tables of a problem."""
    model = problem.model
    names = list(model.named_rewards)[1:]
    for other in problem.models[1:]:
        if any(not _same(model, other, name) for name in names):
            raise InputError("scenario", ["further rewards that differ between models have no form in files"])
    return {name: _parts(model, name) for name in names}


def _same(first: Model, second: Model, name: str) -> bool:
    one, two = first.named_rewards[name], second.named_rewards[name]
    return np.array_equal(one.paid, two.paid) and np.array_equal(one.terminal, two.terminal)


def _parts(model: Model, name: str) -> list[dict[str, object]]:
    """The entries of one reward: states that are paid the same, for every action or for one."""
    found, states = model.named_rewards[name], model.states.all()
    parts: list[dict[str, object]] = []
    taken = np.where(model.available, found.paid, np.nan)
    least = np.nanmin(taken, axis=1)
    even = least == np.nanmax(taken, axis=1)

    def add(values: np.ndarray, **more: object) -> None:
        for value in np.unique(values[np.isfinite(values) & (values != 0)]).tolist():
            inside = [states[s] for s in np.flatnonzero(values == value).tolist()]
            parts.append({"states": inside, **more, "reward": value})

    add(np.where(even, least, 0.0))
    for action in range(model.num_actions):
        add(np.where(even, 0.0, taken[:, action]), action=model.actions[action])
    add(found.terminal, last=True)
    return parts or [{"reward": 0.0}]


def read_settings(
    table: Settings | None, problem: Problem | None, model: ScenarioModel | None, defects: Defects
) -> Given:
    """The arguments of `veil.solve` that a scenario gives: those of its keys, no others.

    **Arguments:** `problem`, `model`: None where they have defects, and then what depends on them is not checked.
    """
    if table is None:
        return {}
    given = {key: getattr(table, key) for key in type(table).model_fields if key in table.model_fields_set}
    _check_method(given, defects)
    if "memory" in given and model is not None:
        try:
            memory = given["memory"] = _memory(given["memory"], model, defects.under("memory"))
            if isinstance(memory, Memory) and problem is not None:
                memory.resolve(problem)
        except VeilError as error:
            defects.take(error, "memory")
    return given


def _check_method(given: Given, defects: Defects) -> None:
    """Note a method that is not there, and what the method does not have."""
    method = given.get("method", "auto")
    if method not in METHODS:
        defects.add(f"found {method!r}, expected {METHODS.expected(method)}", "method")
        return
    try:
        for key, words in unsupported(method, given).items():
            defects.add(words, key)
    except VeilError as error:
        defects.take(error, "method")


def _memory(given: str | Mapping[str, object], model: ScenarioModel, defects: Defects) -> Memory | str | None:
    """The memory that a file gives: a word, or a table with the key of one kind; None with every defect noted."""
    if isinstance(given, str):
        return memory_of(given)
    kinds = [key for key in given if key in MEMORIES]
    if len(kinds) != 1:
        defects.add(f"found {' and '.join(kinds) or 'none'}, expected one of {', '.join(MEMORIES)}")
        return None
    memory, before = MEMORIES.get(kinds[0]), len(defects)
    form = validated(memory_form(kinds[0]), given, defects)
    table = {} if form is None else read_keys(memory.keys, form, model, defects)
    return memory.from_table(table) if len(defects) == before else None
