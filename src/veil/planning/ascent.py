"""The default solver: many starts climb side by side, the best are settled, and the best of them is polished.

Every policy is a softmax table, and the constraint is kept by an augmented Lagrangian: with slacks `s_k ≥ 0` wanted,
multipliers μ and penalty ρ, `L = score − Σ_k (max(0, μ_k − ρ s_k)² − μ_k²) / 2ρ`, whose slope is that of the score plus
`Σ_k max(0, μ_k − ρ s_k) ∂s_k`. Climbing takes Adam's steps, which move rarely visited states as fast as the rest;
polishing is L-BFGS, preconditioned by the natural metric of the policy. The end is moved to exact feasibility.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, Progress
from ..policy.tables import softmax_pull_back
from .iteration import Iteration, SavedState
from .options import SolveOptions
from .starts import make_starts
from .stochastic import StochasticAscent
from .task import Task, Values

CLIMB, SETTLE, POLISH, DONE = range(4)
_PHASES = ("climbing", "settling", "polishing", "done")

# Iterations of the phases; a limit shares itself out in the same proportions. A long climb finds better optima now and
# then, which is worth it where an evaluation takes a millisecond.
_ITERATIONS, _FEWER_ITERATIONS, _CHEAP_SECONDS = (180, 60, 300), (90, 60, 300), 1e-3
_RATES = ((0.2, 0.1), (0.1, 0.01))  # Adam's step at the beginning and the end of a phase
_DECAYS = (0.5, 0.9)  # little momentum: with more, starts end in poorer optima
_SETTLED = 4
_PENALTY = 6.0
_DRAWN_INSIDE = 1.0  # the multiplier at which starts begin that come from the feasible side
_UNUSED = 1e-6  # slack at a constraint that has a price, up to which a search goes on
_ROUNDED_SLACK = 1e-9  # of the range of returns, up to which a policy misses the aim by rounding errors
_STILL = 1e-9  # gain of a step, beyond rounding errors of the return, below which a search stands still
_ALIKE = 1e-3  # starts whose bits, and returns in units of their range, differ by less have found the same optimum
_MULTIPLIER_EVERY = 20
_LOWEST = -40.0  # logits below the largest by this much are zero but for rounding
# Seconds of one evaluation times starts; more starts where evaluations are cheap.
_SECONDS_A_ROUND = 0.07
_MOST_STARTS, _LEAST_STARTS = 36, 4
_PAIRS = 12  # of changes that L-BFGS remembers
_LONGEST_STEP = 2.0
# While polishing, actions taken more rarely than this are closed where they do not pay, by this logit, or opened again.
_RARE, _CLOSED, _OPENED = 2e-3, -25.0, -4.0
_SORT_EVERY = 60
GAP_BITS = 1e-5  # of the best first-order change, below which a policy is called stationary


@dataclass(frozen=True, eq=False)
class AscentState(SavedState):
    """Everything a search needs to go on: numbers and arrays only, so that it can be written down and taken up again."""

    phase: int
    iteration: int
    inside: int
    theta: Float[np.ndarray, "B T C A"]
    mean: Float[np.ndarray, "B T C A"]
    square: Float[np.ndarray, "B T C A"]
    multiplier: Float[np.ndarray, "B K"]
    best: Float[np.ndarray, "T C A"]
    best_score: float
    best_multiplier: Float[np.ndarray, " K"]
    leading: Float[np.ndarray, "T C A"]
    gap: float
    penalty: float
    changes: Float[np.ndarray, "m P"]
    turns: Float[np.ndarray, "m P"]
    history: Float[np.ndarray, "k 6"]


def num_starts(task: Task) -> int:
    """How many starts suit the cost of an evaluation."""
    return int(np.clip(round(_SECONDS_A_ROUND / task.cost_seconds), _LEAST_STARTS, _MOST_STARTS))


def make_ascent(task: Task, safe: Float[np.ndarray, "T C A"], options: SolveOptions) -> Iteration[Any]:
    """The method for a task, by how its secrecy is evaluated; `safe` is the table of largest return."""
    if task.secrecy.kind == "sampled" and task.space.on_device is not None:
        from .device_ascent import DeviceAscent  # imports JAX

        return DeviceAscent(task, safe, options)
    if task.secrecy.kind == "sampled":
        return StochasticAscent(task, safe, options)
    count = options.starts or num_starts(task)
    known = safe[None]
    if options.start is not None:
        table = task.space.table_of(options.start)
        # A larger class adds up returns in another order: where that alone misses the aim, a trace of the safe table meets it.
        rounded = bool(np.all(task.slacks(table[None]) >= -_ROUNDED_SLACK))
        known = np.stack([safe, repair(task, table, safe) if rounded else table])
    return Ascent(task, make_starts(task.space, safe, count, options.seed, options.start), known)


class Ascent:
    """The method as a sequence of states.

    **Arguments:** `task`; `starts`, the parameters from which to climb; `known`, tables that may be the answer as long as
    nothing better is found: that of largest return first, then those that the search is begun from.
    """

    def __init__(self, task: Task, starts: Float[np.ndarray, "B T C A"], known: Float[np.ndarray, "n T C A"]):
        self.task, self._starts, self._known = task, starts, known

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> AscentState:
        """The state before the first iteration; `known`: further tables that may be the answer."""
        starts = self._starts
        none = np.zeros((0, int(np.prod(self.task.space.shape))))
        best, best_score = best_known(self.task, self._known if known is None else np.concatenate([self._known, known]))
        return AscentState(
            phase=CLIMB if none.shape[1] else DONE,
            iteration=0,
            inside=0,
            theta=starts,
            mean=np.zeros_like(starts),
            square=np.zeros_like(starts),
            multiplier=_first_multipliers(self.task, len(starts)),
            best=best,
            best_score=best_score,
            best_multiplier=_first_multipliers(self.task, 1)[0],
            leading=self._known[0],
            gap=np.inf,
            penalty=_PENALTY,
            changes=none,
            turns=none,
            history=np.zeros((0, 6)),
        )

    def advance(self, state: AscentState) -> AscentState:
        """One iteration further."""
        return _advance(self.task, state)

    def is_done(self, state: AscentState) -> bool:
        """Whether the last phase is over."""
        return state.phase == DONE

    def unpack(self, arrays: dict[str, np.ndarray]) -> AscentState:
        """The state of the arrays in a checkpoint."""
        return AscentState.of(arrays)

    def candidates(self, state: AscentState) -> Float[np.ndarray, "B T C A"]:
        """Tables that may be the answer: the best that was feasible, and the one that leads now, made feasible."""
        if not np.isfinite(state.best_score) or not state.theta.size:
            return state.best[None]
        polished = state.phase >= POLISH
        table = self.task.space.softmax(state.theta[:1])[0] if polished else state.leading
        return np.stack([state.best, repair(self.task, table, state.best, Clock(self.task.closing_seconds))])

    def describe(self) -> dict[str, object]:
        """The number of starts, without the policy that is given."""
        return {"starts": len(self._starts) + 1 - len(self._known)}


def best_known(task: Task, tables: Float[np.ndarray, "n T C A"]) -> tuple[Float[np.ndarray, "T C A"], float]:
    """The best feasible table and its score; where none is feasible, the nearest to it and -inf."""
    values = task.evaluate(tables)
    chosen = values.best
    return tables[chosen], float(values.score[chosen]) if values.feasible[chosen] else -np.inf


def lengths(task: Task, iterations: int | None) -> tuple[int, int, int]:
    """Iterations of climbing, settling and polishing."""
    usual = _ITERATIONS if task.cost_seconds <= _CHEAP_SECONDS else _FEWER_ITERATIONS
    if iterations is None:
        return usual
    climb = max(1, round(iterations * usual[0] / sum(usual)))
    settle = min(iterations - climb, round(iterations * usual[1] / sum(usual)))
    return climb, settle, iterations - climb - settle


def _advance(task: Task, state: AscentState) -> AscentState:
    length = lengths(task, task.clock.iterations)
    if state.phase in (CLIMB, SETTLE):
        after = _climb(task, state, length[state.phase])
    else:
        after = _polish(task, state)
    if after.phase < DONE and after.inside >= length[after.phase]:
        after = _next_phase(task, after)
        while after.phase < DONE and length[after.phase] == 0:
            after = _next_phase(task, after)
    return after


def _next_phase(task: Task, state: AscentState) -> AscentState:
    """Keep the best for the next phase."""
    phase = state.phase + 1
    if phase == DONE:
        return replace(state, phase=DONE)
    values = task.evaluate(task.space.softmax(state.theta))
    kept = _distinct(values, state.multiplier, task.unit, _SETTLED if phase == SETTLE else 1)
    theta = state.theta[kept]
    after = replace(
        state,
        phase=phase,
        inside=0,
        theta=theta,
        mean=np.zeros_like(theta),
        square=np.zeros_like(theta),
        multiplier=state.multiplier[kept],
    )
    return _sorted_out(task, after) if phase == POLISH else after


def _first_multipliers(task: Task, starts: int) -> Float[np.ndarray, "B K"]:
    """Where a return is to be kept, every second start is drawn to the feasible side and comes to its edge from there.

    Who climbs out of the feasible side may come to rest where the return has a poor local maximum, and who stays inside
    may miss what lies outside of it: it takes both.
    """
    result = np.zeros((starts, task.num_constraints))
    if task.min_opacity is None:
        result[1::2] = _DRAWN_INSIDE
    count = len(task.pairs.least)
    result[:, :count] = 1 / max(1, count)
    return result


def _distinct(values: Values, multiplier: np.ndarray, unit: float, count: int) -> Int[np.ndarray, " n"]:
    """The best tables, by what they are worth once feasible; of those that are as good as one, only the first.

    A violation is charged at the largest price that any start has found, so that those of different prices compare. Returns
    are compared in units of their range.
    """
    price = 1.0 + 2 * multiplier.max(axis=0, initial=0.0)
    worth = values.score + np.minimum(values.slack, 0.0) @ price
    order = np.argsort(-worth, kind="stable")
    marks = np.column_stack([values.secrecy, values.returns / unit])
    kept: list[int] = []
    for index in order:
        if all(np.abs(marks[index] - marks[other]).max() > _ALIKE for other in kept):
            kept.append(int(index))
    return np.array((kept + [int(i) for i in order if i not in kept])[:count])


def lagrangian_slope(values: Values, pull: Float[np.ndarray, "B K"]) -> Float[np.ndarray, "B T C A"]:
    """`∂score + Σ_k pull_k ∂s_k`."""
    return values.score_slope + np.einsum("bk,bktca->btca", pull, values.slack_slope)


def _climb(task: Task, state: AscentState, length: int) -> AscentState:
    """One step of Adam for every start."""
    tables = task.space.softmax(state.theta)
    values = task.evaluate(tables)
    pull = values.pulls(state.multiplier, state.penalty)
    gradient = softmax_pull_back(tables, lagrangian_slope(values, pull))
    count = state.inside + 1
    first, second = _DECAYS
    mean = first * state.mean + (1 - first) * gradient
    square = second * state.square + (1 - second) * gradient**2
    high, low = _RATES[state.phase]
    rate = high + (low - high) * state.inside / max(1, length - 1)
    step = rate * (mean / (1 - first**count)) / (np.sqrt(square / (1 - second**count)) + 1e-12)
    theta = state.theta + step
    theta = np.maximum(theta - theta.max(axis=-1, keepdims=True), _LOWEST)
    after = replace(
        state,
        iteration=state.iteration + 1,
        inside=count,
        theta=theta,
        mean=mean,
        square=square,
        multiplier=pull if count % _MULTIPLIER_EVERY == 0 else state.multiplier,
    )
    return _noted(task, after, tables, values, pull, rate)


def _noted(
    task: Task, state: AscentState, tables: np.ndarray, values: Values, pull: np.ndarray, rate: float
) -> AscentState:
    """With the best feasible table so far and one more line of history, that of the table that leads."""
    leader = values.best
    if values.feasible[leader] and values.score[leader] > state.best_score:
        state = replace(
            state, best=tables[leader], best_score=float(values.score[leader]), best_multiplier=pull[leader]
        )
    # What is best but for a slight infeasibility is worth more than what is feasible by chance.
    state = replace(state, leading=tables[int(np.argmax(values.merit(pull, state.penalty)))])
    multiplier = task.price(pull[leader])
    row = (state.iteration, values.secrecy[leader], values.returns[leader], multiplier, rate, task.clock.spent)
    task.clock.report(
        Progress(
            _PHASES[state.phase], state.iteration, sum(lengths(task, task.clock.iterations)), float(row[1]), float(row[2]),
            multiplier, task.clock.spent,
        )
    )  # fmt: skip
    return replace(state, history=np.vstack([state.history, row]))


def first_order_gain(task: Task, table: np.ndarray, slope: Float[np.ndarray, "T C A"]) -> float:
    """`Σ_c max_a g(c,a) − Σ_a π(a|c) g(c,a)`: what the best change of every row promises to first order; 0 when stationary."""
    best = np.where(task.space.available, slope, -np.inf).max(axis=-1)
    return float(np.sum(best - np.sum(table * slope, axis=-1)))


def _metric(task: Task, table: np.ndarray) -> np.ndarray:
    """The diagonal `1 / (P(cell) π(a))` of the natural metric's inverse, floored where nothing goes."""
    space, chain = task.space, task.space.chain(table)
    visited = np.zeros(space.shape[:2])
    for time in range(space.hidden.horizon):
        np.add.at(visited[0 if space.stationary else time], space.hidden.cell, chain.occupancies[time])
    return 1 / (np.maximum(visited, 1e-6)[..., None] * np.maximum(table, 1e-9))


