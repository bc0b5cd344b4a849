"""What is measured of a chain, and how each estimator measures it: over all sequences, between bounds, or by a sample."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime, too_large_if_late
from ..common.errors import TooLargeError
from ..common.logs import entropy_bits, log2_or_zero
from ..engine.chain import Chain
from ..engine.size import TreeSize, tree_size
from .bracket import WindowBounds, deepen
from .exact import COUNTED_STATES, LATE, Budget, EntropyObjective, exact_result, is_small, try_sparse, walk_all
from .merged import Merged, MergedPass, keep_apart
from .result import Measured, Opacity
from .sampled import Chunk, Tally

Gradient = Float[np.ndarray, "T C A"]
Bounds = WindowBounds | Merged
"""Proven bounds, and the gradient of the lower one."""
# `auto` enumerates where that is a matter of seconds.
_QUICK_SECONDS = 5.0
# A forecast of an enumeration is right within about this factor.
OVERRUN = 3
# Of the time that is left: for counting sequences, for an enumeration that the forecast recommends, and for one without a
# forecast.
_COUNT_SHARE, EXACT_SHARE, _UNKNOWN_SHARE = 0.1, 0.75, 0.5
# Sparse rows are tried for this long where a count says that many sequences are possible, and for no larger share of
# the time limit than this.
_TRIAL_SECONDS, _TRIAL_SHARE = 0.3, 0.1


class TooMany(NamedTuple):
    """Why the sequences are not enumerated at once, and the seconds that an enumeration is forecast to take."""

    why: str
    seconds: float = math.inf


@dataclass(frozen=True, eq=False)
class Question(ABC):
    """What is measured of a chain: a function of the secret and the observations, in bits.

    Each estimator asks for one of `exact`, `bounds` and `draw`; `quick` is how `auto` begins.
    """

    chain: Chain

    @abstractmethod
    def prior_bits(self, budget: Budget) -> float:
        """What the observer lacks before it sees anything; an upper bound of it if that does not fit the budget."""

    @abstractmethod
    def exact(self, budget: Budget, *, gradient: bool = False) -> Measured:
        """The value over all possible sequences, and its gradient. Raises `TooLargeError`."""

    @abstractmethod
    def bounds(self, budget: Budget, width: float, worth_seconds: float | None = None) -> Iterator[Bounds]:
        """Better and better bounds, until they are `width` apart or the budget is used up; at least one.

        `worth_seconds`: what another method would take, so that longer work is not worth it.
        """

    @abstractmethod
    def draw(self, chunk: Chunk, clock: Clock, *, gradient: bool) -> tuple[Tally, Gradient | None]:
        """The sums of drawn sequences, and their part of the gradient."""

    @property
    def drawn_chain(self) -> Chain:
        """The chain along which sequences are drawn: its size decides how many are drawn at a time."""
        return self.chain

    def quick(self, budget: Budget, *, gradient: bool) -> Measured | TooMany:
        """The value over all sequences if that is forecast to take seconds, or fits half of the time; else why not."""
        try:
            return self.exact(budget.share(_UNKNOWN_SHARE), gradient=gradient)
        except TooLargeError:
            return TooMany("the possible sequences are too many to enumerate within the budget")

    def bounded(self, best: Bounds, budget: Budget, reason: str = "", *, gradient: bool) -> Measured:
        """Bounds as a result, with the gradient of the lower one if it is asked for."""
        with too_large_if_late(LATE):
            slope, more = best.lower_gradient(self.chain, budget) if gradient else (None, "")
        prior = self.prior_bits(budget)
        found = Opacity(
            bits=best.lower,
            lower=best.lower,
            upper=best.upper,
            prior_bits=max(prior, best.lower),
            method="bracket",
            num_sequences=best.num_sequences,
            reason=(reason or best.text) + more,
        )
        return Measured(found, slope)


class SecretValue(Question):
    """`H(Z|Y)` of a secret that has its value at one time."""

    def prior_bits(self, budget: Budget) -> float:
        """`H(Z)`."""
        return float(entropy_bits(self.chain.prior))

    def exact(self, budget: Budget, *, gradient: bool = False, reason: str = "") -> Measured:
        """By enumeration, see `walk_all`; the gradient by the adjoint recursion, at about three times the cost."""
        objective, walk, slope = walk_all(self.chain, budget, EntropyObjective, gradient=gradient)
        return Measured(exact_result(self.chain, walk, objective, reason), slope)

    def bounds(self, budget: Budget, width: float, worth_seconds: float | None = None) -> Iterator[Bounds]:
        """From windows around the secret's time; of a history policy, from histories merged by their beliefs."""
        if self.chain.followed is None:
            return deepen(self.chain, budget, width=width, worth_seconds=worth_seconds)
        known = Merged(0.0, self.prior_bits(budget), 0)
        return keep_apart(lambda most: MergedPass(self.chain, most, budget).value(), known, budget, width)

    def draw(self, chunk: Chunk, clock: Clock, *, gradient: bool) -> tuple[Tally, Gradient | None]:
        """`h(y) = H(Z|Y=y)` of drawn sequences (the paper's estimator), and its unbiased gradient.

        It is that of `(1/M) Σ_k [h(y_k) + stop(h(y_k) − b_k) · log P(y_k)]` with `b_k` the mean of `h` over the *other*
        sequences of its chunk: independent of `y_k`, so the estimate stays unbiased, and of lower variance as a rule.
        """
        run = chunk.run(self.chain, chunk.events(self.chain, clock), clock, gradient=gradient)
        bits = entropy_bits(run.result.posterior)
        # P(y) ∂/∂P(z,y) of h(y) is -log2 P(z|y) − h(y), and of stop(h − b) log P(y) it is h(y) − b: h cancels.
        return chunk.estimate(run, bits, -log2_or_zero(run.result.posterior) if gradient else None)

    def quick(self, budget: Budget, *, gradient: bool) -> Measured | TooMany:
        """Dense messages if they are forecast to take seconds, else rows with sparse support for a while.

        Histories merge, so that the number of sequences is no forecast of what rows with sparse support cost.
        """
        if self.chain.followed is not None:
            return super().quick(budget, gradient=gradient)
        small = is_small(self.chain)
        size, seconds = None if small else self._size(budget.clock), 0.0 if small else math.inf
        if size is not None and size.exact:
            seconds = size.seconds(self.chain, gradient=gradient)
        if seconds <= min(_QUICK_SECONDS, budget.clock.left / OVERRUN):
            with suppress(TooLargeError):  # the forecast was wrong
                found, slope = self.exact(budget.share(EXACT_SHARE), gradient=gradient)
                number = f"{found.num_sequences:,}"
                why = f"all {number} possible sequences can be enumerated in a few seconds, as {found.reason}"
                return Measured(replace(found, reason=why), slope)
        longest = _TRIAL_SECONDS if self.chain.hidden.num_states <= COUNTED_STATES else _QUICK_SECONDS
        trial = min(longest, _TRIAL_SHARE * budget.clock.left)
        tried = try_sparse(self.chain, budget, EntropyObjective, trial, gradient=gradient)
        if tried is not None:
            objective, walk, slope = tried
            number = f"{walk.num_sequences:,.0f}" if walk.num_sequences < 1e15 else f"{walk.num_sequences:.3g}"
            reason = f"all {number} possible sequences enumerated as rows with sparse support"
            return Measured(exact_result(self.chain, walk, objective, reason), slope)
        if size is None:
            states = f"{self.chain.hidden.num_states:,} hidden states"
            return TooMany(f"the possible sequences over {states} are too many")
        return TooMany(f"{size.text()} sequences are possible, too many to enumerate within the budget", seconds)

    def _size(self, clock: Clock) -> TreeSize | None:
        """The number of sequences; None for a chain of many states, or if counting takes too long."""
        if self.chain.hidden.num_states > COUNTED_STATES:
            return None
        try:
            return tree_size(self.chain, clock.share(_COUNT_SHARE))
        except OutOfTime:
            return None


