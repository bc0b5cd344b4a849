"""The backend of samples: bits of drawn sequences with their standard error, and unbiased gradients.

What is averaged over sequences is `h(y) = Σ_z P(z|y) c(z,y)`. Since `Σ_z P(z,y) ∂c(z,y) = 0` for `c = −log2 P(z|y)`, and
since other costs do not depend on the policy, `P(y) ∂/∂P(z,y)` of it is `c(z,y)`, from which a baseline may be subtracted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.clock import Clock
from ..common.logs import entropy_bits, log2_or_zero, natural_log
from ..common.workers import ALONE, Team
from ..engine.each_time import weights_that_count
from ..engine.sequences import Posteriors
from ..measure.loss import Rule
from .backend import PER_ENTRY, UNBOUNDED, Draw, Estimate, Tables
from .exact_bits import hidden_ends, ruled_out
from .layers import Measure
from .policy_class import Space

LANE = 64
"""Sequences of a large sample that are drawn together."""


def advantages(
    bits: Float[np.ndarray, "k *R"], costs: Float[np.ndarray, "k *R Z"], possible: Bool[np.ndarray, "k *R Z"]
) -> Float[np.ndarray, "k *R Z"]:
    """The derivatives of a sampled mean: `c(z,y) − b` over k, with b the mean of the bits of the other sequences."""
    count = len(bits)
    baseline = (bits.sum(axis=0) - bits) / max(1, count - 1)
    return np.where(possible, (costs - baseline[..., None]) / count, 0.0)


def entropy_measure(found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
    """The entropy of the posterior of each sequence."""
    bits = entropy_bits(found.posterior)
    return bits, advantages(bits, -log2_or_zero(found.posterior), found.posterior > 0)


@dataclass(frozen=True, eq=False)
class EachTimeMeasure:
    """The weighted sum of the entropies of the posteriors at the times that count."""

    weights: Float[np.ndarray, " R"]

    def __call__(self, found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
        """See `Measure`."""
        bits, slope = entropy_measure(found, events)
        return bits @ self.weights, slope * self.weights[:, None]


def likelihood_measure(found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
    """`−log2 P(y)` of each sequence, whose mean estimates `H(Y)`; of chains without a secret."""
    bits = -found.log_likelihood / natural_log(np.array(2.0))
    return bits, advantages(bits, bits[:, None], np.ones((len(bits), 1), dtype=bool))


@dataclass(frozen=True, eq=False)
class LossMeasure:
    """The loss of an observer who may be wrong, `Σ_z P(z|y) c(z,y)` with `c = −log2 q(z|y)` of its rule."""

    rule: Rule

    def __call__(self, found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
        """See `Measure`; raises `InputError` where the observer rules out what happens."""
        possible = found.posterior > 0
        costs = np.where(possible, self.rule.costs_bits(events), 0.0)
        if np.isinf(costs).any():
            raise ruled_out()
        bits = np.sum(found.posterior * costs, axis=1)
        return bits, advantages(bits, costs, possible)


class Sampled:
    """The mean of a measure over drawn sequences, one table after the other.

    **Arguments:** `draw`: the sequences of an evaluation that names none, so that tables compare; `measure`, by default the
    entropy of the posterior, at one time or at every time that counts.
    """

    kind, at_once = "sampled", 1

    def __init__(
        self,
        space: Space,
        draw: Draw,
        reason: str = "",
        measure: Measure | None = None,
        team: Team = ALONE,
    ):
        each = space.hidden.each is not None
        entropy = EachTimeMeasure(weights_that_count(space.hidden)) if each else entropy_measure
        self.space, self._draw, self._measure, self._team = space, draw, measure or entropy, team
        self.ends = hidden_ends(space) if measure is None else UNBOUNDED
        self.reason = f"sampled sequences: {reason}"
        hidden = space.hidden
        entries = hidden.kernel.num_entries if hidden.kernel.is_sparse else hidden.num_states**2
        passes = 2 if isinstance(measure, LossMeasure) else 1  # what happens, and what the observer assumes
        self.cost_seconds = passes * PER_ENTRY * hidden.horizon * draw.sequences * entries

    def __call__(self, tables: Tables, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Estimate:
        """See `Backend`."""
        draw = self._draw if draw is None else draw
        bits, errors, gradients = np.empty(len(tables)), np.empty(len(tables)), list[Any]()
        for number, table in enumerate(tables):
            clock.check()
            given = self._measure, clock, self._team
            bits[number], errors[number], found = self.space.layers.estimate(table, draw, *given, gradient=gradient)
            gradients.append(found)
        joined = None
        if gradient:
            joined = gradients[0][None] if len(gradients) == 1 else np.stack(gradients)
        return Estimate(bits, joined, errors)


def in_lanes(
    draw: Callable[[int, np.random.Generator], np.ndarray], sequences: int, lane: int, seed: int, seconds: float
) -> np.ndarray:
    """What is found for sequences that a search has not seen: as many as fit the seconds, a lane of them at least."""
    generator, clock = np.random.default_rng([seed, 1]), Clock(0.8 * seconds)
    parts: list[np.ndarray] = []
    while not parts or (sum(map(len, parts)) < sequences and clock.left > clock.spent / len(parts)):
        parts.append(draw(min(sequences, lane), generator))
    return np.concatenate(parts)
