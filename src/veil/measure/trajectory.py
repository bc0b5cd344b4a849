"""Opacity of a whole path, `H(R|Y) = H(R,Y) − H(Y)`: exact, between proven bounds, or sampled with its error."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime
from ..common.errors import InputError, TooLargeError
from ..common.logs import log2_of_count, log2_or_zero, natural_log
from ..common.workers import Workers, team_of
from ..engine.chain import Chain
from ..engine.event_entropy import Shown, show_path
from ..engine.sampling import draw_events
from .event_bounds import event_bounds
from .exact import Budget, walk_all
from .merged import Merged, keep_apart
from .result import Opacity
from .sampled import Chunk, Tally, chunks_of, late, sequence_pass, timely_sizes

Slope = Float[np.ndarray, "T C A"]
_PRIOR_SHARE = 0.25  # of the time left, for the entropy of the path before anything is seen
_EXACT_SHARE = 0.5  # of that, for all its sequences
_PRIOR_WIDTH = 1e-3  # bits to which that is bounded where all its sequences do not fit
_ROUNDING = 1e-12  # of the bits of a bracket, on either side


class SequenceEntropy:
    """Adds up `H(Y) = Σ −P(y) log2 P(y)`; its gradient is `−log2 P(y)`, up to a constant that changes no policy."""

    def __init__(self) -> None:
        self.bits = 0.0

    def __call__(self, joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """See `Objective`."""
        slope = -log2_or_zero(joint)
        self.bits += float(np.vdot(joint, slope))
        return slope


@dataclass(frozen=True)
class EventEntropy:
    """The entropy of the event sequences of a chain: bits, the gradient where it was asked for, and how many there are."""

    bits: float
    slope: Slope | None
    num_sequences: float


def event_entropy(chain: Chain, budget: Budget, *, gradient: bool) -> EventEntropy:
    """`H(E_0 … E_T)` of a chain, over all possible sequences. Raises `TooLargeError`."""
    # Rows that are proportional must not be merged: the entropy of sequences is not homogeneous.
    objective, walk, slope = walk_all(chain, budget, SequenceEntropy, gradient=gradient, keep_events=True)
    return EventEntropy(objective.bits, slope, walk.num_sequences)


def shown_entropy(chain: Chain, shown: Shown, budget: Budget, *, gradient: bool) -> EventEntropy:
    """The entropy of the events of the observer who is shown the path; a sum over times where they tell the state."""
    if shown.entropy is None:
        return event_entropy(shown.chain(chain), budget, gradient=gradient)
    bits, slope = shown.entropy.evaluate(chain.table[None], stationary=chain.stationary, gradient=gradient)
    return EventEntropy(float(bits[0]), slope[0] if gradient else None, math.nan)


def exact_path(chain: Chain, budget: Budget, *, gradient: bool, reason: str = "") -> tuple[Opacity, Slope | None]:
    """`H(R|Y)` and its gradient in the policy's table.

    Cost: a walk over the possible observation sequences; where the path and the observations do not tell the hidden
    state, a second one, over the possible pairs of both.

    **Raises:** `TooLargeError`; `InputError` where histories are to be merged.
    """
    if budget.merge_tolerance > 0:
        raise InputError("merge_tolerance", ["histories of a whole path cannot be merged: leave it out"])
    seen = event_entropy(chain, budget, gradient=gradient)
    both = shown_entropy(chain, show_path(chain.hidden), budget, gradient=gradient)
    prior = shown_entropy(chain, show_path(chain.hidden, alone=True), budget, gradient=False).bits
    bits = max(0.0, both.bits - seen.bits)
    slope = both.slope - seen.slope if both.slope is not None and seen.slope is not None else None
    text = reason or "entropy of path and observations less that of the observations, over all possible sequences"
    return Opacity(bits, bits, bits, max(prior, bits), "exact", int(seen.num_sequences), reason=text), slope


def bracket_path(chain: Chain, budget: Budget, *, width: float = 1e-3) -> Opacity:
    """Bounds on `H(R|Y)` that are at most `width` apart, or as near as the budget allows; see `event_bounds`.

    `H(R,Y)` is exact where path and observations tell the hidden state, else it lies between bounds too.

    Cost: for each number of histories that are kept apart, T times their extension by all events.
    """
    prior = path_bits(chain, budget.share(_PRIOR_SHARE))
    shown = show_path(chain.hidden)

    def bounds(most: int) -> Merged:
        seen = event_bounds(chain, most, budget)
        if shown.entropy is None:
            both = event_bounds(shown.chain(chain), most, budget)
        else:
            bits = shown_entropy(chain, shown, budget, gradient=False).bits
            both = Merged(bits, bits, 0)
        rounding = _ROUNDING * (1 + both.upper)
        lower, upper = both.lower - seen.upper - rounding, both.upper - seen.lower + rounding
        return Merged(lower, upper, max(seen.rows, both.rows))

    best = keep_apart(bounds, Merged(0.0, prior + _ROUNDING * (1 + prior), 0), budget, width)
    return Opacity(best.lower, best.lower, best.upper, max(prior, best.lower), "bracket", best.rows, reason=best.text)


def sampled_path(
    chain: Chain,
    budget: Budget,
    *,
    sequences: int,
    std_error: float | None = None,
    seed: int,
    gradient: bool,
    reason: str = "",
    workers: Workers = 1,
) -> tuple[Opacity, Slope | None]:
    """The mean of `−log2 P(r|y)` over drawn pairs of path and observations, unbiased, and an unbiased gradient.

    The gradient is that of `(1/M) Σ_k stop(−log2 P(r_k|y_k) − b_k) · log P(r_k,y_k)`, with `b_k` the mean over the other
    pairs of its chunk: `E[∇ log P(r|y)] = 0`. `std_error`, `workers`, and the clock of the budget: see `sampled_opacity`.

    Cost: two passes along each sequence.
    """
    pairs = _Pairs(chain, show_path(chain.hidden), gradient)
    clock, memory, tally = budget.clock, budget.memory_bytes, Tally()
    sizes = timely_sizes(pairs.path_chain, sequences, memory, clock, gradient=gradient)
    chunks = chunks_of(sizes, sequences, seed, memory)
    slope = np.zeros(chain.table.shape) if gradient else None
    try:
        with team_of(workers) as team:
            for found, part in team.shares(_chunk_of_pairs, pairs, chunks, clock):
                tally.add(found)
                if slope is not None and part is not None:
                    slope += part
                if tally.count >= sequences and tally.is_enough(std_error):
                    break
    except OutOfTime:
        reason = late(tally, f"a standard error of {std_error:g}" if std_error else f"{sequences:,}", reason)
        if slope is not None:
            slope *= sequences / tally.count
    prior = path_bits(chain, budget.share(_PRIOR_SHARE))
    return tally.result(prior, prior, reason or f"{tally.count:,} sampled pairs of path and observations"), slope


@dataclass(frozen=True, eq=False)
class _Pairs:
    """What chunks of pairs of path and observations are drawn from."""

    chain: Chain
    shown: Shown
    gradient: bool

    @cached_property
    def path_chain(self) -> Chain:
        """The chain whose observer sees the path too."""
        return self.shown.chain(self.chain)


def _chunk_of_pairs(pairs: _Pairs, chunk: Chunk, clock: Clock) -> tuple[Tally, Slope | None]:
    """The sums of a chunk, and its part of the gradient where that is wanted."""
    memory, gradient = chunk.memory_bytes, pairs.gradient
    events = draw_events(pairs.path_chain, chunk.size, chunk.generator(), clock)
    both = sequence_pass(pairs.path_chain, events, gradient=gradient, memory_bytes=memory, clock=clock)
    seen = sequence_pass(pairs.chain, pairs.shown.before(events), gradient=False, memory_bytes=memory, clock=clock)
    logs = both.result.log_likelihood[both.result.index] - seen.result.log_likelihood[seen.result.index]
    bits = -logs / natural_log(np.array(2.0))
    tally = Tally.of(np.ones(chunk.size), bits)
    if not gradient:
        return tally, None
    baseline = (bits.sum() - bits) / (chunk.size - 1)
    weight = np.bincount(both.result.index, bits - baseline, minlength=len(both.result.count))
    return tally, both.pull_back(weight[:, None] / chunk.of)


def path_bits(chain: Chain, budget: Budget) -> float:
    """`H(R)`, the entropy of the path before anything is seen; an upper bound of it where that does not fit the budget."""
    assert chain.hidden.path is not None
    shown = show_path(chain.hidden, alone=True)
    try:
        return shown_entropy(chain, shown, budget.share(_EXACT_SHARE), gradient=False).bits
    except TooLargeError:
        any_path = (chain.hidden.horizon + 1) * log2_of_count(len(np.unique(chain.hidden.path)))
        merged = shown.chain(chain)
        known = Merged(0.0, any_path, 0)
        return keep_apart(lambda most: event_bounds(merged, most, budget), known, budget, _PRIOR_WIDTH).upper
