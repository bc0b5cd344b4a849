"""Proven numbers as text: lower bounds are rounded down and upper bounds up, so that the text still holds."""

import math
from decimal import Decimal

DIGITS = 4  # after the point, of bits shown to people


def lower_text(value: float, digits: int = DIGITS) -> str:
    """The largest decimal with so many digits after the point that is not above the value: `float(text) <= value`."""
    return _text(value, digits, -1)


def upper_text(value: float, digits: int = DIGITS) -> str:
    """The smallest decimal with so many digits after the point that is not below the value: `float(text) >= value`."""
    return _text(value, digits, 1)


def _text(value: float, digits: int, direction: int) -> str:
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    nearest = Decimal(f"{value:.{digits}f}")
    if direction * (float(nearest) - value) < 0:
        nearest += direction * Decimal(1).scaleb(-digits)
    return f"{nearest + 0:.{digits}f}"  # no negative zero
