"""What Storm built, as flat arrays and names: made in the process that holds Storm, read by the one that asked for it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Storm = Any  # stormpy and its objects, which have no types


@dataclass(frozen=True, eq=False)
class Flat:
    """A sparse model of Storm.

    **Attributes:** `facts`, as JSON holds them: `kind`, `num_states`, `label_names` (the first, "", is that of choices without
    a label), the names of rewards, labels and variables, `observation_values` or None. `arrays`: `owner` and `label` of each
    choice; `step_choice`, `step_target` and `step_value` of each transition; `starts`; `observation` of each state; and one
    array for each name: `state_rewards.0`, `choice_rewards.0`, `labels.0`, `variables.0`, ….
    """

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def named(self, part: str) -> dict[str, np.ndarray]:
        """The arrays of one part, `"labels"` for example, by name."""
        return {name: self.arrays[f"{part}.{place}"] for place, name in enumerate(self.facts[part])}


def flat(built: Storm) -> Flat:
    """The arrays of a sparse DTMC, MDP or POMDP that stormpy built. Cost: linear in the transitions."""
    kind = str(built.model_type).rsplit(".", 1)[-1].upper()
    matrix = built.transition_matrix
    num_states, num_choices = built.nr_states, matrix.nr_rows
    counts = np.fromiter((len(matrix.get_row(row)) for row in range(num_choices)), dtype=np.int64, count=num_choices)
    steps = np.array([(entry.column, entry.value) for entry in matrix], dtype=np.float64).reshape(-1, 2)
    owner = np.arange(num_states)
    if num_choices != num_states or not matrix.has_trivial_row_grouping:
        begin = np.array([matrix.get_row_group_start(state) for state in range(num_states)] + [num_choices])
        owner = np.repeat(np.arange(num_states), np.diff(begin))
    label, label_names = _choice_labels(built, num_choices)
    facts: dict[str, Any] = {"kind": kind, "num_states": num_states, "label_names": label_names}
    arrays = {
        "owner": owner,
        "label": label,
        "step_choice": np.repeat(np.arange(num_choices), counts),
        "step_target": steps[:, 0].astype(np.int64),
        "step_value": steps[:, 1],
        "starts": np.array(sorted(built.initial_states), dtype=np.int64),
    }
    facts["observation_values"] = None
    if kind == "POMDP":
        classes, place = np.unique(np.array(built.observations), return_inverse=True)
        arrays["observation"] = place.ravel()
        facts["observation_values"] = _observation_values(built, classes)
    state_rewards, choice_rewards = _rewards(built, num_choices)
    labels = {name: _mask(built.labeling.get_states(name), num_states) for name in built.labeling.get_labels()}
    parts = {"state_rewards": state_rewards, "choice_rewards": choice_rewards, "labels": labels}
    for part, columns in {**parts, "variables": _variables(built)}.items():
        facts[part] = list(columns)
        arrays |= {f"{part}.{place}": column for place, column in enumerate(columns.values())}
    return Flat(facts, arrays)


def _choice_labels(built: Storm, num_choices: int) -> tuple[np.ndarray, list[str]]:
    label = np.zeros(num_choices, dtype=np.int64)
    names = [""]  # of choices without a label
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
            total += averaged(built.transition_matrix, rewards.transition_rewards, num_choices)
        if name not in of_states and name not in of_choices:
            of_choices[name] = np.zeros(num_choices)
    return of_states, of_choices


def averaged(transitions: Storm, rewards: Storm, num_choices: int) -> np.ndarray:
    """Rewards of transitions, averaged over the steps of each choice."""
    total = np.zeros(num_choices)
    for row in range(num_choices):
        paid = {entry.column: entry.value for entry in rewards.get_row(row)}
        if paid:
            total[row] = sum(entry.value * paid.get(entry.column, 0.0) for entry in transitions.get_row(row))
    return total


def _variables(built: Storm) -> dict[str, np.ndarray]:
    if not built.has_state_valuations():
        return {}
    kept = built.state_valuations
    found = {variable.name: _column(kept.get_values_states(variable)) for variable in kept.get_all_variables()}
    return dict(sorted(found.items()))


def _column(values: list[Any]) -> np.ndarray:
    if values and not isinstance(values[0], (bool, int, str)):
        values = [float(value) for value in values]
    return np.array(values)


def _observation_values(built: Storm, classes: np.ndarray) -> dict[str, list[Any]] | None:
    """The value of each observable in each class of observations, where Storm kept them."""
    if not getattr(built, "has_observation_valuations", lambda: False)():
        return None
    kept = built.observation_valuations
    columns = {v.name: kept.get_values_states(v) for v in sorted(kept.get_all_variables(), key=lambda v: v.name)}
    return {name: _column([values[place] for place in classes]).tolist() for name, values in columns.items()}


def _mask(states: Iterable[int], size: int) -> np.ndarray:
    mask = np.zeros(size, dtype=bool)
    mask[np.fromiter(states, dtype=np.int64)] = True
    return mask
