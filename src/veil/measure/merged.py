"""Bounds from histories that are merged by their beliefs: more and more of them kept apart, until the bounds are narrow."""

from collections.abc import Callable
from dataclasses import dataclass

from ..common.clock import OutOfTime
from ..common.errors import TooLargeError
from .exact import Budget

_FIRST_MOST = 512  # histories that are kept apart, at first
_LARGEST_MOST = 2**15
_NOTHING = 1e-9  # bits that merging costs where it merged the same beliefs alone: more histories would not help


@dataclass(frozen=True)
class Merged:
    """Bounds on a number of bits, and the most histories that were kept apart at a time."""

    lower: float
    upper: float
    rows: int

    @property
    def width(self) -> float:
        """How far the bounds are apart."""
        return self.upper - self.lower

    @property
    def text(self) -> str:
        """Where the bounds come from, in words."""
        return f"histories with nearly the same belief were merged, at most {self.rows:,} kept apart"


def keep_apart(bounds: Callable[[int], Merged], best: Merged, budget: Budget, width: float) -> Merged:
    """The best bounds within a budget, from what is known before.

    **Arguments:** `bounds`: those where at most so many histories are kept apart at a time; it raises `OutOfTime` or
    `TooLargeError` where it cannot end. `best`: what is known before; `width`: bits between the bounds that are wanted.
    """
    clock, most = budget.clock, _FIRST_MOST
    while True:
        begin = clock.spent
        try:
            found = bounds(most)
        except (OutOfTime, TooLargeError):
            return best
        lower = max(best.lower, found.lower)
        best = Merged(lower, max(lower, min(best.upper, found.upper)), max(best.rows, found.rows))
        # Twice as many histories take up to three times as long.
        late = 3 * (clock.spent - begin) > clock.left
        if best.width <= max(width, _NOTHING) or late or most >= _LARGEST_MOST:
            return best
        most *= 2
