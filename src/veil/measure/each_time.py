"""Bits at every time, `Σ_t w_t H(Z_t | o_0 … o_t)`: each time is a question of its own, over what is observed until then."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from ..common.clock import Clock
from ..common.logs import entropy_bits, log2_or_zero
from ..engine.chain import Chain, with_clock
from ..engine.each_time import AtTime, times_of, weights_that_count
from .bracket import WindowBounds
from .exact import Budget
from .merged import Merged
from .question import Bounds, Gradient, Question, SecretValue, TooMany, WithoutClock
from .result import Measured, Opacity
from .sampled import Chunk, Tally

_SUMS = "each time by itself: "


class EachValue(Question):
    """`Σ_t w_t H(Z_t | o_0 … o_t)` of a secret that has a value at every time."""

    @cached_property
    def times(self) -> list[AtTime]:
        """The times that count."""
        return times_of(self.chain)

    def prior_bits(self, budget: Budget) -> float:
        """`Σ_t w_t H(Z_t)`."""
        return math.fsum(one.weight * float(entropy_bits(one.chain.prior)) for one in self.times)

    def exact(self, budget: Budget, *, gradient: bool = False) -> Measured:
        """One tree for each time, together less than twice the last where trees grow geometrically."""
        found, slope = list[tuple[AtTime, Opacity]](), np.zeros(self.chain.table.shape)
        for one in self.times:
            each = question_at(one.with_slopes if gradient else one.chain).exact(budget, gradient=gradient)
            found.append((one, each.opacity))
            if each.gradient is not None:
                slope += one.weight * one.in_table(each.gradient)
        return Measured(self._sum(found, budget), slope if gradient else None)

    def _sum(self, found: list[tuple[AtTime, Opacity]], budget: Budget) -> Opacity:
        lower = math.fsum(one.weight * each.lower for one, each in found)
        exact = all(each.method == "exact" for _, each in found)
        return Opacity(
            bits=lower,
            lower=lower,
            upper=math.fsum(one.weight * each.upper for one, each in found),
            prior_bits=max(self.prior_bits(budget), lower),
            method="exact" if exact else "bracket",
            num_sequences=sum(each.num_sequences for _, each in found),
            reason=_SUMS + found[-1][1].reason,
        )

    def quick(self, budget: Budget, *, gradient: bool) -> Measured | TooMany:
        """All times, if the sequences until the last are forecast to take seconds."""
        found = question_at(self.times[-1].chain).quick(budget, gradient=False)
        return found if isinstance(found, TooMany) else super().quick(budget, gradient=gradient)

    def bounds(self, budget: Budget, width: float, worth_seconds: float | None = None) -> Iterator[Bounds]:
        """Bounds on each time, to the same width, in its share of the time."""
        prior = self.prior_bits(budget)
        yield Merged(0.0, prior, 0)
        total, parts = math.fsum(one.weight for one in self.times), list[tuple[AtTime, Bounds]]()
        for number, one in enumerate(self.times):  # an observer without a clock knows less than one with a clock
            share = budget.share(1 / (len(self.times) - number))
            *_, best = SecretValue(with_clock(one.chain)).bounds(share, width / total)
            parts.append((one, best))
        lower, upper = math.fsum(one.weight * best.lower for one, best in parts), prior
        if self.chain.written is None:
            upper = math.fsum(one.weight * best.upper for one, best in parts)
        met, end = sum(best.num_sequences for _, best in parts), partial(self._end, parts)
        yield Merged(lower, max(lower, upper), met, end, _SUMS + parts[-1][1].text)

    def _end(self, parts: list[tuple[AtTime, Bounds]], budget: Budget) -> Gradient:
        result = np.zeros(self.chain.table.shape)
        for number, (one, best) in enumerate(parts):
            bounds = best
            if one.is_forecast and isinstance(best, WindowBounds):  # the step in which the value is chosen comes last
                walked = best.walked + 1 if one.time else 2  # a window at time 0 passes the start
                bounds = replace(best, walked=walked, radius=walked)
            chain, share = with_clock(one.with_slopes), budget.share(1 / (len(parts) - number))
            result += one.weight * one.in_table(bounds.lower_gradient(chain, share)[0])
        return result

    def draw(self, chunk: Chunk, clock: Clock, *, gradient: bool) -> tuple[Tally, Gradient | None]:
        """`Σ_t w_t H(Z_t | o_0 … o_t)` of drawn sequences, and its unbiased gradient, as for a secret with one value."""
        run = chunk.run(self.chain, chunk.events(self.chain, clock), clock, gradient=gradient)
        bits = entropy_bits(run.result.posterior)
        slope = -log2_or_zero(run.result.posterior) if gradient else None
        return chunk.estimate(run, bits, slope, weights_that_count(self.chain.hidden))


def question_at(chain: Chain) -> Question:
    """The question of one time."""
    if chain.written is None:
        return SecretValue(chain)
    return WithoutClock(chain, SecretValue(chain), SecretValue(with_clock(chain)))
