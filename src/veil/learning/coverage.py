"""The interval of an opacity that was measured on estimates: a bootstrap of the whole procedure, with its bias corrected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy.stats import t as student

from ..measure.result import Opacity

LEAST_DRAWS = 20
"""Fewer draws tell too little of the spread: no interval is given."""
# How much more second draws vary about the first than the first about the estimate, in variance: 1 where the opacity is linear
# in what was counted, 5/3 where it is quadratic, noise alone.
_LINEAR, _QUADRATIC = 1.0, 5 / 3


@dataclass(frozen=True)
class Corrected:
    """An opacity with the bias of the estimates corrected, and the interval of the true one."""

    bits: float
    low: float
    high: float


def corrected(
    estimate: Opacity, first: Sequence[float], second: Sequence[float], confidence: float, most: float = math.inf
) -> Corrected | None:
    """The opacity `f` less its bias, within Student's interval; None where the draws are fewer than `LEAST_DRAWS`.

    `first`: the opacity of estimates from runs drawn from what was fitted; `second`: that of estimates from runs drawn from
    each of those. The first differ from `f` as `f` differs from the truth, so that `f − (mean(first) − f)` has no bias up to
    the second order. Its spread is that of the first draws, with two corrections that the second draws tell:

    - a prior draws estimates together, and `f − mean(first)` with them: if an estimate that differs by 1 leads to a mean of
      second draws that differs by `c`, the corrected value varies `2 − c` times as much as the estimate;
    - where noise looks like structure, estimates from what was fitted vary more than estimates from the truth, in variance
      by as much as second draws vary more about the first than the first about `f`: with `V` and `Q` the linear and the
      quadratic part of the variance, `V + Q / 2` from the truth, `V + 3Q / 2` from `f`, `V + 5Q / 2` from the first. The
      ratio of the last two is lowered by its own standard error, about `1 / √n` of `n` draws.

    The interval is extended to the estimate itself, and by what the measurement of `f` leaves open.

    **Arguments:** `most`: the largest value that is possible.
    """
    if len(first) < LEAST_DRAWS:
        return None
    one, two = np.array(first), np.array(second)
    bits = float(2 * estimate.bits - one.mean())
    variance = float(one.var(ddof=1))
    spread = math.sqrt(variance * (1 + 1 / len(one)))
    if variance > 0:
        drawn_together = min(max(float(np.cov(one, two)[0, 1]) / variance, 0.5), 1.0)
        ratio = float((two - one).var(ddof=1)) / variance - 1 / math.sqrt(len(one))
        spread *= (2 - drawn_together) * math.sqrt(2 - min(max(ratio, _LINEAR), _QUADRATIC))
    upper = (1 + confidence) / 2
    measured = (
        NormalDist().inv_cdf(upper) * estimate.std_error
        if estimate.method == "sampled"
        else estimate.upper - estimate.lower
    )
    reach = float(student.ppf(upper, len(one) - 1)) * spread
    low, high = min(bits - reach, estimate.bits) - measured, max(bits + reach, estimate.bits) + measured
    most = float(max(most, estimate.bits))
    return Corrected(min(max(bits, 0.0), most), max(0.0, low), min(most, high))
