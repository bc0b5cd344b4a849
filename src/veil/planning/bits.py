"""The backends: all sequences for many tables side by side or one after the other, sums over times, windows, and samples.

Of windows it is the lower end of the bracket of a fixed one: what a policy hides at least, at any horizon.

On samples, what is averaged over sequences is `h(y) = Σ_z P(z|y) c(z,y)`. Since `Σ_z P(z,y) ∂c(z,y) = 0` for
`c = −log2 P(z|y)`, and since other costs do not depend on the policy, `P(y) ∂/∂P(z,y)` of it is `c(z,y)`, from which a baseline
may be subtracted.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.logs import entropy_bits, log2_of_count, log2_or_zero, natural_log, surprisal_bits
from ..common.workers import ALONE, Team
from ..engine.batch import BatchTree
from ..engine.chain import Chain, with_clock
from ..engine.each_time import AtTime, times_of, weights_that_count
from ..engine.event_entropy import UnifilarEntropy
from ..engine.hidden import Hidden
from ..engine.joint import DEFAULT_MEMORY, JointWalk, Walk
from ..engine.sequences import Posteriors
from ..engine.size import TreeSize, tree_size
from ..engine.sparse_walk import SparseWalk
from ..engine.string_walk import StringBatch
from ..engine.window import Cut, Window
from ..measure.bracket import end_gradient
from ..measure.each_time import EachValue
from ..measure.exact import Budget
from ..measure.loss import Rule
from .backend import ALL_AT_ONCE, LEAST_SECONDS, PER_ENTRY, UNBOUNDED, Backend, Draw, Ends, Estimate, Evaluate, Tables
from .layers import PART
from .layers import Measure as Drawn
from .policy_class import Space, any_table

Measure = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A function of joint tables `(B, Y, Z)`, and its derivative in each entry."""

MOST_NUMBERS = 2**24
"""Of joint tables that are side by side: 128 MiB."""

GRADIENT_PASSES = 3
"""A value and its gradient take so many times as long as the value: forward, the gradient, and back."""

LANE = PART // 2
"""Sequences of a large sample that are drawn together."""

# The sharpness of the smooth maximum that stands for the best guess: within Z^(1/p) of it.
SHARPNESS = 64.0


def entropy_of_rows(joint: Float[np.ndarray, "B Y Z"]) -> tuple[np.ndarray, np.ndarray]:
    """`H(Z|Y)`, with derivative `−log2 P(z|y)`."""
    gradient = surprisal_bits(joint)
    return np.einsum("byz,byz->b", joint, gradient), gradient


def entropy_of_sequences(joint: Float[np.ndarray, "B Y 1"]) -> tuple[np.ndarray, np.ndarray]:
    """`H(Y)`, and its derivative up to a constant that changes no policy."""
    gradient = -log2_or_zero(joint)
    return np.einsum("byz,byz->b", joint, gradient), gradient


def guess_of_rows(joint: Float[np.ndarray, "B Y Z"]) -> tuple[np.ndarray, np.ndarray]:
    """Minus a smooth maximum `Σ_y (Σ_z P(z,y)^p)^{1/p}`, and its derivative.

    It is at least the chance `Σ_y max_z P(z,y)` of guessing right, and at most `Z^{1/p}` times it.
    """
    top = joint.max(axis=-1, keepdims=True)
    shares = joint / np.where(top > 0, top, 1.0)
    sums = np.sum(shares**SHARPNESS, axis=-1, keepdims=True)
    roots = np.where(top > 0, sums, 1.0) ** (1 / SHARPNESS)
    gradient = shares ** (SHARPNESS - 1) * roots / np.where(top > 0, sums, 1.0)
    return -np.sum(top * roots, axis=(1, 2)), -gradient


def on_tree(tree: BatchTree | StringBatch, measure: Measure, ends: Ends) -> Backend:
    """All sequences, or all strings of an observer without a clock, for all tables side by side."""
    is_tree = isinstance(tree, BatchTree)
    what = "sequences, policies side by side" if is_tree else "strings of an observer without a clock"
    words = f"all {tree.num_sequences:,.0f} possible {what}"
    return Backend(partial(_on_tree, tree, measure), words, tree.cost_seconds, ends, tree.at_once, tree=tree)


def _on_tree(
    tree: BatchTree | StringBatch, measure: Measure, tables: Tables, clock: Clock, _: Draw | None, gradient: bool
) -> Estimate:
    return Estimate.exact(*tree.evaluate(tables, measure, clock))


