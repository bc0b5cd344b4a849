"""`Audit`: what samples alone say about a leak, with intervals, and what they cannot say."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from pydantic.json_schema import JsonSchemaValue

from ..common.text import aligned
from ..common.values import Value

FORMAT = "veil-audit-1"
NO_UPPER_BOUND = (
    "Samples alone give no upper bound: an observer with a better predictor may learn more. For an upper bound fit or"
    " write a model (veil fit, veil measure)."
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(Value):
    """A number with an interval, all of one unit."""

    value: float
    low: float
    high: float

    def __repr__(self) -> str:
        return f"Estimate({self.value:.6g} in {self.low:.6g} … {self.high:.6g})"

    def within(self, least: float, most: float) -> "Estimate":
        """The same, cut at two ends."""
        return Estimate(*(min(max(one, least), most) for one in (self.value, self.low, self.high)))


def mean_estimate(values: Float[np.ndarray, " n"], confidence: float) -> Estimate:
    """The mean of independent numbers with Student's interval."""
    from scipy.stats import t as student

    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    reach = float(student.ppf((1 + confidence) / 2, len(values) - 1)) * error
    return Estimate(mean, mean - reach, mean + reach)


@dataclass(frozen=True, eq=False, repr=False)
class Telling(Value):
    """What one observation tells alone.

    **Attributes:** `what`: `"observation"`, how often it occurs in the run, or `"time"`, which observation is received then;
    `name` of the observation, or the time; `bits` of the secret that it tells, with the bias corrected.
    """

    what: str
    name: str
    bits: float


@dataclass(frozen=True, eq=False, repr=False)
class CurvePoint(Value):
    """What is found in a part of the runs: how many, and the leakage with its interval."""

    num_runs: int
    leakage: Estimate


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Value):
    """What pairs of a secret and a sequence of observations say about what the observations leak.

    **Attributes:**

    - `leakage`: bits about the secret that predictors were shown to use, `mean(log2 q(z|y) / P(z))` over runs that they were
      not fitted on. `leakage.low` is the lower bound on the leakage `I(Z;Y)`. `leakage.high` belongs to these predictors:
      it bounds nothing.
    - `prior_bits`: the entropy of the labels, the most that can leak.
    - `guess_rate`: how often the most likely value is right in runs that the predictors were not fitted on; its `low` is a
      lower bound for the best attacker. `prior_guess_rate`: that of the most frequent value.
    - `plug_in`: the leakage itself, of the table of counts with its bias corrected, if the sequences repeat often enough;
      else None. `repeated`: the share of the runs whose secret and sequence occur in another run too.
    - `weights`: the share of each family of predictors in the prediction.
    - `telling`: the observations and times that tell most, each alone.
    - `curve`: the leakage found in parts of the runs: while it rises, more runs would show more.
    - `confidence` of all intervals; `num_runs`, `num_values`, `num_observations`; `notes`, a sentence each.
    """

    leakage: Estimate
    prior_bits: float
    guess_rate: Estimate
    prior_guess_rate: float
    plug_in: Estimate | None
    repeated: float
    weights: tuple[tuple[str, float], ...]
    telling: tuple[Telling, ...]
    curve: tuple[CurvePoint, ...]
    confidence: float
    num_runs: int
    num_values: int
    num_observations: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        found, low = self.leakage.value, self.leakage.low
        return f"Audit({self.num_runs:,} runs: at least {low:.6g} bits leaked, {found:.6g} found)"

    def summary(self) -> str:
        """A small table, what tells most, the learning curve, and notes on the numbers."""
        parts = [aligned(self._facts())]
        if self.telling:
            rows = ((f"{one.what} {one.name}", f"{one.bits:.4f} bits") for one in self.telling)
            parts.append("tells most, each alone:\n" + aligned(rows))
        if self.curve:
            rows = ((f"{one.num_runs:,} runs", _with_interval(one.leakage)) for one in self.curve)
            parts.append("found in a part of the runs:\n" + aligned(rows))
        return "\n\n".join([*parts, "\n".join([*self.notes, NO_UPPER_BOUND])])

    def document(self) -> dict[str, Any]:
        """Everything, in the form of JSON."""
        from ..formats.results.document import encoded

        return {"format": FORMAT} | encoded(self) | {"notes": [*self.notes, NO_UPPER_BOUND]}

    def _facts(self) -> Iterator[tuple[str, str]]:
        sure, found = f"{100 * self.confidence:g}%", self.leakage
        yield "leaked", f"at least {found.low:.4f} of {self.prior_bits:.4f} bits ({sure})"
        yield "found", f"{_with_interval(found)}, by predictors"
        if self.plug_in is not None:
            yield "table of counts", f"{_with_interval(self.plug_in)}, bias corrected"
        guess, prior = self.guess_rate, self.prior_guess_rate
        yield "right guesses", f"{guess.value:.4f} in {guess.low:.4f} … {guess.high:.4f}; without looking {prior:.4f}"
        yield (
            "runs",
            f"{self.num_runs:,}, {self.num_values:,} secrets, {self.num_observations:,} different observations",
        )
        yield "predictors", ", ".join(f"{name} {share:.0%}" for name, share in self.weights if share >= 0.005)


def _with_interval(found: Estimate) -> str:
    return f"{found.value:.4f} bits in {found.low:.4f} … {found.high:.4f}"


def audit_schema() -> JsonSchemaValue:
    """The JSON schema (draft 2020-12) of an audit."""
    from ..formats.results.document import schema_of

    return schema_of(Audit, FORMAT)
