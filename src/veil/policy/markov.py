"""Stationary policies: one distribution over actions for each state, the paper's class."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.logs import natural_log
from ..problem.problem import Problem
from .files import save_table
from .tables import MARKOV, check_table, deterministic_table, softmax_table, uniform_table


class MarkovPolicy:
    """`π(a|s)`, the same at all times.

    **Arguments:** `probabilities`, `(S, A)`, each row a distribution; `(C, A)` where the agent knows more than the
    state (`problem.num_cells`).

    **Raises:** `InputError` naming each row that is not a distribution; nothing is renormalised.
    """

    timed = False

    def __init__(self, probabilities: Any):
        self.probabilities: Float[np.ndarray, "C A"] = check_table(probabilities, MARKOV, "Markov policy")

    @classmethod
    def uniform(cls, problem: Problem) -> "MarkovPolicy":
        """Each available action with the same probability."""
        return cls(uniform_table(problem))

    @classmethod
    def softmax(cls, theta: Any, problem: Problem | None = None) -> "MarkovPolicy":
        """`π(a|s) ∝ exp θ(s,a)`, the paper's parametrisation; over the available actions where a problem is given."""
        return cls(softmax_table(theta, problem, MARKOV))

    @classmethod
    def deterministic(cls, problem: Problem, actions: Any) -> "MarkovPolicy":
        """One action a state, by name or index, `(S,)`."""
        return cls(deterministic_table(actions, problem, MARKOV))

    @property
    def table(self) -> Float[np.ndarray, "1 C A"]:
        """The probabilities with a time axis of length one."""
        return self.probabilities[None]

    def logits(self) -> Float[np.ndarray, "C A"]:
        """Parameters θ with `softmax(θ)` equal to this policy: `ln π(a|s)`, -inf at zeros."""
        return natural_log(self.probabilities)

    def save(self, path: str | Path) -> None:
        """Write the policy to a safetensors file, complete or not at all."""
        save_table(path, "markov", self.probabilities)

    def __repr__(self) -> str:
        return f"MarkovPolicy({self.probabilities.shape[0]} states, {self.probabilities.shape[1]} actions)"
