"""Intervals of whole numbers of small units, rounded outward: expected values without rounding errors, or nearly.

An interval is one point as long as the numbers are short, as for probabilities that are sums of few powers of two, and where
all continuations have the same value: a threshold that is equal to the value is then decided too.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

_BITS = 256
_DOMINATES = 4.0  # an offset that is this many times the spread is subtracted before anything is summed

Interval = tuple[int, int]
"""Lower and upper end, in units of `2^-bits`."""


def bits_for(largest: float) -> int:
    """The binary digits after the point that suit numbers of this size: more where they are small."""
    return _BITS - min(0, math.frexp(largest)[1])


def scaled(number: float, bits: int) -> Interval:
    """A float in units of `2^-bits`."""
    top, bottom = number.as_integer_ratio()
    return (top << bits) // bottom, -((-top << bits) // bottom)


def discounted(paid: Interval, discount: Fraction, after: Interval) -> Interval:
    """`paid + discount · after`."""
    top, bottom = discount.numerator, discount.denominator
    return paid[0] + top * after[0] // bottom, paid[1] - (-top * after[1] // bottom)


def whole_numbers(numbers: Sequence[float | Fraction]) -> list[int]:
    """Floats, or products of floats, as whole numbers in proportion."""
    ratios = [number.as_integer_ratio() for number in numbers]
    common = max(bottom for _, bottom in ratios)
    return [top * (common // bottom) for top, bottom in ratios]


def mean(weights: list[int], values: list[Interval]) -> Interval:
    """The mean of intervals with weights in proportion to probabilities, rounded outward."""
    total = sum(weights)
    low = sum(weight * value[0] for weight, value in zip(weights, values, strict=True))
    high = sum(weight * value[1] for weight, value in zip(weights, values, strict=True))
    return low // total, -(-high // total)


def rounded_down(value: Fraction) -> float:
    """The largest float that is not above an exact number; minus that of minus a number is the smallest not below it."""
    found = float(value)
    return found if Fraction(found) <= value else math.nextafter(found, -math.inf)


def centre_of(numbers: np.ndarray) -> float:
    """What to subtract from rewards so that sums of them keep their digits: their middle where they are large beside
    their spread, else 0, which leaves them as they are."""
    low, high = float(numbers.min(initial=np.inf)), float(numbers.max(initial=-np.inf))
    if not low <= high < np.inf:
        return 0.0
    middle = low + (high - low) / 2
    return middle if abs(middle) > _DOMINATES * (high - low) else 0.0


def always_met(sign: float, bound: float, rewards: np.ndarray, last: np.ndarray, discount: float, horizon: int) -> bool:
    """Whether the sizes of the rewards alone say that `sign · V ≥ sign · bound`, as for a probability of at least 0."""
    if discount != 1:
        return False
    paid, ends = (Fraction(float((sign * part).min(initial=np.inf))) if part.size else 0 for part in (rewards, last))
    return horizon * paid + ends >= Fraction(sign * bound)
