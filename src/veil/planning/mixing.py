"""Mixtures of two tables, row by row: the least share of a feasible one that makes another one feasible."""

from collections.abc import Callable
from typing import Any

from ..common.clock import UNLIMITED, Clock

# Evaluations at most (halving alone would end after 17), and the share of the answer at which both ends are close enough.
_TRIALS, _CLOSE = 40, 1e-5


def mixed_until(
    slack: Callable[[Any], float], table: Any, feasible: Any, clock: Clock = UNLIMITED, *, check: bool = False
) -> Any:
    """`(1 − p) table + p feasible` with about the least p at which the slack is 0 or more, by false position.

    It is the table itself where that is feasible, and `feasible` where its slack is negative too or the time ends.

    **Arguments:** `slack`: the worst slack of a table; `check`: whether the end of the time raises `OutOfTime`.
    """
    low, at_low = 0.0, slack(table)
    if at_low >= 0:
        return table
    high, at_high = 1.0, slack(feasible)
    if at_high < 0:
        return feasible
    best, kept = feasible, 0
    for _ in range(_TRIALS):
        if check:
            clock.check()
        elif not clock.left:
            break
        # A little beyond the zero of the line, so that the upper end moves; from both ends in turn if one is stuck.
        part = 1.00001 * at_low / (at_low - at_high)
        share = low + min(max(part, 1e-3), 0.9 if kept < 2 else 0.5) * (high - low)
        tried = (1 - share) * table + share * feasible
        found = slack(tried)
        if found >= 0:
            high, at_high, best, kept = share, found, tried, max(1, kept + 1)
        else:
            low, at_low, kept = share, found, min(0, kept) - 1
        if abs(kept) >= 3:  # the same end moved thrice: the line is bent, so halve
            middle = (low + high) / 2 if low else high / 16
            tried = (1 - middle) * table + middle * feasible
            found = slack(tried)
            if found >= 0:
                high, at_high, best = middle, found, tried
            else:
                low, at_low = middle, found
            kept = 0
        if high - low <= _CLOSE * high:
            break
    return best
