"""The result of an attack on the secret: accuracy, log loss and calibration of the observer's guesses, in words too."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..common.logs import entropy_bits, log2_of_count
from ..common.text import aligned
from ..common.values import Value
from .result import Opacity

Event = str | tuple[str, str]


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Value):
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
        exact = "" if self.exact is None else f" (exact: {self.exact:.4f})"
        return f"{self.value:.4f} ± {self.std_error:.2g}{exact}"


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationBin(Value):
    """Runs in which the observer claimed a confidence between `low` and `high`.

    **Attributes:** `count` of runs; `claimed`, the mean confidence; `achieved`, how often the guess was right.
    """

    low: float
    high: float
    count: int
    claimed: float
    achieved: float


@dataclass(frozen=True, eq=False, repr=False)
class Trace(Value):
    """One run as the observer lived it.

    **Attributes:** `observations`, as the observer writes them down; `truth`, the true value of the secret; `posterior`,
    `(T+1, Z)`, row t what it believes after the observation at time t (at time 0 the prior, where none comes then);
    `impossible_at`: the time of an observation that it held impossible, where the posterior ends, else None.

    An observer without a clock writes a string: row n of `posterior` is what it believes after n observations, if the run is
    over then (see `ObserverFilter`), and `impossible_at` is the number of the observation.
    """

    observations: tuple[Event, ...]
    truth: str
    posterior: Float[np.ndarray, "t Z"]
    impossible_at: int | None


@dataclass(frozen=True, eq=False, repr=False)
class Mistake(Value):
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


@dataclass(frozen=True, eq=False, repr=False)
class Attack(Value):
    """The best inference attack on simulated runs; `summary()` describes it.

    **Attributes:**

    - `accuracy`: how often the guess of the secret was right; its `exact` is `Σ_y P(ẑ(y), y)`, for an observer who knows
      the policy the guess probability of the joint table. `blind_accuracy`: the same for a guess without watching.
    - `accuracy_over_time`, `(T+1,)`: of the guess after the observation at each time; without a clock, of the guess from
      the string up to each time, if the run is watched up to that time only.
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

    def __repr__(self) -> str:
        return f"Attack({self.problem!r}, {self.episodes:,} runs: right in {self.accuracy.value:.4f})"

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
        """The attack as a small table: what the simulated runs show, beside what holds on average over all runs."""
        knows = "knows the policy" if self.mistake is None else "assumes another policy"
        head = (
            f"{self.problem}: {self.episodes:,} simulated runs (seed {self.seed}); the observer {knows} and guesses one of"
            f" {len(self.secret_values)} values of the secret"
        )
        facts = [
            ("correct", f"{self.accuracy} of the simulated runs; {self.blind_accuracy:.4f} without observations"),
            ("wrong", f"{self.error:.4f} of the simulated runs; {self._fano()}"),
            ("log loss", f"{self._log_loss()}; opacity {self.opacity.bits:.4f} bits ({self.opacity.method})"),
            *([] if self.mistake is None else [("mistake", self._cost(self.mistake))]),
            (
                "calibration",
                f"confidence and accuracy differ by {self.expected_calibration_error:.4f} on average"
                f" ({len(self.calibration)} bins)",
            ),
            (
                "over time",
                "correct after each observation: " + " ".join(f"{one:.3f}" for one in self.accuracy_over_time),
            ),
        ]
        return f"{head}\n{aligned(facts)}"

    def _fano(self) -> str:
        source = "estimated " if self.opacity.method == "sampled" else ""
        return f"on average over all runs at least {self.fano_error:.4f} for any observer (Fano's inequality, {source}opacity)"

    def _log_loss(self) -> str:
        finite = self.finite_cross_entropy_bits
        if finite is None:
            return "infinite: the true value had been ruled out in every run"
        if self.infinite_share.value == 0 and not self.infinite_share.exact:
            return f"{finite} bits"
        return (
            f"infinite: the true value had been ruled out in {self.infinite_share} of the runs (observations considered"
            f" impossible in {self.impossible_share}); {finite} bits over the others"
        )

    def _cost(self, mistake: Mistake) -> str:
        over = (
            "" if np.isfinite(mistake.sampled_bits) or mistake.finite_bits is None else " over the runs not ruled out"
        )
        sampled = "infinitely many bits" if mistake.finite_bits is None else f"{mistake.finite_bits} bits{over}"
        exact = "" if mistake.exact_bits is None else f" (exact: {mistake.exact_bits:.4f})"
        return (
            f"the wrong assumption costs the observer {sampled}{exact}; one that knows the policy is correct in"
            f" {mistake.knowing_accuracy}"
        )


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
