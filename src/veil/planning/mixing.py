"""Mixtures of two tables, row by row: the least share of a feasible one that makes another one feasible."""

import contextlib
from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq

from ..common.clock import UNLIMITED, Clock, OutOfTime

_CLOSE = 1e-5  # of the answer: the distance from shares that do not suffice


def mixed_until(
    slack: Callable[[Any], float], table: Any, feasible: Any, clock: Clock = UNLIMITED, *, check: bool = False
) -> Any:
    """`(1 − p) table + p feasible` with about the least p at which the slack is 0 or more, by Brent's method.

    It is the table itself where that is feasible, and `feasible` where its slack is negative too or the time ends.

    **Arguments:** `slack`: the worst slack of a table; `check`: whether the end of the time raises `OutOfTime`.
    """
    known = {0.0: slack(table)}
    if known[0.0] >= 0:
        return table
    known[1.0], best = slack(feasible), (1.0, feasible)
    if known[1.0] < 0:
        return feasible

    def at(share: float) -> float:
        nonlocal best
        if share not in known:
            clock.check()
            mixed = (1 - share) * table + share * feasible
            known[share] = slack(mixed)
            if known[share] >= 0 and share < best[0]:
                best = share, mixed
        return known[share]

    with contextlib.nullcontext() if check else contextlib.suppress(OutOfTime):
        brentq(at, 0.0, 1.0, xtol=1e-12, rtol=_CLOSE)  # pyright: ignore[reportArgumentType]
    return best[1]
