"""The observer's side of the game: rules q(z|m) of inference, and the upper bound over all policies that each proves."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from ..common.clock import UNLIMITED, Clock
from ..common.logs import code_lengths_bits, posteriors
from .pairs import Pairs
from .responses import AgentProblem
from .rule_tables import ValueTable

Rule = Float[np.ndarray, "..."]
"""A rule or its costs, as the agent's `RuleTable` lays it out: `(n, Z)`, or the entries of a whole path's rule."""

# Weight of a covering rule where a rule excludes something reachable: 30 bits more at such a place.
_LEAST_SPREAD = 1e-9


def rule_costs(rule: Rule, reachable: Bool[np.ndarray, "..."]) -> Rule:
    """`w = −log2 q(z|m)`: infinite where the rule excludes a reachable (m, z), 0 at unreachable ones."""
    return np.where(reachable, code_lengths_bits(rule), 0.0)


def spread(rule: Rule, base: Rule, weight: float, known: Bool[np.ndarray, "..."]) -> Rule:
    """A rule mixed with a spread-out one; rows that are not `known` to the rule take the base alone."""
    return np.where(known, (1 - weight) * rule + weight * base, base)


def covering_rule(agent: AgentProblem) -> Rule:
    """A rule that excludes nothing reachable: the posterior of the uniform policy, with even odds as a last resort."""
    table = agent.table
    rule = table.posteriors(agent.outcome(agent.uniform()).joint)
    return spread(rule, table.even_odds(), 1e-3, table.totals(rule) > 0)


def upper_bound(
    agent: AgentProblem,
    costs: Rule,
    threshold: float | None,
    multiplier: float = 0.0,
    trials: int = 6,
    clock: Clock = UNLIMITED,
) -> tuple[float, float]:
    """An upper bound over all policies with return ≥ δ, near `min_λ U(q,λ)`, and its λ.

    `U(q,λ) = max_π E_π[w(Z,M_T) + λ (G − δ)]` is such a bound for every λ ≥ 0. It is convex and piecewise linear in λ with
    derivative `E[G] − δ` of the best response, so the next trial is where the tangents of two trials meet.

    **Arguments:** `costs`, `w = −log2 q`, with `Σ_z 2^−w ≤ 1`; `multiplier`, where to begin; `trials`, backward inductions
    at most; `clock` ends them after the first.
    """
    if threshold is None:
        return agent.best_response(costs, 0.0)[0], 0.0
    best, best_multiplier = np.inf, 0.0
    left: _Tangent | None = None  # of the largest multiplier that is below the minimum
    right: _Tangent | None = None
    for _ in range(trials):
        value, earned = agent.best_response(costs, multiplier)
        if not np.isfinite(value):
            return np.inf, multiplier
        here = _Tangent(multiplier, value - multiplier * threshold, earned - threshold)
        if here.bound < best:
            best, best_multiplier = here.bound, multiplier
        if here.derivative < 0 and (left is None or multiplier > left.at):
            left = here
        elif here.derivative >= 0 and (right is None or multiplier < right.at):
            right = here
        if here.derivative == 0 or (here.derivative > 0 and multiplier == 0) or clock.reason is not None:
            break
        following = _next_multiplier(multiplier, left, right, agent.unit)
        if (
            left is not None
            and right is not None
            and abs(following - multiplier) <= 1e-9 * (1 / agent.unit + multiplier)
        ):
            break
        multiplier = following
    return best, best_multiplier


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


def simple_rules(agent: AgentProblem) -> Iterator[Rule]:
    """Rules that need no search: even odds; for a secret settled at time 0 also its prior, and `P(z | first event)`."""
    pairs = agent.pairs
    if not isinstance(agent.table, ValueTable):
        yield agent.table.even_odds()
        return
    size, values = agent.table.reachable.shape
    yield np.full((size, values), 1.0 / values)
    if pairs.hidden.split_time == 0:
        yield agent.table.everywhere(pairs.hidden.start @ pairs.hidden.label)
        if pairs.graph.is_tree and agent.table.by_node:
            yield _first_event_rule(pairs)


def _first_event_rule(pairs: Pairs) -> Float[np.ndarray, "n Z"]:
    """`P(z | first event)` at every history that begins with it."""
    hidden, graph = pairs.hidden, pairs.graph
    known = posteriors(hidden.root.T @ hidden.label)
    origin = np.zeros(graph.sizes[0], dtype=np.int64)
    possible = graph.first >= 0
    origin[graph.first[possible]] = np.flatnonzero(possible)
    for table, size in zip(graph.following, graph.sizes[1:], strict=True):
        node, event = np.nonzero(table >= 0)
        after = np.zeros(size, dtype=np.int64)
        after[table[node, event]] = origin[node]
        origin = after
    return known[origin]


def complete(rule: Rule, base: Rule, agent: AgentProblem) -> Rule:
    """The rule itself where it excludes nothing reachable, mixed with a covering one as little as possible otherwise."""
    if (rule[agent.table.reachable] > 0).all():
        return rule
    return spread(rule, base, _LEAST_SPREAD, agent.table.totals(rule) > 0)
