"""Whether all constraints of a problem can be met together, and what conflicts where they cannot.

The values `(V_1, …, V_K)` that policies reach are a convex set whose corners are those of deterministic policies. A small
linear program mixes the corners known so far so that the worst slack is largest; its multipliers say in which direction a
further corner is wanted, and one backward induction finds it. Both sides bound the largest worst slack: a mixture from below,
`max_π Σ_k λ_k s_k` from above, so that neither answer depends on a tolerance of the linear program.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linprog

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.errors import InfeasibleError
from ..common.memo import memo
from ..problem.constraints import Bound
from ..problem.problem import Problem
from .additive import Play
from .compile import build
from .paid import Paid
from .return_range import ReturnRange, check_feasible, is_blind, return_extremes

ROUNDING = 1e-9  # of a quantity's range: constraints that miss each other by less meet
_MOST_CORNERS = 400  # tens suffice for a few constraints
_BISECTIONS = 20  # of the range of returns: to a millionth of it
_WORTH = 0.8  # share of the largest worst slack at which a mixture is far enough inside
_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, eq=False)
class Target:
    """One bound as numbers: `sign · V ≥ sign · bound`.

    **Attributes:** `name`, for people; `quantity`: its number in `problem.quantities`; `sign`; `bound`; `range` of its values
    over all policies; `paid`, its rewards on the hidden chain; `share`: of what a percentage is a share, in words, empty if a
    number was asked for.
    """

    name: str
    quantity: int
    sign: float
    bound: float
    range: ReturnRange
    paid: Paid
    share: str = ""

    @property
    def unit(self) -> float:
        """By which slacks are scaled."""
        return self.range.unit

    @property
    def text(self) -> str:
        """The constraint in words: `energy ≤ 20`."""
        return constraint_text(self.name, self.sign, self.bound)

    @property
    def explained(self) -> str:
        """The constraint in words, with what a percentage means: `return ≥ -509.5 (50% of the range -1006 … -13)`."""
        return f"{self.text} ({self.share})" if self.share else self.text

    def slack(self, value: float) -> float:
        """How far a value is inside, in units of the range; negative outside."""
        return self.sign * (value - self.bound) / self.unit


def constraint_text(name: str, sign: float, bound: float) -> str:
    """A constraint in words."""
    return f"{name} {'≥' if sign > 0 else '≤'} {bound:.6g}"


def targets(problem: Problem) -> tuple[Target, ...]:
    """All bounds of a problem as numbers, percentages resolved, in the order of `problem.bounds`.

    Cost: two backward inductions for each quantity, once for each problem.
    """
    return memo(problem, targets, lambda: _targets(problem))


def other_targets(problem: Problem) -> tuple[Target, ...]:
    """Those of `problem.others`, beside the threshold on the return."""
    return targets(problem)[problem.min_return is not None :]


def _targets(problem: Problem) -> tuple[Target, ...]:
    first = len(problem.bounds) - len(problem.others)
    return tuple(target(problem, one, is_threshold=number < first) for number, one in enumerate(problem.bounds))


def target(problem: Problem, one: Bound, *, is_threshold: bool = False) -> Target:
    """A bound as a number; the ends of the range for the threshold on the return are those of `return_extremes`."""
    extremes = return_extremes(problem) if is_threshold else quantity_range(problem, one.quantity)
    paid = build(problem.with_clock()).paid[one.quantity]
    number, share = extremes.part(one.bound), extremes.share_text(one.bound)
    return Target(one.name, one.quantity, one.sign, number, extremes, paid, share)


def quantity_range(problem: Problem, quantity: int) -> ReturnRange:
    """The smallest and the largest value of a quantity over all policies that know the hidden state; found once."""
    if quantity == 0 and not is_blind(problem.informed):
        return return_extremes(problem)
    return memo(problem, (quantity_range, quantity), lambda: _range(problem, quantity))


def _range(problem: Problem, quantity: int) -> ReturnRange:
    play = _play(problem, (build(problem.with_clock()).paid[quantity],))
    largest, smallest = (float(play.best(np.array([sign]))[1][0]) for sign in (1.0, -1.0))
    exact = problem.agent.sees_state and (len(problem.models) == 1 or problem.agent.knows_model)
    return ReturnRange(min(smallest, largest), largest, exact)


def _play(problem: Problem, paid: tuple[Paid, ...]) -> Play:
    """Policies that know the hidden state."""
    hidden = build(problem.with_clock())
    return Play(hidden, paid, problem.model.available[hidden.state])


@dataclass(frozen=True, eq=False)
class Mixture:
    """The policy whose worst slack is largest, as a mixture of deterministic ones on the hidden states.

    **Attributes:** `targets`; `slack` of each, in units of its range; `upper`, which no policy's worst slack exceeds (proven);
    `weights` of the corners `actions`; `complete`: False if a clock ended the search for further corners.
    """

    targets: tuple[Target, ...]
    slack: Float[np.ndarray, " K"]
    upper: float
    weights: Float[np.ndarray, " n"]
    actions: list[Int[np.ndarray, "T N"]]
    play: Play
    complete: bool = True

    @property
    def is_met(self) -> bool:
        """Whether this mixture meets all constraints."""
        return float(self.slack.min()) >= -ROUNDING

    @property
    def is_excluded(self) -> bool:
        """Whether it is proven that no policy meets all constraints."""
        return self.upper < -ROUNDING

    @cached_property
    def flows(self) -> list[np.ndarray]:
        """`P(x_t = x, a_t = a)` for each decision and last `P(x_T = x)`, of the mixture."""
        total = [np.zeros_like(flow) for flow in self.play.flows(self.actions[0])]
        for weight, actions in zip(self.weights.tolist(), self.actions, strict=True):
            for flow, part in zip(total, self.play.flows(actions), strict=True):
                flow += weight * part
        return total


def best_mixture(
    problem: Problem,
    wanted: Sequence[Target] | None = None,
    *,
    relax: bool = False,
    clock: Clock = UNLIMITED,
    partial: bool = False,
) -> Mixture:
    """The mixture of policies whose worst slack is largest, or, with `relax`, whose missing slacks have the smallest sum.

    **Arguments:** `wanted`: the constraints, all by default; `clock`, checked at each step of each backward induction;
    `partial`: when it ends, return the best mixture of the corners found so far, if there is one, instead of `OutOfTime`.

    Cost: a backward induction for each corner; a few for each constraint.
    """
    wanted = targets(problem) if wanted is None else tuple(wanted)
    play = _play(problem, tuple(one.paid for one in wanted))
    scale = np.array([one.sign / one.unit for one in wanted])
    bounds = np.array([one.bound for one in wanted])
    count = len(wanted)
    multipliers, upper = np.full(count, 1.0 if relax else 1 / count), math.inf
    actions: list[np.ndarray] = []
    slacks = np.zeros((0, count))
    weights, best, complete = np.zeros(0), -math.inf, True
    for _ in range(_MOST_CORNERS):
        try:
            made, values = play.best(multipliers * scale, clock)
        except OutOfTime:
            if not actions or not partial:
                raise
            complete = False
            break
        new = scale * (values - bounds)
        upper = min(upper, float(multipliers @ new))
        known = bool(len(slacks)) and float(np.abs(slacks - new).max(axis=1).min()) <= 1e-13
        if not known:
            actions.append(made)
            slacks = np.vstack([slacks, new])
        weights, multipliers = safest_weights(slacks, relax=relax)
        mixed = weights @ slacks
        best = float(np.minimum(mixed, 0.0).sum()) if relax else float(mixed.min())
        enough = best >= _WORTH * upper if best > ROUNDING and not relax else upper - best <= ROUNDING / 10
        if known or enough or (upper < -ROUNDING and not relax and upper - best <= 1e-3 * -upper):
            break
    used = np.flatnonzero(weights > 0)
    return Mixture(wanted, weights @ slacks, upper, weights[used], [actions[i] for i in used], play, complete)


def safest_weights(slacks: Float[np.ndarray, "n K"], *, relax: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The weights of the corners at which the worst slack is largest (or the missing slacks sum to least), and multipliers."""
    count, size = slacks.shape
    extra = np.eye(size) if relax else -np.ones((size, 1))
    found = linprog(
        np.concatenate([np.zeros(count), np.ones(size) if relax else [-1.0]]),
        A_ub=-np.hstack([slacks.T, extra]),
        b_ub=np.zeros(size),
        A_eq=np.concatenate([np.ones(count), np.zeros(extra.shape[1])])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * count + [(0, None) if relax else (None, None)] * extra.shape[1],
        method="highs",
        options=_TOLERANCES,
    )
    weights = np.maximum(found.x[:count], 0.0)
    multipliers = np.maximum(-found.ineqlin.marginals, 0.0)
    total = multipliers.sum()
    if not relax:
        multipliers = multipliers / total if total > 0 else np.full(size, 1 / size)
    return weights / weights.sum(), multipliers


