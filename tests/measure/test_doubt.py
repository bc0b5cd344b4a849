"""The loss of an observer with doubt, however small: against exact fractions over all runs."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import veil
from veil.measure.loss import loss

STEPS = [[[1, 1, 0], [0, 2, 0]], [[0, 1, 1], [2, 0, 0]], [[0, 0, 2], [1, 0, 1]]]  # over 2
SEEN = [[2, 1, 0, 1], [0, 4, 0, 0], [1, 0, 3, 0]]  # over 4
BELIEVED = [[4, 0, 0, 0], [0, 2, 2, 0], [0, 1, 3, 0]]  # over 4: it holds the last observation impossible
HORIZON = 2


def joint(table: list[list[int]], emissions: list[list[int]]) -> dict[tuple[int, ...], list[Fraction]]:
    """`P(y, z)` of the last state under a stationary policy, a table over 4, by all runs."""
    found: dict[tuple[int, ...], list[Fraction]] = {}
    for states, actions in product(product(range(3), repeat=HORIZON + 1), product(range(2), repeat=HORIZON)):
        chance = Fraction(int(states[0] == 0))
        for t, a in enumerate(actions):
            chance *= Fraction(table[states[t]][a], 4) * Fraction(STEPS[states[t]][a][states[t + 1]], 2)
        for seen in product(range(4), repeat=HORIZON + 1) if chance else ():
            weight = chance
            for state, o in zip(states, seen, strict=True):
                weight *= Fraction(emissions[state][o], 4)
            if weight:
                found.setdefault(seen, [Fraction(0)] * 2)[int(states[-1] == 1)] += weight
    return found


def exact_loss(doubt: float) -> float:
    """`E[−log2 q(Z|Y)]` with q in fractions: the posterior, or the prior after what was held impossible."""
    assumed = joint([[2, 2]] * 3, BELIEVED)
    prior = [sum(row[z] for row in assumed.values()) for z in range(2)]
    total, hedge = 0.0, Fraction(doubt)
    for seen, row in joint([[3, 1]] * 3, SEEN).items():
        known = assumed.get(seen, prior)
        for z in range(2):
            rule = (1 - hedge) * known[z] / sum(known) + hedge / 2
            if row[z]:
                total -= float(row[z]) * (math.log2(rule.numerator) - math.log2(rule.denominator))
    return total


@pytest.mark.parametrize("doubt", [1.0, 0.3, 1e-3, 1e-15, 5e-16, 1e-17, 1e-100, 1e-300])
def test_a_small_doubt_is_not_rounded_away(doubt: float):
    observer = veil.Observer(np.array(SEEN) / 4)
    believed = veil.Belief(observer=veil.Observer(np.array(BELIEVED) / 4), doubt=doubt)
    model = veil.Model(np.array(STEPS) / 2, np.zeros((3, 2)), [1, 0, 0])
    problem = veil.Problem(model, observer, veil.LastState({1}), HORIZON, pairs=[veil.Pair("naive", belief=believed)])
    policy = veil.MarkovPolicy([[0.75, 0.25]] * 3)
    expected = exact_loss(doubt)
    assert loss(problem, policy, believed).bits == pytest.approx(expected, rel=1e-13)
    assert veil.pair_values(problem, policy)[0].bits == pytest.approx(expected, rel=1e-13)
    without = veil.Belief(observer=believed.observer)
    assert loss(problem, policy, without).bits == math.inf


def test_after_the_impossible_both_wrong_observers_go_by_their_prior():
    """One who guesses and one who pays bits: the same assumption, the same posterior."""
    model = veil.Model(np.array(STEPS) / 2, np.zeros((3, 2)), [1, 0, 0])
    problem = veil.Problem(model, veil.Observer(np.eye(3)), veil.LastState({2}), HORIZON)
    acting, assumed = veil.MarkovPolicy([[0.0, 1.0]] * 3), veil.MarkovPolicy([[1.0, 0.0]] * 3)
    # The acting policy leads to state 1 and back; the assumed one may end anywhere, and never goes back.
    prior = veil.opacity(problem, assumed, "exact").prior_bits
    assert 0 < prior < 1
    found = veil.attack(problem, acting, 10, observer_believes=assumed)
    assert found.impossible_share.value == 1
    likely = veil.measures.joint_table(problem, assumed).probabilities.sum(axis=0)
    ends = veil.measures.joint_table(problem, acting).probabilities.sum(axis=0)
    assert found.accuracy.value == pytest.approx(ends[np.argmax(likely)])
    cost = loss(problem, acting, veil.Belief(assumed, doubt=0.5)).bits
    assert cost == pytest.approx(-float(ends @ np.log2(likely / 2 + 1 / 4)))
