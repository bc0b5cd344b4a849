"""The secret `automaton_state`: in which state does a finite automaton end?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Bool

from ...common.checks import Defects, Names, distinct
from ..model import Model
from .automaton import Automaton
from .secret import Secret, SecretTable, State

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class AutomatonState(Secret):
    """In which state does a finite automaton end, after it has read the labels of `s_0, s_1, …, s_T`?

    Every function of the run that a finite automaton computes is such a secret: which rooms were visited, in which order,
    how often up to a number.

    **Arguments:** `transitions`, `initial`, `labels`, `default_label`, `otherwise` and `agent_knows` as for `Automaton`. The
    states of the automaton are the values of the secret.
    """

    kind = "automaton_state"
    keys = tuple(key for key in Automaton.keys if key.name != "accepting")

    transitions: Mapping[tuple[str, str], str]
    initial: str
    labels: Mapping[State, str]
    default_label: str | None = None
    otherwise: str | None = None
    agent_knows: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        read = self._automaton
        object.__setattr__(self, "transitions", read.transitions)
        object.__setattr__(self, "labels", read.labels)

    @property
    def _automaton(self) -> Automaton:
        return Automaton(
            self.transitions, self.initial, (), self.labels, self.default_label, self.otherwise, self.agent_knows
        )

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The product with the automaton; the label at time T is its state."""
        table = self._automaton.resolve(models, horizon, defects)
        if table is None:
            return None
        label = np.broadcast_to(np.arange(len(table.memory_names))[None, :, None], table.label.shape).copy()
        return replace(table, value_names=tuple(distinct([str(name) for name in table.memory_names])), label=label)

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return "In which state does the automaton end?"

    def marked_groups(self, problem: "Problem") -> dict[str, Bool[np.ndarray, " S"]]:
        """The states with each label but the default one."""
        return self._automaton.marked_groups(problem)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], model: Model, defects: Defects) -> Self | None:
        """As an `Automaton` without accepting states."""
        read = Automaton.from_table({**table, "accepting": ()}, model, defects)
        if read is None:
            return None
        words = read.default_label, read.otherwise
        return cls(read.transitions, read.initial, read.labels, *words, agent_knows=read.agent_knows)

    def to_table(self, states: Names) -> dict[str, object]:
        """As an `Automaton` without accepting states."""
        return {name: value for name, value in self._automaton.to_table(states).items() if name != "accepting"}
