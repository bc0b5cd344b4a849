"""Time-dependent policies: one table of action probabilities for each decision."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.logs import natural_log
from ..problem.problem import Problem
from .files import save_table
from .tables import TIMED, check_table, deterministic_table, softmax_table, uniform_table


class TimedPolicy:
    """`π_t(a|s)` for t = 0 … T-1.

    **Arguments:** `probabilities`, `(T, S, A)`, each row a distribution; `(T, C, A)` where the agent knows more than the
    state (`problem.num_cells`).

    **Raises:** `InputError` naming each row that is not a distribution; nothing is renormalised.
    """

    timed = True

    def __init__(self, probabilities: Any):
        self.probabilities: Float[np.ndarray, "T C A"] = check_table(probabilities, TIMED, "timed policy")

    @classmethod
    def uniform(cls, problem: Problem) -> "TimedPolicy":
        """Each available action with the same probability, at each time."""
        return cls(np.tile(uniform_table(problem), (problem.horizon, 1, 1)))

    @classmethod
    def softmax(cls, theta: Any, problem: Problem | None = None) -> "TimedPolicy":
        """`π_t(a|s) ∝ exp θ(t,s,a)`; over the available actions where a problem is given."""
        return cls(softmax_table(theta, problem, TIMED))

    @classmethod
    def deterministic(cls, problem: Problem, actions: Any) -> "TimedPolicy":
        """One action for each time and state, by name or index, `(T, S)`."""
        return cls(deterministic_table(actions, problem, TIMED))

    @property
    def table(self) -> Float[np.ndarray, "T C A"]:
        """The probabilities."""
        return self.probabilities

    def logits(self) -> Float[np.ndarray, "T C A"]:
        """Parameters θ with `softmax(θ)` equal to this policy: `ln π_t(a|s)`, -inf at zeros."""
        return natural_log(self.probabilities)

    def save(self, path: str | Path) -> None:
        """Write the policy to a safetensors file, complete or not at all."""
        save_table(path, "timed", self.probabilities)

    def __repr__(self) -> str:
        steps, states, actions = self.probabilities.shape
        return f"TimedPolicy({steps} steps, {states} states, {actions} actions)"
