"""Stationary policies: one distribution over actions for each state, the paper's class."""

from typing import Literal

from numpy.typing import ArrayLike

from ..problem.problem import Problem
from .tables import MARKOV, deterministic_table, softmax_table, uniform_table
from .tabular import TablePolicy


class MarkovPolicy(TablePolicy):
    """`π(a|s)`, the same at all times.

    **Arguments:** `probabilities`, `(S, A)`, each row a distribution; `(C, A)` if the agent knows more than the
    state (`problem.num_cells`).

    **Raises:** `InputError` naming each row that is not a distribution; nothing is renormalised.
    """

    _name = "stationary Markov policy"

    @property
    def memory(self) -> Literal["markov"]:
        """What the choices depend on: the state alone."""
        return "markov"

    @property
    def timed(self) -> bool:
        """Whether the choices depend on the time: they do not."""
        return False

    @classmethod
    def uniform(cls, problem: Problem) -> "MarkovPolicy":
        """Each available action with the same probability."""
        return cls(uniform_table(problem))

    @classmethod
    def softmax(cls, theta: ArrayLike, problem: Problem | None = None) -> "MarkovPolicy":
        """`π(a|s) ∝ exp θ(s,a)`, the paper's parametrisation; over the available actions if a problem is given."""
        return cls(softmax_table(theta, problem, MARKOV))

    @classmethod
    def deterministic(cls, problem: Problem, actions: ArrayLike) -> "MarkovPolicy":
        """One action for each state, by name or index, `(S,)`."""
        return cls(deterministic_table(actions, problem, MARKOV))

    def __repr__(self) -> str:
        return f"MarkovPolicy({self.probabilities.shape[0]} states, {self.probabilities.shape[1]} actions)"