def _polish(task: Task, state: AscentState) -> AscentState:
    """One step of L-BFGS on the augmented Lagrangian of the one policy that is left."""
    space, multiplier, penalty = task.space, state.multiplier, state.penalty
    tables = space.softmax(state.theta)
    values = task.evaluate(tables)
    pull = values.pulls(multiplier, penalty)
    slope = lagrangian_slope(values, pull)
    gradient = softmax_pull_back(tables, slope)[0].ravel()
    gap = first_order_gain(task, tables[0], slope[0])
    state = _noted(task, replace(state, iteration=state.iteration + 1), tables, values, pull, 0.0)
    metric = np.where(space.available, _metric(task, tables[0]), 0.0).ravel()
    metric[(state.theta[0] <= _CLOSED).ravel()] = 0.0
    direction = _quasi_newton(gradient, metric, state.changes, state.turns)
    longest = float(np.abs(direction).max(initial=0.0))
    direction *= min(1.0, _LONGEST_STEP / max(longest, 1e-300))
    promised = float(gradient @ direction)
    merit = float(values.merit(multiplier, penalty)[0])
    step, found = _line_search(task, state, direction.reshape(space.shape), merit, promised)
    moved = replace(state, inside=state.inside + 1, gap=gap)
    if found is None:
        if len(state.changes):  # the memory misleads: begin anew from the metric alone
            return replace(moved, changes=state.changes[:0], turns=state.turns[:0])
        return _next_multiplier(task, moved, pull, values, done=True)
    theta, new_tables, new_values = found
    new_pull = new_values.pulls(multiplier, penalty)
    new_gradient = softmax_pull_back(new_tables, lagrangian_slope(new_values, new_pull))[0].ravel()
    change, turn = step * direction, gradient - new_gradient
    changes, turns = state.changes, state.turns
    if change @ turn > 1e-10 * np.linalg.norm(change) * np.linalg.norm(turn):
        changes, turns = np.vstack([changes, change])[-_PAIRS:], np.vstack([turns, turn])[-_PAIRS:]
    gained = float(new_values.merit(multiplier, penalty)[0]) - merit
    moved = replace(moved, theta=theta, changes=changes, turns=turns)
    done = gained < _STILL + task.rounding / task.unit
    if done or moved.inside % _MULTIPLIER_EVERY == 0:
        return _next_multiplier(task, moved, new_pull, new_values, done=done)
    return moved


