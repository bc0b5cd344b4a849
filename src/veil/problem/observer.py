"""The observer: what it sees of each state or step, and the same with sensors switched off."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..common.checks import (
    SUM_TOLERANCE,
    Defects,
    Names,
    as_floats,
    as_tuple,
    check_distributions,
    check_shape,
    frozen,
    sum_defect,
)
from ..common.errors import InputError, TooLargeError
from ..common.suggest import suggestion
from ..common.values import Value
from .given import Tables, canonical, is_sparse, shape_of

_DENSE_LIMIT = 2**28  # numbers in a dense view of the emissions: 2 GiB
UNOBSERVED = "unobserved"
NO_CLOCK = (
    "it has no clock (untimed=True), which this does not cover: measure with veil.opacity (method='exact'),"
    " veil.opacity_gradient, veil.measures.quantities or joint_table; for all else use problem.with_clock(), whose observer"
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
      silent observation, or, where none is named, a further one called `unobserved`. Actions, where it sees them, are seen
      at every step.
    - `emissions_at`: a mapping from times to other emissions of the same shape, which hold then.
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
        emissions_at: Mapping[int, Tables | sp.sparray | sp.spmatrix] | None = None,
        untimed: bool = False,
    ):
        defects = Defects("observer")
        self.base_matrices: tuple[sp.csr_array, ...] = _as_matrices(emissions, defects)
        defects.raise_if_any()
        self.shape: tuple[int, ...] = _shape_of(emissions)
        self._at: dict[int, tuple[sp.csr_array, ...]] = self._check_at(emissions_at, defects)
        self.times: frozenset[int] | Literal["end"] | None = _check_times(times, defects)
        names = observation_names
        if self.times is not None and silent is None:
            names, silent = self._add_silence(names, defects), UNOBSERVED
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
            defects.add("untimed=True erases silent steps: name the silent observation, as in silent='nothing'")
        if self.untimed and self.sees_actions:
            defects.add("untimed=True with sees_actions=True: every step is seen by its action, so that none is silent")
        defects.raise_if_any()
        self._seal()

    @property
    def matrices(self) -> tuple[sp.csr_array, ...]:
        """The emissions as sparse matrices: one `(S, O)`, or one for each action.

        **Raises:** `InputError` for an observer whose emissions depend on time or who has no clock, so that whatever does
        not cover these observers refuses them; `matrices_at` has the emissions of each time.
        """
        if self.varies:
            raise InputError(
                "observer",
                [
                    "its observations depend on time (times=… or emissions_at=…), which this does not cover: measure with"
                    " veil.opacity or veil.measures.quantities, or use problem.unrolled(), whose states carry the time"
                ],
            )
        if self.untimed:
            raise InputError("observer", [NO_CLOCK])
        return self.base_matrices

    @property
    def varies(self) -> bool:
        """Whether what it receives depends on the time."""
        return self.times is not None or bool(self._at)

    def matrices_at(self, time: int, horizon: int) -> tuple[sp.csr_array, ...]:
        """The emissions of one time, in the form of `matrices`; all silent at times at which nothing is received."""
        received = self.times is None or (time == horizon if self.times == "end" else time in self.times)
        if received:
            return self._at.get(time, self.base_matrices)
        assert self.silent is not None
        size = self.shape[-2]
        places = np.full(size, self.silent)
        nothing = sp.csr_array((np.ones(size), places, np.arange(size + 1)), shape=self.shape[-2:])
        return (nothing,) * len(self.base_matrices)

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
        """Whether emissions depend on (action, next state); then there is no observation at time 0."""
        return len(self.shape) == 3

    @cached_property
    def emissions(self) -> Float[np.ndarray, "*A S O"]:
        """The emissions as a dense read-only array; refused where it would pass 2 GiB, unlike `matrices`."""
        size = int(np.prod(self.shape, dtype=float))
        if size > _DENSE_LIMIT:
            raise TooLargeError(
                f"the dense emissions of shape {self.shape} would take {size * 8 / 2**30:.1f} GiB:"
                " use observer.matrices, which are sparse"
            )
        return frozen(np.stack([matrix.toarray() for matrix in self.matrices]).reshape(self.shape))

    @property
    def sees_first(self) -> bool:
        """Whether an observation `o_0` reaches the observer."""
        return self.sees_initial and not self.on_actions

    def check(self, states: Names, actions: Names, defects: Defects) -> None:
        """Note every way in which the emissions do not fit the states and actions of a model."""
        expected = (len(states),) if not self.on_actions else (len(actions), len(states))
        if self.shape[:-1] != expected:
            wanted = ", ".join(map(str, expected))
            defects.add(f"emissions has shape {self.shape}, expected ({wanted}, O)")
            return
        for time, matrices in ((None, self.base_matrices), *self._at.items()):
            when = "" if time is None else f"time {time}, "
            for action, matrix in enumerate(matrices):
                before = f"{when}action {actions[action]!r}, " if self.on_actions else when
                self._check_matrix(matrix, lambda s, before=before: f"{before}state {states[s]!r}", defects)

    def check_times(self, horizon: int, defects: Defects) -> None:
        """Note every time that does not occur within the horizon."""
        named = {"times": self.times if isinstance(self.times, frozenset) else (), "emissions_at": self._at}
        for name, times in named.items():
            for time in sorted(time for time in times if time > horizon >= 0):
                defects.add(f"{name} has the time {time}, expected times from 0 to the horizon {horizon}", name)

    def _check_matrix(self, matrix: sp.csr_array, place: Callable[[int], str], defects: Defects) -> None:
        """Note every entry that is not a probability and every row that does not sum to one."""
        data = matrix.data

        def wrong(entry: int) -> str:
            row, found = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1, data[entry]
            wanted = "a probability in [0, 1]" if np.isfinite(found) else "a finite number"
            name = self.observations[matrix.indices[entry]]
            return f"emission ({place(row)}, observation {name!r}) is {found:.17g}, expected {wanted}"

        defects.add_each(np.flatnonzero(~np.isfinite(data) | (data < 0) | (data > 1 + SUM_TOLERANCE)), wrong)
        if not np.isfinite(data).all():
            return
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        off = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
        defects.add_each(off, lambda row: f"emission row ({place(row)}) {sum_defect(float(sums[row]))}")

    def garbled(self, channel: ArrayLike, observation_names: Sequence[str] | None = None) -> "Observer":
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
        assert array is not None
        garbled = [
            sp.csr_array(matrix @ sp.csr_array(array)) for matrix in self.matrices
        ]  # refuses what has no meaning
        return Observer(self._like(garbled), observation_names, self.sees_actions, self.sees_initial)

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

    def _arguments(self) -> dict[str, object]:
        return {
            "emissions": self._like(list(self.base_matrices)),
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
    def emissions_at(self) -> dict[int, list[sp.csr_array] | sp.csr_array]:
        """The emissions of the times that have their own."""
        return {time: self._like(list(matrices)) for time, matrices in self._at.items()}

    def __repr__(self) -> str:
        extra = ", sees actions" if self.sees_actions else ""
        extra += "" if self.sees_first else ", no first observation"
        extra += ", depends on time" if self.varies else ""
        extra += ", no clock" if self.untimed else ""
        return f"Observer({self.num_observations} observations{extra})"

    def find(self, key: str | int) -> int:
        """The index of an observation given by name or index; raises `InputError` where there is none."""
        try:
            return self.observations.find(key)
        except KeyError as error:
            raise InputError("observer", [error.args[0]]) from None

    def _redirected(self, targets: Mapping[int, int]) -> "Observer":
        """Probability moves from one column to another; the alphabet keeps its names."""
        column = np.arange(self.num_observations)
        for source, target in targets.items():
            column[source] = target
        moved = {
            time: self._like([_recoloured(matrix, column) for matrix in matrices])
            for time, matrices in ((-1, self.base_matrices), *self._at.items())
        }
        return self.replace(emissions=moved.pop(-1), emissions_at=moved)

    def _like(self, matrices: list[sp.csr_array]) -> list[sp.csr_array] | sp.csr_array:
        """Other emissions in the form in which these were given."""
        return matrices if self.on_actions else matrices[0]

    def _check_at(self, given: object, defects: Defects) -> dict[int, tuple[sp.csr_array, ...]]:
        """The emissions of single times, in order, all of one shape."""
        if given is None:
            return {}
        if not isinstance(given, Mapping):
            defects.add(f"emissions_at is {given!r}, expected a mapping from times to emissions")
            return {}
        found = {}
        for time, emissions in given.items():
            if not _is_time(time):
                defects.add(f"emissions_at has the time {time!r}, expected a whole number, 0 or more")
                continue
            before = len(defects)
            matrices = _as_matrices(emissions, defects)
            if len(defects) == before and _shape_of(emissions) != self.shape:
                defects.add(
                    f"emissions_at {time} has shape {_shape_of(emissions)}, expected that of emissions, {self.shape}"
                )
            found[int(time)] = matrices
        defects.raise_if_any()
        return dict(sorted(found.items()))

    def _add_silence(self, names: Sequence[str] | None, defects: Defects) -> Sequence[str]:
        """A further observation for the times at which nothing is received."""
        size = self.shape[-1]
        known = Names("observation", size, names, "o", defects).all()
        wider = {
            time: tuple(_widened(m) for m in matrices)
            for time, matrices in ((-1, self.base_matrices), *self._at.items())
        }
        self.base_matrices, self._at = wider.pop(-1), wider
        self.shape = (*self.shape[:-1], size + 1)
        return (*known, UNOBSERVED)

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


def _recoloured(matrix: sp.csr_array, column: np.ndarray) -> sp.csr_array:
    return sp.csr_array((matrix.data, column[matrix.indices], matrix.indptr), shape=matrix.shape)


def _widened(matrix: sp.csr_array) -> sp.csr_array:
    rows, columns = shape_of(matrix)
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(rows, columns + 1))


def _is_time(time: object) -> bool:
    return isinstance(time, (int, np.integer)) and not isinstance(time, bool) and int(time) >= 0


def _check_times(times: object, defects: Defects) -> frozenset[int] | Literal["end"] | None:
    if times is None or times == "end":
        return "end" if times == "end" else None
    listed = as_tuple(times)
    if not isinstance(listed, tuple) or not all(map(_is_time, listed)):
        defects.add(f"times are {times!r}, expected whole numbers, 0 or more, or 'end'")
        return None
    return frozenset(int(time) for time in listed)


def _shape_of(emissions: Tables | sp.sparray | sp.spmatrix) -> tuple[int, ...]:
    if is_sparse(emissions):
        return shape_of(emissions)
    if isinstance(emissions, Sequence) and is_sparse(emissions[0]):
        return (len(emissions), *shape_of(emissions[0]))
    return np.shape(cast(ArrayLike, emissions))


def _as_matrices(emissions: object, defects: Defects) -> tuple[sp.csr_array, ...]:
    """One canonical CSR matrix, or one for each action: sorted, without stored zeros, without duplicates."""
    if is_sparse(emissions):
        return _from_sparse([emissions], defects)
    if isinstance(emissions, Sequence) and any(is_sparse(matrix) for matrix in emissions):
        return _from_sparse(emissions, defects)
    array = as_floats(emissions, "emissions", defects)
    if array is not None and array.ndim not in (2, 3):
        defects.add(f"emissions have shape {array.shape}, expected (S, O), or (A, S, O) on (action, next state)")
    if array is not None and 0 in array.shape:
        defects.add(f"emissions have shape {array.shape}, expected at least one state and one observation")
    if array is None or defects:
        return ()
    return tuple(sp.csr_array(table) for table in array.reshape(-1, *array.shape[-2:]))


def _from_sparse(emissions: Sequence[object], defects: Defects) -> tuple[sp.csr_array, ...]:
    shape = next(shape_of(matrix) for matrix in emissions if is_sparse(matrix))
    matrices = []
    for action, given in enumerate(emissions):
        if not is_sparse(given) or shape_of(given) != shape or len(shape) != 2 or 0 in shape:
            found = getattr(given, "shape", type(given).__name__)
            defects.add(
                f"emission matrix {action} has shape {found}, expected a sparse (S, O), the same for all actions"
            )
            continue
        if given.dtype.kind not in "biuf":
            defects.add(f"emission matrix {action} holds {given.dtype}, expected real numbers")
            continue
        matrices.append(canonical(given))
    return tuple(matrices)
