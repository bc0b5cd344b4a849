"""Ascent on sampled gradients: what `ascent` does where exact gradients would cost too much.

A few starts (`soft_starts`) are improved by Adam on fresh sequences in every iteration, under the augmented Lagrangian of
`ascent`, whose constraint is exact; after each round the better half goes on, until one is left. Sequences of a gradient are
few while it is clear which way to go, and are doubled when noise takes over: Adam's own moments give the share of the signal,
`Σ mean² / Σ square`. The step falls like `1/√k`, and the parameters are averaged. At growing intervals the average and the
newest parameters are made feasible and estimated on sequences of their own; the best is the answer so far.
"""

import contextlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock, OutOfTime, Progress
from ..policy.tables import softmax_pull_back
from .iteration import SavedState
from .options import SolveOptions
from .soft_starts import FACTORS, soft_starts, terminal_values
from .starts import logits
from .task import Task
from .values import SampleSecrecy

ITERATIONS = 5000
"""The most iterations where no number is asked for; a search ends earlier where its checks find nothing better."""

_FIRST_RATE, _HALF_RATE = 0.3, 100  # Adam's step, and the iterations after which 1/√k has cut it by √2
_SLOWER = 0.5  # by which the step falls where the search has lost its way
DECAYS = (0.9, 0.99)
_LEAST_BATCH, _MOST_BATCH, _BATCH_SECONDS = 32, 1024, 0.03  # the first batch takes about so long
# Pure noise keeps (1 − 0.9) / (1 + 0.9) = 0.05 of the gradient's square in its mean; below twice that, a batch is doubled.
_SIGNAL, _DOUBLED_AFTER = 0.1, 32
PENALTY, _MULTIPLIER_SHARE = 20.0, 0.1  # of the augmented Lagrangian, and of a multiplier's way in one iteration
_MARGIN = 1e-9  # slack that a candidate keeps, so that sums in another order keep the threshold too
_ROUND, _SHORTEST_ROUND = 16, 4
_SHARE_OF_ROUNDS, _SHARE_OF_STARTS = 0.25, 0.2  # of a time limit
LOWEST = -40.0  # logits below the largest by this much are zero but for rounding
# Checks: the least and the most sequences, their share of those of all gradients, by what factor of iterations one follows
# another, and how many without a gain of so many bits end the search.
CHECKED, _SHARE_OF_CHECKS, _CHECK_GROWTH, _IDLE_CHECKS, _GAIN_BITS = (256, 20_000), 0.1, 1.3, 6, 1e-4
# A check is three estimates, each a third of a gradient on as many sequences: iterations between checks cost at least so
# many times as much. Before there are iterations, starts are compared on fewer sequences; the first check is at iteration 4.
_CHECK_COSTS, _FIRST_CHECKED, _FIRST_CHECK = 4.0, 64, 4
_LOST_BITS = 5e-3  # below the best answer by more, a search goes back to it
_SHARE_OF_CLOSING = 0.06  # of a time limit, for the last candidate and its estimate
# Seconds for each transition and sequence of a gradient, and for each decision (measured: 3.6e-9 to 3.8e-9, 2e-4).
_PER_ENTRY, _PER_STEP = 4e-9, 4e-4


@dataclass(frozen=True, eq=False)
class State(SavedState):
    """Everything a search needs to continue, as numbers and arrays. Parameters are of the rows that can be used.

    Parameters, moments and averages have an array for each start that is left; it may lie on an accelerator.
    """

    iteration: int
    inside: int
    length: int
    batch: int
    check_at: int
    idle: int
    rate: float
    theta: Sequence[Float[np.ndarray, "R A"]]
    mean: Sequence[Float[np.ndarray, "R A"]]
    square: Sequence[Float[np.ndarray, "R A"]]
    average: Sequence[Float[np.ndarray, "R A"]]
    multiplier: Float[np.ndarray, "B K"]
    worth: Float[np.ndarray, " B"]
    best: Float[np.ndarray, "T C A"]
    best_score: float
    best_multiplier: Float[np.ndarray, " K"]
    history: Float[np.ndarray, "k 6"]


@dataclass(frozen=True, eq=False)
class Point:
    """What an evaluation found: bits and return, the score that is maximised, and the slacks."""

    bits: float
    returns: float
    score: float
    slack: Float[np.ndarray, " K"]


@dataclass(frozen=True, eq=False)
class Moved:
    """One start after a step, with the point where the step was taken."""

    theta: Any
    mean: Any
    square: Any
    average: Any
    multiplier: Float[np.ndarray, " K"]
    worth: float
    point: Point


