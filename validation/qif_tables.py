"""Random tables measured by veil and by qif: the largest difference of each quantity."""

import math
from collections.abc import Iterator

import numpy as np
import qif

import veil


def random_channel(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A positive prior and a channel, with zeros in half of the channels."""
    size, outputs = int(rng.integers(1, 9)), int(rng.integers(1, 9))
    prior = rng.dirichlet(np.ones(size))
    channel = rng.dirichlet(np.full(outputs, rng.choice((0.2, 1.0, 5.0))), size)
    if rng.random() < 0.5:
        channel = np.where(rng.random(channel.shape) < 0.4, 0.0, channel) + 1e-3 * np.eye(size, outputs)
        channel[:, 0] += channel.sum(axis=1) == 0
        channel /= channel.sum(axis=1, keepdims=True)
    return prior, channel


def channel_problem(prior: np.ndarray, channel: np.ndarray) -> veil.Problem:
    """A secret with this prior, seen once through this channel."""
    size = len(prior)
    model = veil.Model(np.eye(size)[:, None, :], np.zeros((size, 1)), prior)
    return veil.Problem(model, veil.Observer(channel), veil.InitialState(), horizon=0)


def compared(prior: np.ndarray, channel: np.ndarray, gain: np.ndarray) -> Iterator[tuple[str, float, float]]:
    """Each quantity of one table: its name, by veil, by qif."""
    problem = channel_problem(prior, channel)
    found = veil.measures.quantities(problem, veil.MarkovPolicy.uniform(problem), "exact", gain=gain)
    shannon, bayes, guess, worth = qif.measure.shannon, qif.measure.bayes_vuln, qif.measure.guessing, qif.measure.g_vuln
    assert found.gain is not None
    assert found.gain_leakage_bits is not None
    yield "Shannon entropy, prior", found.entropy_bits.prior, shannon.prior(prior)
    yield "Shannon entropy, posterior", found.entropy_bits.posterior, shannon.posterior(prior, channel)
    yield "Shannon leakage", found.leakage_bits, shannon.add_leakage(prior, channel)
    yield "Bayes vulnerability, prior", found.guess_probability.prior, bayes.prior(prior)
    yield "Bayes vulnerability, posterior", found.guess_probability.posterior, bayes.posterior(prior, channel)
    yield "min-entropy leakage", found.min_entropy_leakage_bits, bayes.min_entropy_leakage(prior, channel)
    yield "min-capacity", found.channel_sum.posterior, bayes.mult_capacity(channel)
    yield "guessing entropy, prior", found.guessing_entropy.prior, guess.prior(prior)
    yield "guessing entropy, posterior", found.guessing_entropy.posterior, guess.posterior(prior, channel)
    yield "g-vulnerability, prior", found.gain.prior, worth.prior(gain, prior)
    yield "g-vulnerability, posterior", found.gain.posterior, worth.posterior(gain, prior, channel)
    yield "g-leakage", found.gain_leakage_bits, math.log2(worth.mult_leakage(gain, prior, channel))


def largest_differences(count: int, seed: int = 3) -> dict[str, float]:
    """The largest difference of each quantity over so many random tables."""
    rng, largest = np.random.default_rng(seed), {}
    for _ in range(count):
        prior, channel = random_channel(rng)
        gain = rng.random((int(rng.integers(1, 6)), len(prior)))
        for name, ours, theirs in compared(prior, channel, gain):
            largest[name] = max(largest.get(name, 0.0), abs(ours - theirs))
    return largest
