"""The interval of an opacity that was measured on estimates, by draws from the posterior."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from ..measure.result import Opacity


def least_draws(confidence: float) -> int:
    """The fewest draws whose extremes hold a further one with this probability: 39 for 95%."""
    return math.ceil(round(2 / (1 - confidence), 6)) - 1


def interval_of(
    estimate: Opacity, draws: Sequence[float], confidence: float, most: float = math.inf
) -> tuple[float, float]:
    """The estimate `f`, plus and minus the larger distance to an end of the interval of draws.

    The draws differ from the estimate as the estimate differs from the truth, in bias and in spread: their interval, turned
    about the estimate, corrects the bias where the opacity bends, and the interval itself holds the truth where the prior
    draws it aside. Both together held it in either case in simulations; there is no proof, and the interval is wide.

    Ends are order statistics `p · (n + 1)`: NumPy's default lies further inside, and of 50 draws would cover 91% in place of
    95%. What the measurement of the estimate leaves open is added.

    **Arguments:** `most`: the largest value that is possible.
    """
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2], method="weibull")
    deviation = NormalDist().inv_cdf((1 + confidence) / 2)
    unsure = deviation * estimate.std_error if estimate.method == "sampled" else estimate.upper - estimate.lower
    reach = max(high - estimate.bits, estimate.bits - low) + unsure
    return max(0.0, estimate.bits - reach), max(min(most, estimate.bits + reach), estimate.bits)
