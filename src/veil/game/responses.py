"""The agent's side of the game: best and soft responses to the observer's rule, and the outcome of a policy."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float

from ..common.logs import log2_of_actions, soft_maximum_bits
from ..engine.additive import sums_of_flows
from ..engine.feasibility import other_targets
from ..engine.kernel import num_columns
from ..problem.problem import Problem
from .pairs import Pairs
from .rule_tables import Entries, RuleTable, rule_table

_UNIT = 2.0**-53

Task = Sequence[tuple[float, int]]
"""Factors of quantities, by their numbers in `problem.quantities`, whose sum is maximised beside the bits."""

Tables = Sequence[Float[np.ndarray, "A n"]]
"""A policy on pairs: for each decision the probabilities of the actions, a column for each pair of the layer."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a policy, linear in the flows: its joint table, which has the entries of the rule (`rule_tables.py`), the
    expected return, and `bonus`, what the task and the prices of the other bounds pay.
    """

    joint: Entries
    expected_return: float
    bonus: float = 0.0

    def mixed(self, other: "Outcome", weight: float) -> "Outcome":
        """The outcome of playing `other` with probability `weight` and this policy otherwise."""
        return Outcome(
            (1 - weight) * self.joint + weight * other.joint,
            (1 - weight) * self.expected_return + weight * other.expected_return,
            (1 - weight) * self.bonus + weight * other.bonus,
        )


class FlowPoint(NamedTuple):
    """A policy as a point of the convex set of flows: `flows[t][a, p] = P(pair p at time t, action a)`."""

    outcome: Outcome
    flows: list[Float[np.ndarray, "A n"]]

    def mixed(self, other: "FlowPoint", weight: float) -> "FlowPoint":
        """The point `(1 − weight) self + weight other`."""
        flows = [mine + weight * (theirs - mine) for mine, theirs in zip(self.flows, other.flows, strict=True)]
        return FlowPoint(self.outcome.mixed(other.outcome, weight), flows)


Chosen = tuple[Float[np.ndarray, " n"], Float[np.ndarray, "A n"]]
"""What the best choice at each pair is worth, and the policy that makes it."""


class AgentProblem:
    """The agent's decision problem on the pairs (observer's node, hidden state) of a graph.

    The observer pays `w(m, z)` bits at time T; the agent maximises what it pays plus λ times the return. All passes are
    sparse products with `pairs.steps`, forward for flows and backward for values.

    Example: two states that the observer tells apart, two actions, T = 1, Z the last state, an observer who remembers
    everything. Layer 0 has 2 pairs, (node of o_0 = 0, x = 0) and (node of o_0 = 1, x = 1); layer 1 has 4, one for each
    (o_0, o_1). `pairs.steps[0]` is `(2 · 2, 4)`, a table of the policy `(2, 2)`: an action in each row, a pair of layer 0
    in each column. Costs and `Outcome.joint` have 4 entries, the value of Z at each node of layer 1.

    Each pass costs the non-zeros of the steps, about 1 ns each, and for the soft one an exponential for each (pair,
    action), about 10 ns. `table`: what the observer's rule is a table of, by default that of the pairs; if it reads arrivals,
    the passes go over these. `prices`: λ_k of the bounds beside the threshold, in bits per unit; `Σ_k λ_k sign_k (V_k − δ_k)`
    is then added to what the agent maximises. `task`: factors c_k of quantities, by number; `Σ_k c_k V_k` is added, too.
    """

    def __init__(
        self,
        problem: Problem,
        pairs: Pairs,
        table: RuleTable | None = None,
        prices: Float[np.ndarray, " F"] | None = None,
        task: Task = (),
    ):
        hidden = pairs.hidden
        self.problem, self.pairs = problem, pairs
        self.table = rule_table(pairs) if table is None else table
        earned = hidden.paid[0]
        self.horizon, self.discount = hidden.horizon, earned.discount
        self.num_actions = hidden.kernel.num_actions
        self.available: Bool[np.ndarray, "A N"] = np.ascontiguousarray(problem.model.available[hidden.state].T)
        self._reward = np.ascontiguousarray(earned.reward.T)
        self._uniform = np.ascontiguousarray(log2_of_actions(problem.model.available[hidden.state]).T)
        self.last_values: Float[np.ndarray, " N"] = self.discount**self.horizon * (
            earned.terminal if earned.after is None else earned.after.values
        )
        self.terminal: Float[np.ndarray, " n"] = self.last_values[pairs.layers[-1].x]
        self.blocked = np.where(self.available, 0.0, -np.inf)  # added to what actions are worth
        self.largest_reward = float(np.abs(self._reward).max() + np.abs(self.terminal).max()) or 1.0
        # Of returns, for tolerances and first steps: answers do not depend on the unit in which rewards are given.
        self.unit = 2.0 ** math.frexp(self.largest_reward)[1]
        self.prices = (0.0,) * len(problem.others) if prices is None else tuple(prices.tolist())
        self.task = task
        priced = () if prices is None else zip(self.prices, other_targets(problem), strict=True)
        # Of each quantity that counts: bits for a unit of it, and what is subtracted.
        self._counted = [(factor, hidden.paid[number], 0.0) for factor, number in task]
        self._counted += [(price * one.sign, one.paid, price * one.sign * one.bound) for price, one in priced]

    def return_error(self) -> float:
        """A bound on the error of a return that is computed by passes over the pairs.

        A step from values of at most v adds at most `v (ρ + (n + 2) u)`: ρ is the largest deviation of a row of the steps from
        one, n the most entries of a row. Rows of the pairs are sums and products of the problem's rows, and deviate more.
        """
        defect, terms = 0.0, 0
        for step in {id(one): one for one in self.pairs.steps}.values():
            degree = np.diff(step.indptr)
            sums = step @ np.ones(num_columns(step))
            defect = max(defect, float(np.abs(sums[degree > 0] - 1).max(initial=0)))
            terms = max(terms, int(degree.max(initial=0)))
        return (self.horizon + 1) ** 2 * self.largest_reward * (defect + (terms + 2) * _UNIT)

    def reward(self, time: int) -> Float[np.ndarray, "A n"]:
        """`γ^t R(x,a)` for each pair of a layer."""
        return self._at_pairs(self.discount**time * self._reward, time)

    def _at_pairs(self, of_states: Float[np.ndarray, "A N"], time: int) -> Float[np.ndarray, "A n"]:
        """A table of the hidden states read at each pair of a layer."""
        return np.take(of_states, self.pairs.layers[time].x, axis=1)  # a third of the time of indexing

    @cached_property
    def _forward_steps(self) -> list[sp.csc_array]:
        """The steps as products with flows use them, which share their numbers: making one anew costs as much as a product."""
        return [step.T for step in ([one.step for one in self.table.apart] or self.pairs.steps)]

    def state_rewards(self, time: int, multiplier: float, scale: float = 1.0) -> Float[np.ndarray, "A N"]:
        """`λ γ^t R(x,a)` and what task and prices pay, times `scale`, for each hidden state."""
        total = multiplier * self.discount**time * self._reward
        for factor, paid, _ in self._counted:
            total += scale * factor * paid.discount**time * paid.reward.T
        return total

    def state_values(self, multiplier: float, scale: float = 1.0) -> Float[np.ndarray, " N"]:
        """What each hidden state pays at time T, in bits, less the bounds that are priced."""
        total = multiplier * self.last_values
        for factor, paid, constant in self._counted:
            total += scale * (factor * paid.discount**self.horizon * paid.terminal - constant)
        return total

    def other_values(self, flows: Sequence[Float[np.ndarray, "A n"]]) -> Float[np.ndarray, " F"]:
        """The quantities of the bounds beside the threshold, from `P(pair at t, action)`."""
        last = self.pairs.steps[-1].T @ flows[-1].ravel() if self.horizon else self.pairs.start
        paid = [one.paid for one in other_targets(self.problem)]
        return sums_of_flows(paid, [*(flow.T for flow in flows), last], [layer.x for layer in self.pairs.layers])

    def uniform(self) -> list[np.ndarray]:
        """The policy that takes each available action with the same probability."""
        tables = self.available / self.available.sum(axis=0)
        return [self._at_pairs(tables, time) for time in range(self.horizon)]

    def tables(self, flows: Sequence[Float[np.ndarray, "A n"]]) -> list[np.ndarray]:
        """Action probabilities from what is in proportion to `P(pair at t, action)`; even odds where that is nothing."""
        result = []
        for flow, even in zip(flows, self.uniform(), strict=True):
            here = flow.sum(axis=0)
            result.append(np.where(here > 0, flow / np.where(here > 0, here, 1.0), even))
        return result

    def spread(self, tables: Tables, share: float) -> list[np.ndarray]:
        """A policy with this share of the uniform one mixed in, so that it excludes no action."""
        return [(1 - share) * table + share * even for table, even in zip(tables, self.uniform(), strict=True)]

    def soft_response(
        self, costs: Entries, multiplier: float, prior: Tables | None = None, scale: float = 1.0
    ) -> tuple[float, Tables]:
        """`max_π E[w + λ G] − KL(π ‖ prior)`, trajectories' divergence in bits, and the policy that attains it.

        **Arguments:** `costs`, w in bits; `multiplier`, λ; `prior`, `log2` of a policy, the uniform one by default; `scale`, by
        which what task and prices pay is multiplied.
        """
        if prior is None:
            return self._backward(lambda scores, _: soft_maximum_bits(scores), costs, multiplier, scale, self._uniform)
        return self._backward(lambda scores, time: soft_maximum_bits(scores + prior[time]), costs, multiplier, scale)

    def best_response(self, costs: Entries, multiplier: float) -> tuple[float, float]:
        """`max_π E[w + λ G]`, infinite if a pair of infinite cost is reached, and the return of a policy that attains it."""
        value, tables = self._backward(_first_best, costs, multiplier)
        return value, self.flows(tables).outcome.expected_return

    def max_return_response(self) -> tuple[float, Tables]:
        """The largest expected return, and a policy that attains it by choosing evenly among the best actions."""

        def choose(scores: Float[np.ndarray, "A n"], _: int) -> Chosen:
            value = scores.max(axis=0)
            # Equal values computed along different paths differ in their last digits.
            best = scores >= value - 1e-12 * (self.largest_reward + np.abs(value))
            return value, best / best.sum(axis=0)

        return self._backward(choose, None, 1.0, 0.0)

    def _backward(
        self,
        choose: Callable[[Float[np.ndarray, "A n"], int], Chosen],
        costs: Entries | None,
        multiplier: float,
        scale: float = 1.0,
        added: Float[np.ndarray, "A N"] | None = None,
    ) -> tuple[float, Tables]:
        """Backward induction with a rule of choice among scores, to which something may be added; the value and the policy."""
        added = self.blocked if added is None else added
        value = self._with_paid(self.state_values(multiplier, scale)[self.pairs.layers[-1].x], costs, self.horizon)
        tables = [np.empty(0)] * self.horizon
        for time in range(self.horizon - 1, -1, -1):
            scores = self._ahead(time, value, costs)
            scores += self._at_pairs(self.state_rewards(time, multiplier, scale) + added, time)
            value, tables[time] = choose(scores, time)
            value = self._with_paid(value, costs, time)
        return float(self.pairs.start @ value), tables

    def outcome(self, tables: Tables) -> Outcome:
        """The joint table and the return of a policy; one forward pass."""
        return self.flows(tables).outcome

    def flows(self, tables: Tables) -> FlowPoint:
        """The outcome, and `P(pair at t, action)` for each decision."""
        here, earned, bonus = self.pairs.start, 0.0, 0.0
        flows, arrived, masses = [], [], [here]
        for time in range(self.horizon):
            flow = tables[time] * here
            earned += float(np.vdot(self.reward(time), flow))
            flows.append(flow)
            if self._counted:
                bonus += float(np.vdot(self._at_pairs(self.state_rewards(time, 0.0), time), flow))
            here = self._forward_steps[time] @ flow.ravel()
            if self.table.apart:
                arrived.append(here)
                here = np.bincount(self.table.apart[time].pair, here, len(self.pairs.layers[time + 1]))
            masses.append(here)
        earned += float(self.terminal @ here)
        bonus += float(self.state_values(0.0)[self.pairs.layers[-1].x] @ here) if self._counted else 0.0
        return FlowPoint(Outcome(self.table.joint(masses, arrived), earned, bonus), flows)

    def _with_paid(self, value: Float[np.ndarray, " n"], costs: Entries | None, time: int) -> Float[np.ndarray, " n"]:
        """The value of each pair of a layer with what is paid there."""
        paid = None if costs is None else self.table.paid(costs, time)
        return value if paid is None else value + paid

    def _ahead(self, time: int, value: np.ndarray, costs: Entries | None) -> Float[np.ndarray, "A n"]:
        """The expectation of a function of the next pair, and of the costs that the arrival pays, for each action and pair."""
        paid = None if costs is None else self.table.paid(costs, time + 1, arrives=True)
        if paid is None:
            return (self.pairs.steps[time] @ value).reshape(self.num_actions, -1)
        apart = self.table.apart[time]
        return (apart.step @ (value[apart.pair] + paid)).reshape(self.num_actions, -1)


def _first_best(scores: Float[np.ndarray, "A n"], _: int) -> Chosen:
    """The first of the largest scores: as argmax, but faster."""
    value = scores.max(axis=0)
    best = scores == value
    taken = best[0].copy()
    for row in best[1:]:
        row &= ~taken
        taken |= row
    return value, best
