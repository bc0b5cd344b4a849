"""The further rewards and the constraints of a scenario: read from its tables, and written to them."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...common.checks import Defects
from ...common.errors import InputError, VeilError
from ...problem.constraints import Probability, Return
from ...problem.model import Model
from ...problem.problem import Problem
from ..imported import changed_model
from ..propositions import with_meanings
from .keys import made
from .models import ScenarioModel, paid_states
from .schema import ConstraintTable, PaidStates


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
        for key in {key.name: key for key in other.keys if key not in kind.keys and given[key.name] != key.default}:
            words = "without a formula, expected one"
            if kind is Probability:
                words = "beside a formula, expected one of them: make two [[constraints]]"
            part.add(f"found {words}", key)
        one = made(kind, table, model, part) if len(defects) == before else None
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


def constraint_tables(problem: Problem) -> list[dict[str, object]]:
    """The `[[constraints]]` tables of a problem: all but the threshold on the return."""
    listed = problem.constraints[0 if problem.min_return is None else 1 :]
    return [one.to_table(problem.model.states) for one in listed]
