"""Both sides' answers in the game on pairs: the agent's best and soft responses to a rule, and what a policy gives."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from ..common.logs import log2_of_actions, soft_maximum_bits
from ..engine.returns import optimal_values
from ..problem.problem import Problem
from .pairs import Pairs

Tables = Sequence[Float[np.ndarray, "A n"]]
"""A policy on pairs: for each decision the probabilities of the actions, a column for each pair of the layer."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a policy gives: `joint[m, z] = P(M_T = m, Z = z)` and the expected return. Mixtures of policies mix both."""

    joint: Float[np.ndarray, "n Z"]
    expected_return: float

    def mixed(self, other: "Outcome", weight: float) -> "Outcome":
        """The outcome of playing `other` with probability `weight` and this policy otherwise."""
        return Outcome(
            (1 - weight) * self.joint + weight * other.joint,
            (1 - weight) * self.expected_return + weight * other.expected_return,
        )


@dataclass(frozen=True, eq=False)
class Response:
    """An answer to costs `w` at price λ: the value of `max_π E[w + λ·G] (− KL to the prior, if soft)`, and who attains it."""

    value: float
    tables: list[Float[np.ndarray, "A n"]]


class Game:
    """The decision problem on the pairs of a graph: rewards, and products with the steps between layers.

    Each pass costs the non-zeros of the steps, about 1 ns each, and for the soft one an exponential for each (pair,
    action), about 10 ns.
    """

    def __init__(self, problem: Problem, pairs: Pairs):
        hidden = pairs.hidden
        self.problem, self.pairs = problem, pairs
        self.horizon, self.discount = hidden.horizon, hidden.discount
        self.num_actions = hidden.reward.shape[1]
        self.available: Bool[np.ndarray, "A N"] = np.ascontiguousarray(problem.model.available[hidden.state].T)
        self._reward = np.ascontiguousarray(hidden.reward.T)
        self._uniform = np.ascontiguousarray(log2_of_actions(problem.model.available[hidden.state]).T)
        last = pairs.layers[-1].x
        self.terminal: Float[np.ndarray, " n"] = self.discount**self.horizon * _terminal(problem, pairs)[last]
        self._blocked = np.where(self.available, 0.0, -np.inf)

    def costs_at_leaves(self, costs: Float[np.ndarray, "n Z"]) -> Float[np.ndarray, " n"]:
        """A table over (node, value) read at each pair of the last layer."""
        return costs.ravel()[self.pairs.leaf]

    def reward(self, time: int) -> Float[np.ndarray, "A n"]:
        """`γ^t R(x,a)` for each pair of a layer."""
        return self.discount**time * self._reward[:, self.pairs.layers[time].x]

    def uniform(self) -> list[np.ndarray]:
        """The policy that takes each available action with the same probability."""
        tables = self.available / self.available.sum(axis=0)
        return [tables[:, self.pairs.layers[time].x] for time in range(self.horizon)]

    def soft_response(self, costs: Float[np.ndarray, "n Z"], price: float, prior: Tables | None = None) -> Response:
        """`max_π E[w(M_T,Z) + λ G] − KL(π ‖ prior)`, trajectories' divergence in bits, by soft backward induction.

        **Arguments:** `costs`, w in bits; `price`, λ; `prior`, `log2` of a policy, the uniform one by default.
        """
        value = self.costs_at_leaves(costs) + price * self.terminal
        tables: list[np.ndarray] = [np.empty(0)] * self.horizon
        for time in range(self.horizon - 1, -1, -1):
            scores = self._ahead(time, value)
            scores += self._uniform[:, self.pairs.layers[time].x] if prior is None else prior[time]
            if price:
                scores += price * self.reward(time)
            value, tables[time] = soft_maximum_bits(scores)
        return Response(float(self.pairs.start @ value), tables)

    def best_response(self, costs: Float[np.ndarray, "n Z"], price: float) -> tuple[float, float]:
        """`max_π E[w(M_T,Z) + λ G]` by backward induction, and the return of a policy that attains it.

        An infinite cost is met only where it can be reached, and then the value is infinite.
        """
        value = self.costs_at_leaves(costs) + price * self.terminal
        gained = self.terminal
        for time in range(self.horizon - 1, -1, -1):
            reward = self.reward(time)
            scores = self._ahead(time, value) + price * reward
            scores += self._blocked[:, self.pairs.layers[time].x]
            choice = scores.argmax(axis=0)[None]
            value = np.take_along_axis(scores, choice, axis=0)[0]
            gained = np.take_along_axis(reward + self._ahead(time, gained), choice, axis=0)[0]
        return float(self.pairs.start @ value), float(self.pairs.start @ gained)

    def max_return_response(self) -> tuple[float, list[np.ndarray]]:
        """The largest expected return, and a policy that attains it by choosing evenly among the best actions."""
        value = self.terminal
        tables: list[np.ndarray] = [np.empty(0)] * self.horizon
        for time in range(self.horizon - 1, -1, -1):
            scores = self._ahead(time, value) + self.reward(time) + self._blocked[:, self.pairs.layers[time].x]
            value = scores.max(axis=0)
            # Equal values computed along different paths differ in their last digits.
            best = scores >= value - 1e-12 * (1.0 + np.abs(value))
            tables[time] = best / best.sum(axis=0)
        return float(self.pairs.start @ value), tables

    def outcome(self, tables: Tables) -> Outcome:
        """The joint table of memory and secret, and the return, of a policy; one forward pass."""
        return self.flows(tables)[0]

    def flows(self, tables: Tables) -> tuple[Outcome, list[Float[np.ndarray, "A n"]]]:
        """The outcome, and `P(pair at t, action)` for each decision."""
        here, gained = self.pairs.start, 0.0
        flows = []
        for time in range(self.horizon):
            flow = tables[time] * here
            gained += float(np.vdot(self.reward(time), flow))
            flows.append(flow)
            here = self.pairs.steps[time].T @ flow.ravel()
        gained += float(self.terminal @ here)
        size, values = self.pairs.reachable.shape
        joint = np.bincount(self.pairs.leaf, weights=here, minlength=size * values).reshape(size, values)
        return Outcome(joint, gained), flows

    def _ahead(self, time: int, value: np.ndarray) -> Float[np.ndarray, "A n"]:
        """The expectation of a function of the next pair, for each action and pair."""
        return (self.pairs.steps[time] @ value).reshape(self.num_actions, -1)


def _terminal(problem: Problem, pairs: Pairs) -> Float[np.ndarray, " N"]:
    """What the last state pays: the terminal reward, or over an infinite horizon what the best continuation earns."""
    hidden = pairs.hidden
    if problem.return_over == "horizon":
        return hidden.terminal
    return np.stack([optimal_values(model) for model in problem.models])[hidden.model_index, hidden.state]
