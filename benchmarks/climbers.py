"""Ways to climb that stand beside veil's own: each gets the same task, the same starts and the same evaluations.

An evaluation is the value and the slope of one table. A start is a table of parameters; methods that carry one policy
take the starts one after the other until the evaluations are spent, methods that carry many take them side by side.
"""

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np
import scipy.optimize

from veil.planning.backend import Draw
from veil.planning.channels import Asked, make_backend
from veil.planning.objective import Channels, Objective, make_objective
from veil.planning.options import SolveOptions
from veil.planning.parameters import logits
from veil.planning.policy_class import Space, make_space
from veil.planning.safe_tables import richest_table
from veil.planning.schedule import num_exact_starts
from veil.planning.starts import spread_starts
from veil.planning.table_methods import make_ascent
from veil.planning.values import Values
from veil.policy.tables import softmax_pull_back
from veil.problem.problem import Problem

PENALTY, MULTIPLIER_EVERY = 6.0, 20  # those of veil's own climb
_NEAR = 0.05  # tables that miss the threshold by less, in units of the range of returns, are mended and counted
_LOWEST = -40.0


class Spent(Exception):
    """Raised when the evaluations are spent."""


@dataclass(eq=False)
class Record:
    """What was found when: one row (evaluations, seconds, bits) for each better feasible table."""

    limit: int
    begin: float = field(default_factory=time.perf_counter)
    spent: int = 0
    best: float = -np.inf
    rows: list[tuple[int, float, float]] = field(default_factory=list)

    def note(self, score: float) -> None:
        if score > self.best:
            self.best = score
            self.rows.append((self.spent, time.perf_counter() - self.begin, score))


@dataclass(frozen=True, eq=False, kw_only=True)
class Counted(Objective):
    """An objective that counts its evaluations and keeps the best feasible value.

    A table that just misses the threshold is mixed with the richest table, as far as it takes, and evaluated again,
    so that methods which come from the infeasible side are not worse off for it.
    """

    record: Record
    safe: np.ndarray
    safe_slack: float
    safe_score: float

    def evaluate(
        self, tables: np.ndarray, draw: Draw | None = None, *, gradient: bool = True, errors: float = 0.0
    ) -> Values:
        values = self._counted(tables)
        feasible = values.feasible
        if feasible.any():
            self.record.note(float(values.score[feasible].max()))
        missed = np.maximum(0.0, -np.min(values.slack, axis=1, initial=0.0))
        share = 1.02 * missed / (missed + self.safe_slack) + 1e-12
        hoped = (1 - share) * values.score + share * self.safe_score
        hoped = np.where(~feasible & (missed < _NEAR), hoped, -np.inf)
        leader = int(np.argmax(hoped))
        if hoped[leader] > self.record.best + 1e-4:
            mended = (1 - share[leader]) * tables[leader] + share[leader] * self.safe
            found = self._counted(mended[None])
            if found.feasible[0]:
                self.record.note(float(found.score[0]))
        return values

    def _counted(self, tables: np.ndarray) -> Values:
        if self.record.spent + len(tables) > self.record.limit:
            raise Spent
        self.record.spent += len(tables)
        return super().evaluate(tables)


def climb(problem: Problem, climber: str, seed: int, limit: int) -> Record:
    """Run one contender on the stationary policies of a problem until `limit` evaluations are spent or it ends."""
    space = make_space(problem, "markov")
    task = make_objective(space, Channels((make_backend(space, Asked()),)))
    safe = richest_table(space)
    first = task.evaluate(safe[None])
    starts = np.stack([logits(space, one, 1e-6) for one in spread_starts(space, safe, num_exact_starts(task), seed)])
    plain = {part.name: getattr(task, part.name) for part in fields(task) if part.init}
    record = Record(limit)
    counted = Counted(
        **plain, record=record, safe=safe, safe_slack=float(first.slack.min()), safe_score=float(first.score[0])
    )
    with contextlib.suppress(Spent):
        CLIMBERS[climber](counted, starts)
    return record


def own(task: Counted, starts: np.ndarray) -> None:
    """veil's own, from its own starts: Adam's steps that keep the bounds, then the best one by L-BFGS in the natural metric."""
    method = make_ascent(task, task.safe, SolveOptions(starts=len(starts)))
    state = method.begin()
    while not method.is_done(state):
        state = method.advance(state)
    task.evaluate(method.candidates(state))


def _pull(values: Values, multiplier: np.ndarray, penalty: float) -> np.ndarray:
    return np.maximum(0.0, multiplier - penalty * values.slack)


