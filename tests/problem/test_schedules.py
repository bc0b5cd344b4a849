"""Observers of every kind: noise, names of what is not received, and certificates.

What they receive together, masked, unrolled and in pairs is compared with all runs in `tests/combinations`.
"""

from dataclasses import replace

import numpy as np
import pytest

import veil
from tests.combinations.cases import random_case
from tests.combinations.watchers import OBSERVERS
from tests.seeds import looped
from veil.proof.words import claim_words, seal_of


def random_problem(kind: str, seed: int = 1, **features: str) -> veil.Problem:
    return random_case({"observer": kind, **features}, seed).problem.replace(secret=veil.LastState([0]))


def random_markov(problem: veil.Problem) -> veil.MarkovPolicy:
    theta = np.random.default_rng(0).normal(size=(problem.num_cells, problem.num_actions))
    return veil.MarkovPolicy.softmax(theta, problem)


@looped("kind", OBSERVERS)
def test_a_noisy_channel(kind: str) -> None:
    """Each table becomes its product with the channel, also at times at which nothing is received."""
    problem = random_problem(kind)
    observer, horizon = problem.observer, problem.horizon
    size, silent = observer.num_observations, observer.silent
    channel = np.random.default_rng(0).dirichlet(np.ones(size), size=size)
    if silent is not None:
        channel[silent] = np.eye(size)[silent]
    garbled = observer.garbled(channel, observer.observations.all())
    assert (garbled.silent, garbled.untimed, garbled.times) == (silent, observer.untimed, observer.times)
    for time in range(not observer.sees_first, horizon + 1):
        for before, behind in zip(observer.matrices_at(time, horizon), garbled.matrices_at(time, horizon), strict=True):
            np.testing.assert_allclose(behind.toarray(), before.toarray() @ channel, atol=1e-15)


def test_common_times_stay_and_what_is_not_received_has_a_name() -> None:
    for times in ("end", [0, 2]):
        one, two = (veil.Observer(np.eye(2), names, silent=0, times=times) for names in (["a", "b"], ["c", "d"]))
        assert veil.Together(one, two).times == one.times
    both = veil.Together(veil.Observer(np.eye(2)), veil.Observer(np.eye(2), ["x", "y"], sees_initial=False))
    assert "o0 & unobserved" in both.observations.all()
    assert both.silent is None
    assert not both.varies
    assert both.sees_first


@looped("kind", ["end", "times", "other emissions", "on steps", "no first"])
def test_certificates(kind: str) -> None:
    """The proof is about states that carry the time, and so about the problem itself, for every kind of policy."""
    problem = random_problem(kind, agent="state+observations")
    best = veil.solve(problem, method="game", certificate=False)
    policies: list[veil.Policy] = [random_markov(problem), best.policy]
    for memory in (veil.StateMemory(1), veil.ObservationMemory(1)):
        theta = np.random.default_rng(2).normal(size=veil.MemoryPolicy.uniform(problem, memory).probabilities.shape)
        policies.append(veil.MemoryPolicy.softmax(theta, problem, memory))
    for policy in policies:
        value = veil.opacity(problem, policy, "exact").bits
        proof = veil.certify(problem, policy, time_limit=2)
        veil.verify(proof, problem, policy)
        assert proof.lower == pytest.approx(value, abs=1e-9)
        assert value <= proof.upper <= best.opacity.bits + 2e-3


@looped("kind", ["untimed", "untimed on steps", "together, untimed"])
def test_certificates_against_observers_without_a_clock(kind: str) -> None:
    """The lower bound is that of the observer with a clock; the upper bound does not use what it knows."""
    problem = random_problem(kind)
    policy = random_markov(problem)
    for secret in (veil.LastState([0]), veil.InitialState(), veil.Trajectory()):
        asked = problem.replace(secret=secret)
        proof = veil.certify(asked, policy, time_limit=2)
        found = veil.verify(proof, asked, policy)
        clock = veil.opacity(asked.with_clock(), policy, "exact").bits
        assert proof.lower == pytest.approx(clock, abs=1e-9)
        assert clock - 1e-12 <= veil.opacity(asked, policy, "exact").bits <= min(proof.upper, found.policy.upper)
        assert "without a clock" in proof.bound_class
    own, timed = (veil.certify(one, policy, time_limit=2) for one in (problem, problem.with_clock()))
    forged = replace(own, bounds=timed.bounds[:1], best_known=None)
    forged = replace(forged, claim=claim_words(forged), seal=seal_of(forged))
    with pytest.raises(veil.CertificateError, match="no clock, and the rule depends on more than the string"):
        veil.verify(forged, problem, policy)


def test_a_pair_without_a_clock() -> None:
    """It is told of in the certificate from below alone, also for a policy that acts on what another observer sees."""
    problem = random_problem("plain", pair="untimed")
    whole = problem.replace(pairs=[replace(problem.pairs[0], max=0.99)])
    best = veil.solve(problem, method="game", certificate=False).policy
    for policy in (random_markov(problem), best):
        proof = veil.certify(whole, policy, time_limit=2)
        veil.verify(proof, whole, policy)
        assert proof.pairs[0].lower <= veil.opacity(whole, policy, "exact", pair="foe").bits
        assert proof.pairs[0].upper == 1


def test_certificates_of_pairs() -> None:
    """Observers who look at different times, and a secret with a memory, in one certificate."""
    problem = random_problem("end", pair="observer")
    path = veil.Pair("path", secret=veil.Visited({"zero": [0]}))
    whole = problem.replace(
        pairs=[replace(problem.pairs[0], min=1e-4), path],
        constraints=[veil.Probability("F s1", min=1e-4)],
        min_return=None,
    )
    policy = random_markov(whole)
    proof = veil.certify(whole, policy, time_limit=3, hide="own, path")
    found = veil.verify(proof, whole, policy)
    for name in ("foe", "path"):
        value = veil.opacity(whole, policy, "exact", pair=name).bits
        assert found.channels[[one.name for one in whole.channels].index(name)].lower == pytest.approx(value, abs=1e-9)
