"""From states with choices, as Storm has them, to a model with named actions."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ...common.errors import InputError, TooLargeError
from ...problem.model import Model
from ...problem.observer import Observer
from ..text import joined_values

UNLABELLED = "unlabelled"
_MOST_PAIRS = 2**26  # (state, action) pairs: 512 MiB of rewards


@dataclass(frozen=True, eq=False)
class Choices:
    """A Markov model as Storm keeps it: the choices of each state one after the other, and the steps of each choice.

    `owner` is the state of a choice; `label` its label, a place in `label_names`; `step_choice`, `step_target` and
    `step_value` are the steps, in order of their choices. `rewards` of choices, with those of their states, by name.
    """

    num_states: int
    owner: Int[np.ndarray, " C"]
    label: Int[np.ndarray, " C"]
    label_names: list[str]
    step_choice: Int[np.ndarray, " n"]
    step_target: Int[np.ndarray, " n"]
    step_value: Float[np.ndarray, " n"]
    starts: Int[np.ndarray, " k"]
    rewards: Mapping[str, Float[np.ndarray, " C"]]


def model_of(
    choices: Choices,
    valuations: Mapping[str, np.ndarray],
    discount: float,
    reward_model: str | None,
    source: str,
) -> tuple[Model, list[str]]:
    """The model, its states named after their variables, and notes on what was assumed.

    An action is a label; where a state has several choices of one label, the further ones are actions `label#2`,
    `label#3`, …. An action is available where there is such a choice. `R(s, a)` is the reward of the state and of the
    choice. Several initial states are equally likely.

    **Raises:** `InputError`, `TooLargeError`.
    """
    notes: list[str] = []
    action, names = _actions(choices)
    if choices.num_states * len(names) > _MOST_PAIRS:
        raise TooLargeError(
            f"{source}: {choices.num_states:,} states times {len(names):,} actions are more than {_MOST_PAIRS:,} pairs"
        )
    if any("#" in name for name in names):
        notes.append("states with several choices of one label have actions 'label#2', …")
    rewards = np.zeros((choices.num_states, len(names)))
    rewards[choices.owner, action] = _rewards(choices, reward_model, source, notes)
    available = np.zeros(rewards.shape, dtype=bool)
    available[choices.owner, action] = True
    size = (choices.num_states, choices.num_states)
    state, step_action = choices.owner[choices.step_choice], action[choices.step_choice]
    matrices = []
    for number in range(len(names)):
        mine = step_action == number
        places = (state[mine], choices.step_target[mine])
        matrices.append(sp.csr_array((choices.step_value[mine], places), shape=size))
    initial = np.zeros(choices.num_states)
    initial[choices.starts] = 1 / len(choices.starts)
    if len(choices.starts) > 1:
        notes.append(f"{len(choices.starts):,} initial states are taken as equally likely")
    model = Model(
        matrices,
        rewards,
        initial,
        discount,
        state_names=_state_names(valuations),
        action_names=names,
        available=available,
    )
    return model, notes


def observer_of(observation: Int[np.ndarray, " S"]) -> Observer:
    """The observer that sees the observation class of each state, from time 0 on; classes are 0, 1, …."""
    size = len(observation)
    shape = (size, int(observation.max()) + 1)
    return Observer(sp.csr_array((np.ones(size), observation, np.arange(size + 1)), shape=shape))


def _state_names(valuations: Mapping[str, np.ndarray]) -> list[str] | None:
    """Names such as `x=3,door=true` for the states, or None where they would not differ."""
    names = joined_values(valuations, ",")
    return names if names and len(set(names)) == len(names) else None


def _actions(choices: Choices) -> tuple[np.ndarray, list[str]]:
    """The action of each choice, and the names of the actions."""
    count = len(choices.owner)
    order = np.lexsort((np.arange(count), choices.label, choices.owner))
    same = np.zeros(count, dtype=bool)
    same[1:] = (np.diff(choices.owner[order]) == 0) & (np.diff(choices.label[order]) == 0)
    first = np.maximum.accumulate(np.where(same, 0, np.arange(count)))
    turn = np.empty(count, dtype=np.int64)
    turn[order] = np.arange(count) - first
    keys, action = np.unique(choices.label.astype(np.int64) * count + turn, return_inverse=True)
    names = []
    for key in keys.tolist():
        label, number = divmod(key, count)
        names.append(choices.label_names[label] + (f"#{number + 1}" if number else ""))
    return action.ravel(), names


def _rewards(choices: Choices, wanted: str | None, source: str, notes: list[str]) -> np.ndarray:
    known = sorted(choices.rewards)  # Storm exports them in any order
    if wanted is None and len(known) > 1:
        words = f"it has rewards {', '.join(map(repr, known))}: choose one, reward_model={known[0]!r}"
        raise InputError(source, [words])
    if wanted is not None and wanted not in known:
        listed = ", ".join(map(repr, known)) or "none"
        raise InputError(source, [f"it has no rewards {wanted!r}: known are {listed}"])
    if not known:
        notes.append("it has no rewards: all are zero; set some with .paying({expression: amount})")
        return np.zeros(len(choices.owner))
    name = known[0] if wanted is None else wanted
    if len(known) > 1:
        notes.append("rewards left out: " + ", ".join(other for other in known if other != name))
    return choices.rewards[name]
