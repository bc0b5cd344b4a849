"""A problem over larger states, such as `state@time` and `state/mask`: what it asks is what it asked of the states behind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args, get_origin

import numpy as np
from jaxtyping import Int

from ..common.checks import Defects, Names
from ..common.errors import InputError
from .belief import Belief
from .constraints import Constraint, Knows, Limit, Probability, Quantity, Return
from .formulas.formula import Formula
from .keys import SECRET_CELLS, States
from .model import Model
from .observer import Observer
from .pairs import Pair
from .secrets.holds import Holds
from .secrets.secret import Secret, SecretTable

if TYPE_CHECKING:
    from .problem import Problem

_MOST_GROUPS = 1000  # states of which each is a group of larger ones
_NO_FORM = "that of an unrolled or masked problem has no form in files: save the problem before"


@dataclass(frozen=True, eq=False, repr=False)
class LiftedSecret(Secret):
    """A secret of a problem over larger states: its table with the columns of the states `state` behind them."""

    kind = "lifted"
    several_models = True

    original: Secret
    problem: "Problem"
    state: Int[np.ndarray, " N"]

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The same labels and memory, by the state behind."""
        table = self.original.resolve(self.problem.models, horizon, defects)
        if table is None:
            return None
        register = table.register.at(self.state)
        return replace(
            table,
            label=table.label[:, :, self.state],
            memory_start=register.begins,
            memory_step=register.follows,
            path=None if table.path is None else table.path[self.state],
            each=None if table.each is None else table.each.at(self.state),
        )

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return self.original.describe(self.problem)

    def to_table(self, states: Names) -> dict[str, object]:
        """A scenario file has no form for it."""
        raise InputError("secret", [_NO_FORM])


@dataclass(frozen=True, eq=False, repr=False)
class LiftedConstraint(Constraint):
    """A constraint of a problem over larger states and actions: its numbers for the states and actions behind them."""

    original: Constraint
    models: tuple[Model, ...]
    state: Int[np.ndarray, " N"]
    action: Int[np.ndarray, " A"]

    @property
    def min(self) -> Limit:  # type: ignore[override]
        """The bound from below."""
        return self.original.min

    @property
    def max(self) -> Limit:  # type: ignore[override]
        """The bound from above."""
        return self.original.max

    def quantity(self, models: Sequence[Model], horizon: int, defects: Defects) -> Quantity | None:
        """The same numbers and automaton, by the state and the action behind."""
        found = self.original.quantity(self.models, horizon, defects)
        if found is None:
            return None
        return replace(
            found,
            paid=found.paid[:, self.state][:, :, self.action],
            terminal=found.terminal[:, self.state],
            register=None if found.register is None else found.register.at(self.state),
        )

    def to_table(self, states: Names) -> dict[str, object]:
        """A scenario file has no form for it."""
        raise InputError("constraints", [_NO_FORM])


@dataclass(frozen=True, eq=False)
class Lift:
    """How larger states and actions are made of those of a problem.

    **Attributes:** `state`, `action`: what is behind each of the larger ones; `model`: the larger model of a model;
    `own`: the observer over larger states, for those who share the problem's own observer; `other`: for all others.
    """

    state: Int[np.ndarray, " N"]
    action: Int[np.ndarray, " A"]
    model: Callable[[Model], Model]
    own: Callable[[Observer], Observer]
    other: Callable[[Observer], Observer]


def lifted(problem: "Problem", lift: Lift, constraints: Sequence[Constraint] = ()) -> "Problem":
    """The problem over larger states, with its secrets, constraints and pairs, and further `constraints`.

    Secrets keep their kind if that means the same, so that the problem can be saved.

    **Raises:** `InputError` if the observer of a pair assumes a policy that is not one for larger states: with other actions,
    or with a memory.
    """
    models, agent = [lift.model(one) for one in problem.models], problem.agent
    given = [
        _lifted_constraint(one, problem, models, lift) for one in problem.constraints if not isinstance(one, Knows)
    ]
    sees = problem.agent_sees
    found = problem.replace(
        model=models if len(models) > 1 else models[0],
        observer=lift.own(problem.observer),
        secret=_lifted_secret(problem.secret, problem, models, lift.state),
        min_return=None,
        agent_sees=lift.other(sees) if isinstance(sees, Observer) else sees,
        constraints=[*given, *constraints],
        pairs=[_lifted_pair(one, problem, models, lift) for one in problem.pairs],
    )
    own = lift.other(agent.sees) if agent.apart and agent.sees is not None else found.agent.sees
    wanted = replace(agent, register=agent.register.at(lift.state), sees=own)
    same = wanted.register.equals(found.agent.register) and agent.apart == found.agent.apart
    if same and agent.knows_model == found.agent.knows_model:
        return found
    return found.replace(constraints=[*found.constraints, Knows(wanted)], min_return=None)


def _lifted_constraint(one: Constraint, problem: "Problem", models: list[Model], lift: Lift) -> Constraint:
    """The constraint over larger states: of the same kind if that means the same, as files need it."""
    if isinstance(one, Return):
        return one
    whole = LiftedConstraint(one, problem.models, lift.state, lift.action)
    if not isinstance(one, Probability):
        return whole
    labels = _all_labels([str(one.formula)], one.labels or {})
    same = replace(one, labels=_lifted_sets(labels, dict[str, States], problem.model, lift.state))
    noted = Defects("constraint")
    found = [each.quantity(models, problem.horizon, noted) for each in (same, whole)]
    registers = [each.register for each in found if each is not None and each.register is not None]
    if noted or len(registers) < 2 or not registers[0].equals(registers[1]):
        return whole
    return same


