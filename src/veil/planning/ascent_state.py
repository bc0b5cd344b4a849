"""Where the default method stands: numbers and arrays only, so that a search can be written down and taken up again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .first_order import Moments
from .iteration import SearchState
from .objective import Objective
from .values import Values

CLIMB, SETTLE, LAST, DONE = range(4)


@dataclass(frozen=True, eq=False, kw_only=True)
class AscentState(SearchState):
    """Everything a search needs to go on: numbers and arrays only, so that it can be written down and taken up again.

    `theta`, `mean`, `square`, `multiplier` and `average` have one array for each group of starts that is evaluated together;
    `aside` and `aside_multiplier` are those that were set aside. `begun`: the iteration at which the present averages, and the
    lengths of steps, began; `since`: the one at which the moments did;
    `slower`: by what steps were cut after noise had led the search away;
    `exploring`: whether the present one was set aside before and has not come to the best answer yet; `leader`: the group that
    leads.
    """

    phase: int
    round: int
    inside: int
    begun: int
    since: int
    batch: int
    check_at: int
    idle: int
    exploring: int
    leader: int
    lacking: float
    slower: float
    theta: Sequence[Any]
    mean: Sequence[Any]
    square: Sequence[Any]
    multiplier: Sequence[Float[np.ndarray, "b K"]]
    average: Sequence[Any]
    aside: Sequence[Any]
    aside_multiplier: Float[np.ndarray, "n K"]
    best_theta: Any
    leading: Float[np.ndarray, "T C A"]
    polish: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Moved:
    """A group after a step, with the tables and values where it was taken."""

    theta: Any
    mean: Any
    square: Any
    multiplier: Float[np.ndarray, "b K"]
    average: Any
    tables: Any
    values: Values


def fresh(objective: Objective, groups: Sequence[Any]) -> dict[str, Any]:
    """Groups of parameters without a past."""
    made = [Moments.none(theta, objective.is_noisy, len(objective.channels.least)) for theta in groups]
    return {
        "theta": list(groups),
        "mean": [one.mean for one in made],
        "square": [one.square for one in made],
        "multiplier": [one.multiplier for one in made],
    }


def near_most(objective: Objective, state: AscentState, within: float) -> bool:
    """Whether the best answer so far is within so many bits of what can be hidden at most."""
    return state.best_score > objective.most_score - within