def feasible_mixture(problem: Problem, clock: Clock = UNLIMITED) -> Mixture:
    """`best_mixture` of all constraints, or of those corners that `clock` leaves time for; kept once it is complete.

    **Raises:** `OutOfTime` if the clock ends before the first corner is found.
    """
    key, make = feasible_mixture, lambda: best_mixture(problem, clock=clock, partial=True)
    return memo(problem, key, make, keep=lambda found: found.complete)


def check_constraints(problem: Problem, clock: Clock = UNLIMITED) -> None:
    """Raise `InfeasibleError` where it is proven that no policy meets all constraints, saying which of them conflict.

    Passing is no promise for a smaller class of policies, and none where the agent does not know which model runs, or where
    `clock` ends before the proof.
    """
    check_feasible(problem)
    if not problem.others:
        return
    try:
        excluded = feasible_mixture(problem, clock).is_excluded
    except OutOfTime:
        return
    if excluded:
        raise InfeasibleError(_explained(problem, clock))


def strictest_bound(free: Problem, moved: Target, others: Sequence[Target]) -> float:
    """The strictest bound of one constraint that is met along with the others, to a millionth of its range.

    **Arguments:** `free`: the problem with no bound of `moved`, or one that every policy meets; `others`: all its other
    constraints.

    **Raises:** `InfeasibleError` where the others conflict.
    """
    check_constraints(free)
    low, high = sorted((moved.sign * moved.range.smallest, moved.sign * moved.range.largest))
    if not others:
        return moved.sign * high
    width = (high - low) / 2**_BISECTIONS
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        found = best_mixture(free, (replace(moved, bound=moved.sign * middle), *others))
        low, high = (low, middle) if found.slack.min() < 0 else (middle, high)
    return moved.sign * (low - width)  # so far inside that it can be asked for


