"""The secret `state_at`: is the state at one time in a set, or in which of several groups is it?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...common.checks import Defects
from ..keys import SECRET_CELLS, Key, States
from ..model import Model
from .last_state import GROUPS
from .secret import Secret, SecretTable, State, set_or_groups

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class StateAt(Secret):
    """Is the state at time t in a set? `Z = 1[s_t ∈ states]`; or, in which of several groups?

    **Arguments:**

    - `time`: t, from 0 to the horizon.
    - one of `states`, the set, by name or index, and `groups`, as for `LastState`.
    """

    kind = "state_at"
    keys = (
        Key("time", int, "The time t, from 0 to the horizon.", least=0, most=100_000),
        Key("states", States, "The states; in a grid the secret cells by default.", SECRET_CELLS),
        GROUPS,
    )

    time: int
    states: Iterable[State] | None = None
    groups: Mapping[str, Iterable[State]] | None = None

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label at time t."""
        found = set_or_groups(models[0].states, self.states, self.groups, defects)
        is_whole = isinstance(self.time, (int, np.integer)) and not isinstance(self.time, bool)
        # A horizon below zero is a defect of the problem, noted there.
        if not is_whole or self.time < 0 or self.time > horizon >= 0:
            expected = f"a whole number from 0 to the horizon {horizon}"
            defects.add(f"time is {self.time!r}, expected {expected}", "time")
            return None
        return None if found is None else SecretTable.without_memory(int(self.time), *found)

    def describe(self, problem: "Problem") -> str:
        """The question."""
        if self.groups is not None:
            return f"In which group of states is the one at time {self.time}?"
        return f"Is the state at time {self.time} a secret one?"