def _sorted_out(task: Task, state: AscentState) -> AscentState:
    """Close the actions that are hardly taken and do not pay, and open those that would: the rest is well conditioned."""
    tables = task.space.softmax(state.theta)
    values = task.evaluate(tables)
    slope = lagrangian_slope(values, values.pulls(state.multiplier, state.penalty))[0]
    gain = slope - np.sum(tables[0] * slope, axis=-1, keepdims=True)
    theta = state.theta - state.theta.max(axis=-1, keepdims=True)
    rare = (tables[0] < _RARE) & task.space.available
    theta[0] = np.where(rare & (gain <= 0), _CLOSED, np.maximum(theta[0], _CLOSED))
    theta[0] = np.where(rare & (gain > GAP_BITS), _OPENED, theta[0])
    return replace(state, theta=theta, changes=state.changes[:0], turns=state.turns[:0])


def _next_multiplier(task: Task, state: AscentState, pull: np.ndarray, values: Values, *, done: bool) -> AscentState:
    """Take over the multipliers that hold at the optimum of the augmented Lagrangian; end where nothing moves any more."""
    violated = float(np.max(-values.slack, initial=0.0))
    # Of a constraint with a price nothing is left unused; one without has a slack of any size.
    unused = float(np.max(np.abs(pull - state.multiplier), initial=0.0)) / state.penalty
    within = _UNUSED + task.rounding / task.unit
    if done and unused < within and violated < within and state.gap < 10 * GAP_BITS:
        return replace(state, multiplier=pull, phase=DONE)
    penalty = min(1e4, 2 * state.penalty) if violated > 1e-4 else state.penalty
    after = replace(state, multiplier=pull, penalty=penalty)
    return _sorted_out(task, after) if done or state.inside % _SORT_EVERY == 0 else after


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
    if work @ gradient <= 0:
        return metric * gradient
    return work


