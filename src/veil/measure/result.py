"""The answer to "how much is hidden": bits, bounds, and how they were found."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..common.errors import InputError
from ..common.rounding import lower_text, upper_text
from ..common.values import Value

_CERTAIN = 5e-7  # bits, which are printed as 0


@dataclass(frozen=True, eq=False, repr=False)
class Opacity(Value):
    """`H(Z|Y)` of a policy, exactly, between bounds, or estimated; `method` and `reason` say which and why.

    **Attributes:**

    - `bits`: the conditional entropy; the lower end of a bracket; the estimate of a sample.
    - `lower`, `upper`: proven bounds, equal for an exact value (but for rounding of about 1e-13 bits).
    - `prior_bits`: `H(Z)`, what the observer lacks before it sees anything.
    - `method`: `"exact"`, `"bracket"` or `"sampled"`.
    - `num_sequences`: observation sequences that are possible (exact; counting ends near 1e18), that were met in the
      widest window (bracket), or that were drawn (sampled).
    - `std_error`: of a sampled estimate, else 0.
    - `reason`: why this method, in a sentence.
    """

    bits: float
    lower: float
    upper: float
    prior_bits: float
    method: str
    num_sequences: int
    std_error: float = 0.0
    reason: str = ""

    @property
    def width(self) -> float:
        """How far the proven bounds are apart."""
        return self.upper - self.lower

    @property
    def leakage_bits(self) -> float:
        """`I(Z;Y) = H(Z) − H(Z|Y)`: what the observer learns."""
        learnt = self.prior_bits - self.bits
        return 0.0 if -1e-12 < learnt < 0 else learnt  # rounding; a sampled estimate may truly exceed the prior

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """An interval that contains `H(Z|Y)` with probability `confidence`: the proven bounds, narrowed by a sample's error.

        The sampled part relies on the central limit theorem; only `lower` and `upper` are proven.
        """
        if not 0 < confidence < 1:
            raise InputError("interval", [f"confidence is {confidence!r}, expected a probability between 0 and 1"])
        if self.method != "sampled":
            return self.lower, self.upper
        from statistics import NormalDist  # which imports decimal and fractions

        reach = NormalDist().inv_cdf((1 + confidence) / 2) * self.std_error
        return max(self.lower, self.bits - reach), min(self.upper, self.bits + reach)

    def facts(self) -> list[tuple[str, str]]:
        """What is hidden and what leaks, as names and values for a table."""
        if self.is_vacuous:
            return [("hidden", "nothing to hide: the secret is certain before anything is observed")]
        return [
            (
                "hidden",
                f"{self.value} of {_text(self.prior_bits)} bits ({self.method}, {self.num_sequences:,} sequences)",
            ),
            ("leaked", f"{_text(self.leakage_bits)} bits"),
        ]

    @property
    def is_vacuous(self) -> bool:
        """Whether there is nothing to hide: the secret is certain, to six digits, before anything is observed."""
        return self.prior_bits < _CERTAIN

    @property
    def value(self) -> str:
        """The bits as text: a number, one with its standard error, or bounds."""
        if self.method == "sampled":
            return f"{_text(self.bits)} ± {self.std_error:.2g}"
        return (
            _text(self.bits)
            if self.lower == self.upper
            else f"{lower_text(self.lower, 6)} … {upper_text(self.upper, 6)}"
        )

    def __str__(self) -> str:
        return "; ".join(f"{name} {value}" for name, value in self.facts())


class Measured(NamedTuple):
    """What an estimator found: the opacity, and its gradient in the policy's table, `(T, C, A)`, if it was asked for."""

    opacity: Opacity
    gradient: np.ndarray | None = None


def _text(bits: float) -> str:
    """Six digits, and no sign where they are zeros."""
    return f"{round(bits, 6) + 0.0:.6f}"
