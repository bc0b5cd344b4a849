"""The paper's initial-state formulas as they stand, against a slow evaluation in plain loops."""

import itertools
import math

import numpy as np
import pytest
from reproduction.literal import first_readings, literal_bits, sampled_literal_bits, to_climb

import veil
from veil.common.clock import UNLIMITED
from veil.planning.policy_class import make_space


def problem(sees_initial: bool) -> veil.Problem:
    """Four states, two starts, two readings, three steps: small enough for loops over everything."""
    generator = np.random.default_rng(5)
    model = veil.Model(generator.dirichlet(np.ones(4), size=(4, 2)), np.zeros((4, 2)), [0.3, 0.7, 0, 0])
    emissions = np.array([[0.9, 0.1, 0.0], [0.0, 0.3, 0.7], [0.5, 0.25, 0.25], [0.0, 1.0, 0.0]])
    return veil.Problem(model, veil.Observer(emissions, sees_initial=sees_initial), veil.InitialState(), 3)


def by_loops(asked: veil.Problem, policy: veil.MarkovPolicy) -> float:
    """`−Σ_y P(y) Σ_{s_0} p log2 p` with `p = μ_0 β_0 / P(y)`, message by message as the paper writes them."""
    move = np.einsum("sat,sa->st", asked.model.transitions, policy.probabilities)
    emit, start = asked.observer.emissions, asked.model.initial
    total = 0.0
    for y in itertools.product(range(3), repeat=4):
        alpha = start * emit[:, y[0]]
        for reading in y[1:]:
            alpha = (alpha @ move) * emit[:, reading]
        beta = np.ones(4)
        for reading in reversed(y[1:]):
            beta = move @ (emit[:, reading] * beta)
        seen = alpha.sum()
        if seen > 0:
            posterior = [weight / seen for weight in start * beta if weight > 0]
            total -= seen * math.fsum(p * math.log2(p) for p in posterior)
    return total


@pytest.fixture
def policy() -> veil.MarkovPolicy:
    return veil.MarkovPolicy(np.random.default_rng(6).dirichlet(np.ones(2), size=4))


def test_against_plain_loops(policy: veil.MarkovPolicy):
    seen, unseen = problem(True), problem(False)
    found = literal_bits(unseen, policy, first_readings(seen))
    assert found == pytest.approx(by_loops(seen, policy), abs=1e-12)
    assert abs(found - veil.opacity(seen, policy).bits) > 0.01
    assert abs(found - veil.opacity(unseen, policy).bits) > 0.01


def test_the_sample_agrees(policy: veil.MarkovPolicy):
    seen, unseen = problem(True), problem(False)
    mean, error = sampled_literal_bits(seen, policy, seed=1, sequences=20_000)
    assert 0 < error < 0.05
    assert abs(mean - literal_bits(unseen, policy, first_readings(seen))) < 4 * error


def test_the_slope(policy: veil.MarkovPolicy):
    unseen = problem(False)
    backend = to_climb(make_space(unseen, "markov"), first_readings(unseen))
    table, step = policy.probabilities[None, None], 1e-6
    change = np.random.default_rng(7).normal(size=table.shape)
    change -= change.mean(axis=-1, keepdims=True)
    found = backend(table, UNLIMITED)
    value, slope = found.values, found.gradient
    ahead, behind = (backend(table + sign * step * change, UNLIMITED).values[0] for sign in (1, -1))
    assert value[0] == pytest.approx(literal_bits(unseen, policy, first_readings(unseen)), abs=1e-12)
    assert np.vdot(slope, change) == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)


def test_it_is_no_entropy():
    """On the reconstruction, under the uniform policy, the number is negative."""
    seen = veil.gallery.load("paper-initial-state")
    unseen = veil.gallery.load("paper-initial-state", sees_initial=False)
    assert literal_bits(unseen, veil.MarkovPolicy.uniform(seen), first_readings(seen)) < -4
