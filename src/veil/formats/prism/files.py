"""PRISM programs, built by Storm through stormpy; the variables of the states are kept for expressions."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...common.checks import is_number
from ...common.errors import InputError
from ...problem.secrets.initial_state import InitialState
from ..drn.files import parse_drn
from ..imported import Imported
from ..text import joined_values, read_text, value_text
from .built import Built, Storm, exported
from .dialect import Marked, read_marks
from .process import build

MOST_BYTES = 2**24
_KINDS = ("MDP", "POMDP", "DTMC")


def from_prism(
    path: str | Path,
    constants: Mapping[str, bool | float | str] | str | None = None,
    *,
    reward_model: str | None = None,
    discount: float = 1.0,
    time_limit: float = 120.0,
    memory_limit: float = 4.0,
) -> Imported:
    """The model of a PRISM program: `mdp`, `dtmc`, or `pomdp` with observables.

    Actions are the labels of the commands; the observables of a `pomdp` become an observer that sees them from time 0 on.
    So do, in PRISM-Leak's dialect, variables declared `observable x : [0..3]`; the initial values of variables declared
    `secret x : [0..3]` become the secret, `.secret`. The variables of each state, and the program's labels, can be used in
    expressions: `.states_where("x=3 & door")`.

    **Arguments:** `constants`: values for undefined constants, as `{"N": 4}` or `"N=4"`; `reward_model`: the
    reward structure to use, if there are several; `discount`; `time_limit` in seconds and `memory_limit` in GiB of the
    process in which Storm runs.

    Cost: half a second to start that process, that of Storm, and a few microseconds for each transition.

    **Raises:** `MissingExtraError` without stormpy; `ModelFileError` if Storm refuses the program, for example because an
    update leaves the range of its variable, or crashes; `TooLargeError` at a limit; `InputError`.
    """
    for name, value in {"time_limit": time_limit, "memory_limit": memory_limit}.items():
        if not (is_number(value) and 0 < value < math.inf):
            raise InputError("from_prism", [f"{name} is {value!r}, expected a number above 0"])
    marked = read_marks(read_text(path, MOST_BYTES))
    built = build(path, marked.text, _constants_text(constants), time_limit, memory_limit)
    return _with_marks(_imported(built, Path(path).name, reward_model, discount), marked)


def _with_marks(found: Imported, marked: Marked) -> Imported:
    """The observer of the observable variables, and the secret of the secret ones: their values in the initial state."""
    if marked.observable:
        found = found.observing(*marked.observable)
    if not marked.secret:
        return found
    values = joined_values({name: found.variables[name] for name in marked.secret}, ", ")
    groups: dict[str, list[int]] = {}
    for state in np.flatnonzero(found.model.initial).tolist():
        groups.setdefault(values[state], []).append(state)
    return replace(found, secret=InitialState(groups))


def from_stormpy(
    built: Storm, *, source: str = "Storm model", reward_model: str | None = None, discount: float = 1.0
) -> Imported:
    """A sparse DTMC, MDP or POMDP that stormpy built, best with `BuilderOptions(build_full=True)`.

    Set `set_exploration_checks(True)` there, or updates that leave the range of their variable wrap around.

    **Arguments** and **Raises:** as for `from_prism`.
    """
    return _imported(exported(built), source, reward_model, discount)


def _imported(found: Built, source: str, reward_model: str | None, discount: float) -> Imported:
    if found.kind not in _KINDS:
        raise InputError(source, [f"it is a {found.kind}, expected one of {', '.join(_KINDS)}: time must be discrete"])
    valuations = {name: np.array(values) for name, values in found.variables.items()}
    read = parse_drn(
        found.drn, source, reward_model=reward_model, discount=discount, rescale=0.0, valuations=valuations
    )
    names, observer = joined_values(found.observations or {}, ", "), read.observer
    if observer is not None and names and len(set(names)) == len(names):
        observer = observer.replace(observation_names=names)
    labels = dict(sorted(read.labels.items()))
    return replace(read, observer=observer, source=source, kind=f"{found.kind} of Storm", labels=labels)


def _constants_text(constants: Mapping[str, bool | float | str] | str | None) -> str:
    if isinstance(constants, Mapping):
        return ",".join(f"{name}={value_text(value)}" for name, value in constants.items())
    return constants or ""
