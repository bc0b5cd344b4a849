"""Proven numbers as text: lower bounds are rounded down and upper bounds up, so that the text still holds."""

import math
from decimal import Decimal

DIGITS = 4  # after the point, of bits shown to people
_TRIVIAL = 1e-6  # bits within which a bound is one that holds without any observation


def lower_text(value: float, digits: int = DIGITS, *, significant: int | None = None) -> str:
    """The largest decimal with so many digits after the point that is not above the value: `float(text) <= value`.

    With `significant`, that many digits from the first that is not 0, and an exponent where that is shorter.
    """
    return _text(value, digits, significant, -1)


def upper_text(value: float, digits: int = DIGITS, *, significant: int | None = None) -> str:
    """The smallest decimal with so many digits after the point that is not below the value: `float(text) >= value`."""
    return _text(value, digits, significant, 1)


def trivial_words(upper: float, values: int, prior_bits: float = math.inf) -> str:
    """Why an upper bound in bits says nothing, for parentheses: `trivial: log2 of 3 values`; empty if it says something.

    **Arguments:** `values`: how many the secret has; `prior_bits`: `H(Z)`, if no policy changes it.
    """
    if values < 2 or not math.isfinite(upper):
        return ""
    from .plain_logs import log2_of_count  # NumPy, which the command line loads late

    if upper >= log2_of_count(values) - _TRIVIAL:
        return f"trivial: log2 of {values:,} values"
    return "trivial: H(Z), before anything is observed" if upper >= prior_bits - _TRIVIAL else ""


def _text(value: float, digits: int, significant: int | None, direction: int) -> str:
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if significant is not None:
        digits = significant - 1 - (Decimal(value).adjusted() if value else 0)
    nearest = Decimal(f"{value:.{max(digits, 0)}f}") if digits >= 0 else round(Decimal(value), digits)
    if direction * (float(nearest) - value) < 0:
        nearest += direction * Decimal(1).scaleb(-digits)
    return f"{nearest + 0:.{digits}f}" if significant is None else f"{nearest.normalize():g}"  # no negative zero