def _merit(values: Values, multiplier: np.ndarray, penalty: float) -> np.ndarray:
    pull = _pull(values, multiplier, penalty)
    return values.score - np.sum(pull**2 - multiplier**2, axis=1) / (2 * penalty)


def _ascend(
    task: Counted,
    theta: np.ndarray,
    merit: Callable[[Values], tuple[float, np.ndarray]],
    iterations: int,
) -> np.ndarray:
    """SciPy's L-BFGS-B on a merit of one table, which gives its value and its slope in the table."""

    def down(flat: np.ndarray) -> tuple[float, np.ndarray]:
        table = task.space.softmax(flat.reshape(task.space.shape))
        value, slope = merit(task.evaluate(table[None]))
        return -value, -softmax_pull_back(table, slope).ravel()

    options = {"maxiter": iterations, "maxcor": 12, "ftol": 1e-10, "gtol": 1e-8}
    found = scipy.optimize.minimize(down, theta.ravel(), jac=True, method="L-BFGS-B", options=options)
    theta = found.x.reshape(task.space.shape)
    return np.maximum(theta - theta.max(axis=-1, keepdims=True), _LOWEST)


@dataclass(frozen=True, eq=False)
class Runner:
    """One policy on its way up the augmented Lagrangian."""

    theta: np.ndarray
    multiplier: np.ndarray
    penalty: float = PENALTY
    merit: float = -np.inf
    done: bool = False

    def further(self, task: Counted, iterations: int) -> "Runner":
        """L-BFGS at fixed multipliers, then new multipliers; a larger penalty while the threshold is missed."""

        def merit(values: Values) -> tuple[float, np.ndarray]:
            pull = _pull(values, self.multiplier, self.penalty)
            return float(_merit(values, self.multiplier, self.penalty)[0]), values.lagrangian_gradient(pull)[0]

        theta = _ascend(task, self.theta, merit, iterations)
        values = task.evaluate(task.space.softmax(theta)[None])
        pull = _pull(values, self.multiplier, self.penalty)
        steady = float(np.abs(pull - self.multiplier).max(initial=0.0)) < 1e-3 * (1 + float(pull.max(initial=0.0)))
        violated = float(np.max(-values.slack, initial=0.0))
        penalty = min(1e4, 2 * self.penalty) if violated > 1e-4 else self.penalty
        return Runner(theta, pull, penalty, merit(values)[0], steady and violated < 1e-4)


def _runners(task: Counted, starts: np.ndarray) -> list[Runner]:
    return [Runner(theta, np.zeros((1, task.num_constraints))) for theta in starts]


def lagrangian(task: Counted, starts: np.ndarray) -> None:
    """L-BFGS on the augmented Lagrangian from the first step, a multiplier after each 40 iterations, a start at a time."""
    for runner in _runners(task, starts):
        for _ in range(10):
            runner = runner.further(task, 40)
            if runner.done:
                break


def halving(task: Counted, starts: np.ndarray) -> None:
    """The same, but all starts go twice 15 iterations, the best quarter 40 more, and so on until one is left."""
    runners = _runners(task, starts)
    for _ in range(2):
        runners = [runner.further(task, 15) for runner in runners]
    _finish(task, runners)


