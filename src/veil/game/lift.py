"""A policy that hides much from an observer with little memory, made into one that hides much from every observer.

On a graph whose nodes C merge histories, a policy hides at least

    L = H(Z|C_T) − Σ_t I(X_{t+1}; C_t, O_{t+1} | C_{t+1})

from an observer who remembers everything (`clusters.py`). The best policy against a bounded memory makes the first term large
by what that memory cannot tell apart, which the sum then takes away. This search maximises L itself, by the accelerated
mirror ascent of `averaging.py` around the given policy. L is the entropy of a table with negative weights (`charged_table`); it
is not concave, so the search is local.
"""

from contextlib import suppress
from typing import NamedTuple

from ..common.clock import Clock, OutOfTime
from .averaging import WARM_STEP, Averaging
from .multiplier import MultiplierSearch
from .responses import AgentProblem, Outcome, Tables

# Set by hand: they decide how fast L rises; what it finds is valid for any values.
_TOLERATED = 0.02  # bits for each unit of a step by which it may fail the test of acceptance
_SURPLUS_BITS = 1e-3  # what a surplus of return may cost


class LiftedPolicy(NamedTuple):
    """A policy with its outcome, and `bits`, a lower bound on its opacity."""

    tables: Tables
    outcome: Outcome
    bits: float


def lift(
    agent: AgentProblem, tables: Tables, threshold: float | None, multiplier: float, iterations: int, clock: Clock
) -> LiftedPolicy:
    """Ascend L from a policy on the pairs of `agent`, whose table is charged; the result is feasible.

    **Arguments:** `tables`, the policy; `threshold`, δ; `multiplier`, a guess of the price of return; the `clock` ends the
    search with the best point so far.

    Cost: an iteration takes one to four soft backward inductions over the arrivals, and as many passes forward.
    """
    multipliers = MultiplierSearch(agent, threshold, tables)
    first = multipliers.feasible(agent.flows(tables))
    course = Averaging(agent, multipliers, first, step=WARM_STEP)
    best, most, rate = first, course.value(first.outcome), multiplier
    with suppress(OutOfTime):
        for _ in range(iterations):
            course.advance(rate, _TOLERATED, _SURPLUS_BITS, clock.check)
            rate, found = course.cumulative / course.total, course.value(course.point.outcome)
            if found > most:
                best, most = course.point, found
    evaluated, outcome = multipliers.evaluated(best)
    return LiftedPolicy(evaluated, outcome, course.value(outcome))
