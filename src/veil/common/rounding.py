"""Proven numbers as text for people, rounded outward: a lower bound down, an upper bound up."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

DIGITS = 4
_EXACT = Context(prec=400)  # enough for every digit before the point of a float64


def at_least(value: float, digits: int = DIGITS) -> str:
    """The largest decimal number with that many digits after the point that is not above `value`."""
    return _rounded(value, digits, ROUND_FLOOR)


def at_most(value: float, digits: int = DIGITS) -> str:
    """The smallest decimal number with that many digits after the point that is not below `value`."""
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return str(value)
    found = Decimal(value).quantize(Decimal(1).scaleb(-digits), rounding=direction, context=_EXACT)
    return f"{found if found else abs(found):f}"  # no negative zero
