"""The default method on exact values: all starts at once, and those that are left polished one after the other.

Who is polished is moved by the second-order method, L-BFGS on the augmented Lagrangian of one policy, to a stationary point.
With slacks `s_k ≥ 0` wanted, multipliers μ and penalty ρ, `L = score − Σ_k (max(0, μ_k − ρ s_k)² − μ_k²) / 2ρ`, whose gradient
is that of the score plus `Σ_k max(0, μ_k − ρ s_k) ∂s_k`. It is preconditioned by the natural metric of the policy.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.logs import natural_log
from .ascent import CLIMB, DONE, LAST, SETTLE, Ascent, AscentState, fields_of
from .first_order import DECAYS
from .iteration import SavedState
from .mixing import contenders
from .parameters import LOWEST, RARE, ROUNDED, TableParameters, least_share
from .values import GAP_BITS, STILL, TOLERANCE_BITS, Values

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
        polish = Polish.of(state.polish)
        here = self._at(polish, polish.theta)
        after = self._polished(polish, here)
        theta, prices, one = state.theta[0].copy(), state.multiplier[0].copy(), slice(state.leader, state.leader + 1)
        theta[one], prices[one] = after.theta, after.multiplier
        state = replace(state, iteration=state.iteration + 1, theta=[theta], multiplier=[prices], polish=after.arrays())
        return self._followed(self.noted(state, here.tables, here.values, here.multiplier, 0.0), after)

    def rate(self, state: ExactState) -> float:
        """See `Ascent`."""
        return self.schedule.exact_rate(state.iteration)

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
        theta, none = state.theta[0][one], np.zeros((0, state.theta[0][one].size))
        begun = Polish(theta, state.multiplier[0][one], PENALTY, np.inf, 0, 0, none, none)
        return replace(state, phase=phase, polish=self._sorted_out(begun).arrays())

    def is_done(self, state: ExactState) -> bool:
        """See `Iteration`."""
        return state.phase == DONE or self.near_most(state, STILL)

    def candidates(self, state: ExactState) -> Float[np.ndarray, "B T C A"]:
        """See `Iteration`."""
        one = slice(state.leader, state.leader + 1)
        table = self.parameters.tables(state.theta[0][one])[0] if state.polish else state.leading
        return contenders(self.objective, state, table, self.safe)

    # The second-order method.

    def _at(self, state: "Polish", theta: Float[np.ndarray, "1 R A"]) -> "_Point":
        tables = self.parameters.tables(theta)
        values = self.objective.evaluate(tables)
        merit = float(values.merit(state.multiplier, state.penalty)[0])
        return _Point(theta, tables, values, values.multipliers(state.multiplier, state.penalty), merit)

    def _gradient(self, point: "_Point") -> Float[np.ndarray, " P"]:
        """The gradient of the augmented Lagrangian in the parameters."""
        return self.parameters.pull_back(point.theta, point.tables, point.slope)[0].ravel()

    @property
    def _rounding(self) -> float:
        """Of slacks of returns."""
        return self.objective.rounding / self.objective.unit

    def _polished(self, state: "Polish", here: "_Point") -> "Polish":
        """One step further from a point."""
        gradient, none = self._gradient(here), state.changes[:0]
        direction = self._direction(state, here.tables[0], gradient)
        moved = replace(state, gap=self._gain(here), inside=state.inside + 1)
        found = self._line_search(state, direction.reshape(state.theta.shape), here.merit, float(gradient @ direction))
        if found is None:
            if len(state.changes):  # the memory misleads: begin anew from the metric alone
                return replace(moved, changes=none, turns=none)
            return self._next_multiplier(moved, here, done=True)
        size, there = found
        change, turn = size * direction, gradient - self._gradient(there)
        changes, turns = state.changes, state.turns
        if change @ turn > ROUNDED * float(np.linalg.norm(change) * np.linalg.norm(turn)):
            changes, turns = np.vstack([changes, change])[-_PAIRS:], np.vstack([turns, turn])[-_PAIRS:]
        moved = replace(moved, theta=there.theta, changes=changes, turns=turns)
        done = there.merit - here.merit < STILL + self._rounding
        if done or moved.inside % _MULTIPLIER_EVERY == 0:
            return self._next_multiplier(moved, there, done=done)
        return moved

    def _gain(self, point: "_Point") -> float:
        """`Σ_c max_a g(c,a) − Σ_a π(a|c) g(c,a)`: what the best change of all rows promises to first order; 0 if stationary."""
        best = np.where(self.objective.space.available, point.slope, -np.inf).max(axis=-1)
        return float(np.sum(best - np.sum(point.tables * point.slope, axis=-1)))

    def _direction(self, state: "Polish", table: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """L-BFGS in the metric `1 / (P(cell) π(a))`, the diagonal inverse of the natural one, or a step of that alone."""
        space = self.objective.space
        flow = space.visits(table)[..., None] * table
        metric = self.parameters.used(np.where(space.available, 1 / np.maximum(flow, ROUNDED**2), 0.0)).ravel()
        metric[(state.theta[0] <= LOWEST).ravel()] = 0.0
        direction = np.clip(_quasi_newton(gradient, metric, state.changes, state.turns), -_LONGEST_STEP, _LONGEST_STEP)
        if direction @ gradient > 0:
            return direction
        return np.clip(metric * gradient, -_LONGEST_STEP, _LONGEST_STEP)

    def _line_search(
        self, state: "Polish", direction: np.ndarray, merit: float, promised: float
    ) -> tuple[float, "_Point"] | None:
        """The longest step along a direction, of all halvings, that keeps a share of what it promises, with where it leads."""
        step = 1.0
        while step > ROUNDED:
            found = self._at(state, self.parameters.bounded(state.theta + step * direction))
            if found.merit - merit >= _KEPT * step * promised:
                return step, found
            step /= 2
        return None

    def _sorted_out(self, state: "Polish") -> "Polish":
        """Close the actions that are hardly taken and do not pay, and open those that would: the rest is well conditioned."""
        here, parameters, none = self._at(state, state.theta), self.parameters, state.changes[:0]
        gain = parameters.used((here.slope - np.sum(here.tables * here.slope, axis=-1, keepdims=True))[0])
        theta = state.theta - state.theta.max(axis=-1, keepdims=True)
        opened = natural_log(np.array(least_share(self.objective.space)))
        rare = (parameters.used(here.tables[0]) < RARE) & parameters.open
        theta[0] = np.where(rare & (gain <= 0), LOWEST, np.maximum(theta[0], LOWEST))
        theta[0] = np.where(rare & (gain > GAP_BITS), opened, theta[0])
        return replace(state, theta=theta, changes=none, turns=none)

    def _next_multiplier(self, state: "Polish", point: "_Point", *, done: bool) -> "Polish":
        """Take over the multipliers that hold at the optimum of the augmented Lagrangian; end where nothing moves any more."""
        new, within = point.multiplier, GAP_BITS + self._rounding
        violated = float(np.max(-point.values.slack, initial=0.0))
        # Of a bound with a price nothing is left unused; one without has a slack of any size.
        unused = float(np.max(np.abs(new - state.multiplier), initial=0.0)) / state.penalty
        if done and unused < within and violated < within and state.gap < GAP_BITS:
            return replace(state, multiplier=new, done=1)
        after = replace(state, multiplier=new, penalty=2 * state.penalty if violated > within else state.penalty)
        return self._sorted_out(after) if done or state.inside % _SORT_EVERY == 0 else after


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


@dataclass(frozen=True, eq=False)
class _Point:
    """The augmented Lagrangian at some parameters: its value, `merit`, and the multipliers that hold there."""

    theta: Float[np.ndarray, "1 R A"]
    tables: Float[np.ndarray, "1 T C A"]
    values: Values
    multiplier: Float[np.ndarray, "1 K"]
    merit: float

    @cached_property
    def slope(self) -> Float[np.ndarray, "1 T C A"]:
        """Its gradient in the tables."""
        return self.values.lagrangian_gradient(self.multiplier)


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
