"""What the verifier proves of a policy: bounds on its opacity, its return, and whether it meets every constraint."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..common.exact import always_met
from ..common.pace import Watch
from .agent import Agent
from .arithmetic import FLOOR, TINY, UNIT, discount_power, gamma, require
from .backward import continuation_values
from .checked_policy import read_policy
from .checked_problem import Bounds, CheckedProblem
from .claims import Register
from .exact_return import exact_return
from .forward import MOST_MOVES, ForwardPass, Sum

_MOST_STEPS = 20_000  # of a sum over an infinite horizon
_NEGLIGIBLE = 1e-13  # discount^t at which that sum is cut; the rest is bounded

PolicyContent = tuple[Agent, Register | None]
"""A policy, and what it remembers."""


@dataclass(frozen=True, eq=False)
class ProvenValue:
    """A quantity under a policy, within `error`; `met`: it is proven to be within its bound."""

    value: float
    error: float
    met: bool


@dataclass(frozen=True, eq=False)
class PolicyValues:
    """What is proven of a policy: its opacity lies between `lower` and `upper`; `quantities`, the return first.

    Where a part was not asked for, the bounds are those of every policy, or there are no quantities.
    """

    lower: float
    upper: float
    quantities: tuple[ProvenValue, ...]

    @property
    def feasible(self) -> bool:
        """Whether every constraint is proven to be met."""
        return all(one.met for one in self.quantities)


def policy_values(
    problem: CheckedProblem,
    policy: PolicyContent,
    window: tuple[int, int],
    prune: float,
    values: Float[np.ndarray, "2 N"] | None,
    *,
    bounds: Bounds = (),
    goal: str = "opaque",
    merge: int = 0,
    clock: Watch | None = None,
    most_moves: int = MOST_MOVES,
    quantities: bool = True,
    bits: bool = True,
) -> PolicyValues:
    """The quantities of a policy over the whole horizon, and its opacity from a window of times around the secret's.

    Two passes are made: one without histories for the return and for where the window begins, one with histories inside
    the window. They are one pass where the window is everything and nothing is left out or merged.

    **Arguments:** `window`, (a, b) with a ≤ the secret's time ≤ b: at time a ≥ 0 the observer is told x and the agent's
    memory, and again at b ≤ T, which bounds the opacity from below; (-1, T + 1) is the whole horizon. With goal
    "transparent" it forgets at a and stops looking at b, which bounds the opacity from above. `prune`: weights below it
    are left out of the window. `merge`: histories that a layer keeps apart, 0 for all. `values`, `(2, N)`: what a
    time-dependent policy earns after T, for an infinite return. `bounds`: what is to be reached; by default nothing is.
    `quantities`, `bits`: whether each part is wanted.

    **Raises:** `CertificateError` where the window, the policy or the values are not valid; `TooLargeError`, `OutOfTime`.
    """
    time = problem.horizon if problem.each is not None else problem.secret_time
    require(-1 <= window[0] <= time <= window[1], f"window: {window} is not around the secret")
    seen = _Window(*window, prune, merge, goal, most_moves)
    if bits and problem.each is None:
        ends, law = _bits_in_window(problem, policy, seen, clock)
        return PolicyValues(*ends, _quantities(law, values, bounds) if quantities else ())
    found = quantities_of(problem, policy, values, bounds, clock) if quantities else ()
    ends = _bits_at_every_time(problem, policy, seen, clock) if bits else (0.0, problem.most_bits)
    return PolicyValues(*ends, found)


class _Window(NamedTuple):
    """The times whose histories are followed, and how, as in `policy_values`."""

    left: int
    right: int
    prune: float
    merge: int
    goal: str
    most_moves: int


def _bits_in_window(
    problem: CheckedProblem, policy: PolicyContent, seen: _Window, clock: Watch | None
) -> tuple[tuple[float, float], ForwardPass]:
    """Bounds on the opacity, and the pass for the return at the end of the horizon."""
    horizon, (left, right, prune, merge, goal, most_moves) = problem.horizon, seen
    read = read_policy(problem, *policy, since=right)
    whole = left < 0 and right > horizon and prune <= FLOOR and not merge and not problem.endless
    law = ForwardPass(problem, read, clock, most_moves, apart=whole)
    inside = law
    if not whole:
        inside = ForwardPass(problem, read, clock, most_moves, apart=True, below=prune, merge=merge)
    for time in range(horizon + 1):
        if time == left:
            inside.enter(law, reveal=goal == "opaque")
        if time < horizon:
            law.step(time)
    if not whole:
        for time in range(max(left, 0), min(right, horizon)):
            inside.step(time)
        if right <= horizon and goal == "opaque":  # a policy that acts on the value later may give it away with x
            inside.reveal(value=read.used_value >= right)
    return _limited(problem, seen, inside.bits()), law


def _limited(problem: CheckedProblem, seen: _Window, bits: tuple[float, float]) -> tuple[float, float]:
    """What bounds on the bits of an observer in a window say of the observer of the problem."""
    lower, upper = bits
    if (
        seen.left >= 0 or seen.right <= problem.horizon
    ):  # who is told more bounds from below only, who forgets from above
        is_upper = seen.goal == "transparent" and problem.path is None  # of a path the window holds only its last part
        lower, upper = (lower if seen.goal == "opaque" else 0.0, upper if is_upper else problem.most_bits)
    return (
        lower,
        problem.most_bits if problem.untimed else upper,
    )  # one with a clock, whose events are followed, may know more


def _bits_at_every_time(
    problem: CheckedProblem, policy: PolicyContent, seen: _Window, clock: Watch | None
) -> tuple[float, float]:
    """Bounds on `Σ_t w_t H(Z_t | Y_0:t)`: by all histories, or at each time t by those since time t − left, at which the
    observer is told (memory, x), or forgets all that it has seen."""
    left, _, prune, merge, goal, most_moves = seen
    each, read, terms = problem.each, read_policy(problem, *policy), list[tuple[float, float]]()
    assert each is not None
    first = problem.horizon if left < 0 else left
    law = ForwardPass(problem, read, clock, most_moves, apart=False)
    inside = ForwardPass(problem, read, clock, most_moves, apart=True, below=prune, merge=merge)
    for begin in range(problem.horizon - first + 1):
        if begin:
            law.step(begin - 1)
            inside = ForwardPass(problem, read, clock, most_moves, apart=True, below=prune)
            inside.enter(law, reveal=goal == "opaque")
        for time in range(begin, begin + first + 1):
            if (not begin or time == begin + first) and each.weights[time]:
                low, high = inside.bits_now(time)
                low, high = (
                    low if goal == "opaque" or not begin else 0.0,
                    high if goal != "opaque" or not begin else np.inf,
                )
                terms.append((float(each.weights[time]) * low, float(each.weights[time]) * high))
            if time < begin + first:
                inside.step(time)
    low, high = (math.fsum(column) for column in zip(*terms, strict=True))
    return low * (1 - 4 * UNIT), min(problem.most_bits, high * (1 + 4 * UNIT))


def quantities_of(
    problem: CheckedProblem,
    policy: PolicyContent,
    values: Float[np.ndarray, "2 N"] | None,
    bounds: Bounds,
    clock: Watch | None = None,
) -> tuple[ProvenValue, ...]:
    """The quantities alone, as in `policy_values`. **Raises:** the same."""
    read = read_policy(problem, *policy)
    law = ForwardPass(problem, read, clock, MOST_MOVES, apart=False)
    for time in range(problem.horizon):
        law.step(time)
    return _quantities(law, values, bounds)


def _quantities(law: ForwardPass, values: Float[np.ndarray, "2 N"] | None, bounds: Bounds) -> tuple[ProvenValue, ...]:
    """All quantities with bounds on their errors, from a pass at time T, which goes on where an infinite sum does."""
    problem, policy = law.problem, law.policy
    earned = problem.paid[0]
    steps, last, tail = problem.horizon, earned.terminal, 0.0
    law.apart = False
    if problem.endless and policy.stationary:
        tail = float(np.abs(earned.reward).max()) / (1 - problem.discount)
        while steps < _MOST_STEPS and problem.discount**steps > _NEGLIGIBLE:
            law.step(steps)
            steps += 1
        last = np.zeros(problem.size)
    elif problem.endless:
        require(policy.knows_model, "policy: it is time-dependent, and after the horizon an agent that does not know the"
                " model cannot continue optimally")  # fmt: skip
        last, tail = continuation_values(problem, values)
    ends = [(last, tail), *((one.terminal, 0.0) for one in problem.paid[1:])]
    parts = zip(law.sums, bounds or (None,) * len(law.sums), ends, strict=True)
    return tuple(_proven(law, one, bound, end, steps) for one, bound, end in parts)


def _proven(
    law: ForwardPass,
    found: Sum,
    bound: float | None,
    end: tuple[Float[np.ndarray, " N"], float],
    steps: int,
) -> ProvenValue:
    """One quantity after so many steps; `end`: what x then pays, and what comes later at most."""
    paid, problem, (last, tail) = found.paid, law.problem, end
    power, missed = discount_power(paid.discount, steps)
    left_out = found.left_out + missed + len(law.mass) * TINY
    ends = (law.mass * power * last[law.entries.x]).tolist()
    weighted = found.weighted + (steps + 1) * math.fsum(map(abs, ends))  # what is paid at t went through t + 1 steps
    largest = (np.abs(paid.reward).max() + np.abs(last).max()) * (steps + 1)
    error = (gamma(law.most_in_a_step + 12) + 4.04 * law.defect) * weighted
    error = 1.02 * (error + (power + missed) * tail + (law.lost + left_out) * largest) + FLOOR
    middle = Fraction(math.fsum([*found.parts, *ends])) + paid.offset
    low, high = middle - Fraction(float(error)), middle + Fraction(float(error))
    met = bound is None or (
        not problem.endless and always_met(paid.sign, bound, *paid.given, paid.discount, problem.horizon)
    )
    if bound is not None and not met:
        if low < Fraction(bound) <= high if paid.sign > 0 else low <= Fraction(bound) < high:
            low, high = exact_return(problem, law.policy, paid) or (low, high)
        met = low >= Fraction(bound) if paid.sign > 0 else high <= Fraction(bound)
    expected = float(min(max(middle, low), high))
    within = max(high - Fraction(expected), Fraction(expected) - low)
    error = float(within)
    return ProvenValue(expected, error if Fraction(error) >= within else math.nextafter(error, math.inf), met)
