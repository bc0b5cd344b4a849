"""PRISM programs, built by Storm through stormpy; the variables of the states are kept for expressions."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...common.checks import is_number
from ...common.errors import InputError
from ...problem.secrets.initial_state import InitialState
from ..choices import UNLABELLED, Choices, model_of, observer_of
from ..imported import Imported
from ..rows import rescaled
from ..text import joined_values, read_text, value_text
from .dialect import Marked, read_marks
from .flat import Flat, Storm, flat
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

    Cost: half a second to start that process, that of Storm, and some 3 microseconds for each transition.

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
    return _imported(flat(built), source, reward_model, discount)


def _imported(found: Flat, source: str, reward_model: str | None, discount: float) -> Imported:
    kind = found.facts["kind"]
    if kind not in _KINDS:
        raise InputError(source, [f"it is a {kind}, expected one of {', '.join(_KINDS)}: time must be discrete"])
    valuations = found.named("variables")
    model, notes = model_of(_choices(found, source), valuations, discount, reward_model, source)
    observer = None
    if kind == "POMDP":
        observer = observer_of(found.arrays["observation"], _observation_names(found))
    labels = {name: mask for name, mask in sorted(found.named("labels").items()) if name != "init" and mask.any()}
    return Imported(model, observer, source, f"{kind} of Storm", tuple(notes), valuations, labels)


def _choices(found: Flat, source: str) -> Choices:
    arrays, names = found.arrays, [name or UNLABELLED for name in found.facts["label_names"]]
    rows = rescaled(arrays["step_choice"], arrays["step_value"], len(arrays["owner"]), 0.0)
    if rows.wrong.any():
        row = int(np.flatnonzero(rows.wrong)[0])
        where = f"the choice {names[arrays['label'][row]]!r} of state {arrays['owner'][row]}"
        raise InputError(source, [f"{where} sums to {rows.sums[row]:.12g}, expected 1"])
    return Choices(
        found.facts["num_states"],
        arrays["owner"],
        arrays["label"],
        names,
        arrays["step_choice"],
        arrays["step_target"],
        rows.values,
        arrays["starts"],
        found.named("state_rewards"),
        found.named("choice_rewards"),
    )


def _observation_names(found: Flat) -> list[str] | None:
    """The values of the observables as names, if Storm kept them and they differ."""
    names = joined_values(found.facts["observation_values"] or {}, ", ")
    return names if names and len(set(names)) == len(names) else None


def _constants_text(constants: Mapping[str, bool | float | str] | str | None) -> str:
    if isinstance(constants, Mapping):
        return ",".join(f"{name}={value_text(value)}" for name, value in constants.items())
    return constants or ""
