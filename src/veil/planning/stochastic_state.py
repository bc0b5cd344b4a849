"""Where a search on fresh samples stands, and what the steps of one iteration have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .iteration import SavedState
from .sampled_points import Point

DECAYS = (0.9, 0.99)
_HALF_RATE = 100  # iterations after which 1/√k has cut Adam's step by √2


@dataclass(frozen=True, eq=False)
class StochasticState(SavedState):
    """Everything a search needs to continue, as numbers and arrays. Parameters are of the rows that can be used.

    Parameters, moments and averages have an array for each start that is left; it may lie on an accelerator. `begun` is the
    iteration at which the present starts were made, `restarts` how often in a row others were made without a better answer,
    `exploring` whether the present ones have not come to the best answer yet, `lacking` what they lacked of it at the
    last check, and `earning`, `ending` what they avoid (`avoided`).
    """

    iteration: int
    begun: int
    inside: int
    length: int
    batch: int
    check_at: int
    idle: int
    rate: float
    theta: Sequence[Float[np.ndarray, "R A"]]
    mean: Sequence[Float[np.ndarray, "R A"]]
    square: Sequence[Float[np.ndarray, "R A"]]
    average: Sequence[Float[np.ndarray, "R A"]]
    multiplier: Float[np.ndarray, "B K"]
    worth: Float[np.ndarray, " B"]
    best: Float[np.ndarray, "T C A"]
    best_score: float
    best_multiplier: Float[np.ndarray, " K"]
    restarts: int
    exploring: int
    lacking: float
    earning: Float[np.ndarray, " N"]
    ending: Float[np.ndarray, "N Z"]
    history: Float[np.ndarray, "k 6"]


@dataclass(frozen=True, eq=False)
class Moved:
    """One start after a step, with the point where the step was taken."""

    theta: Any
    mean: Any
    square: Any
    average: Any
    multiplier: Float[np.ndarray, " K"]
    worth: float
    point: Point


@dataclass(frozen=True, eq=False)
class StepPace:
    """What the steps of one iteration have in common: Adam's step, corrections of its moments, weight of the average."""

    iteration: int
    rate: float
    mean_scale: float
    square_scale: float
    weight: float

    @staticmethod
    def of(state: StochasticState) -> "StepPace":
        """For the iteration after a state."""
        before, (first, second) = state.iteration - state.begun, DECAYS
        count, rate = before + 1, state.rate / (1 + before / _HALF_RATE) ** 0.5
        return StepPace(state.iteration, rate, 1 - first**count, 1 - second**count, max(0.02, 2 / (count + 1)))
