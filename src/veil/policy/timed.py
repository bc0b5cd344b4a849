"""Time-dependent policies: one table of action probabilities for each decision."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..problem.problem import Problem
from .tables import TIMED, deterministic_table, softmax_table, uniform_table
from .tabular import TablePolicy


class TimedPolicy(TablePolicy):
    """`π_t(a|s)` for t = 0 … T-1.

    **Arguments:** `probabilities`, `(T, S, A)`, each row a distribution; `(T, C, A)` if the agent knows more than the
    state (`problem.num_cells`).

    **Raises:** `InputError` naming each row that is not a distribution; nothing is renormalised.
    """

    _name = "time-dependent policy"

    @property
    def memory(self) -> Literal["timed"]:
        """What the choices depend on: the state and the time."""
        return "timed"

    @property
    def timed(self) -> bool:
        """Whether the choices depend on the time: they do."""
        return True

    @classmethod
    def uniform(cls, problem: Problem) -> "TimedPolicy":
        """Each available action with the same probability, at each time."""
        return cls(np.tile(uniform_table(problem), (problem.horizon, 1, 1)))

    @classmethod
    def softmax(cls, theta: ArrayLike, problem: Problem | None = None) -> "TimedPolicy":
        """`π_t(a|s) ∝ exp θ(t,s,a)`; over the available actions if a problem is given."""
        return cls(softmax_table(theta, problem, TIMED))

    @classmethod
    def deterministic(cls, problem: Problem, actions: ArrayLike) -> "TimedPolicy":
        """One action for each time and state, by name or index, `(T, S)`."""
        return cls(deterministic_table(actions, problem, TIMED))

    def __repr__(self) -> str:
        steps, states, actions = self.probabilities.shape
        return f"TimedPolicy({steps} steps, {states} states, {actions} actions)"
