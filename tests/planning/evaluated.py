"""What a search maximises and keeps, of tables of a class of policies: the one door of these tests below `veil.solve`."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import veil
from veil.planning.channels import make_channels
from veil.planning.objective import make_objective
from veil.planning.options import SolveOptions
from veil.planning.policy_class import make_space
from veil.problem.terms import with_task


class Evaluator:
    """The objective and the constraints of a problem under options of `veil.solve`, with their gradients.

    Tables are `(B, T, C, A)`, with one time for a stationary class. `objective` is in bits (in units of return under
    `min_opacity`), `slacks` are in the units of what is bounded, those of several pairs that are hidden first.
    """

    def __init__(self, problem: veil.Problem, memory: Any = "timed", **settings: Any):
        options = SolveOptions(method="ascent", memory=memory, **settings)
        self.problem = problem
        asked = with_task(problem, options.task)
        self.space = make_space(asked, memory)
        self.task = make_objective(self.space, make_channels(self.space, options, None), options)
        self.shape, self.available = self.space.shape, self.space.available
        self.kind, self.reason = self.task.kind, self.task.backend.reason

    def __call__(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """`objective (B,)`, `slacks (B, K)`, `gradient (B, T, C, A)`, `slack_gradients (B, K, T, C, A)`, `bits`, `returns`."""
        found, unit = self.task.evaluate(tables), self.task.score_unit
        units = self.task.units
        return {
            "objective": unit * found.score, "gradient": unit * found.score_gradient,
            "slacks": units * found.slack, "slack_gradients": units[:, None, None, None] * found.slack_gradient,
            "bits": found.bits, "returns": found.returns, "feasible": found.feasible,
        }  # fmt: skip

    def policy(self, table: np.ndarray) -> veil.Policy:
        """The policy of the class with this table."""
        return self.space.policy(table)

    def draw(self, count: int, seed: int = 0, sharp: float = 1.0) -> np.ndarray:
        """Random tables in which every available action is taken."""
        rng = np.random.default_rng(seed)
        theta = np.where(self.available, sharp * rng.normal(size=(count, *self.shape)), -np.inf)
        weights = np.exp(theta - theta.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    def directions(self, count: int, seed: int = 0) -> Iterator[np.ndarray]:
        """Random directions along which every row stays a distribution and actions that are not available stay shut."""
        rng = np.random.default_rng([3, seed])
        for _ in range(count):
            change = rng.normal(size=self.shape) * self.available
            change -= self.available * change.sum(axis=-1, keepdims=True) / self.available.sum(axis=-1, keepdims=True)
            yield change
