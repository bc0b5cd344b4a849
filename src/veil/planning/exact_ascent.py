"""The default method on exact values: all starts at once, and those that are left polished one after the other.

Who is polished is moved by the second-order method, L-BFGS on the augmented Lagrangian of one policy, to a stationary point.
With slacks `s_k ≥ 0` wanted, multipliers μ and penalty ρ, `L = score − Σ_k (max(0, μ_k − ρ s_k)² − μ_k²) / 2ρ`, whose gradient
is that of the score plus `Σ_k max(0, μ_k − ρ s_k) ∂s_k`. It is preconditioned by the natural metric of the policy.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.logs import natural_log
from .ascent import CLIMB, DONE, LAST, SETTLE, Ascent, AscentState, fields_of
from .first_order import DECAYS
from .iteration import SavedState
from .mixing import contenders
from .objective import Objective
from .parameters import LOWEST, RARE, ROUNDED, TableParameters, least_share
from .values import GAP_BITS, TOLERANCE_BITS, Values

STILL = 1e-9
"""Bits, beyond rounding errors of the return, that are no gain: by judgement."""

PENALTY = 6.0
"""ρ to begin with: of the size of second derivatives of bits in shares of a range."""

_PAIRS = 12  # of changes that L-BFGS remembers: customary
_MULTIPLIER_EVERY, _SORT_EVERY = 2 * _PAIRS, 4 * _PAIRS  # steps: more than are remembered
_KEPT = 1e-4  # share of what a step promises that it has to keep: Armijo's customary one
_LONGEST_STEP = 2.0  # of a logit: a probability changes by a factor of seven at most


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactState(AscentState):
    """Where a search on exact values stands. All starts are one group.

    **Attributes:** `leading`: the table that leads; `polish`: the arrays of a `Polish`, empty before the first.
    """

    leading: Float[np.ndarray, "T C A"]
    polish: dict[str, Any]


class ExactAscent(Ascent[ExactState]):
    """See `Ascent`; its parameters are those of tables."""

    parameters: TableParameters
    decays = DECAYS[False]

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> ExactState:
        """See `Iteration`."""
        best, score = self.objective.best_of([*self.known, *([] if known is None else known)])
        theta = np.stack([self.parameters.of(table) for table in self.starts])
        return ExactState(leading=best, polish={}, history=np.zeros((0, 6)), **self.begun([theta], best, score))

    def unpack(self, arrays: dict[str, np.ndarray]) -> ExactState:
        """See `Iteration`."""
        return ExactState.of(arrays)

    def advance(self, state: ExactState) -> ExactState:
        """See `Iteration`: one step of all starts, or of the one that is polished."""
        if state.phase == CLIMB:
            return super().advance(state)
        self.objective.clock.check()
        after, tables, values, multiplier = polished(self.objective, self.parameters, Polish.of(state.polish))
        theta, prices, one = state.theta[0].copy(), state.multiplier[0].copy(), slice(state.leader, state.leader + 1)
        theta[one], prices[one] = after.theta, after.multiplier
        state = replace(state, iteration=state.iteration + 1, theta=[theta], multiplier=[prices], polish=after.arrays())
        return self._followed(self.noted(state, tables, values, multiplier, 0.0), after)

    def led(
        self, state: ExactState, tables: Any, values: Values, multipliers: Float[np.ndarray, "n K"]
    ) -> tuple[ExactState, int]:
        """The state with the best feasible table so far and the one that leads, and the number of the best of these."""
        best = values.best
        if values.feasible[best] and values.score[best] > state.best_score:
            score, multiplier = float(values.score[best]), multipliers[best]
            state = replace(state, best=tables[best], best_score=score, best_multiplier=multiplier)
        # What is best but for a slight infeasibility is worth more than what is feasible by chance.
        return replace(state, leading=tables[int(np.argmax(values.worth(multipliers)))]), best

    def phase(self, state: ExactState) -> str:
        """See `Ascent`."""
        return "climbing"

    def part(self, state: ExactState, kept: Int[np.ndarray, " k"], others: Int[np.ndarray, " m"]) -> ExactState:
        """See `Ascent`."""
        return replace(state, **fields_of([state.groups[0].part(kept)]))

    def finish(self, state: ExactState) -> ExactState:
        """The state that polishes the first of those that are left."""
        return self._with_polish(state, SETTLE if self.schedule.settle else LAST)

    def _followed(self, state: ExactState, after: "Polish") -> ExactState:
        """Where the leader has settled the next one follows, and after them the best of all, to the end."""
        if state.phase == LAST:
            return replace(state, phase=DONE) if after.done or after.inside >= self.schedule.last else state
        if not after.done and after.gap > TOLERANCE_BITS and after.inside < self.schedule.settle:
            return state
        if state.leader + 1 < len(state.theta[0]):
            return self._with_polish(replace(state, leader=state.leader + 1), SETTLE)
        return self._with_polish(state, LAST)

    def _with_polish(self, state: ExactState, phase: int) -> ExactState:
        """The state that polishes its leader, the best of those that are left if it is the last."""
        if phase == LAST:
            state = self.kept(state, 1)
            if not self.schedule.last:
                return replace(state, phase=DONE)
        one = slice(state.leader, state.leader + 1)
        begun = begin_polish(self.objective, self.parameters, state.theta[0][one], state.multiplier[0][one])
        return replace(state, phase=phase, polish=begun.arrays())

    def is_done(self, state: ExactState) -> bool:
        """See `Iteration`."""
        return state.phase == DONE or self.near_most(state, STILL)

    def candidates(self, state: ExactState) -> Float[np.ndarray, "B T C A"]:
        """See `Iteration`."""
        one = slice(state.leader, state.leader + 1)
        table = self.parameters.tables(state.theta[0][one])[0] if state.polish else state.leading
        return contenders(self.objective, state, table, self.safe)


@dataclass(frozen=True, eq=False)
class Polish(SavedState):
    """Where the second-order method stands: parameters `(1, R, A)`, multipliers, and the changes that it remembers."""

    theta: Float[np.ndarray, "1 R A"]
    multiplier: Float[np.ndarray, "1 K"]
    penalty: float
    gap: float
    inside: int
    done: int
    changes: Float[np.ndarray, "m P"]
    turns: Float[np.ndarray, "m P"]


def begin_polish(
    objective: Objective, parameters: TableParameters, theta: np.ndarray, multiplier: np.ndarray
) -> Polish:
    """The state from which to polish."""
    none = np.zeros((0, theta.size))
    return _sorted_out(objective, parameters, Polish(theta, multiplier, PENALTY, np.inf, 0, 0, none, none))


def polished(
    objective: Objective, parameters: TableParameters, state: Polish
) -> tuple[Polish, np.ndarray, Values, np.ndarray]:
    """One step further; with the tables, values and multipliers where it began."""
    multiplier, penalty = state.multiplier, state.penalty
    tables = parameters.tables(state.theta)
    values = objective.evaluate(tables)
    new = values.multipliers(multiplier, penalty)
    slope = values.lagrangian_gradient(new)
    gradient = parameters.pull_back(state.theta, tables, slope)[0].ravel()
    gap = first_order_gain(objective, tables[0], slope[0])
    direction = _direction(objective, parameters, state, tables[0], gradient)
    promised, merit = float(gradient @ direction), float(values.merit(multiplier, penalty)[0])
    moved = replace(state, gap=gap, inside=state.inside + 1)
    found = _line_search(objective, parameters, state, direction.reshape(state.theta.shape), merit, promised)
    if found is None:
        if len(state.changes):  # the memory misleads: begin anew from the metric alone
            return replace(moved, changes=state.changes[:0], turns=state.turns[:0]), tables, values, new
        return _next_multiplier(objective, parameters, moved, new, values, done=True), tables, values, new
    size, theta, new_tables, new_values = found
    after_multiplier = new_values.multipliers(multiplier, penalty)
    after = parameters.pull_back(theta, new_tables, new_values.lagrangian_gradient(after_multiplier))[0].ravel()
    change, turn = size * direction, gradient - after
    changes, turns = state.changes, state.turns
    if change @ turn > ROUNDED * float(np.linalg.norm(change) * np.linalg.norm(turn)):
        changes, turns = np.vstack([changes, change])[-_PAIRS:], np.vstack([turns, turn])[-_PAIRS:]
    gained = float(new_values.merit(multiplier, penalty)[0]) - merit
    moved = replace(moved, theta=theta, changes=changes, turns=turns)
    done = gained < STILL + objective.rounding / objective.unit
    if done or moved.inside % _MULTIPLIER_EVERY == 0:
        moved = _next_multiplier(objective, parameters, moved, after_multiplier, new_values, done=done)
    return moved, tables, values, new


def first_order_gain(objective: Objective, table: np.ndarray, slope: Float[np.ndarray, "T C A"]) -> float:
    """`Σ_c max_a g(c,a) − Σ_a π(a|c) g(c,a)`: what the best change of every row promises to first order; 0 when stationary."""
    best = np.where(objective.space.available, slope, -np.inf).max(axis=-1)
    return float(np.sum(best - np.sum(table * slope, axis=-1)))


def _direction(
    objective: Objective, parameters: TableParameters, state: Polish, table: np.ndarray, gradient: np.ndarray
) -> np.ndarray:
    """L-BFGS in the metric `1 / (P(cell) π(a))`, the diagonal inverse of the natural one, or a step of that metric alone."""
    flow = objective.space.visits(table)[..., None] * table
    metric = parameters.used(np.where(objective.space.available, 1 / np.maximum(flow, ROUNDED**2), 0.0)).ravel()
    metric[(state.theta[0] <= LOWEST).ravel()] = 0.0
    direction = np.clip(_quasi_newton(gradient, metric, state.changes, state.turns), -_LONGEST_STEP, _LONGEST_STEP)
    if direction @ gradient > 0:
        return direction
    return np.clip(metric * gradient, -_LONGEST_STEP, _LONGEST_STEP)


def _sorted_out(objective: Objective, parameters: TableParameters, state: Polish) -> Polish:
    """Close the actions that are hardly taken and do not pay, and open those that would: the rest is well conditioned."""
    tables = parameters.tables(state.theta)
    values = objective.evaluate(tables)
    slope = values.lagrangian_gradient(values.multipliers(state.multiplier, state.penalty))[0]
    gain = parameters.used(slope - np.sum(tables[0] * slope, axis=-1, keepdims=True))
    theta = state.theta - state.theta.max(axis=-1, keepdims=True)
    opened = natural_log(np.array(least_share(objective.space)))
    rare = (parameters.used(tables[0]) < RARE) & parameters.open
    theta[0] = np.where(rare & (gain <= 0), LOWEST, np.maximum(theta[0], LOWEST))
    theta[0] = np.where(rare & (gain > GAP_BITS), opened, theta[0])
    return replace(state, theta=theta, changes=state.changes[:0], turns=state.turns[:0])


def _next_multiplier(
    objective: Objective, parameters: TableParameters, state: Polish, new: np.ndarray, values: Values, *, done: bool
) -> Polish:
    """Take over the multipliers that hold at the optimum of the augmented Lagrangian; end where nothing moves any more."""
    violated = float(np.max(-values.slack, initial=0.0))
    # Of a bound with a price nothing is left unused; one without has a slack of any size.
    unused = float(np.max(np.abs(new - state.multiplier), initial=0.0)) / state.penalty
    within = GAP_BITS + objective.rounding / objective.unit
    if done and unused < within and violated < within and state.gap < GAP_BITS:
        return replace(state, multiplier=new, done=1)
    after = replace(state, multiplier=new, penalty=2 * state.penalty if violated > within else state.penalty)
    return _sorted_out(objective, parameters, after) if done or state.inside % _SORT_EVERY == 0 else after


def _quasi_newton(
    gradient: np.ndarray, metric: np.ndarray, changes: np.ndarray, turns: np.ndarray
) -> Float[np.ndarray, " P"]:
    """The two-loop recursion of L-BFGS for ascent, begun from a diagonal metric."""
    work, factors = gradient.copy(), []
    for change, turn in zip(changes[::-1], turns[::-1], strict=True):
        factor = (change @ work) / (change @ turn)
        factors.append(factor)
        work -= factor * turn
    scale = 1.0
    if len(changes):
        scale = (changes[-1] @ turns[-1]) / max(turns[-1] @ (metric * turns[-1]), np.finfo(float).tiny)
    work *= scale * metric
    for change, turn, factor in zip(changes, turns, factors[::-1], strict=True):
        work += change * (factor - (turn @ work) / (change @ turn))
    return metric * gradient if work @ gradient <= 0 else work


def _line_search(
    objective: Objective,
    parameters: TableParameters,
    state: Polish,
    direction: np.ndarray,
    merit: float,
    promised: float,
) -> tuple[float, np.ndarray, np.ndarray, Values] | None:
    """The longest step along a direction, of all halvings, that keeps a share of what it promises, with where it leads."""
    step = 1.0
    while step > ROUNDED:
        theta = parameters.bounded(state.theta + step * direction)
        tables = parameters.tables(theta)
        values = objective.evaluate(tables)
        gained = float(values.merit(state.multiplier, state.penalty)[0]) - merit
        if gained >= _KEPT * step * promised:
            return step, theta, tables, values
        step /= 2
    return None