def _line_search(
    task: Task, state: AscentState, direction: np.ndarray, merit: float, promised: float
) -> tuple[float, tuple[np.ndarray, np.ndarray, Values] | None]:
    """A step along the direction that keeps a share of what it promises; None where there is none."""
    step = 1.0
    for _ in range(12):
        theta = state.theta + step * direction
        theta = np.maximum(theta - theta.max(axis=-1, keepdims=True), _LOWEST)
        tables = task.space.softmax(theta)
        values = task.evaluate(tables)
        gained = float(values.merit(state.multiplier, state.penalty)[0]) - merit
        if gained >= 1e-4 * step * promised:
            return step, (theta, tables, values)
        bend = 2 * (gained - step * promised)
        guess = -promised * step**2 / bend if bend < 0 else 0.5 * step
        step = float(np.clip(guess, 0.1 * step, 0.5 * step))
    return 0.0, None


def repair(task: Task, table: np.ndarray, safe: np.ndarray, clock: Clock = UNLIMITED) -> Float[np.ndarray, "T C A"]:
    """The nearest feasible table on the way from a table to a feasible one: the least share of the latter, by bisection.

    When the time of `clock` is up, the nearest feasible one so far.
    """
    if np.all(task.slacks(table[None]) >= 0):
        return table
    low, high = 0.0, 1.0
    for _ in range(50):
        if not clock.left:
            break
        share = high / 16 if low == 0.0 and high > 1e-12 else (low + high) / 2
        if np.all(task.slacks(((1 - share) * table + share * safe)[None]) >= 0):
            high = share
        else:
            low = share
    return (1 - high) * table + high * safe
