"""Masks: the agent also acts on what the observer sees, by switching off one sensor for the next step, at a cost."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.checks import Defects, as_tuple, distinct, is_number
from ..common.errors import TooLargeError
from ..common.suggest import suggestion
from ..common.values import Value
from .constraints import Constraint
from .given import shape_of
from .keys import Key
from .lifted import Lift, lifted
from .model import Model
from .observer import Observer

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
    - `visible`: whether the observer sees which sensor is masked, as a part of each observation that it receives. An
      observer who sees the actions sees the masks among them.

    **Raises:** `InputError` listing every defect.
    """

    keys = (
        Key("sensors", list[str], "The sensors that can be masked; by default all.", None, most=200),
        Key(
            "costs",
            dict[str, float],
            "Cost of a decision to mask: `sensor = number`; the reward `masking` adds them up.",
            {},
            most=200,
        ),
        Key("keep_discount", float, "Factor on the cost of keeping the same mask.", 1.0, least=0, most=1),
        Key("visible", bool, "Whether the observer sees which sensor is masked.", True),
    )

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
        (`Observer.without_sensor`). If masks are visible, observations are `observation/mask`. In a model of one action
        the actions are the masks alone. The reward `"masking"` adds up the costs; secrets, rewards, constraints and bounds
        on pairs are those of the problem. Masks act on the problem's own observer, which pairs without an observer share;
        what the observers of other pairs receive does not change.

        **Arguments:** `constraints`: further ones on the problem with masks, such as `veil.Return(max=20, reward="masking")`.

        Cost: the transitions, once for each pair of masks.

        **Raises:** `InputError` if the observer has no such sensors, if it sees the actions and yet not the masks, or if the
        observer of a pair assumes a policy, which is one without masks; `TooLargeError`.
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
        state, action = (np.repeat(np.arange(n), len(names)) for n in (problem.num_states, problem.num_actions))
        muting = tuple(problem.observer.sensors[name] for name in names[1:])
        lift = Lift(
            state,
            action,
            lambda model: self._model(model, names),
            own=lambda observer: self._observer(observer, names, muting, action),
            other=lambda observer: observer.over(state, action),
        )
        return lifted(problem, lift, constraints)

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
        if observer.sees_actions and not self.visible:
            defects.add("the observer sees the actions, masks among them, expected visible=True", "visible")
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

    def _observer(
        self,
        observer: Observer,
        names: tuple[str, ...],
        muting: Sequence[Mapping[int, int]],
        action: Int[np.ndarray, " A"],
    ) -> Observer:
        """The observer over states and masks: `muting` says what the readings of each sensor are shown as under its mask."""
        count, size = len(names), observer.num_observations
        shown = np.tile(np.arange(size), (count, 1))
        for mask, targets in enumerate(muting, 1):
            shown[mask, list(targets)] = list(targets.values())

        def masked(table: sp.csr_array) -> sp.csr_array:
            rows = sp.coo_array(table)
            row = (rows.row * count + np.arange(count)[:, None]).ravel()
            column = shown[:, rows.col]
            width = size
            if self.visible:
                column, width = column * count + np.arange(count)[:, None], size * count
            data = np.tile(rows.data, count)
            return sp.csr_array((data, (row, column.ravel())), shape=(shape_of(table)[0] * count, width))

        if not self.visible:
            return observer.mapped(masked, action)
        sensors = {
            name: {one * count + mask: other * count + mask for one, other in targets.items() for mask in range(count)}
            for name, targets in observer.sensors.items()
        }
        return observer.mapped(
            masked,
            action,
            observation_names=_joined(observer.observations, names),
            silent=None if observer.silent is None else observer.silent * count,
            sensors=sensors,
        )


def _joined(names: Sequence[str], masks: tuple[str, ...]) -> list[str]:
    """The name of each pair of something and a mask, no two alike."""
    return distinct([f"{name}/{mask}" for name in names for mask in masks])
