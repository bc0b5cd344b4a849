"""Masks: the agent also acts on what the observer sees, by switching off one sensor for the next step, at a cost."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args, get_origin

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from ..common.checks import Defects, as_tuple, distinct, is_number
from ..common.errors import InputError, TooLargeError
from ..common.suggest import suggestion
from ..common.values import Value
from .constraints import Constraint, Return
from .given import shape_of
from .keys import SECRET_CELLS, States
from .model import Model
from .observer import Observer
from .secrets.secret import Secret, SecretTable
from .unrolled import LiftedSecret, lifted_constraints

if TYPE_CHECKING:
    from .problem import Problem

COST = "masking"
"""The name of the reward that adds up what masks cost."""
NO_MASK = "none"
_MOST_TRANSITIONS = 2**25  # of a problem with masks: 400 MB


@dataclass(frozen=True, eq=False, repr=False)
class Masks(Value):
    """The agent chooses, with each of its actions, which sensor of the observer is masked in the next step, or none.

    **Arguments:**

    - `sensors`: the sensors that can be masked, by their names in `observer.sensors`; all of them by default.
    - `costs`: what a decision to mask costs, a number for all or a mapping from sensor to number, 0 or more; 0 by default.
    - `keep_discount`: the factor on the cost of keeping the mask that is in force, from 0 to 1.
    - `visible`: whether the observer sees which sensor is masked.

    **Raises:** `InputError` listing every defect.
    """

    sensors: Iterable[str] | None = None
    costs: float | Mapping[str, float] = 0.0
    keep_discount: float = 1.0
    visible: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        defects = Defects("masks")
        sensors = as_tuple(self.sensors)
        if sensors is not None and (
            not isinstance(sensors, tuple) or not sensors or not all(isinstance(one, str) for one in sensors)
        ):
            defects.add(f"sensors are {self.sensors!r}, expected names of sensors", "sensors")
        object.__setattr__(self, "sensors", sensors)
        costs = self.costs.items() if isinstance(self.costs, Mapping) else [("all sensors", self.costs)]
        for name, cost in costs:
            if not (is_number(cost) and 0 <= cost < np.inf):
                defects.add(f"the cost of {name} is {cost!r}, expected a number, 0 or more", "costs")
        if not (is_number(self.keep_discount) and 0 <= self.keep_discount <= 1):
            defects.add(f"keep_discount is {self.keep_discount!r}, expected a number from 0 to 1", "keep_discount")
        if not isinstance(self.visible, (bool, np.bool_)):
            defects.add(f"visible is {self.visible!r}, expected True or False", "visible")
        defects.raise_if_any()

    def apply(self, problem: "Problem", constraints: Sequence[Constraint] = ()) -> "Problem":
        """The problem with masks: its states are `state/mask`, its actions `action/mask`, with the mask of the next step.

        At time 0 no sensor is masked. A masked sensor's readings are shown as without that sensor
        (`Observer.without_sensor`). Where masks are visible, observations are `observation/mask`. In a model of one action
        the actions are the masks alone. The reward `"masking"` adds up the costs; secret, rewards and constraints are those
        of the problem.

        **Arguments:** `constraints`: further ones on the problem with masks, such as `veil.Return(max=20, reward="masking")`.

        Cost: the transitions, once for each pair of masks.

        **Raises:** `InputError` where the observer has no such sensors, depends on time, has no clock, or sees the actions
        and yet not the masks; `TooLargeError`.
        """
        defects = Defects("masks")
        names = self._checked(problem, defects)
        defects.raise_if_any()
        entries = sum(model.num_transitions for model in problem.models) * len(names) ** 2
        if entries > _MOST_TRANSITIONS:
            raise TooLargeError(
                f"{len(names) - 1} sensors that can be masked make {entries:,} transitions, expected at most"
                f" {_MOST_TRANSITIONS:,}: name fewer sensors"
            )
        state = np.repeat(np.arange(problem.num_states), len(names))
        action = np.repeat(np.arange(problem.num_actions), len(names))
        models = [self._model(model, names) for model in problem.models]
        secret, given = _lifted(problem, models, state, action)
        return problem.replace(
            model=models if len(models) > 1 else models[0],
            observer=self._observer(problem.observer, names),
            secret=secret,
            constraints=[*given, *constraints],
        )

    def _checked(self, problem: "Problem", defects: Defects) -> tuple[str, ...]:
        """The names of the masks, `none` first; what does not fit the problem is noted."""
        observer = problem.observer
        known = tuple(observer.sensors)
        if not known:
            defects.add("the observer has no sensors to mask: Observer(…, sensors={name: {reading: without it}})")
        sensors = known if self.sensors is None else tuple(self.sensors)
        for name in sensors if known else ():
            if name not in known:
                defects.add(f"unknown sensor {name!r}: {suggestion(name, known)}", "sensors")
        if len(set(sensors)) < len(sensors):
            defects.add("a sensor is named twice", "sensors")
        for name in self.costs if isinstance(self.costs, Mapping) else ():
            if name not in sensors:
                defects.add(f"cost of unknown sensor {name!r}: {suggestion(name, sensors)}", "costs")
        if NO_MASK in sensors:
            defects.add(f"a sensor is called {NO_MASK!r}, which means that nothing is masked: rename it", "sensors")
        if observer.varies or observer.untimed:
            defects.add("the observer depends on time or has no clock, expected one that is the same at all times")
        if observer.sees_actions and not self.visible:
            defects.add("the observer sees the actions, masks among them, expected visible=True", "visible")
        if problem.pairs:
            defects.add("the problem has further pairs, and masks act on the sensors of one observer: leave pairs out")
        if any(COST in model.named_rewards for model in problem.models):
            defects.add(f"the model has a reward called {COST!r} already: rename it")
        return (NO_MASK, *sensors)

    def _model(self, model: Model, names: tuple[str, ...]) -> Model:
        count = len(names)
        matrices = []
        for matrix in model.matrices:
            for mask in range(count):
                column = np.zeros((count, count))
                column[:, mask] = 1.0
                matrices.append(sp.csr_array(sp.kron(matrix, column)))
        initial = np.zeros(model.num_states * count)
        initial[::count] = model.initial
        rewards = {name: np.repeat(np.repeat(one, count, 0), count, 1) for name, one in model.all_rewards.items()}
        rewards[COST] = np.tile(self._paid(names), (model.num_states, model.num_actions))
        alone = model.num_actions == 1
        return Model(
            matrices,
            rewards,
            initial,
            model.discount,
            terminal_rewards={name: np.repeat(one, count) for name, one in model.all_terminal_rewards.items()},
            state_names=_joined(model.states, names),
            action_names=names if alone else _joined(model.actions, names),
            available=np.repeat(np.repeat(model.available, count, 0), count, 1),
        )

    def _paid(self, names: tuple[str, ...]) -> Float[np.ndarray, "M M"]:
        """What a decision for each mask costs under each mask in force."""
        costs = self.costs if isinstance(self.costs, Mapping) else dict.fromkeys(names[1:], self.costs)
        each = np.array([0.0, *(float(costs.get(name, 0.0)) for name in names[1:])])
        return np.where(np.eye(len(names), dtype=bool), float(self.keep_discount), 1.0) * each

    def _observer(self, observer: Observer, names: tuple[str, ...]) -> Observer:
        count, size = len(names), observer.num_observations
        masked = [observer, *(observer.without_sensor(name) for name in names[1:])]
        tables = []
        for number in range(len(observer.base_matrices)):
            parts = [one.base_matrices[number] for one in masked]
            states = shape_of(parts[0])[0]
            rows = sp.csr_array(sp.vstack(parts))[_interleaved(states, count)]
            if self.visible:
                entries = sp.coo_array(rows)
                places = (entries.row, entries.col * count + entries.row % count)
                rows = sp.csr_array((entries.data, places), shape=(states * count, size * count))
            tables += [rows] * (count if observer.on_actions else 1)
        shown = _joined(observer.observations, names) if self.visible else observer.observations.all()
        silent = observer.silent
        if silent is not None and self.visible:
            silent = silent * count
        return Observer(
            tables if observer.on_actions else tables[0],
            shown,
            observer.sees_actions,
            observer.sees_initial,
            silent=silent,
        )


def _joined(names: Sequence[str], masks: tuple[str, ...]) -> list[str]:
    """The name of each pair of something and a mask, no two alike."""
    return distinct([f"{name}/{mask}" for name in names for mask in masks])


def _lifted(
    problem: "Problem", models: list[Model], state: np.ndarray, action: np.ndarray
) -> tuple[Secret, list[Constraint]]:
    """Secret and constraints of a problem, over larger states: of the same kind where that means the same, as files need it."""
    given = list(problem.constraints[0 if problem.min_return is None else 1 :])
    whole = LiftedSecret(problem.secret, problem.channels[0].alone, state, problem)
    noted = Defects("masks")
    secret = None
    if all(isinstance(one, Return) for one in given):
        secret = _same_kind(problem.secret, problem.model, models[0], state, noted)
    if secret is not None:
        table, wanted = secret.resolve(models, problem.horizon, noted), whole.resolve(models, problem.horizon, noted)
        if not noted and table is not None and wanted is not None and _is_equal(table, wanted):
            return secret, given
    return whole, lifted_constraints(problem, state, action)


def _same_kind(secret: Secret, model: Model, larger: Model, state: np.ndarray, noted: Defects) -> Secret | None:
    """The secret whose sets of states hold all larger states of each state, by its table in scenario files."""
    if secret.several_models:
        return secret  # it asks for the model, not for states
    try:
        given = secret.to_table(model.states)
    except InputError:  # it has no form in files
        return None
    default = {key.name: None if key.default is SECRET_CELLS else key.default for key in secret.keys}
    table = {
        key.name: _lifted_sets(given.get(key.name, default[key.name]), key.form, model, state) for key in secret.keys
    }
    return type(secret).from_table(table, larger, noted)


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
    return all(getattr(one, name) == getattr(two, name) for name in names) and all(
        np.array_equal(getattr(one, name), getattr(two, name)) for name in arrays
    )


def _interleaved(states: int, count: int) -> np.ndarray:
    """The rows of `count` stacked tables in the order (state, table)."""
    return (np.arange(count) * states + np.arange(states)[:, None]).ravel()