def _explained(problem: Problem, clock: Clock) -> str:
    """Which constraints conflict, what each could reach alone, and the nearest bounds that can be met, if there is time."""
    conflict, nearest = list(targets(problem)), ""
    with contextlib.suppress(OutOfTime):
        for one in list(conflict):
            rest = [other for other in conflict if other is not one]
            if rest and best_mixture(problem, rest, clock=clock).is_excluded:
                conflict = rest
        relaxed = best_mixture(problem, relax=True, clock=clock)
        changed = [
            constraint_text(one.name, one.sign, _outward(one, slack))
            for one, slack in zip(relaxed.targets, relaxed.slack.tolist(), strict=True)
            if slack < -ROUNDING
        ]
        nearest = f" Nearest bounds that can be met, the others kept: {', '.join(changed)}."
    alone = ", ".join(f"{one.name} from {one.range.smallest:.6g} to {one.range.largest:.6g}" for one in conflict)
    texts = [one.explained for one in conflict]
    what = (
        f"no policy meets the constraint {texts[0]}"
        if len(texts) == 1
        else f"no policy meets {' and '.join([', '.join(texts[:-1]), texts[-1]])} together"
    )
    return f"{what}; alone, policies reach {alone}.{nearest} Relax these or remove a constraint"


def _outward(one: Target, slack: float) -> float:
    """The bound that a slack of a mixture meets, rounded to six digits to the side where it is met."""
    bound = one.bound + one.sign * slack * one.unit
    text = f"{bound:.5e}"
    rounded = float(text)
    if one.sign * (rounded - bound) > 0:
        rounded -= one.sign * 10.0 ** (int(text.split("e")[1]) - 5)
    return rounded
