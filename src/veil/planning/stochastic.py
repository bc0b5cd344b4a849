"""Ascent on sampled gradients: what `ascent` does where exact gradients would cost too much.

A few starts (`soft_starts`) are improved by Adam on fresh sequences in every iteration, under the augmented Lagrangian of
`ascent`, whose constraint is exact; after each round the better half goes on, until one is left. Sequences of a gradient are
few while it is clear which way to go, and are doubled when noise takes over: Adam's own moments give the share of the signal,
`Σ mean² / Σ square`. The step falls like `1/√k`, and the parameters are averaged. At growing intervals the average and the
newest parameters are made feasible and estimated on sequences of their own; the best is the answer so far.
"""

import contextlib
import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import OutOfTime, Progress
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
_DECAYS = (0.9, 0.99)
_LEAST_BATCH, _MOST_BATCH, _BATCH_SECONDS = 32, 1024, 0.03  # the first batch takes about so long
# Pure noise keeps (1 − 0.9) / (1 + 0.9) = 0.05 of the gradient's square in its mean; below twice that, a batch is doubled.
_SIGNAL, _DOUBLED_AFTER = 0.1, 32
_PENALTY, _MULTIPLIER_SHARE = 6.0, 0.1  # of the augmented Lagrangian, and of a multiplier's way in one iteration
_MARGIN = 1e-9  # slack that a candidate keeps, so that sums in another order keep the threshold too
_ROUND, _SHORTEST_ROUND = 16, 4
_SHARE_OF_ROUNDS, _SHARE_OF_STARTS = 0.25, 0.2  # of a time limit
_LOWEST = -40.0  # logits below the largest by this much are zero but for rounding
# Checks: the least and the most sequences, their share of those of all gradients, by what factor of iterations one follows
# another, and how many without a gain of so many bits end the search.
_CHECKED, _SHARE_OF_CHECKS, _CHECK_GROWTH, _IDLE_CHECKS, _GAIN_BITS = (256, 20_000), 0.1, 1.3, 6, 1e-4
_LOST_BITS = 5e-3  # below the best answer by more, a search goes back to it
_SHARE_OF_CLOSING = 0.06  # of a time limit, for the last candidate and its estimate
# Seconds for each transition and sequence of a gradient, and for each decision (measured: 3.6e-9 to 3.8e-9, 2e-4).
_PER_ENTRY, _PER_STEP = 4e-9, 4e-4


@dataclass(frozen=True, eq=False)
class State(SavedState):
    """Everything a search needs to continue, as numbers and arrays. Parameters are of the rows that can be used."""

    iteration: int
    inside: int
    length: int
    batch: int
    check_at: int
    idle: int
    rate: float
    theta: Float[np.ndarray, "B R A"]
    mean: Float[np.ndarray, "B R A"]
    square: Float[np.ndarray, "B R A"]
    average: Float[np.ndarray, "B R A"]
    multiplier: Float[np.ndarray, "B K"]
    worth: Float[np.ndarray, " B"]
    best: Float[np.ndarray, "T C A"]
    best_score: float
    best_multiplier: Float[np.ndarray, " K"]
    history: Float[np.ndarray, "k 6"]


