"""A policy that hides much from an observer with little memory, made into one that hides much from every observer.

On a graph whose nodes C merge histories, a policy hides at least

    L = H(Z|C_T) − Σ_t I(X_{t+1}; C_t, O_{t+1} | C_{t+1})

from an observer who remembers everything (`clusters.py`). The best policy against a bounded memory makes the first term large
by what that memory cannot tell apart, which the sum then takes away. This search maximises L itself, by the accelerated
mirror ascent of `solve.py` around the given policy. All terms of L are conditional entropies of tables that are linear in
the flows, so `L(x) = ⟨∇L(x), x⟩`, and its slope is a payment for each arrival. L is not concave: the search is local.
"""

from typing import NamedTuple

import numpy as np

from ..common.clock import Clock, OutOfTime
from ..common.logs import conditional_entropy_bits, surprisal_bits
from .multiplier import FlowPoint, MultiplierSearch
from .responses import AgentProblem, Outcome, Tables

_FIRST_STEP, _GROWTH = (
    4.0,
    1.3,
)  # of the ascent: the largest that was accepted in most runs at once, and the growth after
_LEAST_STEP = 2e-3  # share of all steps so far; a smaller step is taken without the test
_TOLERATED = 0.02  # bits by which a step may fail the test of acceptance, each time its own size
_SURPLUS_BITS, _MOST_SURPLUS = 1e-3, 0.01  # what a surplus of return may cost, and its share of the largest return


class LiftedPolicy(NamedTuple):
    """A policy with `bits`, a lower bound on its opacity, and `multiplier`, the price of return at which it was found."""

    point: FlowPoint
    bits: float
    multiplier: float


def charged_bits(agent: AgentProblem, outcome: Outcome) -> float:
    """L of an outcome with arrivals: a lower bound on the opacity of its policy against every observer."""
    lost = [part.lost_bits(mass)[0] for part, mass in zip(agent.arrivals, outcome.arrivals, strict=True)]
    return conditional_entropy_bits(outcome.joint) - sum(lost)


def lift(
    agent: AgentProblem, tables: Tables, threshold: float | None, multiplier: float, iterations: int, clock: Clock
) -> LiftedPolicy:
    """Ascend L from a policy on the pairs of `agent`, which has arrivals; the result is feasible.

    **Arguments:** `tables`, the policy; `threshold`, δ; `multiplier`, a guess of the price of return; the `clock` ends the
    search with the best point so far.

    Cost: an iteration takes one to four soft backward inductions over the arrivals, and as many passes forward.
    """
    search = _Lift(agent, tables, threshold, multiplier)
    try:
        for _ in range(iterations):
            search.advance(clock)
    except OutOfTime:
        pass
    return search.best


class _Lift:
    """The state of the ascent, as in `solve.py`: weights, accumulated costs and payments, the points x and z."""

    def __init__(self, agent: AgentProblem, tables: Tables, threshold: float | None, multiplier: float):
        self.agent = agent
        self.multipliers = MultiplierSearch(agent, threshold, tables)
        self.lead = FlowPoint(*agent.flows(tables))
        self.point = self._feasible(self.lead, threshold)
        self.rate, self.cumulative = multiplier, 0.0
        self.total, self.step, self.missed = 0.0, _FIRST_STEP, 0.0
        self.costs = np.zeros(agent.pairs.reachable.shape)
        self.paid = [np.zeros(len(part.pair)) for part in agent.arrivals]
        self.best = LiftedPolicy(self.point, charged_bits(agent, self.point.outcome), multiplier)
        self._largest = abs(self.multipliers.max_return.outcome.expected_return) + 1e-9 * agent.unit

    def _feasible(self, point: FlowPoint, threshold: float | None) -> FlowPoint:
        """The policy mixed with that of the largest return until it has the return asked for."""
        missing = 0.0 if threshold is None else threshold - point.outcome.expected_return
        if missing <= 0:
            return point
        richest = self.multipliers.max_return
        spare = richest.outcome.expected_return - point.outcome.expected_return
        return point.mixed(richest, min(1.0, 1.0001 * missing / max(spare, 1e-300)))

    def advance(self, clock: Clock) -> None:
        """One accepted step; `OutOfTime` in the middle of it leaves everything as it was."""
        while True:
            clock.check()
            total = self.total + self.step
            weight = self.step / total
            seen = self.point.outcome.mixed(self.lead.outcome, weight)
            costs = self.costs + self.step * surprisal_bits(seen.joint)
            slopes = [part.lost_bits(mass)[1] for part, mass in zip(self.agent.arrivals, seen.arrivals, strict=True)]
            paid = [old - self.step * slope for old, slope in zip(self.paid, slopes, strict=True)]
            guess = self.cumulative + self.step * self.rate
            surplus = min(_MOST_SURPLUS * self._largest, _SURPLUS_BITS * total / max(guess, 1e-9 / self.agent.unit))
            cumulative, value, lead = self.multipliers.respond(costs, guess, surplus, clock.check, paid)
            point = self.point.mixed(lead, weight)
            bits = charged_bits(self.agent, point.outcome)
            short = value - total * bits
            if short <= self.missed + self.step * _TOLERATED or self.step < _LEAST_STEP * self.total:
                break
            self.step /= 2
        self.missed = max(0.0, short)
        self.point, self.lead, self.costs, self.paid = point, lead, costs, paid
        self.total, self.cumulative, self.rate = total, cumulative, cumulative / total
        self.step *= _GROWTH
        if bits > self.best.bits:
            self.best = LiftedPolicy(point, bits, self.rate)
