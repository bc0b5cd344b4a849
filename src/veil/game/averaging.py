"""Accelerated mirror ascent over policies, in its form of dual averaging, of a function F of their outcomes.

F is homogeneous of degree one in what is linear in the flows, so that `F(x) = ⟨∇F(x), x⟩`, as conditional entropies are. With
weights `a_k`, `A_k = Σ a_i`:

    y_k = (1 − a_k/A_k) x_{k−1} + (a_k/A_k) z_{k−1},     C_k = C_{k−1} + a_k ∇F(y_k),
    z_k = argmax over feasible z of  ⟨C_k, z⟩ − KL(z ‖ prior),     x_k = (1 − a_k/A_k) x_{k−1} + (a_k/A_k) z_k

where KL is that of trajectories, and z_k comes from one soft backward induction for each trial of the multiplier of return.
A step is accepted while `A_k F(x_k)` is not below the soft value. If F is concave, that proves
`max F − F(x_k) ≤ T log2(A) / A_k` up to the tolerance of that test; else it is a local search.
"""

from collections.abc import Callable

import numpy as np

from .multiplier import MultiplierSearch
from .responses import AgentProblem, FlowPoint, Outcome

# Set by hand: they decide how fast the ascent is; what it finds is valid for any values.
WARM_STEP = 4.0  # the first step near a known policy: in most runs the largest that was accepted at once
_GROWTH, _LARGEST_STEP = 1.3, 1e12  # of the step, after each that is accepted, up to where its gain is below rounding
_LEAST_STEP = 2e-3  # share of all steps so far; a smaller step is taken without the test
_MOST_SURPLUS = 0.01  # of return, as a share of the largest


class Averaging:
    """The state of an ascent of the entropy of the agent's table, and of what task and prices pay.

    **Arguments:** `point`: x_0 and z_0; `cumulative`: a guess of A_k times the multiplier of return; `step`: a_1.
    **Attributes:** `point`, x_k; `total`, A_k; `cumulative`, A_k times the multiplier; `rate`: the multiplier of the last step.
    """

    def __init__(
        self,
        agent: AgentProblem,
        multipliers: MultiplierSearch,
        point: FlowPoint,
        *,
        cumulative: float = 0.0,
        step: float = 1.0,
    ):
        self.agent, self.multipliers = agent, multipliers
        self.point = self.lead = point
        self.cumulative, self.step = cumulative, step
        self.total = self._allowed = 0.0  # by which accepted steps may have failed the test
        self.rate: float | None = None
        self._summed = np.zeros(agent.table.size)
        self._most_surplus = most_surplus(agent, multipliers)

    def value(self, outcome: Outcome) -> float:
        """F of an outcome, in bits."""
        return self.agent.table.entropy(outcome.joint) + outcome.bonus

    def advance(
        self, rate: float, tolerance: float, spare: float, check: Callable[[], object]
    ) -> tuple[float, Outcome]:
        """One accepted step; returns a_k and the outcome of y_k. An exception of `check` leaves everything as it was.

        **Arguments:** `rate`: a guess of the multiplier of this step; `tolerance`: bits for each unit of the step by which it
        may fail the test; `spare`: bits that a surplus of return may cost.
        """
        while True:
            check()
            total = self.total + self.step
            weight = self.step / total
            seen = self.point.outcome.mixed(self.lead.outcome, weight)
            summed = self._summed + self.step * self.agent.table.surprisals(seen.joint)
            guess = self.cumulative + self.step * rate
            surplus = min(spare * total / max(guess, 1e-9 / self.agent.unit), self._most_surplus)
            cumulative, value, lead = self.multipliers.respond(summed, guess, surplus, check, scale=total)
            missed = value - total * self.value(self.point.outcome.mixed(lead.outcome, weight))
            allowed = self._allowed + self.step * tolerance
            if missed <= allowed or self.step < _LEAST_STEP * self.total:
                break
            self.step /= 2
        taken = self.step
        self.rate = max(0.0, cumulative - self.cumulative) / taken
        self.point, self.lead, self._summed = self.point.mixed(lead, weight), lead, summed
        self.total, self.cumulative = total, cumulative
        # What a step leaves of its tolerance is for later ones, unless that would let F fall for long.
        self._allowed = allowed if self.agent.table.is_concave else max(0.0, missed)
        self.step = min(taken * _GROWTH, _LARGEST_STEP)
        return taken, seen


def most_surplus(agent: AgentProblem, multipliers: MultiplierSearch) -> float:
    """How much more return than is asked for a response may have at most."""
    return _MOST_SURPLUS * (abs(multipliers.max_return.outcome.expected_return) + 1e-9 * agent.unit)
