"""The problem that logs alone describe: their names, what followed what, the longest run, and a secret."""

import numpy as np
import scipy.sparse as sp

from ..common.errors import InputError, TooLargeError
from ..formats.text import shown
from ..problem.model import Model
from ..problem.observer import Observer
from ..problem.problem import Problem
from ..problem.secrets.last_state import LastState
from ..problem.secrets.secret import Secret
from ..problem.secrets.which_model import WhichModel
from .counting import transition_counts
from .logs import UNKNOWN, Logs

_MOST_NUMBERS = 2**24  # states times actions, and states times observations: 128 MiB of a table
_MOST_LABELS = 100
_ONLY_ACTION, _NOTHING = "step", "nothing"


def frame(logs: Logs, secret: Secret | None) -> Problem:
    """A problem whose transitions are those that were seen and whose emissions are uniform; estimates replace both.

    A state that no run leaves stays where it is, by every action. The horizon is that of the longest run, and all rewards are
    0. If no secret is given it is the label of the run, with a model for each label; without labels, where the run ends.

    **Raises:** `InputError` where no states, or no first states, were recorded; `TooLargeError` where
    they are too many.
    """
    states = logs.names["state"]
    if not states or not (logs.state[logs.begins] != UNKNOWN).any():
        what = "no states" if not states else "no states at time 0"
        remedy = "give the scenario that the runs belong to"
        if logs.is_labelled and logs.names["observation"]:
            remedy += ", or measure what the observations tell of the labels by veil.audit, which needs no states"
        raise InputError(logs.source, [f"{what} were recorded: {remedy}"])
    actions = logs.names["action"] or (_ONLY_ACTION,)
    wide = max(len(actions), len(logs.names["observation"]))
    if len(states) * wide > _MOST_NUMBERS:
        found = f"{len(states):,} states and {wide:,} actions or observations were recorded"
        raise TooLargeError(f"{logs.source}: {found}, too many for one table: group them, or give a scenario")
    counts = transition_counts(logs, len(states), len(actions))
    seen = np.asarray(counts.sum(axis=1)).ravel()
    available = (seen > 0).reshape(len(actions), len(states)).T
    left = np.any(available, axis=1, keepdims=True)
    shares = sp.diags_array(1 / np.maximum(seen, 1)) @ counts
    stays = sp.diags_array((~left[:, 0]).astype(float))
    matrices = [
        sp.csr_array(sp.csr_array(shares)[a * len(states) : (a + 1) * len(states)] + stays) for a in range(len(actions))
    ]
    first = logs.state[logs.begins & (logs.state != UNKNOWN)]
    initial = np.bincount(first, minlength=len(states)) / len(first)
    model = Model(
        matrices, np.zeros((len(states), len(actions))), initial, state_names=states, action_names=actions,
        available=available | ~left,
    )  # fmt: skip
    names = logs.names["observation"] or (_NOTHING,)
    sees_first = bool((logs.observation[logs.begins] != UNKNOWN).any()) or not logs.names["observation"]
    emissions = np.full((len(states), len(names)), 1 / len(names))
    observer = Observer(emissions, names, sees_actions=logs.sees_actions, sees_initial=sees_first)
    if secret is None and logs.is_labelled:
        labels = _labels(logs)
        return Problem([model] * len(labels), observer, WhichModel(names=labels), logs.longest, name="fitted")
    hidden = LastState(groups={name: [name] for name in states}) if secret is None else secret
    return Problem(model, observer, hidden, logs.longest, name="fitted")


def _labels(logs: Logs) -> list[str]:
    """The values that the labels have.

    **Raises:** `InputError` where a run has none, or all have the same.
    """
    missing = next((name for name, label in zip(logs.runs, logs.labels, strict=True) if label is None), None)
    if missing is not None:
        raise InputError(
            logs.source, [f"run {shown(missing)} has no label, and others have: label it, or leave it out"]
        )
    labels = sorted({label for label in logs.labels if label is not None})
    if len(labels) == 1:
        remedy = "say what is secret, by secret=… or a scenario, or leave the labels out"
        raise InputError(logs.source, [f"all runs have the label {shown(labels[0])}: {remedy}"])
    if len(labels) > _MOST_LABELS:
        found = f"the runs have {len(labels):,} labels, expected at most {_MOST_LABELS}, for each of which a model is fitted"
        raise InputError(logs.source, [f"{found}: group them, or say what is secret by secret=… or a scenario"])
    return labels
