"""The secret `trajectory`: which states, or groups of states, did the run pass through, at every time?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from ...common.checks import Defects
from ..keys import Key, States
from ..model import Model
from .secret import Secret, SecretTable, State, all_labels

if TYPE_CHECKING:
    from ..problem import Problem

_OF = Key(
    "of",
    dict[str, States],
    "Groups of states, `group = states`: the path of groups is secret instead of that of states; all other states are"
    " `elsewhere`.",
    None,
    most=10_000,
)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Secret):
    """The whole path: `Z = s_0 … s_T`, or the groups `g(s_0) … g(s_T)` in which the states lie.

    Its entropy is a sum over times. What needs the value itself (guesses, tables, filters, attacks) takes each path that is
    possible as a value, which suits short horizons.

    **Arguments:** `of`: None for the path of states; or a mapping from a group's name to its states, for the path of groups.
    Groups must not overlap; states in none of them are in the group `elsewhere`.
    """

    kind = "trajectory"
    keys = (_OF,)

    of: Mapping[str, Iterable[State]] | None = None

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The group of each state, which a path lists; the label has one value."""
        size = models[0].num_states
        path = np.arange(size)
        if self.of is not None:
            found = all_labels(models[0].states, self.of, defects, "of")
            if found is None:
                return None
            path = found[1]
        one = np.zeros((1, 1, size), dtype=int)
        return SecretTable(horizon, ("path",), one, one[0, 0], one[0], path=path)

    def describe(self, problem: "Problem") -> str:
        """The question."""
        what = "states" if self.of is None else "groups of states"
        return f"Through which {what} does the run pass, from time 0 to {problem.horizon}?"

    def marked_groups(self, problem: "Problem") -> dict[str, Bool[np.ndarray, " S"]]:
        """No state is more secret than another; of groups, the states of each."""
        path = problem.secret_table.path
        return {} if self.of is None else {name: path == number for number, name in enumerate(self.of)}
