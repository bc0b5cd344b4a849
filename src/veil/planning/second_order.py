"""The second-order method: L-BFGS on the augmented Lagrangian of one policy, on exact gradients, to a stationary point.

With slacks `s_k ≥ 0` wanted, multipliers μ and penalty ρ, `L = score − Σ_k (max(0, μ_k − ρ s_k)² − μ_k²) / 2ρ`, whose gradient
is that of the score plus `Σ_k max(0, μ_k − ρ s_k) ∂s_k`. It is preconditioned by the natural metric of the policy.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from .iteration import SavedState
from .objective import Objective
from .parameters import TableParameters
from .values import Values

GAP_BITS = 1e-5
"""Of the best first-order change, below which a policy is called stationary."""
TOLERANCE_BITS = 1e-3
"""The same, below which an answer is called converged: what it gains after that is of this size."""
STILL = 1e-9
"""Bits, beyond rounding errors of the return, that are no gain."""

PENALTY = 6.0
"""ρ to begin with: of the size of second derivatives of bits in shares of a range."""

_MULTIPLIER_EVERY, _SORT_EVERY = 20, 60  # steps: more than the changes that are remembered, and three times as many
_UNUSED = 1e-6  # slack at a bound that has a price, up to which a search goes on
_PAIRS = 12  # of changes that L-BFGS remembers: customary
_LONGEST_STEP = 2.0  # of a logit: a probability changes by a factor of seven at most
# Actions taken more rarely than this are closed where they do not pay, by this logit (a probability of 1e-11), or opened again
# (0.02).
_RARE, _CLOSED, _OPENED = 2e-3, -25.0, -4.0


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
    shape = state.theta.shape
    size, found = _line_search(objective, parameters, state, direction.reshape(shape), merit, promised)
    if found is None:
        if len(state.changes):  # the memory misleads: begin anew from the metric alone
            return replace(moved, changes=state.changes[:0], turns=state.turns[:0]), tables, values, new
        return _next_multiplier(objective, parameters, moved, new, values, done=True), tables, values, new
    theta, new_tables, new_values = found
    after_multiplier = new_values.multipliers(multiplier, penalty)
    after = parameters.pull_back(theta, new_tables, new_values.lagrangian_gradient(after_multiplier))[0].ravel()
    change, turn = size * direction, gradient - after
    changes, turns = state.changes, state.turns
    if change @ turn > 1e-10 * float(np.linalg.norm(change) * np.linalg.norm(turn)):
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
    metric = np.where(objective.space.available, _metric(objective, table), 0.0)
    metric = parameters.used(metric).ravel()
    metric[(state.theta[0] <= _CLOSED).ravel()] = 0.0
    direction = np.clip(_quasi_newton(gradient, metric, state.changes, state.turns), -_LONGEST_STEP, _LONGEST_STEP)
    if direction @ gradient > 0:
        return direction
    return np.clip(metric * gradient, -_LONGEST_STEP, _LONGEST_STEP)


def _metric(objective: Objective, table: np.ndarray) -> np.ndarray:
    """The diagonal `1 / (P(cell) π(a))` of the natural metric's inverse, floored where nothing goes."""
    visited = objective.space.visits(table)
    return 1 / (np.maximum(visited, 1e-6)[..., None] * np.maximum(table, 1e-9))


def _sorted_out(objective: Objective, parameters: TableParameters, state: Polish) -> Polish:
    """Close the actions that are hardly taken and do not pay, and open those that would: the rest is well conditioned."""
    tables = parameters.tables(state.theta)
    values = objective.evaluate(tables)
    slope = values.lagrangian_gradient(values.multipliers(state.multiplier, state.penalty))[0]
    gain = parameters.used(slope - np.sum(tables[0] * slope, axis=-1, keepdims=True))
    theta = state.theta - state.theta.max(axis=-1, keepdims=True)
    rare = (parameters.used(tables[0]) < _RARE) & parameters.open
    theta[0] = np.where(rare & (gain <= 0), _CLOSED, np.maximum(theta[0], _CLOSED))
    theta[0] = np.where(rare & (gain > GAP_BITS), _OPENED, theta[0])
    return replace(state, theta=theta, changes=state.changes[:0], turns=state.turns[:0])


def _next_multiplier(
    objective: Objective, parameters: TableParameters, state: Polish, new: np.ndarray, values: Values, *, done: bool
) -> Polish:
    """Take over the multipliers that hold at the optimum of the augmented Lagrangian; end where nothing moves any more."""
    violated = float(np.max(-values.slack, initial=0.0))
    # Of a bound with a price nothing is left unused; one without has a slack of any size.
    unused = float(np.max(np.abs(new - state.multiplier), initial=0.0)) / state.penalty
    within = _UNUSED + objective.rounding / objective.unit
    if done and unused < within and violated < within and state.gap < 10 * GAP_BITS:
        return replace(state, multiplier=new, done=1)
    penalty = min(1e4, 2 * state.penalty) if violated > 1e-4 else state.penalty
    after = replace(state, multiplier=new, penalty=penalty)
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
        scale = (changes[-1] @ turns[-1]) / max(turns[-1] @ (metric * turns[-1]), 1e-300)
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
) -> tuple[float, tuple[np.ndarray, np.ndarray, Values] | None]:
    """A step along the direction that keeps a share of what it promises; None where there is none."""
    step = 1.0
    for _ in range(12):
        theta = parameters.bounded(state.theta + step * direction)
        tables = parameters.tables(theta)
        values = objective.evaluate(tables)
        gained = float(values.merit(state.multiplier, state.penalty)[0]) - merit
        if gained >= 1e-4 * step * promised:
            return step, (theta, tables, values)
        bend = 2 * (gained - step * promised)
        guess = -promised * step**2 / bend if bend < 0 else 0.5 * step
        step = float(np.clip(guess, 0.1 * step, 0.5 * step))
    return 0.0, None
