"""What an attack on the secret brought: how often the guess was right, how surprised the observer was, in words too."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..common.logs import entropy_bits, log2_of_count
from .result import Opacity

Event = str | tuple[str, str]


@dataclass(frozen=True)
class Estimate:
    """A mean over simulated runs with its standard error, and the exact value where all sequences can be enumerated."""

    value: float
    std_error: float
    exact: float | None = None

    @staticmethod
    def of(values: np.ndarray, exact: float | None) -> "Estimate":
        """The mean of independent values; one alone says nothing of its error."""
        spread = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
        return Estimate(float(values.mean()), float(spread), exact)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        exact = "" if self.exact is None else f" (exactly {self.exact:.4f})"
        return f"{self.value:.4f} ± {self.std_error:.2g}{exact}"


@dataclass(frozen=True)
class CalibrationBin:
    """Runs in which the observer claimed a confidence between `low` and `high`.

    **Attributes:** `count` of runs; `claimed`, the mean confidence; `achieved`, how often the guess was right.
    """

    low: float
    high: float
    count: int
    claimed: float
    achieved: float


@dataclass(frozen=True, eq=False)
class Trace:
    """One run as the observer lived it.

    **Attributes:** `observations`, as the observer writes them down; `truth`, the true value of the secret; `posterior`,
    `(T+1, Z)`, row t what it believes after the observation at time t (at time 0 the prior, where none comes then);
    `impossible_at`: the time of an observation that it held impossible, where the posterior ends, else None.
    """

    observations: tuple[Event, ...]
    truth: str
    posterior: Float[np.ndarray, "t Z"]
    impossible_at: int | None


@dataclass(frozen=True)
class Mistake:
    """What it costs an observer to be wrong about the policy, against one who knows it, on the same runs.

    **Attributes:** `sampled_bits`: its cross-entropy minus that of the other; infinite where some run had been ruled
    out; `finite_bits`: the same over the other runs, None where there are none; `exact_bits`: cross-entropy minus
    `H(Z|Y)`, summed over all sequences, where they can be enumerated (infinite likewise); `knowing_accuracy`: how often
    the other guessed right.
    """

    sampled_bits: float
    finite_bits: Estimate | None
    exact_bits: float | None
    knowing_accuracy: Estimate

    @property
    def bits(self) -> float:
        """What the mistake costs: exactly where that is known, else as sampled."""
        return self.sampled_bits if self.exact_bits is None else self.exact_bits


@dataclass(frozen=True, eq=False)
class Attack:
    """How the best inference attack fared against simulated runs; `summary()` tells it in words.

    **Attributes:**

    - `accuracy`: how often the guess of the secret was right; its `exact` is `Σ_y P(ẑ(y), y)`, for an observer who knows
      the policy the guess probability of the joint table. `blind_accuracy`: the same for a guess without watching.
    - `accuracy_over_time`, `(T+1,)`: of the guess after the observation at each time.
    - `finite_cross_entropy_bits`: the mean of `-log2 P(z|y)` over the runs in which it is finite, None where in none;
      `infinite_share`: of runs in which the observer gave the true value probability zero; among them
      `impossible_share`: of runs whose observations it held impossible.
    - `opacity`: of the policy, beside which the cross-entropy stands: equal on average for an observer who knows the policy,
      above for any other.
    - `fano_error`: no observer is wrong less often, by Fano's inequality from the opacity (an estimate where that is one).
    - `calibration`: bins of claimed confidence, those that occur.
    - `traces`: a few runs in full.
    - `mistake`: what it costs the observer to be wrong about the policy; None where it knows it.
    """

    problem: str
    secret_values: tuple[str, ...]
    episodes: int
    seed: int
    accuracy: Estimate
    blind_accuracy: float
    accuracy_over_time: Float[np.ndarray, " T+1"]
    finite_cross_entropy_bits: Estimate | None
    infinite_share: Estimate
    impossible_share: Estimate
    opacity: Opacity
    fano_error: float
    calibration: tuple[CalibrationBin, ...]
    traces: tuple[Trace, ...]
    mistake: Mistake | None

    @property
    def error(self) -> float:
        """How often the guess was wrong."""
        return 1 - self.accuracy.value

    @property
    def cross_entropy_bits(self) -> float:
        """The mean of `-log2 P(z|y)` over the runs; infinite where one of them had been ruled out."""
        finite = self.finite_cross_entropy_bits
        return np.inf if finite is None or self.infinite_share.value > 0 else finite.value

    @property
    def exact_cross_entropy_bits(self) -> float | None:
        """`E[-log2 P(z|y)]` over all sequences, where they can be enumerated."""
        if self.infinite_share.exact is None:
            return None
        finite = self.finite_cross_entropy_bits
        if self.infinite_share.exact > 0 or finite is None:
            return np.inf
        return finite.exact

    @property
    def expected_calibration_error(self) -> float:
        """The mean distance between claimed confidence and achieved frequency, over the runs."""
        return sum(one.count * abs(one.claimed - one.achieved) for one in self.calibration) / self.episodes

    def summary(self) -> str:
        """The attack in words."""
        lines = [
            self._who(),
            f"right in {self.accuracy} of the runs; {self.blind_accuracy:.4f} without watching",
            f"wrong in {self.error:.4f}; {self._fano()}",
            self._surprise(),
            *([] if self.mistake is None else [self._cost(self.mistake)]),
            f"confidence off by {self.expected_calibration_error:.4f} on average"
            f" ({len(self.calibration)} bins of claimed confidence)",
            "right after each observation: " + " ".join(f"{share:.3f}" for share in self.accuracy_over_time),
        ]
        return "\n".join(lines)

    def _who(self) -> str:
        knows = "knows the policy" if self.mistake is None else "is wrong about the policy"
        return (
            f"{self.problem}: {self.episodes:,} simulated runs (seed {self.seed}); an observer who {knows} guesses one of"
            f" {len(self.secret_values)} values of the secret"
        )

    def _fano(self) -> str:
        source = "estimated " if self.opacity.method == "sampled" else ""
        return f"by Fano's inequality no observer is wrong less often than {self.fano_error:.4f} ({source}opacity)"

    def _surprise(self) -> str:
        beside = f"; opacity {self.opacity.bits:.4f} bits ({self.opacity.method})"
        finite = self.finite_cross_entropy_bits
        if finite is None:
            return f"surprise infinite in every run: each had been ruled out{beside}"
        if self.infinite_share.value == 0 and not self.infinite_share.exact:
            return f"surprise {finite} bits on average{beside}"
        return (
            f"surprise infinite: the truth had been ruled out in {self.infinite_share} of the runs (observations held"
            f" impossible in {self.impossible_share}); over the rest {finite} bits{beside}"
        )

    def _cost(self, mistake: Mistake) -> str:
        over = (
            "" if np.isfinite(mistake.sampled_bits) or mistake.finite_bits is None else " over the runs not ruled out"
        )
        sampled = "infinite" if mistake.finite_bits is None else f"{mistake.finite_bits} bits{over}"
        exact = "" if mistake.exact_bits is None else f", exactly {mistake.exact_bits:.4f}"
        return f"the mistake costs {sampled}{exact}; who knows the policy is right in {mistake.knowing_accuracy}"


def fano_error(bits: float, num_values: int) -> float:
    """The smallest probability of error e that Fano's inequality allows: `h(e) + e log2(Z − 1) ≥ H(Z|Y)`.

    The left side rises from 0 at e = 0 to `log2 Z` at `e = 1 − 1/Z`, so the smallest e is found by bisection. With two
    values the second term vanishes, and e is the inverse of the binary entropy: one bit means a coin, e = 1/2.

    **Arguments:** `bits`: `H(Z|Y)`, or a lower bound on it; `num_values`: values that can occur.
    """
    if num_values < 2 or bits <= 0:
        return 0.0
    rest = log2_of_count(num_values - 1)
    low, high = 0.0, 1 - 1 / num_values
    if bits >= log2_of_count(num_values):
        return high
    while low < (middle := (low + high) / 2) < high:
        allowed = float(entropy_bits(np.array([middle, 1 - middle]))) + middle * rest
        low, high = (middle, high) if allowed < bits else (low, middle)
    return low
