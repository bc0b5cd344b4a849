"""The observer: what it can see of a state or of a step, and how to blunt its sensors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects, Names, as_floats, as_tuple, check_distributions, check_shape, frozen
from ..common.errors import InputError


class Observer:
    """Sensors that show the observer one observation a step, with known probabilities.

    **Arguments:**

    - `emissions`: `b_s(o) = P(o_t = o | s_t = s)`, `(S, O)`; or `P(o_{t+1} = o | a_t = a, s_{t+1} = s)`, `(A, S, O)`, as
      in POMDP files, and then there is no observation at time 0.
    - `observation_names`: distinct strings; `o0, o1, …` by default.
    - `sees_actions`: whether the observer also sees each action; the event of step t+1 is then `(a_t, o_{t+1})`. This has
      the law of the paper's augmentation of the states by `S × A`, without the larger model.
    - `sees_initial`: whether it receives `o_0`, or begins to watch at t = 1.
    - `silent`: the observation that means "nothing seen", which a muted sensor shows instead.
    - `sensors`: for each sensor a mapping from every observation that reports it to the same observation without that
      report; lets `sensor_costs` mute one sensor at a time.

    **Raises:** `InputError` listing every defect found.
    """

    def __init__(
        self,
        emissions: Any,
        observation_names: Sequence[str] | None = None,
        sees_actions: bool = False,
        sees_initial: bool = True,
        *,
        silent: str | int | None = None,
        sensors: Mapping[str, Mapping[str, str]] | Mapping[str, Mapping[int, int]] | None = None,
    ):
        defects = Defects("observer")
        array = as_floats(emissions, "emissions", defects)
        if array is not None and array.ndim not in (2, 3):
            defects.add(f"emissions have shape {array.shape}, expected (S, O), or (A, S, O) on (action, next state)")
        if array is not None and 0 in array.shape:
            defects.add(f"emissions have shape {array.shape}, expected at least one state and one observation")
        defects.raise_if_any()
        assert array is not None
        self.emissions: Float[np.ndarray, "*A S O"] = frozen(array)
        self.num_observations: int = array.shape[-1]
        self.observations = Names("observation", self.num_observations, observation_names, "o", defects)
        self.sees_actions = bool(sees_actions)
        self.sees_initial = bool(sees_initial)
        self.silent: int | None = None
        if silent is not None:
            self.silent = self.observations.find_or_note(silent, "silent observation", defects)
        self.sensors: dict[str, dict[int, int]] = self._check_sensors({} if sensors is None else sensors, defects)
        defects.raise_if_any()

    @property
    def on_actions(self) -> bool:
        """Whether emissions depend on (action, next state); then there is no observation at time 0."""
        return self.emissions.ndim == 3

    @property
    def sees_first(self) -> bool:
        """Whether an observation `o_0` reaches the observer."""
        return self.sees_initial and not self.on_actions

    def check(self, states: Names, actions: Names, defects: Defects) -> None:
        """Note every way in which the emissions do not fit the states and actions of a model."""
        expected = (len(states), "O") if self.emissions.ndim == 2 else (len(actions), len(states), "O")
        if not check_shape(self.emissions, expected, "emissions", defects):
            return

        def place(*index: int) -> str:
            state = f"state {states[index[-1]]!r}"
            return state if len(index) == 1 else f"action {actions[index[0]]!r}, {state}"

        def row(*index: int) -> str:
            return f"emission row ({place(*index)})"

        def entry(*index: int) -> str:
            return f"emission ({place(*index[:-1])}, observation {self.observations[index[-1]]!r})"

        check_distributions(self.emissions, row, entry, defects)

    def garbled(self, channel: Any, observation_names: Sequence[str] | None = None) -> "Observer":
        """The observer behind a noisy channel: observation o is received as o' with probability `channel[o, o']`.

        **Arguments:** `channel`, `(O, O')`, rows sum to one; `observation_names` of the `O'` new observations.
        """
        defects = Defects("channel")
        array = as_floats(channel, "channel", defects)
        if array is not None and check_shape(array, (self.num_observations, "O'"), "channel", defects):
            name = self.observations
            check_distributions(
                array, lambda o: f"row of {name[o]!r}", lambda o, p: f"entry ({name[o]!r}, {p})", defects
            )
        defects.raise_if_any()
        return Observer(self.emissions @ array, observation_names, self.sees_actions, self.sees_initial)

    def without(self, observations: str | int | Iterable[str | int], *, silent: str | int | None = None) -> "Observer":
        """The observer to whom these observations are shown as the silent one.

        **Raises:** `InputError` where no silent observation is known.
        """
        target = self.silent if silent is None else self.find(silent)
        if target is None:
            raise InputError(
                "observer",
                [
                    "it has no silent observation to show for a muted one: name it, as in Observer(..., silent='nothing')"
                ],
            )
        muted = as_tuple(observations)
        if not isinstance(muted, tuple):
            raise InputError("observer", [f"observations are {observations!r}, expected a set of names or indices"])
        return self._redirected({self.find(o): target for o in muted})

    def without_sensor(self, sensor: str) -> "Observer":
        """The observer with one sensor switched off: every reading that reports it is shown without that report."""
        if sensor not in self.sensors:
            known = ", ".join(map(repr, self.sensors)) or "none"
            raise InputError("observer", [f"unknown sensor {sensor!r}: known are {known}"])
        return self._redirected(self.sensors[sensor])

    def __repr__(self) -> str:
        extra = ", sees actions" if self.sees_actions else ""
        extra += "" if self.sees_first else ", no first observation"
        return f"Observer({self.num_observations} observations{extra})"

    def find(self, key: str | int) -> int:
        """The index of an observation given by name or index; raises `InputError` where there is none."""
        try:
            return self.observations.find(key)
        except KeyError as error:
            raise InputError("observer", [error.args[0]]) from None

    def _redirected(self, targets: Mapping[int, int]) -> "Observer":
        """Probability moves from one column to another; the alphabet keeps its names."""
        emissions = self.emissions.copy()
        for source, target in targets.items():
            if source != target:
                emissions[..., target] += self.emissions[..., source]
                emissions[..., source] -= self.emissions[..., source]
        names = self.observations.all() if self.observations.given else None
        return Observer(
            emissions, names, self.sees_actions, self.sees_initial, silent=self.silent, sensors=self.sensors
        )

    def _check_sensors(self, sensors: Any, defects: Defects) -> dict[str, dict[int, int]]:
        if not isinstance(sensors, Mapping) or not all(isinstance(muting, Mapping) for muting in sensors.values()):
            defects.add("sensors are not understood, expected {sensor: {observation: the same without that sensor}}")
            return {}
        result: dict[str, dict[int, int]] = {}
        for sensor, muting in sensors.items():
            where = f"sensor {sensor!r}"
            found = [
                [self.observations.find_or_note(observation, where, defects) for observation in pair]
                for pair in muting.items()
            ]
            result[sensor] = {source: target for source, target in found if source is not None and target is not None}
        return result
