"""How a search on samples evaluates single tables: bits of drawn sequences with their standard error, unbiased gradients.

What is averaged over sequences is `h(y) = Σ_z P(z|y) c(z,y)`. Since `Σ_z P(z,y) ∂c(z,y) = 0` for `c = −log2 P(z|y)`, and
since other costs do not depend on the policy, `P(y) ∂/∂P(z,y)` of it is `c(z,y)`, from which a baseline may be subtracted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.logs import entropy_bits, log2_of_count, log2_or_zero, natural_log
from ..common.workers import ALONE, Team
from ..engine.chain import Chain
from ..engine.device import on_accelerator
from ..engine.event_entropy import UnifilarEntropy, show_path
from ..engine.sequences import Posteriors
from ..measure.exact import Budget
from ..measure.loss import Rule
from ..measure.question import SecretValue
from ..measure.result import Opacity
from ..measure.sampled import sample
from ..measure.trajectory import path_bits
from ..problem.belief import Belief
from .layers import Layers, Measure
from .options import Objective
from .policy_class import Space

LANE = 64
"""Sequences of a large sample that are drawn together."""

_PRIOR_SECONDS = 2.0  # for the entropy of a path before anything is seen

Slopes = Float[np.ndarray, "B T C A"]


@dataclass(frozen=True)
class BitsEstimate:
    """A sampled value in bits, its standard error, and how many sequences it is from."""

    bits: float
    std_error: float
    sequences: int

    @staticmethod
    def of(bits: Float[np.ndarray, " k"]) -> "BitsEstimate":
        """The mean over sequences."""
        return BitsEstimate(float(bits.mean()), float(bits.std(ddof=1) / len(bits) ** 0.5), len(bits))


def advantages(
    bits: Float[np.ndarray, " k"], costs: Float[np.ndarray, "k Z"], possible: Bool[np.ndarray, "k Z"]
) -> Float[np.ndarray, "k Z"]:
    """The cotangents of a sampled gradient: `c(z,y) − b` over k, with b the mean of the bits of the other sequences."""
    count = len(bits)
    baseline = (bits.sum() - bits) / max(1, count - 1)
    return np.where(possible, (costs - baseline[:, None]) / count, 0.0)


def entropy_measure(found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
    """The entropy of the posterior of each sequence."""
    bits = entropy_bits(found.posterior)
    return bits, advantages(bits, -log2_or_zero(found.posterior), found.posterior > 0)


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


def ruled_out() -> InputError:
    """The error of an observer whose loss has no largest value."""
    words = "the observer rules out what some policy brings about, where its loss is infinite: give it a doubt, as in"
    return InputError("belief", [f"{words} veil.Belief(…, doubt=0.01)"])


class SampleSecrecy:
    """A sample average. As a `Secrecy` it has common random numbers: the same draws for every table, so that they compare."""

    kind, at_once = "sampled", 1
    _measure: Measure = staticmethod(entropy_measure)

    def __init__(self, space: Space, objective: Objective, sequences: int, seed: int, reason: str, team: Team = ALONE):
        self.space, self._sequences, self.seed, self._team = space, sequences, seed, team
        self._objective: Objective = objective
        self.reason = f"sampled sequences: {reason}"
        hidden = space.hidden
        entries = hidden.kernel.num_entries if hidden.kernel.is_sparse else hidden.num_states**2
        self.cost_seconds = 3e-9 * hidden.horizon * sequences * entries
        self.most_bits = log2_of_count(hidden.num_values)

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[np.ndarray, Slopes]:
        """See `Secrecy`."""
        values, slopes = np.empty(len(tables)), np.empty(tables.shape)
        for number, table in enumerate(tables):
            clock.check()
            found, slopes[number] = self.fresh(table, self._sequences, self.seed, clock)
            values[number] = found.bits
        return values, slopes

    def fresh(
        self, table: Float[np.ndarray, "T C A"], sequences: int, seed: int, clock: Clock
    ) -> tuple[BitsEstimate, Float[np.ndarray, "T C A"]]:
        """The objective and its unbiased gradient from sequences of a seed of their own."""
        space, chain = self.space, self.space.chain(table)
        layers = space.layers if space.hidden.kernel.is_sparse and not on_accelerator(chain) else None
        if isinstance(layers, Layers):
            estimate, slope = self._drawn(layers, table, sequences, seed, clock)
        else:
            drawn = {"sequences": sequences, "seed": seed, "clock": clock, "workers": self._team}
            tally, slope, _ = sample(SecretValue(chain), **drawn, gradient=True, partial=False)
            assert slope is not None
            estimate = BitsEstimate(tally.mean, tally.std_error, sequences)
        if self._objective != "leakage":
            return estimate, slope
        prior, prior_slope = _prior_slope(chain)
        return replace(estimate, bits=estimate.bits - prior), slope - prior_slope

    def _drawn(
        self, layers: Layers, table: np.ndarray, sequences: int, seed: int, clock: Clock
    ) -> tuple[BitsEstimate, Float[np.ndarray, "T C A"]]:
        events = layers.draw(table, sequences, np.random.default_rng(seed))
        bits, slope = layers.gradient(table, events, self._measure, clock, self._team)
        return BitsEstimate.of(bits), slope

    def estimate(self, table: Float[np.ndarray, "T C A"], sequences: int, seed: int, clock: Clock) -> BitsEstimate:
        """The objective alone."""
        layers = self.space.layers
        events = layers.draw(table, sequences, np.random.default_rng(seed))
        if isinstance(layers, Layers):
            found = BitsEstimate.of(layers.measured(table, events, self._measure, clock, self._team))
        else:
            found = BitsEstimate.of(entropy_bits(layers.posteriors(table, events, clock)))
        if self._objective != "leakage":
            return found
        return replace(found, bits=found.bits - float(entropy_bits(self.space.chain(table).prior)))


class SampledLoss(SampleSecrecy):
    """The loss of an observer who may be wrong, on drawn sequences.

    **Raises:** `InputError` where the observer rules out what one of the first sequences brings about; later it is raised by
    the evaluation that meets such a sequence.
    """

    def __init__(self, space: Space, belief: Belief, sequences: int, seed: int, reason: str, team: Team = ALONE):
        super().__init__(space, "entropy", sequences, seed, reason, team)
        self._measure = LossMeasure(Rule(space.problem, belief))
        self.most_bits = math.inf
        self.cost_seconds *= 2  # a pass of what happens, and one of what the observer assumes

    def fresh(
        self, table: Float[np.ndarray, "T C A"], sequences: int, seed: int, clock: Clock
    ) -> tuple[BitsEstimate, Float[np.ndarray, "T C A"]]:
        """See `SampleSecrecy`."""
        assert isinstance(self.space.layers, Layers)
        return self._drawn(self.space.layers, table, sequences, seed, clock)


class SampledPath(SampleSecrecy):
    """A whole path, `H(R|Y) = H(R,Y) − H(Y)`: the first entropy is exact, a sum over times, and the second is sampled.

    **Raises:** `TooLargeError` where path and observations do not tell the hidden state, so that there is no such sum.
    """

    _measure: Measure = staticmethod(likelihood_measure)

    def __init__(self, space: Space, objective: Objective, sequences: int, seed: int, reason: str, team: Team = ALONE):
        super().__init__(space, objective, sequences, seed, reason, team)
        self.most_bits = math.inf  # that of all paths is far above what policies reach
        self._signed = [(1.0, _sum_over_times(space, alone=False))]
        if objective == "leakage":
            self._signed.append((-1.0, _sum_over_times(space, alone=True)))

    def _exact(self, table: np.ndarray, *, gradient: bool) -> tuple[float, Float[np.ndarray, "T C A"]]:
        total, slopes = 0.0, np.zeros(table.shape if gradient else ())
        for sign, entropy in self._signed:
            bits, slope = entropy.evaluate(table[None], stationary=self.space.stationary, gradient=gradient)
            total, slopes = total + sign * float(bits[0]), slopes + sign * slope[0] if gradient else slopes
        return total, slopes

    def fresh(
        self, table: Float[np.ndarray, "T C A"], sequences: int, seed: int, clock: Clock
    ) -> tuple[BitsEstimate, Float[np.ndarray, "T C A"]]:
        """See `SampleSecrecy`."""
        assert isinstance(self.space.layers, Layers)
        exact, exact_slope = self._exact(table, gradient=True)
        seen, slope = self._drawn(self.space.layers, table, sequences, seed, clock)
        return replace(seen, bits=exact - seen.bits), exact_slope - slope

    def estimate(self, table: Float[np.ndarray, "T C A"], sequences: int, seed: int, clock: Clock) -> BitsEstimate:
        """See `SampleSecrecy`."""
        layers = self.space.layers
        assert isinstance(layers, Layers)
        events = layers.draw(table, sequences, np.random.default_rng(seed))
        seen = BitsEstimate.of(layers.measured(table, events, self._measure, clock, self._team))
        return replace(seen, bits=self._exact(table, gradient=False)[0] - seen.bits)

    def answer(self, table: Float[np.ndarray, "T C A"], sequences: int, seconds: float) -> Opacity:
        """The opacity of a table on sequences that the search has not seen: as many as fit the seconds, at least 64."""
        layers, chain = self.space.layers, self.space.chain(table)
        assert isinstance(layers, Layers)
        found = in_lanes(
            lambda count, generator: layers.measured(table, layers.draw(table, count, generator), self._measure),
            sequences, LANE, self.seed, seconds,
        )  # fmt: skip
        seen = BitsEstimate.of(found)
        prior = path_bits(chain, Budget(time_limit=_PRIOR_SECONDS))
        words = f"exact entropy of path and observations, less that of {seen.sequences:,} sampled observation sequences"
        bits = max(0.0, self._exact(table, gradient=False)[0] - seen.bits)
        return Opacity(bits, 0.0, prior, prior, "sampled", seen.sequences, seen.std_error, words)


def in_lanes(
    draw: Callable[[int, np.random.Generator], np.ndarray], sequences: int, lane: int, seed: int, seconds: float
) -> np.ndarray:
    """What is found for sequences that a search has not seen: as many as fit the seconds, a lane of them at least."""
    generator, clock = np.random.default_rng([seed, 1]), Clock(0.8 * seconds)
    parts: list[np.ndarray] = []
    while not parts or (sum(map(len, parts)) < sequences and clock.left > clock.spent / len(parts)):
        parts.append(draw(min(sequences, lane), generator))
    return np.concatenate(parts)


def make_sampled(
    space: Space, objective: Objective, sequences: int, seed: int, reason: str, team: Team = ALONE
) -> SampleSecrecy:
    """The sampled evaluation of a problem's secret. Raises `TooLargeError` for some paths."""
    kind = SampleSecrecy if space.hidden.path is None else SampledPath
    return kind(space, objective, sequences, seed, reason, team)


def _sum_over_times(space: Space, *, alone: bool) -> UnifilarEntropy:
    found = show_path(space.hidden, alone=alone).entropy
    if found is None:
        what = "the path alone" if alone else "path and observations together"
        raise TooLargeError(
            f"a whole path is searched on samples where {what} tell the hidden state, and here they do not: shorten the"
            " horizon, or make the whole state the path"
        )
    return found


def _prior_slope(chain: Chain) -> tuple[float, np.ndarray]:
    """`H(Z)` and its slope in the table, exact: the slope of the prior's entropy in `P(z)` is `−log2 P(z)`."""
    hidden, prior = chain.hidden, chain.prior
    value = hidden.label @ -log2_or_zero(prior)
    result = np.zeros(chain.table.shape)
    for time in range(hidden.split_time - 1, -1, -1):
        ahead = (hidden.kernel.stacked @ value).reshape(hidden.num_states, -1)
        np.add.at(result[0 if chain.stationary else time], hidden.cell, chain.occupancies[time][:, None] * ahead)
        value = chain.pull(value, time)
    return float(entropy_bits(prior)), result
