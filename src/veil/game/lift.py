"""A policy that hides much from an observer with little memory, made into one that hides much from every observer.

On a graph whose nodes C merge histories, a policy hides at least

    L = H(Z|C_T) − Σ_t I(X_{t+1}; C_t, O_{t+1} | C_{t+1})

from an observer who remembers everything (`clusters.py`). The best policy against a bounded memory makes the first term large
by what that memory cannot tell apart, which the sum then takes away. This search maximises L itself, by the accelerated
mirror ascent of `averaging.py` around the given policy. All terms of L are conditional entropies of tables that are linear in
the flows, and its gradient is a payment for each arrival. L is not concave: the search is local.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ..common.clock import Clock, OutOfTime
from ..common.logs import conditional_entropy_bits, surprisal_bits
from .averaging import WARM_STEP, Averaging
from .multiplier import FlowPoint, MultiplierSearch
from .responses import AgentProblem, Outcome, Tables

# Set by hand: they decide how fast L rises; what it finds is valid for any values.
_TOLERATED = 0.02  # bits for each unit of a step by which it may fail the test of acceptance
_SURPLUS_BITS = 1e-3  # what a surplus of return may cost


class LiftedPolicy(NamedTuple):
    """A policy with its outcome, and `bits`, a lower bound on its opacity."""

    tables: Tables
    outcome: Outcome
    bits: float


class ChargedBits:
    """L of an outcome with arrivals: a lower bound on the opacity of its policy against every observer."""

    is_concave = False

    def __init__(self, agent: AgentProblem):
        self._agent = agent

    def value(self, outcome: Outcome) -> float:
        """See `Objective`."""
        return conditional_entropy_bits(outcome.joint) - sum(lost for lost, _ in self._lost(outcome))

    def gradient(self, outcome: Outcome) -> list[np.ndarray]:
        """See `Objective`."""
        return [surprisal_bits(outcome.joint), *(-slope for _, slope in self._lost(outcome))]

    def _lost(self, outcome: Outcome) -> list[tuple[float, np.ndarray]]:
        return [part.lost_bits(mass) for part, mass in zip(self._agent.arrivals, outcome.arrivals, strict=True)]


def lift(
    agent: AgentProblem, tables: Tables, threshold: float | None, multiplier: float, iterations: int, clock: Clock
) -> LiftedPolicy:
    """Ascend L from a policy on the pairs of `agent`, which has arrivals; the result is feasible.

    **Arguments:** `tables`, the policy; `threshold`, δ; `multiplier`, a guess of the price of return; the `clock` ends the
    search with the best point so far.

    Cost: an iteration takes one to four soft backward inductions over the arrivals, and as many passes forward.
    """
    multipliers, bits = MultiplierSearch(agent, threshold, tables), ChargedBits(agent)
    first = multipliers.feasible(FlowPoint(*agent.flows(tables)))
    course = Averaging(agent, bits, multipliers, first, step=WARM_STEP)
    best, most, rate = first, bits.value(first.outcome), multiplier
    with suppress(OutOfTime):
        for _ in range(iterations):
            course.advance(rate, _TOLERATED, _SURPLUS_BITS, clock.check)
            rate, found = course.cumulative / course.total, bits.value(course.point.outcome)
            if found > most:
                best, most = course.point, found
    evaluated, outcome = multipliers.evaluated(best)
    return LiftedPolicy(evaluated, outcome, bits.value(outcome))
