"""What every kind of secret offers: its table of labels, its keys in scenario files, its words and its picture."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float, Int

from ...common.checks import Defects, Names, as_tuple
from ...common.values import Value
from ..keys import Key, States, table_of
from ..model import Model
from ..registers import TableRegister

if TYPE_CHECKING:
    from ..problem import Problem

State = str | int

ELSEWHERE = "elsewhere"
ELSEWHERE_OR_SECRET = (ELSEWHERE, "secret")


@dataclass(frozen=True, eq=False, repr=False)
class EachTime(Value):
    """A secret with a value at every time t: `value[s_t]`, or whether `value` is 1 at some time from t to t + `ahead`.

    `weights (T+1)`: of what is hidden at each time. `value (S)`: of each state, or of each hidden state of a chain.
    """

    value: Int[np.ndarray, " S"]
    weights: Float[np.ndarray, " T+1"]
    ahead: int = 0

    def at(self, state: Int[np.ndarray, " N"]) -> "EachTime":
        """The same over larger states, of which each shows as one of the states here."""
        return EachTime(self.value[state], self.weights, self.ahead)


@dataclass(frozen=True, eq=False)
class SecretTable:
    """A secret resolved against a model, the form that the engine reads.

    The hidden state is `(k, m, s)`: which model runs, the private memory, the state of the model. The memory starts as
    `memory_start[s_0]` and becomes `memory_step[m, s']` on entering `s'`. The value of the secret is
    `label[k, m, s]` of the hidden state at `time`; -1 marks hidden states that cannot occur then.

    Where `path` is given, the secret is the whole sequence `path[s_0] … path[s_T]` instead; `label` then has one value. Where
    `each` is given, it has a value at every time instead; `label` is then that of the last.
    """

    time: int
    value_names: tuple[str, ...]
    label: Int[np.ndarray, "K M S"]
    memory_start: Int[np.ndarray, " S"]
    memory_step: Int[np.ndarray, "M S"]
    memory_names: tuple[str, ...] = ("",)
    weights: Float[np.ndarray, " K"] | None = None
    agent_knows: bool = False
    path: Int[np.ndarray, " S"] | None = None
    each: EachTime | None = None

    @property
    def prior(self) -> Float[np.ndarray, " K"]:
        """The probability that each model runs."""
        return np.ones(1) if self.weights is None else self.weights

    @property
    def register(self) -> TableRegister:
        """The private memory."""
        return TableRegister(self.memory_start, self.memory_step, self.memory_names)

    @classmethod
    def without_memory(cls, time: int, names: Sequence[str], label: Int[np.ndarray, " S"]) -> Self:
        """A secret that is a label of the state at one time, in a problem of one model."""
        start, step = np.zeros(len(label), dtype=int), np.zeros((1, len(label)), dtype=int)
        return cls(time, tuple(names), label[None, None, :], start, step)


class Secret(Value, ABC):
    """What the observer wants to know: the base of every kind of secret, of veil and of other packages.

    A kind is one frozen dataclass and one line in a registry: `problem/secrets/registry.py`, or the entry points
    `veil.secrets` of another package.

    **Class attributes:** `kind`, its name in scenario files; `keys` of its `[secret]` table; `several_models`, whether it asks
    which of several models is running. The first paragraph of the docstring opens its section in the reference.
    """

    kind: ClassVar[str]
    keys: ClassVar[tuple[Key, ...]] = ()
    several_models: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Keep sets of states as tuples, so that they can be read more than once."""
        super().__post_init__()
        for key in self.keys:
            value = getattr(self, key.name, None)
            if key.form == States:
                object.__setattr__(self, key.name, as_tuple(value))
            elif key.form == dict[str, States] and isinstance(value, Mapping):
                object.__setattr__(self, key.name, {str(name): as_tuple(one) for name, one in value.items()})

    @abstractmethod
    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The table of the secret, or None with every defect noted, each with the key that it concerns."""

    @abstractmethod
    def describe(self, problem: "Problem") -> str:
        """What the observer wants to know, as a question of one sentence."""

    def marked_groups(self, problem: "Problem") -> dict[str, Bool[np.ndarray, " S"]]:
        """The sets of states to mark in pictures, by name; by default, with one model, those of each value of the secret.

        States that are `elsewhere`, or else have the first value, are not marked.
        """
        names, label = problem.secret_table.value_names, problem.secret_table.label
        plain = names.index(ELSEWHERE) if ELSEWHERE in names else 0
        if len(problem.models) > 1:
            return {}
        return {name: (label == v).any(axis=(0, 1)) for v, name in enumerate(names) if v != plain}

    def marked_states(self, problem: "Problem") -> Bool[np.ndarray, " S"]:
        """The states of all marked groups."""
        return np.any([np.zeros(problem.num_states, dtype=bool), *self.marked_groups(problem).values()], axis=0)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], model: Model, defects: Defects) -> Self | None:
        """The secret of a `[secret]` table; by default the keys are the arguments of the class.

        **Arguments:** `table`: the value of every key, given or default, states as indices of `model`; where
        `several_models`, also `names` and `weights` (or None) of the models. None with every defect noted.
        """
        return cls(**table)

    def to_table(self, states: Names) -> dict[str, object]:
        """The keys of the `[secret]` table that `from_table` reads as an equal secret; states by name."""
        return table_of(self, self.keys, states)


def states_of(problem: "Problem", groups: Mapping[str, Iterable[State]]) -> dict[str, Bool[np.ndarray, " S"]]:
    """Named sets of states as masks."""
    masks = {name: np.zeros(problem.num_states, dtype=bool) for name in groups}
    for name, states in groups.items():
        masks[name][[problem.model.states.find(key) for key in states]] = True
    return masks


def membership(states: Names, wanted: Iterable[State], defects: Defects) -> Int[np.ndarray, " S"]:
    """1 for the wanted states, 0 for the others; names that do not exist, and an empty set, are noted."""
    label = np.zeros(len(states), dtype=int)
    if not isinstance(wanted, tuple):
        defects.add(f"states are {wanted!r}, expected a set of names or indices")
        return label
    found = [states.find_or_note(key, "", defects) for key in wanted]
    label[[index for index in found if index is not None]] = 1
    if not found:
        defects.add("no states are given, expected at least one")
    return label


def group_labels(
    states: Names, groups: object, defects: Defects, key: str = "groups"
) -> tuple[tuple[str, ...], Int[np.ndarray, " S"]] | None:
    """The names of the groups and the number of each state's group, -1 for none; None where they are no mapping."""
    if not isinstance(groups, Mapping):
        found = type(groups).__name__
        defects.add(f"{key}: found a {found}, expected a mapping from name to states", key)
        return None
    label, names = np.full(len(states), -1), tuple(str(name) for name in groups)
    for number, (name, members) in enumerate(groups.items()):
        group = defects.under(key, names[number], where=f"group {name!r}")
        inside = membership(states, members, group).astype(bool)
        for state in np.flatnonzero(inside & (label >= 0))[:3]:
            other = f"state {states[state]!r} is in group {names[label[state]]!r} too"
            group.add(f"{other}, expected each state in one group at most")
        label[inside] = number
    return names, label


