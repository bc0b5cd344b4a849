"""The observer: what it sees of each state or step, and the same with sensors switched off."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from ..common.checks import (
    Defects,
    Names,
    as_floats,
    as_tuple,
    check_distributions,
    check_shape,
    frozen,
)
from ..common.errors import InputError, TooLargeError
from ..common.suggest import suggestion
from ..common.values import Value
from .emissions import (
    Matrices,
    Times,
    When,
    always,
    as_matrices,
    moments,
    moved_columns,
    read_scheduled,
    read_times,
    shape_of_emissions,
    time_of,
    with_column,
)
from .given import Tables, check_rows

_DENSE_LIMIT = 2**28  # numbers in a dense view of the emissions: 2 GiB
UNOBSERVED = "unobserved"
NO_CLOCK = (
    "it has no clock (untimed=True), and this follows sequences with their times: use problem.with_clock(), whose observer"
    " knows at least as much, so that what is hidden from it is hidden from this one too"
)


class Observer(Value):
    """Emits one observation per step, with known probabilities.

    **Arguments:**

    - `emissions`: `b_s(o) = P(o_t = o | s_t = s)`, `(S, O)`; or `P(o_{t+1} = o | a_t = a, s_{t+1} = s)`, `(A, S, O)`, as
      in POMDP files, and then there is no observation at time 0. A SciPy sparse matrix `(S, O)`, or a sequence of A of
      them, is kept sparse.
    - `observation_names`: distinct strings; `o0, o1, …` by default.
    - `sees_actions`: whether the observer also sees each action; the event of step t+1 is then `(a_t, o_{t+1})`. This has
      the law of the paper's augmentation of the states by `S × A`, without the larger model.
    - `sees_initial`: whether it receives `o_0`, or begins to watch at t = 1.
    - `silent`: the observation that means "nothing seen", which a muted sensor shows instead.
    - `sensors`: for each sensor a mapping from every observation that reports it to the same observation without that
      report; lets `sensor_costs` mute one sensor at a time.
    - `times`: the times at which observations are received, or `"end"` for the last alone; at other times it receives the
      silent observation, or, if none is named, a further one called `unobserved`. Actions, if it sees them, are seen at
      every step.
    - `emissions_at`: a mapping from times to other emissions of the same shape, which hold then. With emissions on (action,
      next state) there is an observation at time 0 if a table `(S, O)` is given here for it. The time `"end"` is the last
      one, and `(3, "end")` is time 3 if it is the last; at the last time they take precedence over the plain time.
    - `untimed`: whether silent steps are erased: the observer holds the string of all other observations, without their
      times. It needs `silent` and does not see actions.

    **Raises:** `InputError` listing every defect found.
    """

    def __init__(
        self,
        emissions: Tables | sp.sparray | sp.spmatrix,
        observation_names: Sequence[str] | None = None,
        sees_actions: bool = False,
        sees_initial: bool = True,
        *,
        silent: str | int | None = None,
        sensors: Mapping[str, Mapping[str, str]] | Mapping[str, Mapping[int, int]] | None = None,
        times: Iterable[int] | Literal["end"] | None = None,
        emissions_at: Mapping[Any, Tables | sp.sparray | sp.spmatrix] | None = None,
        untimed: bool = False,
    ):
        defects = Defects("observer")
        self.matrices: Matrices = as_matrices(emissions, defects)
        defects.raise_if_any()
        self.shape: tuple[int, ...] = shape_of_emissions(emissions)
        self._at: dict[When, Matrices] = read_scheduled(emissions_at, self.shape, defects)
        self.times: Times = read_times(times, defects)
        names = observation_names
        if self.times is not None and silent is None:
            names, silent = self._add_silence(names, defects), self.shape[-1] - 1
        self.num_observations: int = self.shape[-1]
        self.observations = Names("observation", self.num_observations, names, "o", defects)
        self.sees_actions = bool(sees_actions)
        self.sees_initial = bool(sees_initial)
        self.silent: int | None = None
        if silent is not None:
            self.silent = self.observations.find_or_note(silent, "silent observation", defects)
        self.sensors: dict[str, dict[int, int]] = self._check_sensors({} if sensors is None else sensors, defects)
        self.untimed = bool(untimed)
        if self.untimed and silent is None:
            defects.add("untimed=True erases silent steps: name the silent observation, such as silent='nothing'")
        if self.untimed and self.sees_actions:
            defects.add("untimed=True with sees_actions=True: every step is seen by its action, so that none is silent")
        if self.on_actions and (0, "end") in self._at and 0 not in self._at:
            defects.add(
                "emissions_at has the time (0, 'end') and not 0, expected both: something is received at time 0"
            )
        defects.raise_if_any()
        self._seal()

    @property
    def erased(self) -> int | None:
        """The observation that it does not notice, since it has no clock; None if it has one."""
        return self.silent if self.untimed else None

    @property
    def varies(self) -> bool:
        """Whether what it receives after a step depends on the time."""
        return self.times is not None or any(time_of(when) != 0 for when in self._at)

    def matrices_at(self, time: int, horizon: int) -> Matrices:
        """The emissions of one time, in the form of `matrices`; all silent at times at which nothing is received.

        At time 0 there is one, for all actions.
        """
        return self.emitted(time, last=time == horizon)

    @property
    def all_matrices(self) -> Matrices:
        """The tables of all times."""
        return (*self.matrices, *(matrix for matrices in self._at.values() for matrix in matrices))

    @property
    def matrices_of_steps(self) -> list[Matrices]:
        """The emissions that it may receive after a step, one entry for each time that has its own."""
        return [self.emitted(time, last=last) for _, time, last in moments(*self.named_times) if time != 0]

    @property
    def matrices_of_start(self) -> list[sp.csr_array]:
        """The emissions that it may receive at time 0."""
        return [self.emitted(0, last=last)[0] for last in (False, True)]

    def first_matrix(self, horizon: int) -> sp.csr_array | None:
        """What each state emits at time 0, `(S, O)`; None if nothing is received then."""
        return self.matrices_at(0, horizon)[0] if self.sees_first else None

    def emitted(self, time: int | None, *, last: bool) -> Matrices:
        """The emissions of a time, or of every time that is not named (None), given whether it is the last."""
        if not (self.times is None or (last if self.times == "end" else time in self.times)):
            assert self.silent is not None
            return (always(self.silent, *self.shape[-2:]),) * (1 if time == 0 else len(self.matrices))
        whens: list[Any] = [(time, "end"), "end"] if last else []
        for when in (*whens, time):
            if when in self._at and (time != 0 or not self.on_actions or time_of(when) == 0):
                return self._at[when]
        return self.matrices

    @property
    def named_times(self) -> tuple[frozenset[int], bool]:
        """The times at which it may receive something else than at others, and whether the last is one of them."""
        named = {time for when in self._at if (time := time_of(when)) is not None}
        named |= self.times if isinstance(self.times, frozenset) else set()
        return frozenset(named), self.times == "end" or any(not isinstance(when, int) for when in self._at)

    def refuse_schedule(self, what: str) -> None:
        """Raise `InputError` if it depends on time or has no clock, for a file `what` that has no form for it."""
        defects = Defects(what)
        if self.times is not None or self._at:
            defects.add(
                "what the observer receives depends on time (times=… or emissions_at=…), for which the format has no form:"
                " write problem.unrolled(), whose states carry the time, or a scenario file"
            )
        if self.untimed:
            defects.add(
                "the observer has no clock (untimed=True), for which the format has no form: write a scenario file"
            )
        defects.raise_if_any()

    def with_clock(self) -> "Observer":
        """The same observer with a clock, who knows at least as much; itself unless `untimed`."""
        return self.replace(untimed=False) if self.untimed else self

    def replace(self, **changes: Any) -> "Observer":
        """The same observer with some arguments changed, checked anew; emissions and `emissions_at` keep their columns."""
        known = self._arguments()
        unknown = [f"unknown argument {name!r}: {suggestion(name, known)}" for name in changes if name not in known]
        if unknown:
            raise InputError("replace", unknown)
        return Observer(**{**known, **changes})

    @property
    def on_actions(self) -> bool:
        """Whether emissions depend on (action, next state)."""
        return len(self.shape) == 3

    @cached_property
    def emissions(self) -> Float[np.ndarray, "*A S O"]:
        """`matrices` as a dense read-only array; refused if it would exceed 2 GiB."""
        size = int(np.prod(self.shape, dtype=float))
        if size > _DENSE_LIMIT:
            raise TooLargeError(
                f"the dense emissions of shape {self.shape} would take {size * 8 / 2**30:.1f} GiB:"
                " use observer.matrices, which are sparse"
            )
        return frozen(np.stack([matrix.toarray() for matrix in self.matrices]).reshape(self.shape))

    def num_events(self, num_actions: int) -> int:
        """How many events a step can have: observations, or pairs of an action and an observation if it sees actions."""
        return self.num_observations * (num_actions if self.sees_actions else 1)

    @property
    def sees_first(self) -> bool:
        """Whether an observation `o_0` reaches the observer."""
        return self.sees_initial and (not self.on_actions or any(time_of(when) == 0 for when in self._at))

    def check(self, states: Names, actions: Names, defects: Defects) -> None:
        """Note every way in which the emissions do not fit the states and actions of a model."""
        expected = (len(states),) if not self.on_actions else (len(actions), len(states))
        if self.shape[:-1] != expected:
            wanted = ", ".join(map(str, expected))
            defects.add(f"emissions has shape {self.shape}, expected ({wanted}, O)")
            return
        for time, matrices in ((None, self.matrices), *self._at.items()):
            when = "" if time is None else f"time {time}, "
            for action, matrix in enumerate(matrices):
                before = f"{when}action {actions[action]!r}, " if self._is_by_action(time) else when
                check_rows(
                    matrix,
                    lambda s, o, at=before: f"emission ({at}state {states[s]!r}, observation {self.observations[o]!r})",
                    lambda s, at=before: f"emission row ({at}state {states[s]!r})",
                    defects,
                )

    def check_times(self, horizon: int, defects: Defects) -> None:
        """Note every time that does not occur within the horizon."""
        at = {time for when in self._at if (time := time_of(when)) is not None}
        named = {"times": self.times if isinstance(self.times, frozenset) else (), "emissions_at": at}
        for name, times in named.items():
            for time in sorted(time for time in times if time > horizon >= 0):
                defects.add(f"{name} has the time {time}, expected times from 0 to the horizon {horizon}", name)

    def mapped(
        self,
        change: Callable[[sp.csr_array], sp.csr_array],
        action: Int[np.ndarray, " A"] | None = None,
        **others: Any,
    ) -> "Observer":
        """The observer with another table in the place of each of its tables `(S, O)`, at all times.

        **Arguments:** `action`: for each action of the new observer the one whose table it has, if emissions depend on them;
        `others`: further arguments that change, as for `replace`.
        """

        def each(matrices: Matrices, by_action: bool) -> list[sp.csr_array] | sp.csr_array:
            tables = [change(matrix) for matrix in matrices]
            if not by_action:
                return tables[0]
            return tables if action is None else [tables[number] for number in action.tolist()]

        at = {when: each(matrices, self._is_by_action(when)) for when, matrices in self._at.items()}
        return self.replace(**{"emissions": each(self.matrices, self.on_actions), "emissions_at": at} | others)

    def over(self, state: Int[np.ndarray, " N"], action: Int[np.ndarray, " A"] | None = None) -> "Observer":
        """The same observer over larger states and actions: it receives what `state` and `action` behind them emit."""
        return self.mapped(lambda matrix: sp.csr_array(matrix[state]), action)

    def garbled(
        self,
        channel: ArrayLike,
        observation_names: Sequence[str] | None = None,
        *,
        silent: str | int | None = None,
    ) -> "Observer":
        """The observer behind a noisy channel: observation o is received as o' with probability `channel[o, o']`.

        What it receives at times at which nothing is observed passes the channel too. Sensors have no meaning behind it.

        **Arguments:** `channel`, `(O, O')`, rows sum to one; `observation_names` of the `O'` new observations; `silent`: the
        silent one of these; by default the one that the silent observation is received as, if that is certain.

        **Raises:** `InputError` if the channel does not fit; if the observer has no clock and no observation is silent.
        """
        defects = Defects("channel")
        array = as_floats(channel, "channel", defects)
        if array is not None and check_shape(array, (self.num_observations, "O'"), "channel", defects):
            name = self.observations
            check_distributions(
                array, lambda o: f"row of {name[o]!r}", lambda o, p: f"entry ({name[o]!r}, {p})", defects
            )
        defects.raise_if_any()
        assert array is not None
        passed = None if self.silent is None else np.flatnonzero(array[self.silent])
        sure = int(passed[0]) if passed is not None and len(passed) == 1 else None
        if self.untimed and silent is None and sure is None:
            raise InputError(
                "channel",
                [
                    "silence is received as several observations, and an observer without a clock needs a silent one:"
                    " name it, such as garbled(channel, silent=0)"
                ],
            )
        new = {"observation_names": observation_names, "sensors": None, "silent": sure if silent is None else silent}
        behind = sp.csr_array(array)
        if self.times is None or (sure is not None and silent is None):
            return self.mapped(lambda matrix: sp.csr_array(matrix @ behind), **new)
        return self.written_out().mapped(lambda matrix: sp.csr_array(matrix @ behind), **new)

    def written_out(self) -> "Observer":
        """The same observer without `times`: `emissions_at` has the silence of the times at which nothing is received."""
        if self.times is None:
            return self
        at = {
            when: self._as_given(when, self.emitted(time, last=last))
            for when, time, last in moments(*self.named_times)
            if time != 0 or self.sees_first
        }
        return self.replace(emissions=at.pop(None), emissions_at=at, times=None)

    def without(self, observations: str | int | Iterable[str | int], *, silent: str | int | None = None) -> "Observer":
        """The observer to whom these observations are shown as the silent one.

        **Raises:** `InputError` if no silent observation is known.
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

    def _arguments(self) -> dict[str, object]:
        return {
            "emissions": self._as_given(None, self.matrices),
            "observation_names": self.observations,
            "sees_actions": self.sees_actions,
            "sees_initial": self.sees_initial,
            "silent": self.silent,
            "sensors": self.sensors,
            "times": self.times if self.times is None or self.times == "end" else tuple(sorted(self.times)),
            "emissions_at": self.emissions_at,
            "untimed": self.untimed,
        }

    @property
    def emissions_at(self) -> dict[When, list[sp.csr_array] | sp.csr_array]:
        """The emissions of the times that have their own."""
        return {when: self._as_given(when, matrices) for when, matrices in self._at.items()}

    def __repr__(self) -> str:
        extra = ", sees actions" if self.sees_actions else ""
        extra += "" if self.sees_first else ", no first observation"
        extra += ", depends on time" if self.varies else ""
        extra += ", no clock" if self.untimed else ""
        return f"Observer({self.num_observations} observations{extra})"

    def find(self, key: str | int) -> int:
        """The index of an observation given by name or index; raises `InputError` if there is none."""
        try:
            return self.observations.find(key)
        except KeyError as error:
            raise InputError("observer", [error.args[0]]) from None

    def _redirected(self, targets: Mapping[int, int]) -> "Observer":
        """Probability moves from one column to another; the alphabet keeps its names."""
        column = np.arange(self.num_observations)
        for source, target in targets.items():
            column[source] = target
        silent = None if self.silent is None else int(column[self.silent])
        return self.mapped(lambda matrix: moved_columns(matrix, column), silent=silent)

    def _is_by_action(self, when: When | None) -> bool:
        """Whether the emissions of a time are one table for each action."""
        return self.on_actions and (when is None or time_of(when) != 0)

    def _as_given(self, when: When | None, matrices: Matrices) -> list[sp.csr_array] | sp.csr_array:
        """Emissions of a time in the form in which they are given."""
        return list(matrices) if self._is_by_action(when) else matrices[0]

    def _add_silence(self, names: Sequence[str] | None, defects: Defects) -> Sequence[str]:
        """A further observation for the times at which nothing is received."""
        size = self.shape[-1]
        known = Names("observation", size, names, "o", defects).all()
        self.matrices = tuple(map(with_column, self.matrices))
        self._at = {when: tuple(map(with_column, matrices)) for when, matrices in self._at.items()}
        self.shape = (*self.shape[:-1], size + 1)
        return (*known, unobserved_name(known))

    def _check_sensors(self, sensors: object, defects: Defects) -> dict[str, dict[int, int]]:
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


def unobserved_name(names: Sequence[str]) -> str:
    """The name of a further observation that says that nothing is received, beside some others."""
    return UNOBSERVED if UNOBSERVED not in names else f"{UNOBSERVED} [{len(names)}]"
