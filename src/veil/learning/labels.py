"""The labels of runs: from a file of their own, and what they mean for a problem."""

from pathlib import Path

import numpy as np
from jaxtyping import Int

from ..common.errors import InputError, ModelFileError
from ..common.text import csv_name
from ..formats.text import read_rows, read_text, shown
from ..problem.problem import Problem
from .logs import LABEL, UNKNOWN, Columns, Logs, label_field

_MOST_BYTES = 2**28
_REMEDY = "audit a part of the runs"


def read_labels(path: str | Path, columns: Columns) -> dict[str, str]:
    """The label of each run, by its name, of a CSV file with the columns `run` and `label`.

    **Arguments:** `columns`: how these two are called, if otherwise.

    **Raises:** `ModelFileError` naming the file and the line.
    """
    text = read_text(path, _MOST_BYTES, _REMEDY)
    rows = ((line, [cell.strip() for cell in cells]) for line, cells in read_rows(path, text))
    _, header = next(rows)
    run = columns.get("run", "run")
    try:
        label = label_field([name for name in header if name != run], columns)
    except InputError as error:
        raise ModelFileError(path, "; ".join(error.defects), 1) from None
    if run not in header or label not in header:
        found = ", ".join(map(shown, header[:8]))
        wanted = (
            f"expected {run} and {columns.get(LABEL, LABEL)}; name others, such as --columns run=episode,label=outcome"
        )
        raise ModelFileError(path, f"the columns are {found}, {wanted}", 1)
    where = header.index(run), header.index(label)
    labels: dict[str, str] = {}
    for line, row in rows:
        name, value = (csv_name(row[place]) for place in where)
        if labels.get(name, value) != value:
            raise ModelFileError(path, f"run {shown(name)} has the labels {labels[name]!r} and {value!r}", line)
        if value:
            labels[name] = value
    return labels


def models_of(logs: Logs, problem: Problem) -> Int[np.ndarray, " r"] | None:
    """Of several models, the number of the one that each run is labelled with; None if the labels do not say.

    **Raises:** `InputError` where a label is the name of no model.
    """
    if not (problem.secret.several_models and logs.is_labelled):
        return None
    number = {name: place for place, name in enumerate(problem.secret_values)}
    unknown = sorted({label for label in logs.labels if label is not None} - set(number))
    if unknown:
        wanted = ", ".join(map(repr, list(number)[:6]))
        raise InputError(
            logs.source, [f"label {shown(unknown[0])} is not the name of a model, expected one of {wanted}"]
        )
    return np.array([UNKNOWN if label is None else number[label] for label in logs.labels])


def agreement(logs: Logs, problem: Problem) -> str:
    """A sentence on labels that are not used: whether they are the values that the secret has on the recorded states."""
    known = {label for label in logs.labels if label is not None}
    values = problem.secret_values
    if not known <= set(values):
        found = shown(sorted(known - set(values))[0])
        return f"The labels are not used: {found} is not a value of the secret, which has {', '.join(values[:6])}."
    told = _values_on_states(logs, problem)
    pairs = [
        (value, label) for value, label in zip(told, logs.labels, strict=True) if value != UNKNOWN and label is not None
    ]
    wrong = sum(values[value] != label for value, label in pairs)
    if not pairs:
        return "The labels are not used: the recorded states do not determine the secret."
    if not wrong:
        return f"The labels of {len(pairs):,} runs agree with the secret of their recorded states."
    return (
        f"The labels differ from the secret in {wrong:,} of {len(pairs):,} runs: the secret of the scenario was measured,"
        " not the labels (veil audit measures these)."
    )


def _values_on_states(logs: Logs, problem: Problem) -> list[int]:
    """The value of the secret in each run whose states are known until then; `UNKNOWN` elsewhere."""
    table = problem.secret_table
    if len(problem.models) > 1 or table.path is not None:
        return [UNKNOWN] * logs.num_runs
    found = []
    for begin, end in zip(np.flatnonzero(logs.begins), np.flatnonzero(logs.ends), strict=True):
        states = logs.state[begin : end + 1][: table.time + 1]
        if len(states) <= table.time or (states == UNKNOWN).any():
            found.append(UNKNOWN)
            continue
        held = table.memory_start[states[0]]
        for state in states[1:]:
            held = table.memory_step[held, state]
        found.append(int(table.label[0, held, states[-1]]))
    return found
