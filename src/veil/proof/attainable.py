"""The smallest and the largest value of a quantity over all policies, with errors: what a percentage is a share of."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from ..common.exact import centre_of
from .arithmetic import UNIT, gamma, require
from .backward import Walk, earned_after, most_paid
from .checked_problem import CheckedProblem, Paid
from .prices import Lagrangian

SAME_RETURN = 1e-9  # of the range of returns: two ways to compute a share of it differ by less, or by rounding


@dataclass(frozen=True)
class Attainable:
    """Between which values all policies lie. Both ends are within `error` of the true ones."""

    smallest: float
    largest: float
    error: float

    def at(self, share: float) -> float:
        """The value at a share, 0 to 1, of the way from the smallest to the largest."""
        return self.smallest + share * (self.largest - self.smallest)


def attainable(problem: CheckedProblem, paid: Paid, values: Float[np.ndarray, "2 N"] | None) -> Attainable:
    """The range of a quantity over policies that know x.

    Of the return, where several models run and the agent does not know which, what is best in each model is only a bound. As
    `Problem.min_return` defines it, the first action in a state then serves all models:
    `Σ_s max_a Σ_k w_k μ_k(s) Q_{k,0}(s,a)`.

    `values`: over an infinite horizon the claimed ones of each x, of the return and of its negative. What is wrong about them
    is an error of the range, within which any share would be accepted: more than rounding is refused.

    Cost: two backward inductions without an observer; over an infinite horizon two steps of one.

    **Raises:** `CertificateError` where the values are not those of the best and the worst policies.
    """
    free, number = CheckedProblem(problem.record, ()), problem.paid.index(paid)
    (largest, error), (smallest, other) = (_largest(free, number, sign, values) for sign in (1, -1))
    found = Attainable(-smallest, largest, max(error, other))
    if problem.endless and not number:
        step = gamma(free.terms + 8) + 2.02 * free.defect
        allowed = 256 * step * paid.largest / (1 - paid.discount) ** 2
        right = found.error <= allowed + SAME_RETURN * (largest + smallest)
        require(right, f"values: they are wrong by up to {found.error:.3g}, so that no share of the returns is known")
    return found


def _largest(
    free: CheckedProblem, number: int, sign: int, values: Float[np.ndarray, "2 N"] | None
) -> tuple[float, float]:
    """The largest value of `sign` times a quantity, and a bound on its error, in a problem that nobody watches."""
    paid, endless = free.paid[number], free.endless and not number
    factors = tuple(float(sign) * (place == number) for place in range(len(free.paid)))
    pooled = not free.record.knows_model and not number
    after = earned_after(free, values, sign) if endless else (free.paid[0].terminal, 0.0)
    steps = int(pooled) if endless else free.horizon
    lagrangian = Lagrangian(free, (0.0,) * len(factors), factors, after, steps)
    found, error = most_paid(Walk(free), lagrangian, pooled=pooled)
    return float(Fraction(found) + sign * paid.offset), 1.02 * (error + 2 * abs(after[1]) + 8 * UNIT * abs(found))


def rounding_of(problem: CheckedProblem, paid: Paid) -> float:
    """How far rounding may move the quantity in another computation in floats, in any order of its sums."""
    given, last = paid.given
    shift, last_shift = centre_of(given), centre_of(last)
    spread, last_spread = float(np.abs(given - shift).max()), float(np.abs(last - last_shift).max())
    if problem.endless and paid is problem.paid[0]:
        size, centres = spread / (1 - paid.discount) ** 2, abs(shift) / (1 - paid.discount)
    else:
        powers = paid.discount ** np.arange(problem.horizon + 1)
        size = spread * float(powers[:-1] @ np.arange(1, problem.horizon + 1))
        size += last_spread * (problem.horizon + 1) * float(powers[-1])
        centres = abs(shift) * float(powers[:-1].sum()) + abs(last_shift) * float(powers[-1])
    terms = (16 + problem.actions + problem.states + problem.terms) * problem.terms
    return 4 * (terms * UNIT + problem.defect) * size + 16 * UNIT * (centres + size)
