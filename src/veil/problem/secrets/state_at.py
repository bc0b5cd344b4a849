"""The secret `state_at`: is the state at one time in a set?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...common.checks import Defects, as_tuple
from ..model import Model
from .secret import SECRET_CELLS, Key, Secret, SecretTable, State, States, membership

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class StateAt(Secret):
    """Is the state at time t in a set? `Z = 1[s_t ∈ states]`.

    **Arguments:**

    - `time`: t, from 0 to the horizon.
    - `states`: the set, by name or index.
    """

    kind = "state_at"
    keys = (
        Key("time", int, "The time t, from 0 to the horizon.", least=0, most=100_000),
        Key("states", States, "The states; in a grid the secret cells by default.", SECRET_CELLS),
    )

    time: int
    states: Iterable[State]

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", as_tuple(self.states))

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label at time t."""
        label = membership(models[0].states, self.states, defects.under("states"))
        is_whole = isinstance(self.time, (int, np.integer)) and not isinstance(self.time, bool)
        # A horizon below zero is a defect of the problem, noted there.
        if not is_whole or self.time < 0 or self.time > horizon >= 0:
            expected = f"a whole number from 0 to the horizon {horizon}"
            defects.add(f"time is {self.time!r}, expected {expected}", "time")
            return None
        return SecretTable.without_memory(int(self.time), ("elsewhere", "secret"), label)

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return f"Is the state at time {self.time} a secret one?"