def loss_measure(tree: BatchTree | StringBatch, space: Space, rule: Rule) -> Measure:
    """The loss of an observer who may be wrong: a fixed cost `c(z,y) = −log2 q(z|y)` for each pair of secret and observations.

    The observer's rule q does not depend on the policy that acts, so `E[c] = Σ P(z,y) c(z,y)` is linear in the joint table.

    **Raises:** `InputError` if the observer rules out what some policy brings about, so that the loss has no largest value.
    """
    costs = rule.costs_bits(tree.events())
    possible = _possible(tree, any_table(space))
    if np.isinf(costs[possible]).any():
        raise ruled_out()
    return partial(_loss, np.where(possible, costs, 0.0))


def _loss(costs: Float[np.ndarray, "Y Z"], joint: Float[np.ndarray, "B Y Z"]) -> tuple[np.ndarray, np.ndarray]:
    return np.einsum("byz,yz->b", joint, costs), np.broadcast_to(costs, joint.shape)


def ruled_out() -> InputError:
    """The error of an observer whose loss has no largest value."""
    words = (
        "the observer rules out what some policy makes happen, so its loss is infinite: give it a doubt, for example"
    )
    return InputError("belief", [f"{words} veil.Belief(…, doubt=0.01)"])


def _possible(tree: BatchTree | StringBatch, table: Float[np.ndarray, "T C A"]) -> Bool[np.ndarray, "Y Z"]:
    """Which pairs of observations and secret have a positive probability under a table that takes every action."""
    found: list[np.ndarray] = []

    def note(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found.append(joint[0] > 0)
        return np.zeros(len(joint)), np.zeros(joint.shape)

    tree.evaluate(table[None], note)
    return found[0]


class Rows:
    """A measure of rows, fed by a walk over the sequences of one table."""

    def __init__(self, measure: Measure):
        self.bits, self._measure = 0.0, measure

    def __call__(self, joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """See `engine.joint.Objective`."""
        values, gradient = self._measure(joint[None])
        self.bits += float(values[0])
        return gradient[0]


OfChain = Callable[[Chain, Clock], tuple[float, Float[np.ndarray, "T C A"]]]
"""Bits of a chain and their gradient in its table."""


def one_by_one(space: Space, bits: OfChain) -> Evaluate:
    """One table after the other: trees and models that do not fit a batch, windows, and priors."""
    return partial(_one_by_one, space, bits)


def _one_by_one(space: Space, bits: OfChain, tables: Tables, clock: Clock, _: Draw | None, gradient: bool) -> Estimate:
    values, gradients = np.empty(len(tables)), np.empty(tables.shape)
    for number, table in enumerate(tables):
        clock.check()
        values[number], gradients[number] = bits(space.chain(table), clock)
    return Estimate.exact(values, gradients)


def walked(
    space: Space,
    measure: Measure,
    seconds: float,
    sequences: str,
    size: TreeSize | None = None,
    *,
    keep_events: bool = False,
    ends: Ends = UNBOUNDED,
) -> Backend:
    """A walk over all sequences, one table after the other.

    **Arguments:** `sequences`: their number, in words; `size`: of the tree, if it was counted: dense messages then, else rows
    with sparse support.
    """
    evaluate = one_by_one(space, partial(_walked, measure, size, keep_events))
    return Backend(evaluate, f"all {sequences} possible sequences", seconds, ends)


def _walked(
    measure: Measure, size: TreeSize | None, keep_events: bool, chain: Chain, clock: Clock
) -> tuple[float, np.ndarray]:
    if size is None:
        walk: Walk = SparseWalk(chain, clock=clock, keep_events=keep_events)
    else:
        walk = JointWalk(chain, clock=clock, meet=size.meet, outer=size.outer)
    rows = Rows(measure)
    gradient = walk.run(rows, gradient=True)
    assert gradient is not None
    return rows.bits, gradient


def each_time(space: Space, seconds: float) -> Backend:
    """`Σ_t w_t H(Z_t | o_0 … o_t)` on all sequences until each time; `seconds`: the forecast of one gradient."""
    words = "all possible sequences, until each time"
    return Backend(one_by_one(space, _each_time), words, seconds, hidden_ends(space))


def _each_time(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
    found = EachValue(chain).exact(Budget(), gradient=True)
    assert found.gradient is not None
    return found.opacity.bits, found.gradient


def prior(space: Space) -> Backend:
    """`H(Z)` before anything is observed."""
    words = "the prior of the secret"
    return Backend(one_by_one(space, _prior), words, _seconds_of_a_sum(space), hidden_ends(space))


def _prior(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
    """`H(Z)`, whose derivative in `P(z)` is `−log2 P(z)`."""
    hidden, result = chain.hidden, np.zeros(chain.table.shape)
    value = hidden.label @ -log2_or_zero(chain.prior)
    for time in range(hidden.split_time - 1, -1, -1):
        ahead = (hidden.kernel.stacked @ value).reshape(hidden.num_states, -1)
        row = result[0 if chain.stationary else time]
        np.add.at(row, hidden.cell, chain.occupancies[time][:, None] * ahead)
        value = chain.pull(value, time)
    return float(entropy_bits(chain.prior)), result


def hidden_ends(space: Space) -> Ends:
    """Between which all policies hide: nothing, and the logarithm of the number of values, at each time that counts."""
    hidden = space.hidden
    times = 1.0 if hidden.each is None else float(hidden.each.weights.sum())
    return 0.0, times * log2_of_count(hidden.num_values)


def _seconds_of_a_sum(space: Space) -> float:
    """The forecast of a sum over times of what depends on the occupancies."""
    return GRADIENT_PASSES * PER_ENTRY * space.hidden.horizon * space.hidden.kernel.num_entries


def over_times(space: Space, entropy: UnifilarEntropy) -> Backend:
    """An entropy that is a sum over times of terms of the occupancies, for all tables side by side."""
    evaluate = partial(_over_times, entropy, space.stationary)
    return Backend(evaluate, "a sum over times", _seconds_of_a_sum(space), at_once=ALL_AT_ONCE)


def _over_times(
    entropy: UnifilarEntropy, stationary: bool, tables: Tables, clock: Clock, _: Draw | None, gradient: bool
) -> Estimate:
    return Estimate.exact(*entropy.evaluate(tables, stationary=stationary, gradient=gradient))


def windowed(space: Space, most_seconds: float) -> Backend:
    """The lower ends of the brackets of one fixed window around each time that counts, the widest whose gradients are forecast
    to take so many seconds together.
    """
    radius, seconds = _widest(with_clock(space.chain(any_table(space))), most_seconds)

    where = "around the secret's time" if space.hidden.each is None else "before each time"
    words = f"the lower end of the bracket of {radius} steps {where}"
    evaluate = one_by_one(space, partial(_lower_end, radius))
    return Backend(evaluate, words, seconds, hidden_ends(space), kind="bracket")


def _lower_end(radius: int, chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
    total, gradient = 0.0, np.zeros(chain.table.shape)
    for one in times_of(with_clock(chain)):
        given = {"radius": _radius(one, radius), "reveal": True, "memory_bytes": DEFAULT_MEMORY, "clock": clock}
        found, slope = end_gradient(one.with_slopes, **given)
        total, gradient = total + one.weight * found, gradient + one.weight * one.in_table(slope)
    return total, gradient


def _widest(chain: Chain, most_seconds: float) -> tuple[int, float]:
    """See `windowed`; and the forecast."""
    best, times = (0, LEAST_SECONDS), times_of(chain)
    for radius in range(chain.hidden.horizon + 2):
        seconds, left = 0.0, most_seconds
        try:
            for one in times:
                cut = Cut(one.chain, Window.around(one.chain, _radius(one, radius)), reveal=True)
                size = tree_size(cut.chain, most_seconds=left)
                left -= size.counting_seconds
                seconds += size.seconds(cut.chain, gradient=True) if size.exact else math.inf
        except TooLargeError:
            break
        if seconds > most_seconds:
            break
        best = radius, seconds
    return best


def _radius(one: AtTime, radius: int) -> int:
    """That of the window of one time: of a value at every time the run ends there, or with the choice of a forecast."""
    if one.whole.hidden.each is None:
        return radius
    return radius + one.is_forecast if one.time else radius + 2


# On samples.


def advantages(
    bits: Float[np.ndarray, "k *R"],
    costs: Float[np.ndarray, "k *R Z"],
    posterior: Float[np.ndarray, "k *R Z"],
    *,
    is_early: bool = False,
) -> Float[np.ndarray, "k *R Z"]:
    """The derivatives of a sampled mean: `c(z,y) − b` over k, with b the mean of the bits of the other sequences.

    If the secret is decided before the agent acts (`is_early`), the scores of its actions have mean zero given each value, and
    the baseline may depend on that: the mean cost of the value in the other sequences, one of which is added with the mean of
    all. On yards it left between a tenth and four fifths of the variance.
    """
    count = len(bits)
    baseline = ((bits.sum(axis=0) - bits) / max(1, count - 1))[..., None]
    if is_early:
        paid = posterior * costs
        baseline = (baseline + paid.sum(axis=0) - paid) / (1 + posterior.sum(axis=0) - posterior)
    return np.where(posterior > 0, (costs - baseline) / count, 0.0)


@dataclass(frozen=True)
class EntropyMeasure:
    """The entropy of the posterior of each sequence; `is_early`: see `advantages`."""

    is_early: bool = False

    @classmethod
    def of(cls, hidden: Hidden) -> "EntropyMeasure":
        """That of the secret of a chain."""
        return cls(hidden.split_time == 0 and hidden.each is None)

    def __call__(self, found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
        """See `Drawn`."""
        bits, costs = entropy_bits(found.posterior), -log2_or_zero(found.posterior)
        return bits, advantages(bits, costs, found.posterior, is_early=self.is_early)


@dataclass(frozen=True, eq=False)
class EachTimeMeasure:
    """The weighted sum of the entropies of the posteriors at the times that count."""

    weights: Float[np.ndarray, " R"]

    def __call__(self, found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
        """See `Drawn`."""
        bits, slope = EntropyMeasure()(found, events)
        return bits @ self.weights, slope * self.weights[:, None]


def likelihood_measure(found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
    """`−log2 P(y)` of each sequence, whose mean estimates `H(Y)`; of chains without a secret."""
    bits = -found.log_likelihood / natural_log(np.array(2.0))
    return bits, advantages(bits, bits[:, None], np.ones((len(bits), 1)))


@dataclass(frozen=True, eq=False)
class LossMeasure:
    """The loss of an observer who may be wrong, `Σ_z P(z|y) c(z,y)` with `c = −log2 q(z|y)` of its rule."""

    rule: Rule

    def __call__(self, found: Posteriors, events: Int[np.ndarray, "k T+1"]) -> tuple[np.ndarray, np.ndarray]:
        """See `Drawn`; raises `InputError` where the observer rules out what happens."""
        possible = found.posterior > 0
        costs = np.where(possible, self.rule.costs_bits(events), 0.0)
        if np.isinf(costs).any():
            raise ruled_out()
        bits = np.sum(found.posterior * costs, axis=1)
        return bits, advantages(bits, costs, found.posterior)


def sampled(space: Space, draw: Draw, reason: str = "", measure: Drawn | None = None, team: Team = ALONE) -> Backend:
    """The mean of a measure over drawn sequences, one table after the other.

    **Arguments:** `draw`: the sequences of an evaluation that names none, so that tables compare; `measure`, by default the
    entropy of the posterior, at one time or at every time that counts.
    """
    hidden, ends = space.hidden, hidden_ends(space) if measure is None else UNBOUNDED
    entries = hidden.kernel.num_entries if hidden.kernel.is_sparse else hidden.num_states**2
    passes = 2 if isinstance(measure, LossMeasure) else 1  # what happens, and what the observer assumes
    seconds = passes * PER_ENTRY * hidden.horizon * draw.sequences * entries
    if measure is None:
        each = hidden.each is not None
        measure = EachTimeMeasure(weights_that_count(hidden)) if each else EntropyMeasure.of(hidden)
    evaluate = partial(_sampled, space, measure, team, draw)
    return Backend(evaluate, f"sampled sequences: {reason}", seconds, ends, kind="sampled", drawn=(space,))


def _sampled(
    space: Space,
    measure: Drawn,
    team: Team,
    usual: Draw,
    tables: Tables,
    clock: Clock,
    draw: Draw | None,
    gradient: bool,
) -> Estimate:
    found = list[tuple[float, float, Any]]()
    for table in tables:
        clock.check()
        found.append(space.layers.estimate(table, draw or usual, measure, clock, team, gradient=gradient))
    bits, errors, gradients = zip(*found, strict=True)
    joined = None
    if gradient:  # a large table is not copied
        joined = gradients[0][None] if len(gradients) == 1 else np.stack(gradients)
    return Estimate(np.array(bits), joined, np.array(errors))


def in_lanes(
    draw: Callable[[int, np.random.Generator], np.ndarray], sequences: int, lane: int, seed: int, seconds: float
) -> np.ndarray:
    """What is found for sequences that a search has not seen: as many as fit the seconds, a lane of them at least."""
    generator, clock = np.random.default_rng([seed, 1]), Clock(0.8 * seconds)
    parts: list[np.ndarray] = []
    while not parts or (sum(map(len, parts)) < sequences and clock.left > clock.spent / len(parts)):
        parts.append(draw(min(sequences, lane), generator))
    return np.concatenate(parts)