@dataclass(frozen=True, eq=False)
class WithoutClock(Question):
    """`H(Z|W)` of an observer without a clock, who receives a string W: the observations without the silent ones.

    `strings`: the question of the chain itself; `timed`: the same against the observer with a clock, which gives the lower
    bound.
    """

    strings: Question
    timed: Question

    @property
    def drawn_chain(self) -> Chain:
        """See `Question`."""
        return self.strings.drawn_chain

    def prior_bits(self, budget: Budget) -> float:
        """What is hidden before anything is seen does not depend on the clock."""
        return self.timed.prior_bits(budget)

    def exact(self, budget: Budget, *, gradient: bool = False) -> Measured:
        """Over all possible strings."""
        return self.strings.exact(budget, gradient=gradient)

    def bounds(self, budget: Budget, width: float, worth_seconds: float | None = None) -> Iterator[Bounds]:
        """`H(Z|Y) ≤ H(Z|W) ≤ H(Z)`: the observations with their times tell more than the string."""
        prior = self.prior_bits(budget)
        words = (
            "lower bound: that against the observer with a clock, which knows more; upper bound: what is hidden before"
        )
        for known in self.timed.bounds(budget, width, worth_seconds):
            ends, end = (known.lower, max(prior, known.lower)), partial(self._end, known)
            yield Merged(*ends, known.num_sequences, end, f"{words} anything is seen; {known.text}")

    def _end(self, known: Bounds, budget: Budget) -> Gradient:
        return known.lower_gradient(self.timed.chain, budget)[0]

    def draw(self, chunk: Chunk, clock: Clock, *, gradient: bool) -> tuple[Tally, Gradient | None]:
        """`H(Z|W=w)` of drawn strings."""
        return self.strings.draw(chunk, clock, gradient=gradient)
