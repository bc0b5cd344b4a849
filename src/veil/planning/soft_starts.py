"""Starts for a search on a large model: random policies that make the secret uncertain and look alike to the observer.

Where a policy never makes the secret uncertain the gradient of `H(Z|Y)` is zero, and a search that begins there stays there.
A soft backward induction is cheap and gives policies that are spread over many paths. Its rewards are the return times a
weight, a bonus for each value of the secret, and a cost for events that tell the values apart:

- the bonus moves by `−ln P(z)` in each round, which evens out the values (with deterministic transitions, in one round);
- the cost of an event at time t is `c · KL(P(z|o_t) ‖ P(z))` in nats, its own information about the secret;
- the weight is the smallest, by bisection, at which the return meets the threshold.

A few factors c span the trade-off between random and unobtrusive policies. For a stationary class the soft policy is
averaged over time, with its occupancies as weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime
from ..common.logs import divergence_bits, entropy_bits, natural_log, posteriors
from ..engine.return_range import is_blind
from .objective import Objective
from .solution import TOLD_BITS

# The numbers here are by judgement: what comes of them is where a search begins.
_FACTORS = (10.0, 30.0)  # c of the cost of being told apart, the more promising first
# Rounds of bonus and cost for each weight: so many, and up to so many where the secret keeps less than half of its bits.
_ROUNDS, _MOST_ROUNDS = 3, 8
_BISECTIONS = 10  # of the weight, which ends sooner where the slack is small
# To begin with, in nats for the range of returns: over short horizons, where log A for a decision is less. A value of the
# secret that needs a larger bonus than twice as much, or half the weight, is not reached.
_LEAST_WEIGHT = 30.0
_NEAR = 0.1  # slack, as a share of the range of returns, with which a weight is small enough
_MOST_VALUES = 64  # of a secret whose values are told apart; with more, the tables of a round grow too large


@dataclass(frozen=True, eq=False)
class _Wishes:
    """What a soft policy is rewarded for: the return times `weight`, `bonus[z]`, less `cost[t, e]`."""

    weight: float
    bonus: Float[np.ndarray, " Z"]
    cost: Float[np.ndarray, "T+1 E"]


@dataclass(frozen=True, eq=False)
class _Soft:
    """A soft table with what it was rewarded for, its slack, and how many bits of the secret it leaves uncertain at first."""

    table: Float[np.ndarray, "T C A"]
    wishes: _Wishes
    slack: float
    even: float


def soft_starts(objective: Objective, clock: Clock) -> Iterator[Float[np.ndarray, "T C A"]]:
    """Tables to search from, one or two for each of `_FACTORS`; each begins with the weight, bonus and costs of the one before.

    Cost: some thirty backward inductions and forward passes each, over the reachable states.
    """
    hidden = objective.space.hidden
    # The return weighs as much as the entropy of all decisions: below, soft policies are spread over everything.
    weight = hidden.horizon * float(natural_log(np.array(float(objective.space.shape[2]))))
    wishes = _Wishes(
        max(_LEAST_WEIGHT, weight), np.zeros(hidden.num_values), np.zeros((hidden.horizon + 1, hidden.num_events))
    )
    alike = 1 < hidden.num_values <= _MOST_VALUES  # of one value, as with whole paths, no event tells anything
    for factor in _FACTORS if alike else (0.0,):
        tried = _tried(objective, wishes, factor, clock)
        best = min((one for one in tried if one.slack >= 0), key=lambda one: one.wishes.weight, default=tried[-1])
        wishes = best.wishes
        yield best.table
        # A search can begin where the return misses a little and the secret is uncertain, if the best leaves nothing to hide.
        most = max(one.even for one in tried)
        uncertain = max((one for one in tried if one.even >= most / 2), key=lambda one: one.slack)
        if best.even < uncertain.even / 2:
            yield uncertain.table


def _tried(objective: Objective, wishes: _Wishes, factor: float, clock: Clock) -> list[_Soft]:
    """The soft tables on the way to the smallest weight whose return suffices; the last one has the largest weight if none
    of them does."""
    low, high, tried = 0.0, np.inf, list[_Soft]()
    while len(tried) < _BISECTIONS:
        try:
            found = _balanced(objective, wishes, factor, clock)
        except OutOfTime:
            if not tried:
                raise
            break
        tried.append(found)
        if 0 <= found.slack <= _NEAR:
            break
        low, high = (low, wishes.weight) if found.slack >= 0 else (wishes.weight, high)
        middle = np.sqrt((low or high / 10) * (high if high < np.inf else 10 * low))
        wishes = replace(found.wishes, weight=float(middle))
    return tried


def _balanced(objective: Objective, wishes: _Wishes, factor: float, clock: Clock) -> _Soft:
    """The soft table after some rounds of bonus and cost: of the rounds that are as balanced as any, the last."""
    space, layers, hidden = objective.space, objective.space.layers, objective.space.hidden
    is_known = space.problem.return_over == "infinite" and not is_blind(space.problem)
    terminal = (
        hidden.paid[0].last if is_known else hidden.paid[0].terminal
    )  # of an infinite horizon the best continuation
    table, slack, evenest, values = np.zeros(0), -np.inf, -np.inf, len(wishes.bonus)
    most = float(entropy_bits(np.full(values, 1 / values)))
    largest, pace, before = max(2 * _LEAST_WEIGHT, wishes.weight / 2), np.ones(values), np.zeros(values)
    for number in range(_MOST_ROUNDS):
        if number >= _ROUNDS and (evenest >= most / 2 or np.abs(wishes.bonus).max() >= largest):
            break
        clock.check()
        prize, weight = hidden.label @ wishes.bonus, wishes.weight * (1 / objective.unit)
        soft = layers.soft_table(weight, prize, factor * wishes.cost, terminal, space.available)
        if space.stationary:
            soft = layers.time_average(soft)
        prior, seen = layers.seen(soft)
        even = max(0.0, float(entropy_bits(prior)))
        if even >= evenest - TOLD_BITS:  # as balanced as any
            earned = float(space.sums(soft[None], (0,))[0, 0])
            table, slack, evenest = soft, (earned - objective.aim) * (1 / objective.unit), max(even, evenest)
        wanted = -natural_log(np.maximum(prior, np.finfo(float).tiny))
        wanted = wanted - wanted.mean()
        # Shorter steps where the last one went too far; longer ones where the values of a policy with slips move by less.
        pace *= np.where(wanted * before < 0, 0.5, np.where((wanted * before > 0) & (number >= _ROUNDS), 2.0, 1.0))
        before, bonus = wanted, wishes.bonus + pace * wanted
        bonus = np.clip(bonus - bonus.mean(), -largest, largest)
        wishes = replace(wishes, bonus=bonus, cost=0.5 * (wishes.cost + _information(seen)))
    return _Soft(table, wishes, slack, evenest)


def _information(seen: Float[np.ndarray, "T+1 E Z"]) -> Float[np.ndarray, "T+1 E"]:
    """`KL(P(z|o_t = e) ‖ P(z))` in nats; 0 for events that do not occur."""
    prior = seen.sum(axis=1, keepdims=True)
    prior = posteriors(prior)
    return float(natural_log(np.array(2.0))) * divergence_bits(posteriors(seen), prior)