def set_or_groups(
    states: Names, wanted: Iterable[State] | None, groups: object, defects: Defects
) -> tuple[tuple[str, ...], Int[np.ndarray, " S"]] | None:
    """Values and labels of a secret that asks for a set of states, or for one of several groups of them.

    States in no group have a further value, `elsewhere`. None with every defect noted.
    """
    if (wanted is None) == (groups is None):
        found = "neither states nor groups are given" if groups is None else "states and groups are both given"
        defects.add(f"{found}, expected one of them", "states")
        return None
    if wanted is not None:
        return ELSEWHERE_OR_SECRET, membership(states, wanted, defects.under("states"))
    return all_labels(states, groups, defects)


def all_labels(
    states: Names, groups: object, defects: Defects, key: str = "groups"
) -> tuple[tuple[str, ...], Int[np.ndarray, " S"]] | None:
    """`group_labels` with a further group `elsewhere` for the states in none."""
    found = group_labels(states, groups, defects, key)
    if found is None or (found[1] >= 0).all():
        return found
    names, label = found
    if ELSEWHERE in names:
        outside = states[int(np.flatnonzero(label < 0)[0])]
        defects.add(f"group {ELSEWHERE!r} does not hold {outside!r}, which is in no group: rename the group", key)
    return (*names, ELSEWHERE), np.where(label < 0, len(names), label)
