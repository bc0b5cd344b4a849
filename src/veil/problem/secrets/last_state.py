"""The secret `last_state`: is the last state in a set, or in which of several groups is it?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...common.checks import Defects
from ..keys import SECRET_CELLS, Key, States
from ..model import Model
from .secret import Secret, SecretTable, State, set_or_groups

if TYPE_CHECKING:
    from ..problem import Problem

GROUPS = Key(
    "groups",
    dict[str, States],
    "Instead of `states`: several groups, `group = states`, each a value; all other states are `elsewhere`.",
    None,
    most=10_000,
)


@dataclass(frozen=True, eq=False, repr=False)
class LastState(Secret):
    """Is the last state in a set? `Z = 1[s_T ∈ states]` (the paper's last-state opacity); or, in which of several groups?

    **Arguments:** one of `states`, the set, by name or index; and `groups`: a mapping from a group's name to its states.
    Groups must not overlap; states in none of them have the value `elsewhere`.
    """

    kind = "last_state"
    keys = (Key("states", States, "The states; in a grid the secret cells by default.", SECRET_CELLS), GROUPS)

    states: Iterable[State] | None = None
    groups: Mapping[str, Iterable[State]] | None = None

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label at time T."""
        found = set_or_groups(models[0].states, self.states, self.groups, defects)
        return None if found is None else SecretTable.without_memory(horizon, *found)

    def describe(self, problem: "Problem") -> str:
        """The question."""
        if self.groups is not None:
            return f"In which group of states is the last one, at time {problem.horizon}?"
        return f"Is the last state, at time {problem.horizon}, a secret one?"
