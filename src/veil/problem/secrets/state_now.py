"""The secret `state_now`: at every time, is the state in a set, or does the run visit it soon?"""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...common.checks import Defects, as_floats
from ..keys import SECRET_CELLS, Key, States
from ..model import Model
from .last_state import GROUPS
from .secret import EachTime, Secret, SecretTable, State, set_or_groups

if TYPE_CHECKING:
    from ..problem import Problem

_MOST_AHEAD = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class StateNow(Secret):
    """At every time t: is the state in a set now? `Σ_t w_t H(Z_t | o_0 … o_t)`, by default the mean over 0 … T.

    `Z_t = 1[s_t ∈ states]`, or the group in which `s_t` lies. With `ahead=k`, `Z_t` says whether the run visits `states`
    between t and t + k (at most up to the horizon). Against `LastState`, the observer need not wait for the end.

    **Arguments:** one of `states`, the set, by name or index; and `groups`: a mapping from a group's name to its states, which
    must not overlap; states in none have the value `elsewhere`. `ahead` ≥ 0, with `states` only. `weights`: T + 1 numbers, 0 or
    more, one for each time; `1 / (T + 1)` by default.
    """

    kind = "state_now"
    keys = (
        Key("states", States, "The states; in a grid the secret cells by default.", SECRET_CELLS),
        GROUPS,
        Key("ahead", int, "How many steps ahead a visit to `states` is asked for.", 0, least=0, most=_MOST_AHEAD),
        Key("weights", list[float], "The weight of each time, T + 1 numbers; by default all alike, of sum 1.", None),
    )

    states: Iterable[State] | None = None
    groups: Mapping[str, Iterable[State]] | None = None
    ahead: int = 0
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.weights, (list, tuple, np.ndarray)):
            object.__setattr__(self, "weights", tuple(np.asarray(self.weights, dtype=object).ravel().tolist()))

    def resolve(self, models: Sequence[Model], horizon: int, defects: Defects) -> SecretTable | None:
        """The label of each state, and the weight of each time."""
        before = len(defects)
        found = set_or_groups(models[0].states, self.states, self.groups, defects)
        ahead = self.ahead
        if not isinstance(ahead, (int, np.integer)) or isinstance(ahead, bool) or ahead < 0:
            defects.add(f"ahead is {ahead!r}, expected a whole number of steps, 0 or more", "ahead")
        elif ahead and self.groups is not None:
            defects.add("ahead is given with groups, expected states: whether the run visits them soon", "ahead")
        weights = np.full(horizon + 1, 1 / (horizon + 1))
        if self.weights is not None:
            given = as_floats(self.weights, "weights", defects)
            if given is not None and (given.shape != weights.shape or not (given >= 0).all() or not given.any()):
                wanted = f"{horizon + 1} numbers, 0 or more and not all 0, one for each time"
                defects.add(f"weights are {list(self.weights)}, expected {wanted}", "weights")
            weights = weights if given is None else given
        if found is None or len(defects) > before:
            return None
        table = SecretTable.without_memory(horizon, *found)
        return replace(table, each=EachTime(table.label[0, 0], weights, int(ahead)))

    def describe(self, problem: "Problem") -> str:
        """The question."""
        if self.groups is not None:
            return f"In which group of states is the run, at each time from 0 to {problem.horizon}?"
        soon = f" in one of the next {self.ahead} steps or" if self.ahead else ""
        return f"Is the run{soon} now in a secret state, at each time from 0 to {problem.horizon}?"
