"""The secret `last_state`: is the last state in a set?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...common.checks import Defects, as_tuple
from ..model import Model
from .secret import SECRET_CELLS, Key, Secret, SecretTable, State, States, membership

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class LastState(Secret):
    """Is the last state in a set? `Z = 1[s_T ∈ states]` (the paper's last-state opacity).

    **Arguments:** `states`: the set, by name or index.
    """

    kind = "last_state"
    keys = (Key("states", States, "The states; in a grid the secret cells by default.", SECRET_CELLS),)

    states: Iterable[State]

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", as_tuple(self.states))

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label at time T."""
        label = membership(models[0].states, self.states, defects.under("states"))
        return SecretTable.without_memory(horizon, ("elsewhere", "secret"), label)

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return f"Is the last state, at time {problem.horizon}, a secret one?"