def _finish(task: Counted, runners: list[Runner]) -> None:
    """The best quarter goes 40 iterations further, until one is left, and that one to its end."""
    while len(runners) > 1:
        runners.sort(key=lambda runner: -runner.merit)
        runners = [runner.further(task, 40) for runner in runners[: max(1, len(runners) // 4)]]
    for _ in range(12):
        if not runners[0].done:
            runners = [runners[0].further(task, 40)]


def barrier(task: Counted, starts: np.ndarray) -> None:
    """Interior point: score + τ log slack by L-BFGS, τ from 0.1 bits down to 10⁻⁵, each start made feasible first.

    Below a tenth of τ the logarithm goes on as a parabola, so that a line search may look outside.
    """
    space, weights = task.space, 0.1 * 0.2 ** np.arange(7)
    for start in starts:
        theta = logits(space, _inside(task, space.softmax(start)), 1e-3)
        for weight in weights:

            def merit(values: Values, weight: float = weight) -> tuple[float, np.ndarray]:
                value, pull = 0.0, np.zeros_like(values.slack)
                for number, slack in enumerate(values.slack[0]):
                    term, pull[0, number] = _log_barrier(float(slack), 0.1 * weight)
                    value += weight * term
                return float(values.score[0]) + value, values.lagrangian_gradient(weight * pull)[0]

            theta = _ascend(task, theta, merit, 40)


def _log_barrier(slack: float, edge: float) -> tuple[float, float]:
    """`log s` and its slope, continued as a parabola below the edge."""
    if slack >= edge:
        return math.log(slack), 1 / slack
    beyond = (slack - edge) / edge
    return math.log(edge) + beyond - beyond**2 / 2, (1 - beyond) / edge


def _inside(task: Counted, table: np.ndarray) -> np.ndarray:
    """The table mixed with the richest one until it has a tenth of the latter's slack; the returns alone are evaluated."""
    for share in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        mixed = (1 - share) * table + share * task.safe
        if float(task.slacks(mixed[None]).min(initial=np.inf)) >= 0.1 * task.safe_slack:
            return mixed
    return task.safe


def mirror(task: Counted, starts: np.ndarray, rates: tuple[float, float] = (4.0, 1.0), longest: float = 1.0) -> None:
    """Mirror ascent, the natural policy gradient: `π ∝ π exp(η slope / P(cell))`, the step η falling, at most `longest`.

    All starts for 180 steps, the best four for 60, then the best alone, with veil's multipliers.
    """
    space = task.space
    theta, multiplier = starts, np.zeros((len(starts), task.num_constraints))
    rate_high, rate_low = rates
    for kept, steps, high, low in (
        (len(starts), 180, rate_high, rate_low),
        (4, 60, rate_low, rate_low / 4),
        (1, 10**6, rate_low / 4, rate_low / 4),
    ):
        if kept < len(theta):
            values = task.evaluate(space.softmax(theta))
            chosen = np.argsort(-_merit(values, multiplier, PENALTY), kind="stable")[:kept]
            theta, multiplier = theta[chosen], multiplier[chosen]
        for count in range(steps):
            tables = space.softmax(theta)
            values = task.evaluate(tables)
            pull = _pull(values, multiplier, PENALTY)
            slope = values.lagrangian_gradient(pull)
            slope = slope / np.stack([_visits(space, table) for table in tables])[..., None]
            slope -= np.sum(tables * slope, axis=-1, keepdims=True)
            rate = high + (low - high) * count / max(1, steps - 1)
            theta = theta + np.clip(rate * slope, -longest, longest)
            theta = np.maximum(theta - theta.max(axis=-1, keepdims=True), _LOWEST)
            if (count + 1) % MULTIPLIER_EVERY == 0:
                multiplier = pull


def _visits(space: Space, table: np.ndarray) -> np.ndarray:
    """How often each row of the table is used, floored where nothing goes."""
    visited, occupied = np.zeros(space.shape[:2]), space.chain(table).occupancies
    for now in range(space.hidden.horizon):
        np.add.at(visited[0 if space.stationary else now], space.hidden.cell, occupied[now])
    return np.maximum(visited, 1e-4)


def sequential(task: Counted, starts: np.ndarray) -> None:
    """SciPy's SLSQP on the parameters of the softmax, the return as its inequality, a start at a time."""
    space = task.space
    kept: dict[bytes, tuple[np.ndarray, Values]] = {}

    def at(flat: np.ndarray) -> tuple[np.ndarray, Values]:
        key = flat.tobytes()
        if key not in kept:
            kept.clear()
            table = space.softmax(flat.reshape(space.shape))
            kept[key] = table, task.evaluate(table[None])
        return kept[key]

    def value(flat: np.ndarray) -> float:
        return -float(at(flat)[1].score[0])

    def slope(flat: np.ndarray) -> np.ndarray:
        table, values = at(flat)
        return -softmax_pull_back(table, values.score_gradient[0]).ravel()

    def slack(flat: np.ndarray) -> np.ndarray:
        return at(flat)[1].slack[0]

    def slack_slope(flat: np.ndarray) -> np.ndarray:
        table, values = at(flat)
        return np.stack([softmax_pull_back(table, one).ravel() for one in values.slack_gradient[0]])

    wanted = {"type": "ineq", "fun": slack, "jac": slack_slope}
    for theta in starts:
        scipy.optimize.minimize(
            value,
            theta.ravel(),
            jac=slope,
            method="SLSQP",
            constraints=[wanted],
            options={"maxiter": 150, "ftol": 1e-8},
        )


CLIMBERS: dict[str, Callable[[Counted, np.ndarray], None]] = {
    "veil (Adam, then L-BFGS)": own,
    "L-BFGS, augmented Lagrangian": lagrangian,
    "L-BFGS, starts in rounds": halving,
    "interior point, L-BFGS": barrier,
    "mirror ascent": mirror,
    "SLSQP": sequential,
}