def _all_labels(formulas: Sequence[str], labels: Mapping[str, Any]) -> dict[str, Any]:
    """The states of every proposition; one without an entry is the name of a state."""
    names = [name for text in formulas for name in Formula(text).propositions]
    return {name: (name,) for name in names} | dict(labels)


def _lifted_pair(pair: Pair, problem: "Problem", models: list[Model], lift: Lift) -> Pair:
    observer = lift.own if pair.observer is None else lift.other
    return replace(
        pair,
        observer=None if pair.observer is None else lift.other(pair.observer),
        secret=None if pair.secret is None else _lifted_secret(pair.secret, problem, models, lift.state),
        belief=None if pair.belief is None else _lifted_belief(pair, pair.belief, problem, lift, observer),
    )


def _lifted_belief(
    pair: Pair, belief: Belief, problem: "Problem", lift: Lift, observer: Callable[[Observer], Observer]
) -> Belief:
    policy = belief.policy
    if not isinstance(policy, str):
        known = np.arange(problem.num_cells // problem.num_states)[:, None]
        same_actions = len(lift.action) == problem.num_actions
        found = policy.over((known * problem.num_states + lift.state).ravel()) if same_actions else None
        if found is None:
            raise InputError(
                f"pair {pair.name!r}",
                [
                    "its observer assumes a policy for the states without time or masks, expected policy='uniform': leave"
                    " the pair out, and add it to the new problem with a policy for its states"
                ],
            )
        policy = found
    return replace(
        belief,
        policy=policy,
        model=None if belief.model is None else lift.model(belief.model),
        observer=None if belief.observer is None else observer(belief.observer),
    )


def _lifted_secret(secret: Secret, problem: "Problem", models: list[Model], state: Int[np.ndarray, " N"]) -> Secret:
    """The secret over larger states: of the same kind if that means the same, as files need it."""
    whole = LiftedSecret(secret, problem, state)
    wanted = whole.resolve(models, problem.horizon, Defects("secret"))
    for groups in _groups(problem, state):
        noted = Defects("secret")
        found = _same_kind(secret, problem.model, models[0], state, groups, noted)
        table = None if found is None or noted else found.resolve(models, problem.horizon, noted)
        if found is not None and not noted and table is not None and wanted is not None and _is_equal(table, wanted):
            return found
    return whole


def _groups(problem: "Problem", state: Int[np.ndarray, " N"]) -> list[dict[str, list[int]] | None]:
    """The groups that a secret without groups may mean: none, the larger states of each state, or of each start."""
    if problem.num_states > _MOST_GROUPS:
        return [None]
    names = problem.model.states
    every = {names[s]: np.flatnonzero(state == s).tolist() for s in np.unique(state).tolist()}
    starts = np.flatnonzero(sum(model.initial for model in problem.models)).tolist()
    return [None, every, {names[s]: every[names[s]] for s in starts}]


def _same_kind(
    secret: Secret, model: Model, larger: Model, state: np.ndarray, groups: dict[str, list[int]] | None, noted: Defects
) -> Secret | None:
    """The secret whose sets of states hold all larger states of each state, by its table in scenario files."""
    if secret.several_models:
        return None if isinstance(secret, LiftedSecret) else secret  # it asks for the model, not for states
    try:
        given = secret.to_table(model.states)
    except InputError:  # it has no form in files
        return None
    if isinstance(secret, Holds):
        given["labels"] = _all_labels(given["formulas"], given.get("labels", {}))  # pyright: ignore[reportArgumentType]
    default = {key.name: None if key.default is SECRET_CELLS else key.default for key in secret.keys}
    table = {
        key.name: _lifted_sets(given.get(key.name, default[key.name]), key.form, model, state) for key in secret.keys
    }
    if groups is not None:
        open_keys = [key.name for key in secret.keys if table[key.name] is None and get_origin(key.form) is dict]
        table |= dict.fromkeys(open_keys, groups)
    try:
        return type(secret).from_table(table, larger, noted)
    except InputError:  # a set of states has no larger one
        return None


def _lifted_sets(value: Any, form: object, model: Model, state: np.ndarray) -> object:
    """A value of a secret's table with every set of states replaced by all larger states of its members."""
    if value is not None and form == States:
        return np.flatnonzero(np.isin(state, [model.states.find(one) for one in value])).tolist()
    if isinstance(value, Mapping) and get_origin(form) is dict:
        return {name: _lifted_sets(item, get_args(form)[1], model, state) for name, item in value.items()}
    return value


def _is_equal(one: SecretTable, two: SecretTable) -> bool:
    names = ("time", "value_names", "memory_names", "agent_knows")
    arrays = ("label", "memory_start", "memory_step", "weights", "path")
    if one.each != two.each:
        return False
    return all(getattr(one, name) == getattr(two, name) for name in names) and all(
        np.array_equal(getattr(one, name), getattr(two, name)) for name in arrays
    )
