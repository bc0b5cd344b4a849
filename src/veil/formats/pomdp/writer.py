"""Models written as `.pomdp` files: the same text for the same model, and numbers that read back to the last bit."""

from collections.abc import Iterator

import numpy as np

from ...common.checks import Defects, Names
from ...common.errors import InputError
from ...problem.model import Model
from ...problem.observer import Observer
from .tokens import is_name

# Names that a file could take for the beginning of a statement, or for a matrix.
_RESERVED = {"discount", "values", "states", "actions", "observations", "start", "include", "exclude", "T", "O", "R"}
_RESERVED |= {"uniform", "identity", "reset", "reward", "cost"}


def format_pomdp(model: Model, observer: Observer | None = None) -> tuple[str, tuple[str, ...]]:
    """A model, and what its agent observes, in Cassandra's format.

    Without an observer it is the file of an MDP. The emissions become `O`; the format has no observation at time 0.

    **Returns:** the text; and notes on what the format cannot express and the text leaves out.

    **Raises:** `InputError` where the text would mean another model: terminal rewards, actions that are not available
    everywhere, an observer that does not fit.
    """
    _check(model, observer)
    notes: list[str] = []
    lines = ["# written by veil", f"discount: {model.discount!r}", "values: reward"]
    kinds = [("states", model.states), ("actions", model.actions)]
    if observer is not None:
        kinds.append(("observations", observer.observations))
    texts: dict[str, list[str]] = {}
    for word, names in kinds:
        texts[word] = _texts(names, word, notes)
        lines.append(f"{word}: " + (str(len(names)) if texts[word][0] == "0" else " ".join(texts[word])))
    if observer is not None and observer.sees_first:
        notes.append("the observation at time 0 is left out: the format has none")
    if observer is not None and observer.sees_actions:
        notes.append("the format cannot say that the observer sees the actions: read the file with sees_actions=True")
    lines += ["", "start: " + _start(model, texts["states"]), ""]
    lines += _transitions(model, texts)
    if observer is not None:
        lines += ["", *_emissions(observer, texts)]
    lines += ["", *_rewards(model, texts, observer is not None)]
    return "\n".join(lines) + "\n", tuple(notes)


def _check(model: Model, observer: Observer | None) -> None:
    defects = []
    if model.terminal_rewards.any():
        defects.append(
            "the model has terminal rewards, which the format cannot express: pay them for a decision instead"
        )
    for state, action in np.argwhere(~model.available)[:5]:
        defects.append(
            f"action {model.actions[action]!r} is not available in state {model.states[state]!r}, which the format"
            " cannot express: make it stay there instead"
        )
    if defects:
        raise InputError("writing a .pomdp file", defects)
    if observer is not None:
        observer.refuse_schedule("writing a .pomdp file")
        found = Defects("writing a .pomdp file")
        observer.check(model.states, model.actions, found)
        found.raise_if_any()


def _texts(names: Names, word: str, notes: list[str]) -> list[str]:
    """The names where the format can write all of them, else the indices."""
    if names.given:
        good = [is_name(name) and name not in _RESERVED for name in names.all()]
        if all(good):
            return list(names.all())
        bad = names[good.index(False)]
        notes.append(f"the names of {word} are left out: the format cannot write {bad!r}")
    return [str(index) for index in range(len(names))]


def _start(model: Model, states: list[str]) -> str:
    certain = np.flatnonzero(model.initial == 1.0)
    if len(certain) == 1 and np.count_nonzero(model.initial) == 1 and len(states) > 1:
        return states[certain[0]]
    return " ".join(map(repr, model.initial.tolist()))


def _transitions(model: Model, texts: dict[str, list[str]]) -> Iterator[str]:
    for action, matrix in zip(texts["actions"], model.matrices, strict=True):
        rows = np.repeat(np.arange(model.num_states), np.diff(matrix.indptr))
        for row, column, value in zip(rows.tolist(), matrix.indices.tolist(), matrix.data.tolist(), strict=True):
            yield f"T: {action} : {texts['states'][row]} : {texts['states'][column]} {value!r}"


def _emissions(observer: Observer, texts: dict[str, list[str]]) -> Iterator[str]:
    tables = observer.emissions if observer.on_actions else observer.emissions[None]
    actions = texts["actions"] if observer.on_actions else ["*"]
    for action, table in zip(actions, tables, strict=True):
        for state, observation in np.argwhere(table != 0).tolist():
            value = float(table[state, observation])
            yield f"O: {action} : {texts['states'][state]} : {texts['observations'][observation]} {value!r}"


def _rewards(model: Model, texts: dict[str, list[str]], has_observations: bool) -> Iterator[str]:
    rest = ": * : *" if has_observations else ": *"
    for state, action in np.argwhere(model.rewards != 0).tolist():
        value = float(model.rewards[state, action])
        yield f"R: {texts['actions'][action]} : {texts['states'][state]} {rest} {value!r}"
