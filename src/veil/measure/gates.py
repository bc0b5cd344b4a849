"""Limits on what is hidden and what leaks, for pipelines: held by the proven or the confident end of a value, or missed."""

from dataclasses import dataclass

from ..common.checks import Defects, is_number
from .result import Opacity

CONFIDENCE = 0.95
_ROUNDING = 1e-9  # bits that rounding may move a value


@dataclass(frozen=True)
class Gate:
    """A limit and what it was compared with.

    **Attributes:** `name`: `min_opacity` or `max_leakage`; `bound` in bits; `reached`: the end of the value that counts, in
    bits; `end`: what that end is: `exact`, `proven`, or `95% confidence`.
    """

    name: str
    bound: float
    reached: float
    end: str

    @property
    def met(self) -> bool:
        """Whether the limit is held, but for rounding of 1e-9 bits."""
        slack = self.reached - self.bound if self.name == "min_opacity" else self.bound - self.reached
        return slack >= -_ROUNDING

    @property
    def text(self) -> str:
        """The limit and what was reached: `leaked at most 0.1: missed, 0.38 (exact)`."""
        words = "hidden at least" if self.name == "min_opacity" else "leaked at most"
        return f"{words} {self.bound:g} bits: {'held' if self.met else 'missed'}, {self.reached:.6g} ({self.end})"

    def document(self) -> dict[str, object]:
        """As JSON holds it."""
        return {"name": self.name, "bound": self.bound, "reached": self.reached, "end": self.end, "met": self.met}


def gates(opacity: Opacity, min_opacity: float | None = None, max_leakage: float | None = None) -> tuple[Gate, ...]:
    """The limits that were given, each with the least that is hidden, or the most that leaks.

    That is the exact value, the proven end of a bracket, or the end of the 95% interval of an estimate.

    **Raises:** `InputError` for a limit that is no number of bits.
    """
    limits = {
        name: bound for name, bound in (("min_opacity", min_opacity), ("max_leakage", max_leakage)) if bound is not None
    }
    defects = Defects("gate")
    for name, bound in limits.items():
        if not (is_number(bound) and bound >= 0):
            defects.add(f"{name} is {bound!r}, expected bits, 0 or more")
    defects.raise_if_any()
    least = opacity.interval(CONFIDENCE)[0]
    end = {"exact": "exact", "bracket": "proven"}.get(opacity.method, f"{CONFIDENCE:.0%} confidence")
    ends = {"min_opacity": least, "max_leakage": max(0.0, opacity.prior_bits - least)}
    return tuple(Gate(name, bound, ends[name], end) for name, bound in limits.items())
