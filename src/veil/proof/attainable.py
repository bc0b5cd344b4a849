"""The smallest and the largest value of a quantity over all policies, with errors: what a percentage is a share of."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from ..common.exact import centre_of
from .arithmetic import UNIT, gamma, require
from .backward import best_scores, continuation_values, scores
from .checked_problem import CheckedProblem, Paid

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

    Cost: two backward inductions over all x; over an infinite horizon two steps of one.

    **Raises:** `CertificateError` where the values are not those of the best and the worst policies.
    """
    (largest, error), (smallest, other) = (_largest(problem, paid, sign, values) for sign in (1, -1))
    found = Attainable(-smallest, largest, max(error, other))
    if problem.endless and paid is problem.paid[0]:
        allowed = 256 * _rounding_of_step(problem) * paid.largest / (1 - paid.discount) ** 2
        right = found.error <= allowed + SAME_RETURN * (largest + smallest)
        require(right, f"values: they are wrong by up to {found.error:.3g}, so that no share of the returns is known")
    return found


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


def _largest(
    problem: CheckedProblem, paid: Paid, sign: int, values: Float[np.ndarray, "2 N"] | None
) -> tuple[float, float]:
    """The largest value of `sign` times the quantity, and a bound on its error."""
    reward, every, step = sign * paid.reward, np.arange(problem.size), _rounding_of_step(problem)
    pooled = not problem.record.knows_model and paid is problem.paid[0] and (problem.endless or problem.horizon > 0)
    if problem.endless and paid is problem.paid[0]:
        value, error = continuation_values(problem, values, sign)
    else:
        value, error = sign * paid.terminal, 0.0
        for time in range(problem.horizon, int(pooled), -1):
            error = paid.discount * error + step * float(np.abs(value).max() + np.abs(reward).max())
            value = best_scores(problem, every, problem.at(time), value[problem.at(time).target], paid.discount, reward)
    x, _, mass = problem.start
    terms = _first_together(problem, reward, value, paid.discount) if pooled else (mass * value[x]).tolist()
    size = float(np.abs(value).max() + np.abs(reward).max())
    error = 1.02 * (error + (2 * step + (len(terms) + 8) * UNIT) * size)
    return float(Fraction(math.fsum(terms)) + sign * paid.offset), error


def _rounding_of_step(problem: CheckedProblem) -> float:
    """The relative error of one step of the induction."""
    return gamma(problem.terms + 8) + 2.02 * problem.defect


def _first_together(
    problem: CheckedProblem, reward: Float[np.ndarray, "N A"], value: Float[np.ndarray, " N"], discount: float
) -> list[float]:
    """`max_a Σ_k w_k μ_k(s) Q_k(s,a)` of each first state s."""
    begun, number = np.unique(problem.start[0], return_inverse=True)
    weight = np.bincount(number.ravel(), problem.start[2])
    moves = problem.at(1)
    after = value[moves.target[moves.of(begun)[1]]]
    position, action, found = scores(problem, begun, moves, after, discount, reward)
    total = np.full((problem.states, problem.actions), -np.inf)
    state = problem.state[begun[position]]
    total[state, action] = 0.0
    np.add.at(total, (state, action), weight[position] * found)
    return total.max(axis=1)[np.unique(state)].tolist()
