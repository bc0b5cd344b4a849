"""What the prices of the constraints pay in the verifier's backward induction, and how large its rounding errors are."""

from fractions import Fraction

import numpy as np
from jaxtyping import Float

from .arithmetic import TINY, discount_power, require
from .checked_problem import Bounds, CheckedProblem, Paid
from .reading import is_finite


class Lagrangian:
    """What the prices and the objective pay: `Σ_k (λ_k s_k + c_k) d_k^t R_k(x,a)` for a decision, and for the last x.

    `factors`: c_k of the quantities in the objective, beside the bits. `after`: what x earns of the return after so many
    `steps`, and what is added for its error, of the sign of `λ_0 + c_0`. `left_out` bounds what powers of the discounts leave
    out, and what products below the normal range do.
    """

    def __init__(
        self, problem: CheckedProblem, prices: tuple[float, ...], factors: tuple[float, ...],
        after: tuple[Float[np.ndarray, " N"], float], steps: int,
    ):  # fmt: skip
        self.problem, self.prices, self.factors, self.steps = problem, prices, factors, steps
        terms = zip(prices, factors, problem.paid, strict=True)
        self.parts = [(price * one.sign + factor, one) for price, factor, one in terms]
        self.last = [after, *((one.terminal, 0.0) for one in problem.paid[1:])]
        ends = [float(np.abs(last).max() + abs(tail)) for last, tail in self.last]
        self.last_size = sum(abs(price) * end for (price, _), end in zip(self.parts, ends, strict=True))
        self.earned = [one.largest + end for one, end in zip(problem.paid, ends, strict=True)]
        self.left_out = (steps + 1) * TINY * sum(self.earned)

    def at(self, time: int) -> tuple[Float[np.ndarray, "N A"], float]:
        """What a decision at a time pays, and a bound on its size; at the end what x pays, in one column."""
        ends = time == self.steps
        total, size = np.zeros_like(self.parts[0][1].reward[:, : 1 if ends else None]), 0.0
        for number, ((price, one), (last, tail)) in enumerate(zip(self.parts, self.last, strict=True)):
            if ends:
                total = total + (self._power(number, one, time) * price * (last + tail))[:, None]
                continue
            now = price * self._power(number, one, time)
            total, size = total + now * one.reward, size + abs(now) * float(np.abs(one.reward).max())
        return total, self.last_size if ends else size

    def slacks(self, bounds: Bounds) -> list[float]:
        """`λ_k s_k δ_k`, less what the centred rewards leave out."""
        found = list[float]()
        for price, factor, one, bound in zip(self.prices, self.factors, self.problem.paid, bounds, strict=True):
            found += [price * one.sign * float(Fraction(bound or 0.0) - one.offset), -factor * float(one.offset)]
        return found

    def _power(self, number: int, one: Paid, time: int) -> float:
        power, missed = discount_power(one.discount, time)
        self.left_out += missed * abs(self.parts[number][0]) * self.earned[number]
        return power


def checked_prices(
    problem: CheckedProblem, prices: tuple[float, ...], bounds: Bounds, exponent: int, what: str
) -> tuple[float, ...]:
    """The prices of a bound, each of which is one of a constraint: times the largest reward at most `2^exponent`."""
    require(len(prices) == len(bounds) == len(problem.paid), f"{what}: its prices are not one for each quantity")
    for price, threshold, one in zip(prices, bounds, problem.paid, strict=True):
        right = is_finite(price) and 0 <= price * max(1.0, one.largest) <= 2.0**exponent
        words = f"{what}: its price is {price!r}, expected a number from 0 to 2^{exponent} over the largest reward"
        require(right, words)
        require(threshold is not None or price == 0, f"{what}: there is a price, and no bound for it")
    return tuple(map(float, prices))
