"""Policies without a memory: one distribution over actions for each state, the same at all times or one for each decision."""

from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from ..problem.problem import Problem
from .tables import MARKOV, TIMED, deterministic_table, softmax_table, uniform_table
from .tabular import TablePolicy


class _Plain(TablePolicy):
    """A table whose rows are those of the problem."""

    _memory: ClassVar[Literal["markov", "timed"]]

    @property
    def memory(self) -> Literal["markov", "timed"]:
        """What the choices depend on: the state, or the state and the time."""
        return self._memory

    @property
    def timed(self) -> bool:
        """Whether the choices depend on the time."""
        return self._memory == "timed"

    @classmethod
    def uniform(cls, problem: Problem) -> Self:
        """Each available action with the same probability."""
        table = uniform_table(problem)
        return cls(np.tile(table, (problem.horizon, 1, 1)) if cls._memory == "timed" else table)

    @classmethod
    def softmax(cls, theta: ArrayLike, problem: Problem | None = None) -> Self:
        """`π ∝ exp θ`, θ in the shape of the table, the paper's parametrisation; over the available actions of a problem."""
        return cls(softmax_table(theta, problem, TIMED if cls._memory == "timed" else MARKOV))

    @classmethod
    def deterministic(cls, problem: Problem, actions: ArrayLike) -> Self:
        """One action for each state, by name or index, `(S,)`, or `(T, S)` if it depends on the time."""
        return cls(deterministic_table(actions, problem, TIMED if cls._memory == "timed" else MARKOV))

    def __repr__(self) -> str:
        shape = zip(self.probabilities.shape, ("steps", "states", "actions")[not self.timed :], strict=True)
        return f"{type(self).__name__}({', '.join(f'{size} {what}' for size, what in shape)})"


class MarkovPolicy(_Plain):
    """`π(a|s)`, the same at all times: the paper's class.

    **Arguments:** `probabilities`, `(S, A)`, each row a distribution; `(C, A)` if the agent knows more than the
    state (`problem.num_cells`).

    **Raises:** `InputError` naming each row that is not a distribution; nothing is renormalised.
    """

    _name, _memory = "stationary Markov policy", "markov"


class TimedPolicy(_Plain):
    """`π_t(a|s)` for t = 0 … T-1.

    **Arguments:** `probabilities`, `(T, S, A)`, each row a distribution; `(T, C, A)` if the agent knows more than the
    state (`problem.num_cells`).

    **Raises:** `InputError` naming each row that is not a distribution; nothing is renormalised.
    """

    _name, _memory = "time-dependent policy", "timed"
