"""Random sources of pairs (secret, sequence) whose leakage is known: from a table, by enumeration, by quadrature."""

from dataclasses import dataclass

import numpy as np

Random = int | np.random.Generator


@dataclass(frozen=True)
class Source:
    """Pairs and what they leak, in bits; `guess`: how often the best attacker is right."""

    secrets: list
    sequences: list
    leakage: float
    guess: float


def known(joint: np.ndarray) -> tuple[float, float]:
    """The information in a joint table, and the best rate of right guesses."""
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    used = joint > 0
    return float(np.sum(joint[used] * np.log2(joint[used] / apart[used]))), float(joint.max(axis=0).sum())


def drawn(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """One index of each row of probabilities."""
    return (rows.cumsum(axis=1) > rng.random(len(rows))[:, None]).argmax(axis=1)


def table(seed: Random, runs: int, values: int, symbols: int, concentration: float) -> Source:
    """One symbol in each run."""
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(2 * np.ones(values))
    channel = rng.dirichlet(concentration * np.ones(symbols), size=values)
    secret = rng.choice(values, runs, p=prior)
    return Source(secret.tolist(), drawn(rng, channel[secret])[:, None].tolist(), *known(prior[:, None] * channel))


def hidden_chains(
    seed: Random, runs: int, values: int = 2, states: int = 4, symbols: int = 3, length: int = 8, mixed: float = 0.5
) -> Source:
    """Reports of a hidden chain whose transitions depend on the secret: what is seen has a long memory.

    **Arguments:** `mixed`: the share of each value's own transitions; the rest is common to all values.
    """
    rng = np.random.default_rng(seed)
    prior, base = rng.dirichlet(3 * np.ones(values)), rng.dirichlet(np.ones(states), size=states)
    own = [rng.dirichlet(np.ones(states), size=states) for _ in range(values)]
    moves = np.array([(1 - mixed) * base + mixed * one for one in own])
    reports, start = rng.dirichlet(0.5 * np.ones(symbols), size=states), rng.dirichlet(np.ones(states))
    joint = []
    for matrix in moves:
        messages = (start[:, None] * reports).T
        for _ in range(length - 1):
            messages = ((messages @ matrix)[:, None, :] * reports.T).reshape(-1, states)
        joint.append(messages.sum(axis=1))
    secret = rng.choice(values, runs, p=prior)
    state, seen = drawn(rng, np.tile(start, (runs, 1))), []
    for time in range(length):
        state = state if time == 0 else drawn(rng, moves[secret, state])
        seen.append(drawn(rng, reports[state]))
    return Source(secret.tolist(), np.array(seen).T.tolist(), *known(prior[:, None] * np.array(joint)))


def readings(seed: Random, runs: int, apart: float) -> Source:
    """One reading in each run, normal with one of two means; the leakage by quadrature."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(-9, 9 + apart, 20_001)
    densities = np.exp(-0.5 * (grid - np.array([[0.0], [apart]])) ** 2) / np.sqrt(2 * np.pi)
    joint = 0.5 * densities * (grid[1] - grid[0])
    secret = rng.integers(0, 2, runs)
    return Source(secret.tolist(), rng.normal(secret * apart)[:, None].tolist(), *known(joint))


def two_geometrics(seed: Random, runs: int, values: int = 100, outputs: int = 10_000, decay: float = 0.1) -> Source:
    """Each secret has two places among many outputs, with geometric noise around each; most places are those of two secrets.

    The multimodal geometric channel on which F-BLEAU estimates the Bayes risk, 0.456 (Cherubin, Chatzikokolakis and
    Palamidessi, 2019).
    """
    rng, apart = np.random.default_rng(seed), 10
    width, place = outputs // (values + apart), np.arange(outputs)
    peaks = np.exp(-decay * np.abs(place - width * np.arange(values + apart)[:, None] - width // 2))
    peaks /= peaks.sum(axis=1, keepdims=True)
    joint = (peaks[:-apart] + peaks[apart:]) / (2 * values)
    pair = rng.choice(joint.size, runs, p=joint.ravel())
    return Source((pair // outputs).tolist(), (pair % outputs)[:, None].tolist(), *known(joint))
