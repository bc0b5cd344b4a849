"""The observer's side of the game: rules q(z|m) of inference, and the upper bound over all policies that each proves."""

from typing import NamedTuple

import numpy as np

from ..common.clock import UNLIMITED, Clock
from ..common.logs import code_lengths_bits
from .responses import AgentProblem, Outcome
from .rule_tables import Entries

# Weight of a covering rule where a rule excludes something reachable: 30 bits more at such a place.
_LEAST_SPREAD = 1e-9


def spread(agent: AgentProblem, rule: Entries, base: Entries, weight: float) -> Entries:
    """A rule mixed with a spread-out one; rows that are not known to the rule take the base alone."""
    return np.where(agent.table.totals(rule) > 0, (1 - weight) * rule + weight * base, base)


def covering_rule(agent: AgentProblem) -> Entries:
    """A rule that excludes nothing reachable: the posterior of the uniform policy, with even odds as a last resort."""
    table = agent.table
    return spread(agent, table.posteriors(agent.outcome(agent.uniform()).joint), table.even_odds(), 1e-3)


def complete(rule: Entries, base: Entries, agent: AgentProblem) -> Entries:
    """The rule itself where it excludes nothing reachable, mixed with a covering one as little as possible otherwise."""
    return rule if (rule > 0).all() else spread(agent, rule, base, _LEAST_SPREAD)


class Bound(NamedTuple):
    """An upper bound over all policies, the multiplier of return and the costs of the rule that prove it."""

    upper: float
    multiplier: float
    costs: Entries


def upper_bound(
    agent: AgentProblem,
    costs: Entries,
    threshold: float | None,
    multiplier: float = 0.0,
    trials: int = 6,
    clock: Clock = UNLIMITED,
) -> Bound:
    """An upper bound over all policies with return ≥ δ, near `min_λ U(q,λ)`.

    `U(q,λ) = max_π E_π[w(Z,M_T) + λ (G − δ)]` is such a bound for every λ ≥ 0. It is convex and piecewise linear in λ with
    derivative `E[G] − δ` of the best response, so the next trial is where the tangents of two trials meet.

    **Arguments:** `costs`, `w = −log2 q`, with `Σ_z 2^−w ≤ 1`; `multiplier`, where to begin; `trials`, backward inductions
    at most; `clock` ends them after the first.
    """
    if threshold is None:
        return Bound(agent.best_response(costs, 0.0)[0], 0.0, costs)
    best = Bound(np.inf, multiplier, costs)
    left: _Tangent | None = None  # of the largest multiplier that is below the minimum
    right: _Tangent | None = None
    for _ in range(trials):
        value, earned = agent.best_response(costs, multiplier)
        if not np.isfinite(value):
            break
        here = _Tangent(multiplier, value - multiplier * threshold, earned - threshold)
        if here.bound < best.upper:
            best = Bound(here.bound, multiplier, costs)
        if here.derivative < 0 and (left is None or multiplier > left.at):
            left = here
        elif here.derivative >= 0 and (right is None or multiplier < right.at):
            right = here
        if here.derivative == 0 or (here.derivative > 0 and multiplier == 0) or clock.reason is not None:
            break
        before, multiplier = multiplier, _next_multiplier(multiplier, left, right, agent.unit)
        if left and right and abs(multiplier - before) <= 1e-9 * (1 / agent.unit + before):
            break
    return best


def bound_of_policy(
    agent: AgentProblem, outcome: Outcome, threshold: float | None, multiplier: float, clock: Clock
) -> Bound:
    """The bound that the posterior of a policy proves; the other arguments are those of `upper_bound`."""
    rule = complete(agent.table.posteriors(outcome.joint), covering_rule(agent), agent)
    return upper_bound(agent, code_lengths_bits(rule), threshold, multiplier, clock=clock)


class _Tangent(NamedTuple):
    """`U` at a multiplier, and its derivative there."""

    at: float
    bound: float
    derivative: float


def _next_multiplier(multiplier: float, left: _Tangent | None, right: _Tangent | None, unit: float) -> float:
    """Where two tangents meet; a small step towards the minimum where all trials are on one side of it."""
    if right is None:
        return 1.05 * multiplier + 0.01 / unit if multiplier * unit < 1 else 1.2 * multiplier
    if left is None:
        return 0.95 * multiplier if multiplier * unit > 1e-3 else 0.0
    meet = left.bound - right.bound + right.at * right.derivative - left.at * left.derivative
    return min(max(meet / (right.derivative - left.derivative), left.at), right.at)