@dataclass(frozen=True, eq=False)
class _Point:
    """One evaluation: the score and the slacks with their gradients in the rows that can be used."""

    bits: float
    returns: float
    score: float
    score_slope: Float[np.ndarray, "R A"]
    slack: Float[np.ndarray, " K"]
    slack_slope: Float[np.ndarray, "K R A"]


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
        limit = task.clock.time_limit
        self._closing = _SHARE_OF_CLOSING * limit if np.isfinite(limit) else 0.0
        self._length = ITERATIONS if options.iterations is None else options.iterations

        per_sequence = _PER_ENTRY * space.layers.num_entries
        fits = 2 ** (max(1, int(_BATCH_SECONDS / per_sequence)).bit_length() - 1)
        self._first_batch = int(np.clip(fits, _LEAST_BATCH, _MOST_BATCH // 2))
        self._seconds = per_sequence * self._first_batch + _PER_STEP * space.hidden.horizon  # of one gradient, forecast

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> State:
        """The state before the first iteration; `known`: further tables that may be the answer."""
        task, count = self.task, self.task.num_constraints
        tables = [self._safe, *([] if known is None else known)]
        given = self._options.start
        tables += [] if given is None else [task.space.table_of(given)]
        starts = list(self._starts(tables[1:]))
        best, score = self._safe, -np.inf
        for table in [*tables, *(self._mended(start) for start in starts)]:
            found = self._score(table, _CHECKED[0])
            if found > score:
                best, score = table, found
        theta = np.stack([self._parameters(table) for table in starts])
        return State(
            iteration=0,
            inside=0,
            length=self._round(len(theta)),
            batch=self._first_batch,
            check_at=1,
            idle=0,
            rate=_FIRST_RATE,
            theta=theta,
            mean=np.zeros_like(theta),
            square=np.zeros_like(theta),
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
        count = self._options.starts or len(FACTORS) + len(given)
        result, clock = given[:count], self.task.clock.share(_SHARE_OF_STARTS)
        with contextlib.suppress(OutOfTime):
            for table in itertools.islice(soft_starts(self.task, clock), count - len(result)):
                result.append(table)
                clock.check()
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

    def advance(self, state: State) -> State:
        """One step of Adam for every start that is left; at the end of a round, the better half stays."""
        task, count = self.task, state.iteration + 1
        task.clock.check(ahead=self._closing)
        rate = state.rate / (1 + state.iteration / _HALF_RATE) ** 0.5
        parts = [self._step(state, number, rate) for number in range(len(state.theta))]
        theta, mean, square, multiplier, worth, points = map(list, zip(*parts, strict=True))
        weight = max(0.02, 2 / (count + 1))
        moved = np.stack(theta)
        after = replace(
            state,
            iteration=count,
            inside=state.inside + 1,
            theta=moved,
            mean=np.stack(mean),
            square=np.stack(square),
            average=state.average + weight * (moved - state.average),
            multiplier=np.stack(multiplier),
            worth=np.array(worth),
        )
        after = self._noted(self._halved(self._louder(after)), points, rate)
        if after.iteration >= after.check_at:
            after = self._considered(after)
        return after

    def _step(self, state: State, number: int, rate: float) -> tuple[Any, ...]:
        """The parameters, moments, multipliers and worth of one start after a step, and where the step was taken."""
        table = self._table(state.theta[number])
        seed = int(np.random.SeedSequence([self._options.seed, state.iteration, number]).generate_state(1)[0])
        point = self._evaluate(table, state.batch, seed)
        pull = np.maximum(0.0, state.multiplier[number] - _PENALTY * point.slack)
        slope = point.score_slope + np.einsum("k,kra->ra", pull, point.slack_slope)
        gradient = softmax_pull_back(table.reshape(-1, table.shape[2])[self._rows], slope)
        first, second = _DECAYS
        count = state.iteration + 1
        mean = first * state.mean[number] + (1 - first) * gradient
        square = second * state.square[number] + (1 - second) * gradient**2
        theta = state.theta[number] + rate * (mean / (1 - first**count)) / (
            np.sqrt(square / (1 - second**count)) + 1e-12
        )
        theta = np.maximum(theta - theta.max(axis=1, keepdims=True), _LOWEST)
        multiplier = np.maximum(0.0, state.multiplier[number] - _MULTIPLIER_SHARE * _PENALTY * point.slack)
        worth = point.score + float(np.minimum(point.slack, 0.0) @ (1 + 2 * pull))
        smooth = worth if state.iteration == 0 else 0.7 * state.worth[number] + 0.3 * worth
        return theta, mean, square, multiplier, smooth, point

    def _evaluate(self, table: np.ndarray, sequences: int, seed: int) -> _Point:
        task = self.task
        estimate, slope = self._secrecy.fresh(table, sequences, seed, task.clock)
        secrecy_slope = self._used(slope)
        returns, slack, slack_slope = self._constraints(table)
        if task.min_opacity is not None:
            return _Point(
                estimate.bits,
                returns,
                returns / task.unit,
                slack_slope[0],
                np.array([estimate.bits - estimate.std_error - task.bits_kept]),
                secrecy_slope[None],
            )
        return _Point(estimate.bits, returns, task.sign * estimate.bits, task.sign * secrecy_slope, slack, slack_slope)

    def _used(self, slope: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "R A"]:
        return slope.reshape(-1, slope.shape[2])[self._rows]

    def _constraints(self, table: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The return, the slacks and their gradients; with `min_opacity` the gradient of the return instead."""
        task, space = self.task, self.task.space
        endless = space.problem.return_over == "infinite" and space.stationary
        if len(task.starts) > 1 or endless:
            values, slope, slack, slack_slope = task.constraints(table[None])
            slopes = slope if task.min_opacity is not None else slack_slope[0]
            return float(values[0]), slack[0], np.stack([self._used(one) for one in slopes])
        value, slope, _ = space.layers.returns(table, self._terminal)
        if task.num_constraints == 0:
            return value, np.zeros(0), np.zeros((0, len(self._rows), table.shape[2]))
        wanted = task.threshold if task.threshold is not None else 0.0
        return value, np.array([(value - wanted) / task.unit]), self._used(slope)[None] / task.unit

    def _louder(self, state: State) -> State:
        """The batch doubled where noise has taken over; the moments know."""
        total = float(np.sum(state.square))
        if state.batch >= _MOST_BATCH or state.inside < _DOUBLED_AFTER or len(state.theta) > 1 or total == 0:
            return state
        signal = float(np.sum(state.mean**2)) / total
        return replace(state, batch=2 * state.batch, inside=0) if signal < _SIGNAL else state

    def _halved(self, state: State) -> State:
        """The better half of the starts, once a round is over."""
        if len(state.theta) == 1 or state.inside < state.length:
            return state
        kept = np.argsort(-state.worth, kind="stable")[: (len(state.theta) + 1) // 2]
        names = ("theta", "mean", "square", "average", "multiplier", "worth")
        return replace(state, inside=0, **{name: getattr(state, name)[kept] for name in names})

    def _noted(self, state: State, points: list[_Point], rate: float) -> State:
        leader = max(points, key=lambda point: point.score + 4 * float(np.minimum(point.slack, 0.0).sum()))
        multiplier = float(state.multiplier.max(initial=0.0)) * self.task.price_unit
        clock = self.task.clock
        row = (state.iteration, leader.bits, leader.returns, multiplier, rate, clock.spent)
        phase = "sampling" if len(state.theta) == 1 else "choosing"
        clock.report(
            Progress(phase, state.iteration, self._length, leader.bits, leader.returns, multiplier, clock.spent)
        )
        return replace(state, history=np.vstack([state.history, row]))

    def _considered(self, state: State) -> State:
        """With the best answer so far, and the iteration of the next check."""
        leader, least, most = int(np.argmax(state.worth)), *_CHECKED
        sequences = int(np.clip(_SHARE_OF_CHECKS * state.iteration * state.batch, least, most))
        before = self._score(state.best, sequences)  # on the same number of sequences as its contenders
        best, score, multiplier, newest = state.best, before, state.best_multiplier, -np.inf
        for theta in (state.average[leader], state.theta[leader]):
            table = self._mended(self._table(theta))
            found = self._score(table, sequences)
            newest = max(newest, found)
            if found > score:
                best, score, multiplier = table, found, state.multiplier[leader]
        if newest < before - _LOST_BITS and len(state.theta) == 1:
            state = self._taken_back(state)
        return replace(
            state,
            best=best,
            best_score=score,
            best_multiplier=multiplier,
            check_at=int(_CHECK_GROWTH * state.iteration) + 1,
            idle=0 if score > before + _GAIN_BITS or len(state.theta) > 1 else state.idle + 1,
        )

    def _taken_back(self, state: State) -> State:
        """From the best answer again, with shorter steps and more sequences: noise has led the search away from it."""
        theta = self._parameters(state.best)[None]
        return replace(
            state,
            inside=0,
            batch=min(2 * state.batch, _MOST_BATCH),
            rate=_SLOWER * state.rate,
            theta=theta,
            mean=np.zeros_like(theta),
            square=np.zeros_like(theta),
            average=theta,
            multiplier=state.best_multiplier[None],
        )

    def _score(self, table: np.ndarray, sequences: int) -> float:
        """What an answer is worth, on draws that are the same for all of them; -inf where it is not feasible."""
        task = self.task
        returns, slack, _ = self._constraints(table)
        if task.min_opacity is None and np.any(slack < 0):
            return -np.inf
        bits = self._secrecy.estimate(table, sequences, self._options.seed + 1, task.clock)
        if task.min_opacity is not None:
            return returns / task.unit if bits.bits - 2 * bits.std_error >= task.bits_kept else -np.inf
        return task.sign * bits.bits

    def _mended(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "T C A"]:
        """The table with the least share of the safe one that makes its return suffice, by a few secants."""
        if self.task.min_opacity is not None or self.task.num_constraints == 0:
            return table

        def slack(share: float) -> float:
            return float(self._constraints((1 - share) * table + share * self._safe)[1].min()) - _MARGIN

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
        return state.iteration >= self._length or not state.theta.size or (not asked and stalled)

    def unpack(self, arrays: dict[str, np.ndarray]) -> State:
        """The state of the arrays in a checkpoint."""
        return State.of(arrays)

    def candidates(self, state: State) -> Float[np.ndarray, "1 T C A"]:
        """The best answer so far, the newest parameters among the contenders."""
        return (self._considered(state) if state.iteration and state.theta.size else state).best[None]

    def describe(self) -> dict[str, object]:
        """How the gradients are made."""
        return {"gradients": "fresh samples", "sequences": f"{self._first_batch} to {_MOST_BATCH} for each gradient"}
