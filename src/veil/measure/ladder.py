"""One ladder of estimators: exact, bracket, sampled. `auto` walks it, for every question, for values and gradients."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from ..common.checks import Defects, is_number
from ..common.errors import TooLargeError
from ..engine.chain import Chain, with_clock
from .each_time import EachValue
from .exact import EXACT_SECONDS, Budget
from .question import EXACT_SHARE, OVERRUN, Question, SecretValue, TooMany, WithoutClock
from .result import Measured
from .sampled import sample
from .trajectory import SecretPath

Method = Literal["auto", "exact", "bracket", "sampled"]
Answer = TypeVar("Answer")
_SECONDS = {"auto": 20.0, "exact": EXACT_SECONDS, "bracket": 60.0, "sampled": EXACT_SECONDS}
# Of the time left, for bounds: in `auto`, there with a gradient, which takes about three times a value, and if a bracket with
# its gradient is all that is asked for.
_BRACKET_SHARE, _BRACKET_GRADIENT_SHARE, _VALUE_SHARE = 0.5, 0.2, 0.25
_NEARER = 2.0  # standard errors: bounds that are no farther apart are the better answer


@dataclass(frozen=True)
class Settings:
    """What is asked of an estimator: the arguments of `veil.opacity` of these names."""

    method: Method
    budget: Budget
    width: float = 1e-3
    sequences: int = 2000
    std_error: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        defects, sequences, std_error, seed = Defects("opacity"), self.sequences, self.std_error, self.seed
        if self.method not in _SECONDS:
            defects.add(f"method is {self.method!r}, expected one of {', '.join(map(repr, _SECONDS))}")
        if not (is_number(self.width) and self.width >= 0):
            defects.add(f"width is {self.width!r}, expected bits, 0 or more")
        if not isinstance(sequences, (int, np.integer)) or sequences < 2:
            defects.add(f"sequences is {sequences!r}, expected a whole number, 2 or more")
        if std_error is not None and not (is_number(std_error) and std_error > 0):
            defects.add(f"std_error is {std_error!r}, expected bits above 0, or None")
        if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0:
            defects.add(f"seed is {seed!r}, expected a whole number, 0 or more")
        defects.raise_if_any()


def seconds_of(method: str, time_limit: float | None) -> float:
    """The time limit that was given, or that of the method."""
    return _SECONDS.get(method, 1.0) if time_limit is None else time_limit


def _exact(question: Question, settings: Settings, *, gradient: bool) -> Measured:
    """Every possible sequence of observations, once."""
    return question.exact(settings.budget, gradient=gradient)


def _bracket(question: Question, settings: Settings, *, gradient: bool) -> Measured:
    """Proven bounds that are at most a width apart, or as near as the budget allows; the gradient is that of the lower one."""
    budget = settings.budget
    *_, best = question.bounds(budget.share(_VALUE_SHARE) if gradient else budget, settings.width)
    return question.bounded(best, budget, gradient=gradient)


def _sampled(question: Question, settings: Settings, *, gradient: bool, reason: str = "") -> Measured:
    """Drawn sequences, with the standard error; unbiased. `reason`: why a sample is taken."""
    budget = settings.budget
    tally, slope, late = sample(
        question,
        sequences=settings.sequences,
        std_error=settings.std_error,
        seed=settings.seed,
        memory_bytes=budget.memory_bytes,
        clock=budget.clock,
        workers=budget.team,
        gradient=gradient,
    )
    reason = "; ".join(text for text in (reason, late) if text)
    return Measured(tally.result(question.prior_bits(budget), reason), slope)


def _auto(question: Question, settings: Settings, *, gradient: bool) -> Measured:
    """The cheapest of the others that is accurate enough, by forecast, and why it was taken.

    1. Enumerate if that is forecast to take seconds or, where there is no forecast, fits half of the time.
    2. Else a bracket, as long as the bounds so far say that it will reach the width, and sooner than an enumeration.
    3. Else enumerate if the time left is several times the forecast.
    4. Else sample in the time that is left and keep the proven bounds; the bracket, if it is as near as the sample.
    """
    budget, clock = settings.budget, settings.budget.clock
    found = question.quick(budget, gradient=gradient)
    if not isinstance(found, TooMany):
        return found
    why, seconds = found
    began = clock.spent
    share = budget.share(_BRACKET_GRADIENT_SHARE if gradient else _BRACKET_SHARE)
    *_, best = question.bounds(share, settings.width, seconds)
    if best.width <= settings.width:
        return question.bounded(best, budget, f"bracket: {why}; {best.text} reach the width", gradient=gradient)
    if seconds * OVERRUN <= clock.left:
        with suppress(TooLargeError):  # the forecast was wrong
            result, slope = question.exact(budget.share(EXACT_SHARE), gradient=gradient)
            reason = f"all possible sequences enumerated, forecast to take {seconds:.0f} s: no bracket closes sooner"
            return Measured(replace(result, reason=f"{reason}, as {result.reason}"), slope)
    reason = f"sampled: {why}"
    if best.num_sequences:
        reason += (
            f"; after {clock.spent - began:.0f} s the proven bounds, kept as lower and upper, are still"
            f" {best.width:.2g} bits apart"
        )
    result, slope = _sampled(question, settings, gradient=gradient, reason=reason)
    if best.width <= _NEARER * result.std_error and not gradient:
        return question.bounded(best, budget, f"bracket: {why}; {best.text}", gradient=False)
    return Measured(replace(result, lower=best.lower, upper=best.upper), slope)


_ESTIMATORS = {"exact": _exact, "bracket": _bracket, "sampled": _sampled, "auto": _auto}


def first_that_fits(method: str, ways: Mapping[str, Callable[[str], Answer]]) -> Answer:
    """The answer in the way of a method; for `auto` in the first that fits, in order: the next one is told why it is asked."""
    if method != "auto":
        return ways[method]("")
    *first, last = ways.values()
    why = ""
    for way in first:
        try:
            return way(why)
        except TooLargeError:
            why = "all possible sequences were too many to enumerate within the budget"
    return last(why)


def measure(chain: Chain, settings: Settings, *, gradient: bool = False) -> Measured:
    """How many bits of the secret stay hidden in a chain, by the method of the settings."""
    return answer(question_of(chain), settings, gradient=gradient)


def answer(question: Question, settings: Settings, *, gradient: bool = False) -> Measured:
    """The answer to a question by the method of the settings."""
    return _ESTIMATORS[settings.method](question, settings, gradient=gradient)


def question_of(chain: Chain) -> Question:
    """What is measured of a chain, by its secret: a value at one time, one at every time, or a whole path; and by the clock."""
    if chain.hidden.each is not None:
        return EachValue(chain)
    kind = SecretValue if chain.hidden.path is None else SecretPath
    return kind(chain) if chain.written is None else WithoutClock(chain, kind(chain), kind(with_clock(chain)))
