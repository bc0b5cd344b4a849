"""The secret `passed`: was one of these states visited at any time?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from veil import Model, Problem
from veil.common.checks import Defects, as_tuple
from veil.problem.secrets import SECRET_CELLS, Key, Secret, SecretTable, State, States, membership


@dataclass(frozen=True)
class Passed(Secret):
    """Was one of these states visited at any time? `Z = 1[s_t ∈ states for some t ≤ T]`."""

    kind = "passed"
    keys = (
        Key("states", States, "The states; in a grid the secret cells by default.", SECRET_CELLS),
        Key("agent_knows", bool, "Whether the policy may depend on it.", False),
    )

    states: Iterable[State]
    agent_knows: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "states", as_tuple(self.states))

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The private memory is whether a visit has happened; its value at time T is the secret."""
        inside = membership(models[0].states, self.states, defects.under("states"))
        return SecretTable(
            time=horizon,
            value_names=("never", "visited"),
            label=np.stack([np.zeros_like(inside), np.ones_like(inside)])[None],
            memory_start=inside,
            memory_step=np.stack([inside, np.ones_like(inside)]),
            memory_names=("not yet", "visited"),
            agent_knows=self.agent_knows,
        )

    def describe(self, problem: Problem) -> str:
        """The question."""
        return "Was a secret state visited at any time?"

    def marked_groups(self, problem: Problem) -> dict[str, np.ndarray]:
        """The states that it is about."""
        return {"secret": problem.secret_table.memory_start == 1}
