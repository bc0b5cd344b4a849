"""Information in tables of counts, with the bias of the plug-in estimate corrected, and an interval."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Int

from ..common.logs import BITS_PER_NAT, entropy_bits, log2_or_zero
from .audited import Estimate


@dataclass(frozen=True)
class Information:
    """`I(Z;Y)` of a table of counts: `bits` with the bias corrected, its standard error, and the share of repeated pairs."""

    bits: float
    std_error: float
    repeated: float

    def interval(self, confidence: float, most: float) -> Estimate:
        """The bits within the normal interval, cut at 0 and at the most that any secret with so many values has."""
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * self.std_error
        return Estimate(self.bits, self.bits - reach, self.bits + reach).within(0.0, most)


def information(secret: Int[np.ndarray, " n"], word: Int[np.ndarray, " n"]) -> Information:
    """`H(Z) + H(Y) − H(Z,Y)` of the counts, less its bias `(K_zy − K_z − K_y + 1) / 2n` nats (Miller and Madow, 1955).

    The standard error joins that of the mean of `log2 P(z,y) / (P(z) P(y))` and that of `2n · I ~ χ²`, which holds where
    the two are independent and the first vanishes.
    """
    size = len(secret)
    pair = np.unique(secret * np.int64(word.max() + 1) + word, return_inverse=True)[1].reshape(-1)
    counts = [np.bincount(code) for code in (secret, word, pair)]
    shares = [count / size for count in counts]
    used = [int((count > 0).sum()) for count in counts]
    plain = float(entropy_bits(shares[0]) + entropy_bits(shares[1]) - entropy_bits(shares[2]))
    bias = (used[2] - used[0] - used[1] + 1) / (2 * size) * BITS_PER_NAT
    first = np.unique(pair, return_index=True)[1]
    joint, apart = shares[2], shares[0][secret[first]] * shares[1][word[first]]
    terms = log2_or_zero(joint) - log2_or_zero(apart)
    variance = float(joint @ (terms - plain) ** 2)
    freedom = max(0, (used[0] - 1) * (used[1] - 1))
    noise = math.sqrt(2 * freedom) / (2 * size) * BITS_PER_NAT
    alone = int((counts[2] == 1).sum())
    return Information(plain - bias, math.hypot(math.sqrt(variance / size), noise), 1 - alone / size)
