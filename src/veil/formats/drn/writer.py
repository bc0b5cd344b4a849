"""Models and Markov chains written as DRN files, for Storm and other tools that read its explicit format."""

import re
from collections.abc import Mapping

import numpy as np

from ...common.errors import InputError
from ...problem.model import Model
from ...problem.observer import Observer

_LABEL = re.compile(r'[^"\n\r]+')
_NAME = re.compile(r'[^\s"\[\]{}]+')


def format_drn(
    model: Model,
    observer: Observer | None = None,
    labels: Mapping[str, np.ndarray] | None = None,
    *,
    chain: bool = False,
) -> str:
    """A model as a DRN file: an MDP; a POMDP with an observer whose every state shows one observation; or a DTMC.

    A start that is spread over several states becomes a state of its own, the first, which goes there in one step
    without reward: rewards then come one step later. Probabilities and rewards are written in full.

    **Arguments:** `labels`: named sets of states, `(S,)` of bool each; `chain`: the model has one action and is written as
    a DTMC, whose terminal rewards become a second reward model `terminal`, for `R{"terminal"}=? [I=T]`.

    **Raises:** `InputError` where the format cannot express it: terminal rewards of an MDP, observations that are drawn or that
    depend on actions, more than one action in a chain.
    """
    shown = None if observer is None else _observed(observer)
    _check(model, labels or {}, chain)
    kind = "DTMC" if chain else "MDP" if shown is None else "POMDP"
    spread = bool(np.count_nonzero(model.initial) > 1 or model.initial.max() != 1.0)
    ends = chain and bool(model.terminal_rewards.any())
    lines = _header(model, kind, spread, ends)
    if spread:
        seen = "" if shown is None else f" {{{int(shown.max()) + 1}}}"
        nothing = "[0, 0]" if ends else "[0]"
        lines += [f"state 0{seen} {nothing} init", f"\taction start {nothing}"]
        lines += [
            f"\t\t{state + 1} : {float(model.initial[state])!r}" for state in np.flatnonzero(model.initial).tolist()
        ]
    names = _action_names(model, chain)
    tables = [
        (list(map(int, matrix.indptr)), list(map(int, matrix.indices)), list(map(float, matrix.data)))
        for matrix in model.matrices
    ]
    for state in range(model.num_states):
        seen = "" if shown is None else f" {{{shown[state]}}}"
        init = [] if spread or model.initial[state] != 1.0 else ["init"]
        marked = [name for name, mask in (labels or {}).items() if mask[state]]
        marks = "".join(f" {_quoted(name)}" for name in [*init, *marked])
        paid = f"[0, {float(model.terminal_rewards[state])!r}]" if ends else "[0]"
        lines.append(f"state {state + spread}{seen} {paid}{marks}")
        for action in np.flatnonzero(model.available[state]).tolist():
            lines.append(f"\taction {names[action]} [{float(model.rewards[state, action])!r}{', 0' if ends else ''}]")
            begin, columns, values = tables[action]
            steps = range(begin[state], begin[state + 1])
            lines += [f"\t\t{columns[step] + spread} : {values[step]!r}" for step in steps]
    return "\n".join(lines) + "\n"


def _header(model: Model, kind: str, spread: bool, ends: bool) -> list[str]:
    """All lines before the states."""
    told = ["// state 0 is the start: it goes to the states in which the model starts"] if spread else []
    return [
        "// written by veil",
        *told,
        f"@type: {kind}",
        "@value_type: double",
        "@parameters",
        "",
        "@reward_models",
        "reward terminal" if ends else "reward",
        "@nr_states",
        str(model.num_states + spread),
        "@nr_choices",
        str(int(model.available.sum()) + spread),
        "@model",
    ]


def is_deterministic(observer: Observer) -> bool:
    """Whether each state shows one observation for certain, which is all that the format can express."""
    return not observer.on_actions and bool(np.isin(observer.emissions, (0.0, 1.0)).all())


def is_label(name: str) -> bool:
    """Whether the format can write a label."""
    return _LABEL.fullmatch(name) is not None


def _observed(observer: Observer) -> np.ndarray:
    """The observation of each state."""
    observer.refuse_schedule("writing a DRN file")
    if not is_deterministic(observer):
        raise InputError(
            "writing a DRN file",
            ["the observer draws its observations or they depend on actions, expected one observation for each state"],
        )
    return observer.emissions.argmax(axis=1)


def _check(model: Model, labels: Mapping[str, np.ndarray], chain: bool) -> None:
    defects = []
    if model.terminal_rewards.any() and not chain:
        defects.append(
            "the model has terminal rewards, which the format cannot express: pay them for a decision instead"
        )
    if chain and model.num_actions != 1:
        defects.append(f"the model has {model.num_actions} actions, expected one in a chain")
    defects += [f"label {name!r} cannot be written" for name in labels if not is_label(name)]
    if defects:
        raise InputError("writing a DRN file", defects)


def _action_names(model: Model, chain: bool) -> list[str]:
    if chain:
        return ["0"]
    names = model.actions.all()
    return list(names) if all(_NAME.fullmatch(name) for name in names) else [f"a{i}" for i in range(len(names))]


def _quoted(label: str) -> str:
    return label if re.fullmatch(r"[A-Za-z_]\w*", label) else f'"{label}"'
