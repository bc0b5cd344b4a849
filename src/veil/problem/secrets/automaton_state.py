"""The secret `automaton_state`: in which state does a finite automaton end?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...common.checks import distinct
from .automaton import Automaton, ReadsLabels
from .secret import State

if TYPE_CHECKING:
    from ..problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class AutomatonState(ReadsLabels):
    """In which state does a finite automaton end, after it has read the labels of `s_0, s_1, …, s_T`?

    Every function of the run that a finite automaton computes is such a secret: which rooms were visited, in which order,
    how often up to a number.

    **Arguments:** `transitions`, `initial`, `labels`, `default_label`, `otherwise` and `agent_knows` as for `Automaton`. The
    states of the automaton are the values of the secret.
    """

    kind = "automaton_state"
    keys = tuple(key for key in Automaton.keys if key.name != "accepting")
    accepting = ()

    transitions: Mapping[tuple[str, str], str]
    initial: str
    labels: Mapping[State, str]
    default_label: str | None = None
    otherwise: str | None = None
    agent_knows: bool = field(default=False, kw_only=True)

    def values(self, names: list[str]) -> tuple[tuple[str, ...], list[int]]:
        """See `ReadsLabels`."""
        return tuple(distinct(list(map(str, names)))), list(range(len(names)))

    def describe(self, problem: "Problem") -> str:
        """The question."""
        return "In which state does the automaton end?"
