"""PRISM programs, built by Storm through stormpy; the variables of the states are kept for expressions."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...common.errors import InputError, MissingExtraError, ModelFileError
from ...problem.secrets.initial_state import InitialState
from ..choices import UNLABELLED, Choices, model_of, observer_of
from ..imported import Imported
from ..rows import rescaled
from ..text import joined_values, read_text, value_text
from .dialect import Marked, read_marks

MOST_BYTES = 2**24
_KINDS = ("MDP", "POMDP", "DTMC")
_COPY_PREFIX = "veil-prism-"  # of the folder of a copy, which no message should name
_COPY = re.compile(rf"\S*{_COPY_PREFIX}\S*\.prism")
Storm = Any  # stormpy and its objects, which have no types


def from_prism(
    path: str | Path,
    constants: Mapping[str, bool | float | str] | str | None = None,
    *,
    reward_model: str | None = None,
    discount: float = 1.0,
) -> Imported:
    """The model of a PRISM program: `mdp`, `dtmc`, or `pomdp` with observables.

    Actions are the labels of the commands; the observables of a `pomdp` become an observer that sees them from time 0 on.
    So do, in PRISM-Leak's dialect, variables declared `observable x : [0..3]`; the initial values of variables declared
    `secret x : [0..3]` become the secret, `.secret`. The variables of each state, and the program's labels, can be used in
    expressions: `.states_where("x=3 & door")`.

    **Arguments:** `constants`: values for undefined constants, as `{"N": 4}` or `"N=4"`; `reward_model`: the
    reward structure to use, where there are several; `discount`.

    Cost: that of Storm, and some 3 microseconds for each transition.

    **Raises:** `MissingExtraError` without stormpy; `ModelFileError` where Storm refuses the program; `InputError`.
    """
    marked = read_marks(read_text(path, MOST_BYTES))
    storm = _stormpy()
    try:
        with _quiet(storm), _readable(path, marked) as readable:
            program = storm.parse_prism_program(str(readable))
            program = _with_constants(storm, program, constants, path)
            options = storm.BuilderOptions(build_full=True)
            options.set_build_observation_valuations()
            built = storm.build_model(program, options=options)
    except ModelFileError:
        raise
    except (RuntimeError, ValueError, TypeError, storm.exceptions.StormError) as error:
        words = _COPY.sub(lambda _: str(path), _first_line(error))
        raise ModelFileError(path, f"Storm cannot build it: {words}") from None
    found = from_stormpy(built, source=Path(path).name, reward_model=reward_model, discount=discount)
    return _with_marks(found, marked)


@contextmanager
def _readable(path: str | Path, marked: Marked) -> Iterator[Path]:
    """The program in a file that Storm can read: itself, or a copy without the dialect's keywords."""
    if not marked.any:
        yield Path(path)
        return
    with TemporaryDirectory(prefix=_COPY_PREFIX) as folder:
        copy = Path(folder) / "program.prism"
        copy.write_text(marked.text, encoding="utf-8")
        yield copy


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

    **Arguments** and **Raises:** as for `from_prism`.
    """
    kind = str(built.model_type).rsplit(".", 1)[-1].upper()
    if kind not in _KINDS:
        raise InputError(source, [f"it is a {kind}, expected one of {', '.join(_KINDS)}: time must be discrete"])
    valuations = _valuations(built)
    model, notes = model_of(_choices(built, source), valuations, discount, reward_model, source)
    observer = None
    if kind == "POMDP":
        classes, place = np.unique(np.array(built.observations), return_inverse=True)
        observer = observer_of(place.ravel(), _observation_names(built, classes))
    labels = {name: _mask(built.labeling.get_states(name), model.num_states) for name in built.labeling.get_labels()}
    labels = {name: mask for name, mask in sorted(labels.items()) if name != "init" and mask.any()}
    return Imported(model, observer, source, f"{kind} of Storm", tuple(notes), valuations, labels)


def _stormpy() -> Storm:
    try:
        import stormpy  # pyright: ignore[reportMissingImports]: an extra that not everybody has
    except ImportError:
        raise MissingExtraError(
            "PRISM programs need stormpy, which is not installed: pip install 'veil[prism]'"
        ) from None
    if not hasattr(stormpy, "build_model_from_drn") or not callable(getattr(stormpy, "BuilderOptions", None)):
        version = getattr(stormpy, "__version__", "unknown")
        raise MissingExtraError(f"stormpy {version} is installed, expected 2.0 or newer: pip install 'veil[prism]'")
    return stormpy


@contextmanager
def _quiet(storm: Storm) -> Iterator[None]:
    """Storm prints its errors to standard output as well as raising them; ours are raised only."""
    before = storm.developer.get_log_level()
    storm.developer.set_log_level(storm.developer.LogLevel.OFF)
    try:
        yield
    finally:
        storm.developer.set_log_level(before)


def _with_constants(
    storm: Storm, program: Storm, constants: Mapping[str, bool | float | str] | str | None, path: str | Path
) -> Storm:
    if isinstance(constants, Mapping):
        constants = ",".join(f"{name}={value_text(value)}" for name, value in constants.items())
    undefined = sorted(constant.name for constant in program.get_undefined_constants())
    if constants:
        program, _ = storm.instantiate_constants(program, constants)
        undefined = sorted(constant.name for constant in program.get_undefined_constants())
    if undefined:
        listed = ", ".join(undefined)
        raise ModelFileError(path, f"constants {listed} are not defined: give constants={{{undefined[0]!r}: …}}")
    return program


def _choices(built: Storm, source: str) -> Choices:
    matrix = built.transition_matrix
    num_states, num_choices = built.nr_states, matrix.nr_rows
    counts = np.fromiter((len(matrix.get_row(row)) for row in range(num_choices)), dtype=np.int64, count=num_choices)
    steps = np.array([(entry.column, entry.value) for entry in matrix], dtype=np.float64).reshape(-1, 2)
    step_choice = np.repeat(np.arange(num_choices), counts)
    owner = np.arange(num_states)
    if num_choices != num_states or not matrix.has_trivial_row_grouping:
        begin = np.array([matrix.get_row_group_start(state) for state in range(num_states)] + [num_choices])
        owner = np.repeat(np.arange(num_states), np.diff(begin))
    label, label_names = _choice_labels(built, num_choices)
    found = rescaled(step_choice, steps[:, 1], num_choices, 0.0)
    if found.wrong.any():
        row = int(np.flatnonzero(found.wrong)[0])
        where = f"the choice {label_names[label[row]]!r} of state {owner[row]}"
        raise InputError(source, [f"{where} sums to {found.sums[row]:.12g}, expected 1"])
    state_rewards, choice_rewards = _rewards(built, num_choices)
    return Choices(
        num_states,
        owner,
        label,
        label_names,
        step_choice,
        steps[:, 0].astype(np.int64),
        found.values,
        np.array(sorted(built.initial_states)),
        state_rewards,
        choice_rewards,
    )


def _choice_labels(built: Storm, num_choices: int) -> tuple[np.ndarray, list[str]]:
    label = np.zeros(num_choices, dtype=np.int64)
    names = [UNLABELLED]
    if built.has_choice_labeling():
        for name in sorted(built.choice_labeling.get_labels()):
            chosen = np.fromiter(built.choice_labeling.get_choices(name), dtype=np.int64)
            label[chosen] = len(names)
            names.append(name)
    return label, names


def _rewards(built: Storm, num_choices: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    of_states, of_choices = {}, {}
    for name, rewards in sorted(built.reward_models.items()):
        name = name or "reward"
        if rewards.has_state_rewards:
            of_states[name] = np.array(rewards.state_rewards, dtype=np.float64)
        if rewards.has_state_action_rewards:
            of_choices[name] = np.array(rewards.state_action_rewards, dtype=np.float64)
        if rewards.has_transition_rewards:
            total = of_choices.setdefault(name, np.zeros(num_choices))
            total += _averaged(built.transition_matrix, rewards.transition_rewards, num_choices)
        if name not in of_states and name not in of_choices:
            of_choices[name] = np.zeros(num_choices)
    return of_states, of_choices


def _averaged(transitions: Storm, rewards: Storm, num_choices: int) -> np.ndarray:
    """Rewards of transitions, averaged over the steps of each choice."""
    total = np.zeros(num_choices)
    for row in range(num_choices):
        paid = {entry.column: entry.value for entry in rewards.get_row(row)}
        if paid:
            total[row] = sum(entry.value * paid.get(entry.column, 0.0) for entry in transitions.get_row(row))
    return total


def _valuations(built: Storm) -> dict[str, np.ndarray]:
    if not built.has_state_valuations():
        return {}
    found = {}
    for variable in built.state_valuations.get_all_variables():
        values = built.state_valuations.get_values_states(variable)
        if values and not isinstance(values[0], (bool, int, str)):
            values = [float(value) for value in values]
        found[variable.name] = np.array(values)
    return dict(sorted(found.items()))


def _observation_names(built: Storm, classes: np.ndarray) -> list[str] | None:
    """The observables' values as names, where Storm kept them."""
    if not getattr(built, "has_observation_valuations", lambda: False)():
        return None
    kept = built.observation_valuations
    columns = {v.name: kept.get_values_states(v) for v in sorted(kept.get_all_variables(), key=lambda v: v.name)}
    names = joined_values({name: [values[place] for place in classes] for name, values in columns.items()}, ", ")
    return names if names and len(set(names)) == len(names) else None


def _mask(states: Storm, size: int) -> np.ndarray:
    mask = np.zeros(size, dtype=bool)
    mask[np.fromiter(states, dtype=np.int64)] = True
    return mask


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300]
