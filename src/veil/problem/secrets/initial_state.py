"""The secret `initial_state`: where did the run start?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from ...common.checks import Defects
from ..keys import Key, States
from ..model import Model
from .secret import Secret, SecretTable, State, group_labels

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class InitialState(Secret):
    """Where did it start? `Z = s_0` (the paper's initial-state opacity), or the group that `s_0` belongs to.

    **Arguments:** `groups`: a mapping from a group's name to its states. Groups must not overlap and must cover every
    state in which the model can start. None: each start state is a separate value.
    """

    kind = "initial_state"
    keys = (
        Key(
            "groups",
            dict[str, States],
            "Which group of starts, `group = states`; each start on its own by default.",
            None,
            most=10_000,
        ),
    )

    groups: Mapping[str, Iterable[State]] | None = None

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label at time 0."""
        model = models[0]
        starts = np.flatnonzero(sum(m.initial for m in models))
        if self.groups is None:
            label = np.full(model.num_states, -1)
            label[starts] = np.arange(len(starts))
            return SecretTable.without_memory(0, [model.states[s] for s in starts], label)
        found = group_labels(model.states, self.groups, defects)
        if found is None:
            return None
        names, label = found
        for state in starts[label[starts] < 0]:
            missing = f"start state {model.states[state]!r} is in no group"
            defects.add(f"{missing}, expected every start in one", "groups")
        return SecretTable.without_memory(0, names, label)

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return "Where did it start?"

    def marked_groups(self, problem: "Problem") -> dict[str, Bool[np.ndarray, " S"]]:
        """The starts that it tells apart."""
        starts = np.max([model.initial for model in problem.models], axis=0) > 0
        return {"secret": starts & (problem.secret_table.label[0, 0] >= 0)}
