"""What the verifier proves of a policy: bounds on its opacity, its return, and whether it meets every constraint."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..common.exact import always_met, rounded_down
from ..common.pace import Watch
from .agent import Agent
from .arithmetic import FLOOR, TINY, UNIT, discount_power, gamma, require
from .backward import earned_after
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
    problem: CheckedProblem, policy: PolicyContent, window: tuple[int, int], prune: float,
    values: Float[np.ndarray, "2 N"] | None, *, bounds: Bounds = (), goal: str = "opaque", merge: int = 0,
    clock: Watch | None = None, most_moves: int = MOST_MOVES, quantities: bool = True, bits: bool = True,
) -> PolicyValues:  # fmt: skip
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
    (left, right), horizon, read = window, problem.horizon, read_policy(problem, *policy, since=window[1])
    time = horizon if problem.each is not None else problem.secret_time
    require(-1 <= left <= time <= right, f"window: {window} is not around the secret")
    whole = bits and left < 0 and right > horizon and prune <= FLOOR and not merge and not problem.endless
    law = ForwardPass(problem, read, clock, most_moves, apart=whole)
    terms, windows = list[tuple[float, float]](), _windows(problem, window) if bits else []
    for one in windows:
        inside = law if whole else ForwardPass(problem, read, clock, most_moves, apart=True, below=prune, merge=merge)
        if one.cut:
            law.go(one.begin)
            inside.enter(law, reveal=goal == "opaque")
        if one is windows[-1] and not whole:
            law.go(horizon)
        terms += _bits(inside, one, goal)
    if not windows:
        terms = [(0.0, math.inf)]
        law.go(horizon if quantities else 0)
    low, high = (math.fsum(column) for column in zip(*terms, strict=True))
    upper = problem.most_bits if problem.untimed else min(problem.most_bits, high)  # who has a clock may know more
    return PolicyValues(low, upper, _quantities(law, values, bounds) if quantities else ())


class _Window(NamedTuple):
    """Histories are followed from time `begin` on, and bits count at some `times`. The observer is told (memory, x), or forgets
    and stops looking, at the begin if `cut`, and at the end if `ends`."""

    begin: int
    times: Sequence[int]
    cut: bool
    ends: bool


def _windows(problem: CheckedProblem, window: tuple[int, int]) -> list[_Window]:
    """One for a secret that is settled once; for values at every time, at each time t the histories since time t − left."""
    (left, right), horizon = window, problem.horizon
    if problem.each is None:
        return [_Window(max(left, 0), (min(right, horizon),), left >= 0, right <= horizon)]
    first = horizon if left < 0 else left
    more = [_Window(begin, (begin + first,), True, False) for begin in range(1, horizon - first + 1)]
    return [_Window(0, range(first + 1), False, False), *more]


def _bits(inside: ForwardPass, window: _Window, goal: str) -> list[tuple[float, float]]:
    """Bounds on the bits that count at each time. An observer that is told more bounds from below, one that forgets from above;
    of a path a window holds only the last part."""
    problem, found, part = inside.problem, list[tuple[float, float]](), window.cut or window.ends
    for time in window.times:
        inside.go(time)
        if window.ends and goal == "opaque":
            # A policy that acts on the value later may give it away with x.
            inside.reveal(value=inside.policy.used_value >= time)
        weight = 1.0 if problem.each is None else float(problem.each.weights[time])
        if weight:
            low, high = inside.bits()
            low = low if goal == "opaque" or not part else 0.0
            high = high if not part or (goal == "transparent" and problem.path is None) else math.inf
            found.append((weight * low * (1 - 4 * UNIT), weight * high * (1 + 4 * UNIT)))
    return found


def _quantities(law: ForwardPass, values: Float[np.ndarray, "2 N"] | None, bounds: Bounds) -> tuple[ProvenValue, ...]:
    """All quantities with bounds on their errors, from a pass at time T, which goes on where an infinite sum does."""
    problem, policy = law.problem, law.policy
    law.apart = False
    if problem.endless and policy.stationary:
        last, tail = np.zeros(problem.size), float(np.abs(problem.paid[0].reward).max()) / (1 - problem.discount)
        while law.time < _MOST_STEPS and problem.discount**law.time > _NEGLIGIBLE:
            law.step()
    else:
        words = "it is time-dependent, and after the horizon an agent that does not know the model cannot continue optimally"
        require(policy.knows_model or not problem.endless, f"policy: {words}")
        last, tail = earned_after(problem, values)
    ends = [(last, tail), *((one.terminal, 0.0) for one in problem.paid[1:])]
    parts = zip(law.sums, bounds or (None,) * len(law.sums), ends, strict=True)
    return tuple(_proven(law, *part) for part in parts)


def _proven(
    law: ForwardPass, found: Sum, bound: float | None, end: tuple[Float[np.ndarray, " N"], float]
) -> ProvenValue:
    """One quantity at the end of a pass; `end`: what x then pays, and what comes later at most."""
    paid, problem, (last, tail), steps = found.paid, law.problem, end, law.time
    power, missed = discount_power(paid.discount, steps)
    left_out = found.left_out + missed + len(law.mass) * TINY
    ends = (law.mass * power * last[law.entries.x]).tolist()
    weighted = found.weighted + (steps + 1) * math.fsum(map(abs, ends))  # what is paid at t went through t + 1 steps
    largest = (np.abs(paid.reward).max() + np.abs(last).max()) * (steps + 1)
    error = (gamma(law.most_in_a_step + 12) + 4.04 * law.defect) * weighted
    error = 1.02 * (error + (power + missed) * tail + (law.lost + left_out) * largest) + FLOOR
    middle = Fraction(math.fsum([*found.parts, *ends])) + paid.offset
    low, high = middle - Fraction(float(error)), middle + Fraction(float(error))
    met = bound is None
    if bound is not None and not problem.endless:
        met = always_met(paid.sign, bound, *paid.given, paid.discount, problem.horizon)
    if bound is not None and not met:
        if low < Fraction(bound) <= high if paid.sign > 0 else low <= Fraction(bound) < high:
            low, high = exact_return(problem, law.policy, paid) or (low, high)
        met = low >= Fraction(bound) if paid.sign > 0 else high <= Fraction(bound)
    expected = float(min(max(middle, low), high))
    within = max(high - Fraction(expected), Fraction(expected) - low)
    return ProvenValue(expected, abs(rounded_down(-within)), met)