@dataclass(frozen=True, eq=False)
class Pace:
    """What the steps of one iteration have in common: Adam's step, corrections of its moments, weight of the average."""

    iteration: int
    rate: float
    mean_scale: float
    square_scale: float
    weight: float

    @staticmethod
    def of(state: State) -> "Pace":
        """For the iteration after a state."""
        count, (first, second) = state.iteration + 1, DECAYS
        rate = state.rate / (1 + state.iteration / _HALF_RATE) ** 0.5
        return Pace(state.iteration, rate, 1 - first**count, 1 - second**count, max(0.02, 2 / (count + 1)))


class StochasticAscent:
    """The method as a sequence of states.

    **Arguments:** `task`, whose secrecy is sampled; `safe`, the table of largest return; `options`, of which it uses
    `start`, `starts`, `seed` and `iterations`.
    """

    def __init__(self, task: Task, safe: Float[np.ndarray, "T C A"], options: SolveOptions):
        assert isinstance(task.secrecy, SampleSecrecy)
        self.task, self._secrecy, self._safe, self._options = task, task.secrecy, safe, options
        space = task.space
        self._rows: Int[np.ndarray, " R"] = space.layers.rows(space.shape[0])
        self._open = space.available[self._rows % space.shape[1]]
        self._base = np.ascontiguousarray(safe)
        self._terminal = terminal_values(task)
        endless = space.problem.return_over == "infinite" and space.stationary
        self._has_one_return = len(task.starts) == 1 and not endless
        limit = task.clock.time_limit
        self._closing = _SHARE_OF_CLOSING * limit if np.isfinite(limit) else 0.0
        self._most_starts, self._share_of_checks, self._lost_bits = 10**9, _SHARE_OF_CHECKS, _LOST_BITS
        self._length = ITERATIONS if options.iterations is None else options.iterations

        per_sequence = _PER_ENTRY * space.layers.num_entries
        self._first_batch = self._batch_of(per_sequence, _LEAST_BATCH)
        self._seconds = per_sequence * self._first_batch + _PER_STEP * space.hidden.horizon  # of one gradient, forecast

    @staticmethod
    def _batch_of(seconds: float, least: int) -> int:
        """The batch that takes about as long as a first batch should, with so many seconds for each sequence."""
        fits = 2 ** (max(1, int(_BATCH_SECONDS / seconds)).bit_length() - 1)
        return int(np.clip(fits, least, _MOST_BATCH // 2))

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> State:
        """The state before the first iteration; `known`: further tables that may be the answer."""
        task = self.task
        tables = [self._safe, *([] if known is None else known)]
        given = self._options.start
        tables += [] if given is None else [task.space.table_of(given)]
        best, score = self._best_of([self._safe, *map(self._mended, tables[1:])], self._safe, -np.inf)
        row = self._first_row(best, score)
        starts = list(self._starts(tables[1:]))
        best, score = self._best_of((self._mended(start) for start in starts), best, score)
        first = self._first_state([self._parameters(table) for table in starts], best, score)
        return replace(first, history=row)

    def _best_of(self, tables: Iterable[np.ndarray], best: np.ndarray, score: float) -> tuple[np.ndarray, float]:
        for table in tables:
            found = self._score(table, _FIRST_CHECKED)
            if found > score:
                best, score = table, found
        return best, score

    def _first_row(self, table: np.ndarray, score: float) -> Float[np.ndarray, "k 6"]:
        """What is known before there are starts, as a row of the history at iteration 0; no row where it is not feasible."""
        task = self.task
        if not np.isfinite(score) or task.min_opacity is not None:
            return np.zeros((0, 6))
        returns = self._constraints(table)[0]
        return np.array([[0.0, task.sign * score, returns, 0.0, 0.0, task.clock.spent]])

    def _first_state(self, theta: list[Any], best: Float[np.ndarray, "T C A"], score: float) -> State:
        count = self.task.num_constraints
        return State(
            iteration=0,
            inside=0,
            length=self._round(len(theta)),
            batch=self._first_batch,
            check_at=_FIRST_CHECK,
            idle=0,
            rate=_FIRST_RATE,
            theta=theta,
            mean=[0 * one for one in theta],
            square=[0 * one for one in theta],
            average=theta,
            multiplier=np.zeros((len(theta), count)),
            worth=np.zeros(len(theta)),
            best=best,
            best_score=score,
            best_multiplier=np.zeros(count),
            history=np.zeros((0, 6)),
        )

    def _starts(self, given: list[np.ndarray]) -> list[np.ndarray]:
        """The tables given, then soft ones, as far as their share of the time goes; the safe one where there is no other."""
        count = min(self._options.starts or len(FACTORS) + len(given), self._most_starts)
        result, clock = given[:count], self.task.clock.share(_SHARE_OF_STARTS)
        with contextlib.suppress(OutOfTime):
            for table in itertools.islice(soft_starts(self.task, clock), count - len(result)):
                result.append(table)  # also those that were found when the time ran out
        return result or [self._safe]

    def _round(self, starts: int) -> int:
        """Iterations of the first round, so that all rounds take their share of the time."""
        limit = self.task.clock.time_limit
        fits = _SHARE_OF_ROUNDS * limit / (starts * self._seconds) if np.isfinite(limit) else _ROUND
        return int(np.clip(min(fits, self._length / 8), _SHORTEST_ROUND, _ROUND))

    def _parameters(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "R A"]:
        return logits(self.task.space, table).reshape(-1, table.shape[2])[self._rows]

    def _table(self, theta: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "T C A"]:
        """The table of parameters; rows that cannot be used are those of the safe table."""
        weights = np.where(self._open, np.exp(theta - theta.max(axis=1, keepdims=True)), 0.0)
        table = self._base.copy()
        table.reshape(-1, table.shape[2])[self._rows] = weights / weights.sum(axis=1, keepdims=True)
        return table

    def _pull_back(self, theta: np.ndarray, table: np.ndarray, slope: Float[np.ndarray, "R A"]) -> np.ndarray:
        """The gradient with respect to parameters from the one with respect to the rows of their table."""
        return softmax_pull_back(self._used(table), slope)

    def _bounded(self, theta: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "R A"]:
        """Parameters of the same table, none so small that it could not grow again."""
        return np.maximum(theta - theta.max(axis=1, keepdims=True), LOWEST)

    def advance(self, state: State) -> State:
        """One step of Adam for every start that is left; at the end of a round, the better half stays."""
        self.task.clock.check(ahead=self._closing)
        pace = Pace.of(state)
        moved = [self._step(state, number, pace) for number in range(len(state.theta))]
        after = replace(
            state,
            iteration=state.iteration + 1,
            inside=state.inside + 1,
            theta=[one.theta for one in moved],
            mean=[one.mean for one in moved],
            square=[one.square for one in moved],
            average=[one.average for one in moved],
            multiplier=np.stack([one.multiplier for one in moved]),
            worth=np.array([one.worth for one in moved]),
        )
        after = self._noted(self._halved(self._louder(after)), [one.point for one in moved], pace.rate)
        if after.iteration >= after.check_at:
            after = self._considered(after)
        return after

    def _step(self, state: State, number: int, pace: Pace) -> Moved:
        """One start after a step."""
        table, theta = self._table(state.theta[number]), state.theta[number]
        point, score_slope, slack_slope = self._evaluate(table, state.batch, self._seed(pace, number))
        pull = np.maximum(0.0, state.multiplier[number] - PENALTY * point.slack)
        slope = score_slope + np.einsum("k,kra->ra", pull, slack_slope)
        gradient = self._pull_back(theta, table, slope)
        moments = state.mean[number], state.square[number]
        theta, mean, square = self._moved(theta, table, gradient, moments, pace)
        theta = self._bounded(theta)
        average = state.average[number] + pace.weight * (theta - state.average[number])
        return Moved(theta, mean, square, average, *self._priced(state, number, point), point)

    def _moved(
        self,
        theta: np.ndarray,
        table: np.ndarray,
        gradient: np.ndarray,
        moments: tuple[np.ndarray, np.ndarray],
        pace: Pace,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Parameters and moments after a step of Adam."""
        first, second = DECAYS
        mean = first * moments[0] + (1 - first) * gradient
        square = second * moments[1] + (1 - second) * gradient**2
        step = pace.rate * (mean / pace.mean_scale) / (np.sqrt(square / pace.square_scale) + 1e-12)
        return theta + step, mean, square

    def _seed(self, pace: Pace, number: int) -> int:
        """Of the sequences of one gradient."""
        return int(np.random.SeedSequence([self._options.seed, pace.iteration, number]).generate_state(1)[0])

    def _priced(self, state: State, number: int, point: Point) -> tuple[Float[np.ndarray, " K"], float]:
        """The multipliers after a step, and what the start is worth, smoothed over iterations."""
        before = state.multiplier[number]
        multiplier = np.maximum(0.0, before - _MULTIPLIER_SHARE * PENALTY * point.slack)
        pull = np.maximum(0.0, before - PENALTY * point.slack)
        worth = point.score + float(np.minimum(point.slack, 0.0) @ (1 + 2 * pull))
        return multiplier, worth if state.iteration == 0 else 0.7 * state.worth[number] + 0.3 * worth

    def _evaluate(self, table: np.ndarray, sequences: int, seed: int) -> tuple[Point, np.ndarray, np.ndarray]:
        """A point, with the gradients of its score and of its slacks in the rows that can be used."""
        task = self.task
        estimate, slope = self._secrecy.fresh(table, sequences, seed, task.clock)
        secrecy_slope = self._used(slope)
        returns, slack, slack_slope = self._constraints(table)
        more, more_slope = self._further(table)
        earned, earned_slope = (one[0] for one in task.earned(more[None], more_slope[None]))
        score = task.score(np.array(estimate.bits), np.array(returns), earned)
        return_slope = slack_slope[0] * task.unit if task.is_return_maximised else np.zeros(0)
        score_slope = task.score(secrecy_slope, return_slope, earned_slope)
        if task.is_return_maximised:
            slack, slack_slope = slack[:0], slack_slope[:0]
        if task.min_opacity is not None:
            slack = np.concatenate([[estimate.bits - estimate.std_error - task.bits_kept], slack])
            slack_slope = np.concatenate([secrecy_slope[None], slack_slope])
        point = Point(estimate.bits, returns, float(score), np.concatenate([slack, more]))
        return point, score_slope, np.concatenate([slack_slope, more_slope])

    def _used(self, slope: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "R A"]:
        return slope.reshape(-1, slope.shape[2])[self._rows]

    def _further(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slacks of the further constraints and their gradients."""
        if not self.task.further:
            return np.zeros(0), np.zeros((0, len(self._rows), table.shape[2]))
        slack, slopes = self.task.further_slacks(table[None])
        return slack[0], np.stack([self._used(one) for one in slopes[0]])

    def _constraints(self, table: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The return, its slacks and their gradients; where it is maximised its own, scaled, instead."""
        task, space = self.task, self.task.space
        if not self._has_one_return:
            values, slope, slack, slack_slope = replace(task, further=(), terms=()).constraints(table[None])
            slopes = slope / task.unit if task.is_return_maximised else slack_slope[0]
            return float(values[0]), slack[0], slopes.reshape(len(slopes), -1, table.shape[2])[:, self._rows]
        value, slope, _ = space.layers.returns(table, self._terminal)
        if task.num_returns == 0 and not task.is_return_maximised:
            return value, np.zeros(0), np.zeros((0, len(self._rows), table.shape[2]))
        wanted = task.aim if task.threshold is not None else 0.0
        return value, np.array([(value - wanted) / task.unit]), self._used(slope)[None] / task.unit

    def _returns(self, table: np.ndarray) -> tuple[float, np.ndarray]:
        """The return, and the slacks of all constraints but that on the bits."""
        task, layers = self.task, self.task.space.layers
        more = self._further(table)[0] if task.further else np.zeros(0)
        if not self._has_one_return:
            returns, slack, _ = self._constraints(table)
            return returns, np.concatenate([slack, more])
        value = layers.value(table, self._terminal)
        if task.num_returns == 0:
            return value, more
        return value, np.concatenate([[(value - task.aim) / task.unit], more])

    def _louder(self, state: State) -> State:
        """The batch doubled where noise has taken over; the moments know."""
        if state.batch >= _MOST_BATCH or state.inside < _DOUBLED_AFTER or len(state.theta) > 1:
            return state
        total, signal = float(state.square[0].sum()), float((state.mean[0] ** 2).sum())
        return replace(state, batch=2 * state.batch, inside=0) if signal < _SIGNAL * total else state

    def _halved(self, state: State) -> State:
        """The better half of the starts, once a round is over."""
        if len(state.theta) == 1 or state.inside < state.length:
            return state
        kept = np.argsort(-state.worth, kind="stable")[: (len(state.theta) + 1) // 2]
        parts = {name: [getattr(state, name)[one] for one in kept] for name in ("theta", "mean", "square", "average")}
        return replace(state, inside=0, multiplier=state.multiplier[kept], worth=state.worth[kept], **parts)

    def _noted(self, state: State, points: list[Point], rate: float) -> State:
        leader = max(points, key=lambda point: point.score + 4 * float(np.minimum(point.slack, 0.0).sum()))
        multiplier = max(map(self.task.price, state.multiplier), default=0.0)
        clock = self.task.clock
        row = (state.iteration, leader.bits, leader.returns, multiplier, rate, clock.spent)
        phase = "sampling" if len(state.theta) == 1 else "choosing"
        clock.report(
            Progress(phase, state.iteration, self._length, leader.bits, leader.returns, multiplier, clock.spent)
        )
        return replace(state, history=np.vstack([state.history, row]))

    def _considered(self, state: State) -> State:
        """With the best answer so far, and the iteration of the next check."""
        leader, sequences = int(np.argmax(state.worth)), self._sequences_of_check(state)
        before = self._score(state.best, sequences)  # on the same number of sequences as its contenders
        score, newest, gained = before, -np.inf, {}
        for theta in (state.average[leader], state.theta[leader]):
            contender = self._contender(theta)
            found = self._score(contender["best"], sequences)
            newest = max(newest, found)
            if found > score:
                score, gained = found, contender | {"best_multiplier": state.multiplier[leader]}
        if newest < before - self._lost_bits and len(state.theta) == 1:
            state = self._taken_back(state)
        return replace(
            state,
            best_score=score,
            check_at=state.iteration + self._until_check(state, sequences),
            idle=0 if score > before + _GAIN_BITS or len(state.theta) > 1 else state.idle + 1,
            **gained,
        )

    def _until_check(self, state: State, sequences: int) -> int:
        """Iterations to the next check: a share of those so far, and enough to cost some times as much as this one did."""
        least = _CHECK_COSTS * sequences / (state.batch * len(state.theta))
        return max(int(_CHECK_GROWTH * state.iteration) + 1 - state.iteration, math.ceil(least))

    def _contender(self, theta: Any) -> dict[str, Any]:
        """What a state notes of parameters that may be the best answer: their table, made feasible."""
        return {"best": self._mended(self._table(theta))}

    def _checking_clock(self) -> Clock:
        """What limits the estimate of a candidate."""
        return self.task.clock

    def _sequences_of_check(self, state: State) -> int:
        return int(np.clip(self._share_of_checks * state.iteration * state.batch, *CHECKED))

    def _taken_back(self, state: State) -> State:
        """From the best answer again, with shorter steps and more sequences: noise has led the search away from it."""
        theta = self._parameters(state.best)
        return replace(
            state,
            inside=0,
            batch=min(2 * state.batch, _MOST_BATCH),
            rate=_SLOWER * state.rate,
            theta=[theta],
            mean=[0 * theta],
            square=[0 * theta],
            average=[theta],
            multiplier=state.best_multiplier[None],
        )

    def _score(self, table: np.ndarray, sequences: int) -> float:
        """What an answer is worth, on draws that are the same for all of them; -inf where it is not feasible."""
        task = self.task
        returns, slack = self._returns(table)
        if np.any(slack < 0):
            return -np.inf
        bits = self._secrecy.estimate(table, sequences, self._options.seed + 1, self._checking_clock())
        if task.min_opacity is not None and bits.bits - 2 * bits.std_error < task.bits_kept:
            return -np.inf
        earned = task.earned(slack[None], np.zeros((1, len(slack), 0)))[0][0]
        return float(task.score(np.array(bits.bits), np.array(returns), earned))

    def _mended(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "T C A"]:
        """The table with the least share of the safe one that makes its return suffice, by a few secants."""
        if self.task.min_opacity is not None or self.task.num_constraints == 0:
            return table

        def slack(share: float) -> float:
            return float(self._returns((1 - share) * table + share * self._safe)[1].min()) - _MARGIN

        low, at_low, high, at_high = 0.0, slack(0.0), 1.0, slack(1.0)
        if at_low >= 0 or at_high < 0:
            return table if at_low >= 0 else self._safe
        for _ in range(6):
            share = low + min(0.95, 1.05 * at_low / (at_low - at_high)) * (high - low)
            found = slack(share)
            if found >= 0:
                high, at_high = share, found
            else:
                low, at_low = share, found
            if high - low < 1e-3:
                break
        return (1 - high) * table + high * self._safe

    def is_done(self, state: State) -> bool:
        """Whether all iterations were made, or the last checks found nothing better."""
        asked = self._options.iterations is not None
        stalled = state.idle >= _IDLE_CHECKS and state.batch >= _MOST_BATCH
        return state.iteration >= self._length or not len(self._rows) or (not asked and stalled)

    def unpack(self, arrays: dict[str, np.ndarray]) -> State:
        """The state of the arrays in a checkpoint."""
        return State.of(arrays)

    def candidates(self, state: State) -> Float[np.ndarray, "1 T C A"]:
        """The best answer so far, the newest parameters among the contenders."""
        return (self._considered(state) if state.iteration and len(self._rows) else state).best[None]

    def describe(self) -> dict[str, object]:
        """How the gradients are made."""
        return {"gradients": "fresh samples", "sequences": f"{self._first_batch} to {_MOST_BATCH} for each gradient"}
