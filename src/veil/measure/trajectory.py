"""Opacity of a whole path, `H(R|Y) = H(R,Y) − H(Y)`: exact, between proven bounds, or sampled with its error."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.logs import log2_of_count, log2_or_zero, natural_log
from ..engine.chain import Chain
from ..engine.device import on_accelerator
from ..engine.event_entropy import Shown, show_path
from ..engine.path_pass import PathPass
from .exact import Budget, walk_all
from .merged import Merged, MergedPass, keep_apart
from .question import Bounds, Question
from .result import Measured, Opacity
from .sampled import Chunk, Tally, sequence_pass

Gradient = Float[np.ndarray, "T C A"]
_PRIOR_SHARE = 0.25  # of the time left, for the entropy of the path before anything is seen
_EXACT_SHARE = 0.5  # of that, for all its sequences
_PRIOR_WIDTH = 1e-3  # bits to which that is bounded where all its sequences do not fit
_MESSAGES = 12  # of the size of all messages of a time, beside those that are kept
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
    """The entropy of the event sequences of a chain: bits, the gradient if it was asked for, and how many there are."""

    bits: float
    gradient: Gradient | None
    num_sequences: float


def event_entropy(chain: Chain, budget: Budget, *, gradient: bool) -> EventEntropy:
    """`H(E_0 … E_T)` of a chain, over all possible sequences. Raises `TooLargeError`."""
    # Rows that are proportional must not be merged: the entropy of sequences is not homogeneous.
    objective, walk, slope = walk_all(chain, budget, SequenceEntropy, gradient=gradient, keep_events=True)
    return EventEntropy(objective.bits, slope, walk.num_sequences)


def shown_entropy(chain: Chain, shown: Shown, budget: Budget, *, gradient: bool) -> EventEntropy:
    """The entropy of the events of the observer who is shown the path; a sum over times if they tell the state."""
    if shown.entropy is None:
        return event_entropy(shown.chain(chain), budget, gradient=gradient)
    bits, slope = shown.entropy.evaluate(chain.table[None], stationary=chain.stationary, gradient=gradient)
    return EventEntropy(float(bits[0]), slope[0] if gradient else None, math.nan)


@dataclass(frozen=True, eq=False)
class SecretPath(Question):
    """`H(R|Y)` of the path R of the states, or of their groups, from time 0 to T."""

    @cached_property
    def shown(self) -> Shown:
        """The chain whose observer is also shown the path, before a policy is chosen."""
        return show_path(self.chain.hidden)

    @cached_property
    def shown_chain(self) -> Chain:
        """The chain whose observer is also shown the path."""
        return self.shown.chain(self.chain)

    def prior_bits(self, budget: Budget) -> float:
        """`H(R)`, or an upper bound of it, in a share of the time."""
        return path_bits(self.chain, budget.share(_PRIOR_SHARE))

    def exact(self, budget: Budget, *, gradient: bool = False) -> Measured:
        """A walk over the possible observation sequences.

        If the path and the observations do not tell the hidden state, a second one, over the possible pairs of both.

        **Raises:** `TooLargeError`; `InputError` if histories are to be merged.
        """
        if budget.merge_tolerance > 0:
            raise InputError("merge_tolerance", ["histories of a whole path cannot be merged: leave it out"])
        seen = event_entropy(self.chain, budget, gradient=gradient)
        both = shown_entropy(self.chain, self.shown, budget, gradient=gradient)
        prior = shown_entropy(self.chain, show_path(self.chain.hidden, alone=True), budget, gradient=False).bits
        bits = max(0.0, both.bits - seen.bits)
        slope = both.gradient - seen.gradient if both.gradient is not None and seen.gradient is not None else None
        text = "entropy of path and observations minus that of the observations, over all possible sequences"
        found = Opacity(bits, bits, bits, max(prior, bits), "exact", int(seen.num_sequences), reason=text)
        return Measured(found, slope)

    def bounds(self, budget: Budget, width: float, worth_seconds: float | None = None) -> Iterator[Bounds]:
        """From histories merged by their beliefs, see `MergedPass`.

        If path and observations tell the hidden state, `H(R,Y)` is exact, and the bounds are sums of
        `H(X_t | X_{t+1}, C_t, E_{t+1})`, a term for each step; else `H(R,Y)` lies between bounds too.
        """
        prior = self.prior_bits(budget)
        known = Merged(0.0, prior + _ROUNDING * (1 + prior), 0)
        return keep_apart(lambda most: self.merged(most, budget), known, budget, width)

    def merged(self, most: int, budget: Budget) -> Merged:
        """Bounds with at most so many histories kept apart."""
        observed = MergedPass(self.chain, most, budget)
        seen, chain = observed.events(), self.chain
        if self.shown.entropy is None:
            both = MergedPass(self.shown_chain, most, budget).events()
        else:
            bits = shown_entropy(chain, self.shown, budget, gradient=False).bits
            both = Merged(bits, bits, 0, lambda more: _gradient(shown_entropy(chain, self.shown, more, gradient=True)))
        rounding = _ROUNDING * (1 + both.upper)
        lower, upper = both.lower - seen.upper - rounding, both.upper - seen.lower + rounding
        rows = max(seen.num_sequences, both.num_sequences)

        def end(more: Budget) -> Gradient:
            return both.lower_gradient(chain, more)[0] - observed.gradient(more, events=1.0)

        return Merged(lower, upper, rows, end)

    @property
    def drawn_chain(self) -> Chain:
        """The chain itself if `H(R|y)` of a sequence is a sum over times, else that whose observer is shown the path too."""
        return self.chain if self._sums_over_times else self.shown_chain

    @property
    def _sums_over_times(self) -> bool:
        """Whether path and observations tell the hidden state, so that the path of hidden states is all that is unknown.

        With sparse transitions the passes along pairs of path and observations are the faster ones.
        """
        small = not self.chain.hidden.kernel.is_sparse and not on_accelerator(self.chain)
        return small and self.chain.written is None and self.shown.entropy is not None

    def draw(self, chunk: Chunk, clock: Clock, *, gradient: bool) -> tuple[Tally, Gradient | None]:
        """`H(R|Y=y)` of drawn sequences; if that is no sum over times, `−log2 P(r|y)` of drawn pairs of path and observations.

        The gradient is that of `(1/M) Σ_k stop(−log2 P(r|y_k) − b_k) · log P(r,y_k)`, the mean over the paths r of each
        sequence, or for the drawn one; `b_k` is the mean over the others of its chunk: `E[∇ log P(r|y)] = 0`.
        """
        if not self._sums_over_times:
            return self._draw_pairs(chunk, clock, gradient=gradient)
        events, hidden, tally = chunk.events(self.chain, clock), self.chain.hidden, Tally()
        at_once = max(1, chunk.memory_bytes // (8 * hidden.num_states * (2 * hidden.horizon + _MESSAGES)))
        parts = [events[begin : begin + at_once] for begin in range(0, len(events), at_once)]
        keep = gradient and len(parts) == 1
        runs = [PathPass(self.chain, part, gradient=keep, clock=clock) for part in parts]
        for run in runs:
            tally.add(Tally.of(run.count, run.bits))
        if not gradient:
            return tally, None
        slope = np.zeros(self.chain.table.shape)
        for part, run in zip(parts, runs, strict=True):
            again = run if keep else PathPass(self.chain, part, gradient=True, clock=clock)
            slope += again.pull_back(run.count / chunk.of, (tally.total - run.bits) / (chunk.size - 1))
        return tally, slope

    def _draw_pairs(self, chunk: Chunk, clock: Clock, *, gradient: bool) -> tuple[Tally, Gradient | None]:
        """Drawn pairs of path and observations: two passes along each sequence."""
        memory = chunk.memory_bytes
        events = chunk.events(self.shown_chain, clock)
        both = sequence_pass(self.shown_chain, events, gradient=gradient, memory_bytes=memory, clock=clock)
        seen = sequence_pass(self.chain, self.shown.before(events), gradient=False, memory_bytes=memory, clock=clock)
        logs = both.result.log_likelihood[both.result.index] - seen.result.log_likelihood[seen.result.index]
        bits = -logs / natural_log(np.array(2.0))
        tally = Tally.of(np.ones(chunk.size), bits)
        if not gradient:
            return tally, None
        baseline = (bits.sum() - bits) / (chunk.size - 1)
        weight = np.bincount(both.result.index, bits - baseline, minlength=len(both.result.count))
        return tally, both.pull_back(weight[:, None] / chunk.of)


def _gradient(found: EventEntropy) -> Gradient:
    assert found.gradient is not None
    return found.gradient


def path_bits(chain: Chain, budget: Budget) -> float:
    """`H(R)`, the entropy of the path before anything is seen; an upper bound of it if that does not fit the budget."""
    assert chain.hidden.path is not None
    shown = show_path(chain.hidden, alone=True)
    try:
        return shown_entropy(chain, shown, budget.share(_EXACT_SHARE), gradient=False).bits
    except TooLargeError:
        any_path = (chain.hidden.horizon + 1) * log2_of_count(len(np.unique(chain.hidden.path)))
        merged = shown.chain(chain)
        known = Merged(0.0, any_path, 0)
        *_, best = keep_apart(lambda most: MergedPass(merged, most, budget).events(), known, budget, _PRIOR_WIDTH)
        return best.upper
