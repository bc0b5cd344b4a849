"""Ascent on sampled gradients: what `ascent` does where exact gradients would cost too much.

A few starts (`soft_starts`) are improved by Adam on fresh sequences in every iteration, under the augmented Lagrangian of
`ascent`, whose constraint is exact; after each round the better half goes on, until one is left. Sequences of a gradient are
few while it is clear which way to go, and are doubled when noise takes over: Adam's own moments give the share of the signal,
`Σ mean² / Σ square`. The step falls like `1/√k`, and the parameters are averaged. At growing intervals the average and the
newest parameters are made feasible and estimated on sequences of their own; the best is the answer so far. Where checks find
nothing better while much of a time limit is left, the search begins again at starts that avoid the answers found (`avoided`).
"""

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime, Progress
from .avoided import Avoided, nothing_avoided
from .options import SolveOptions
from .sampled_points import Point, SampledPoints
from .soft_starts import FACTORS, soft_starts
from .stochastic_state import DECAYS, Moved, StepPace, StochasticState
from .task import Task, possible_multipliers

ITERATIONS = 5000
"""The most iterations where no number is asked for; a search ends earlier where its checks find nothing better."""

_FIRST_RATE = 0.3  # Adam's step
# By what the step falls where the search has lost its way, and what share of the uniform policy its best answer is mixed with
# when it goes back: with that of a start, most runs over a long horizon take another action than the answer.
_SLOWER, _KEPT_SHARE = 0.5, 1e-3
_LEAST_BATCH, _MOST_BATCH, _BATCH_SECONDS = 32, 1024, 0.03  # the first batch takes about so long
# Pure noise keeps (1 − 0.9) / (1 + 0.9) = 0.05 of the gradient's square in its mean; below twice that, a batch is doubled.
_SIGNAL, _DOUBLED_AFTER = 0.1, 32
PENALTY, _MULTIPLIER_SHARE = 20.0, 0.1  # of the augmented Lagrangian, and of a multiplier's way in one iteration
_ROUND, _SHORTEST_ROUND = 16, 4
_SHARE_OF_ROUNDS, _SHARE_OF_STARTS = 0.25, 0.2  # of a time limit
# Checks: the least and the most sequences, their share of those of all gradients, by what factor of iterations one follows
# another, and how many without a gain of so many bits end the search.
CHECKED, _SHARE_OF_CHECKS, _CHECK_GROWTH, _IDLE_CHECKS, _GAIN_BITS = (256, 20_000), 0.1, 1.3, 6, 1e-4
# A check is three estimates, each a third of a gradient on as many sequences: iterations between checks cost at least so
# many times as much. Before there are iterations, starts are compared on fewer sequences; the first check is at iteration 4.
_CHECK_COSTS, _FIRST_CHECKED, _FIRST_CHECK = 4.0, 64, 4
_LOST_BITS = 5e-3  # below the best answer by more, a search goes back to it
# A search begins again where a check gains less than so many bits, and less than this share of what it lacks of the best
# answer; from so many starts, so often in a row without a better answer, between these shares of a time limit, and unless the
# answer is within so many bits of the most that can be hidden.
_RISING_BITS, _RISING_SHARE = 5e-3, 0.25
_RESTARTED, _MOST_RESTARTS, _SHARES_OF_RESTARTS, _NEAR_MOST_BITS = 2, 3, (0.15, 0.6), 0.02
_STARTS_OF_PAIR = 2  # for each pair after the first of which more bits are wanted
_SHARE_OF_CLOSING = 0.06  # of a time limit, for the last candidate and its estimate
# Seconds for each transition and sequence of a gradient, and for each decision (measured: 3.6e-9 to 3.8e-9, 2e-4).
_PER_ENTRY, _PER_STEP = 4e-9, 4e-4


class StochasticAscent(SampledPoints):
    """The method as a sequence of states.

    **Arguments:** `task`, whose secrecy is sampled; `safe`, the table of largest return; `options`, of which it uses
    `start`, `starts`, `seed` and `iterations`.
    """

    def __init__(self, task: Task, safe: Float[np.ndarray, "T C A"], options: SolveOptions):
        super().__init__(task, safe, options)
        space, limit = task.space, task.clock.time_limit
        self._closing = _SHARE_OF_CLOSING * limit if np.isfinite(limit) else 0.0
        # Without a time limit, or with a number of iterations, a search does not begin again: nothing says how long it may.
        again = np.isfinite(limit) and options.iterations is None and task.min_opacity is None
        self._most_restarts = _MOST_RESTARTS if again else 0
        self._seconds_of_start = 0.0
        self._most_starts, self._share_of_checks, self._lost_bits = 10**9, _SHARE_OF_CHECKS, _LOST_BITS
        self._length = ITERATIONS if options.iterations is None else options.iterations

        per_sequence = _PER_ENTRY * sum(one.space.layers.num_entries for one in self._evaluated)
        self._first_batch = self._batch_of(per_sequence, _LEAST_BATCH)
        self._seconds = per_sequence * self._first_batch + _PER_STEP * space.hidden.horizon * len(
            self._evaluated
        )  # of one gradient

    @staticmethod
    def _batch_of(seconds: float, least: int) -> int:
        """The batch that takes about as long as a first batch should, with so many seconds for each sequence."""
        fits = 2 ** (max(1, int(_BATCH_SECONDS / seconds)).bit_length() - 1)
        return int(np.clip(fits, least, _MOST_BATCH // 2))

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> StochasticState:
        """The state before the first iteration; `known`: further tables that may be the answer."""
        task = self.task
        tables = [self._safe, *([] if known is None else known)]
        given = self._options.start
        tables += [] if given is None else [task.space.table_of(given)]
        best, score = self._best_of([self._safe, *map(self._mended, tables[1:])], self._safe, -np.inf)
        row = self._first_row(best, score)
        starts = list[np.ndarray]()
        with contextlib.suppress(OutOfTime):  # what is known by then may be the answer
            starts += self._starts(tables[1:])
            uniform = task.space.softmax(np.zeros(task.space.shape))
            for start in [*starts, uniform]:
                best, score = self._best_of([self._mended(start)], best, score)
        first = self._first_state([self._parameters(table) for table in starts or [best]], best, score)
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

    def _first_state(self, theta: list[Any], best: Float[np.ndarray, "T C A"], score: float) -> StochasticState:
        first = self._pull(np.zeros(self.task.num_constraints), np.zeros(self.task.num_constraints))
        return StochasticState(
            iteration=0,
            begun=0,
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
            multiplier=np.tile(first, (len(theta), 1)),
            worth=np.zeros(len(theta)),
            best=best,
            best_score=score,
            best_multiplier=first,
            restarts=0,
            exploring=0,
            lacking=np.inf,
            earning=np.zeros(0),
            ending=np.zeros((0, 0)),
            history=np.zeros((0, 6)),
        )

    def _starts(self, given: list[np.ndarray]) -> list[np.ndarray]:
        """The tables given, then soft ones, as far as their share of the time goes; the safe one where there is no other."""
        if self.task.pairs.has_friends:  # soft starts hide from all
            given = [*given, self._safe]
        usual = len(FACTORS) + _STARTS_OF_PAIR * (len(self._raised) - 1)
        count = min(self._options.starts or usual + len(given), self._most_starts)
        return given[:count] + self._soft_starts(count - len(given)) or [self._safe]

    def _soft_starts(self, count: int, avoided: Avoided | None = None) -> list[np.ndarray]:
        """So many, or fewer where their share of the time runs out."""
        result, clock = [], self.task.clock.share(_SHARE_OF_STARTS)
        with contextlib.suppress(OutOfTime):
            for table in itertools.islice(self._soft_tables(clock, avoided), max(0, count)):
                result.append(table)
        self._seconds_of_start = clock.spent / max(1, len(result))
        return result

    def _soft_tables(self, clock: Clock, avoided: Avoided | None) -> Iterator[np.ndarray]:
        """Soft starts for each pair of which more bits are wanted, in turn; with `avoided` for the problem's own."""
        tasks = [replace(self.task, space=space) for space in self._raised] if avoided is None else [self.task]
        waiting = [soft_starts(task, clock, avoided) for task in tasks]
        while waiting:
            for source in list(waiting):
                table = next(source, None)
                if table is None:
                    waiting.remove(source)
                else:
                    yield table

    def _round(self, starts: int) -> int:
        """Iterations of the first round, so that all rounds take their share of the time."""
        limit = self.task.clock.time_limit
        fits = _SHARE_OF_ROUNDS * limit / (starts * self._seconds) if np.isfinite(limit) else _ROUND
        return int(np.clip(min(fits, self._length / 8), _SHORTEST_ROUND, _ROUND))

    def advance(self, state: StochasticState) -> StochasticState:
        """One step of Adam for every start that is left; at the end of a round, the better half stays."""
        self.task.clock.check(ahead=self._closing)
        pace = StepPace.of(state)
        moved = list[Moved]()
        for number in range(len(state.theta)):
            self.task.clock.check()
            moved.append(self._step(state, number, pace))
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

    def _step(self, state: StochasticState, number: int, pace: StepPace) -> Moved:
        """One start after a step."""
        table, theta = self._table(state.theta[number]), state.theta[number]
        point, score_slope, slack_slope = self._evaluate(table, state.batch, self._seed(pace, number))
        pull = self._pull(state.multiplier[number], PENALTY * point.slack)
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
        pace: StepPace,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Parameters and moments after a step of Adam."""
        first, second = DECAYS
        mean = first * moments[0] + (1 - first) * gradient
        square = second * moments[1] + (1 - second) * gradient**2
        step = pace.rate * (mean / pace.mean_scale) / (np.sqrt(square / pace.square_scale) + 1e-12)
        return theta + step, mean, square

    def _seed(self, pace: StepPace, number: int) -> int:
        """Of the sequences of one gradient."""
        return int(np.random.SeedSequence([self._options.seed, pace.iteration, number]).generate_state(1)[0])

    def _priced(self, state: StochasticState, number: int, point: Point) -> tuple[Float[np.ndarray, " K"], float]:
        """The multipliers after a step, and what the start is worth, smoothed over iterations."""
        before = state.multiplier[number]
        multiplier = self._pull(before, _MULTIPLIER_SHARE * PENALTY * point.slack)
        pull = self._pull(before, PENALTY * point.slack)
        worth = point.score + float(np.minimum(point.slack, 0.0) @ (1 + 2 * pull))
        return multiplier, worth if state.iteration == state.begun else 0.7 * state.worth[number] + 0.3 * worth

    def _pull(self, multiplier: Float[np.ndarray, " K"], charge: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """The possible multipliers nearest to those less a charge."""
        return possible_multipliers((multiplier - charge)[None], len(self.task.pairs.least))[0]

    def _louder(self, state: StochasticState) -> StochasticState:
        """The batch doubled where noise has taken over; the next check comes after as many sequences as before."""
        if state.batch >= _MOST_BATCH or state.inside < _DOUBLED_AFTER or len(state.theta) > 1:
            return state
        total, signal = float(state.square[0].sum()), float((state.mean[0] ** 2).sum())
        if signal >= _SIGNAL * total:
            return state
        until = math.ceil((state.check_at - state.iteration) / 2)
        return replace(state, batch=2 * state.batch, inside=0, check_at=state.iteration + until)

    def _halved(self, state: StochasticState) -> StochasticState:
        """The better half of the starts, once a round is over."""
        if len(state.theta) == 1 or state.inside < state.length:
            return state
        kept = np.argsort(-state.worth, kind="stable")[: (len(state.theta) + 1) // 2]
        parts = {name: [getattr(state, name)[one] for one in kept] for name in ("theta", "mean", "square", "average")}
        return replace(state, inside=0, multiplier=state.multiplier[kept], worth=state.worth[kept], **parts)

    def _noted(self, state: StochasticState, points: list[Point], rate: float) -> StochasticState:
        leader = max(points, key=lambda point: point.score + 4 * float(np.minimum(point.slack, 0.0).sum()))
        multiplier = max(map(self.task.price, state.multiplier), default=0.0)
        clock = self.task.clock
        row = (state.iteration, leader.bits, leader.returns, multiplier, rate, clock.spent)
        phase = "sampling" if len(state.theta) == 1 else "choosing"
        clock.report(
            Progress(phase, state.iteration, self._length, leader.bits, leader.returns, multiplier, clock.spent)
        )
        return replace(state, history=np.vstack([state.history, row]))

    def _considered(self, state: StochasticState) -> StochasticState:
        """With the best answer so far, and the iteration of the next check."""
        leader, sequences = int(np.argmax(state.worth)), self._sequences_of_check(state)
        before = self._score(state.best, sequences)  # on the same number of sequences as its contenders
        score, newest, gained = before, -np.inf, {}
        for theta in (state.average[leader], state.theta[leader]):
            contender = self._contender(theta, is_elsewhere=state.begun > 0)
            found = self._score(contender["best"], sequences)
            newest = max(newest, found)
            if found > score:
                score, gained = found, contender | {"best_multiplier": state.multiplier[leader]}
        after = replace(
            state,
            best_score=score,
            check_at=state.iteration + self._until_check(state, sequences),
            idle=0 if score > before + _GAIN_BITS or len(state.theta) > 1 else state.idle + 1,
            **gained,
        )
        return after if len(state.theta) > 1 else self._directed(after, newest, before)

    def _directed(self, state: StochasticState, newest: float, before: float) -> StochasticState:
        """What one start goes on with after a check: the same, the best answer so far, or starts elsewhere."""
        if state.exploring and newest < before:
            lacking = before - max(newest, float(state.worth[0]))  # the second needs no feasible policy
            rising = state.lacking - lacking > max(_RISING_BITS, _RISING_SHARE * lacking)
            state, lost = replace(state, lacking=lacking), not rising
        else:
            rising, lost = newest - before > _RISING_BITS, newest < before - self._lost_bits
            state = replace(state, exploring=0, restarts=0) if state.exploring else state
        if not rising and self._begins_again(state):
            return self._restarted(state)
        return self._taken_back(state) if lost else state

    def _begins_again(self, state: StochasticState) -> bool:
        """Whether starts elsewhere may find something better, and there is time for them.

        Before noise has taken over, which doubles the batch, a check without a gain is no sign of a local optimum.
        """
        clock, task = self.task.clock, self.task
        is_noisy = state.exploring or state.batch > self._first_batch
        if state.restarts >= self._most_restarts or not is_noisy:
            return False
        most = self._most_bits if task.sign > 0 else 0.0
        needed = _RESTARTED * (self._seconds_of_start + _ROUND * self._seconds)
        near = not task.has_terms and state.best_score > most - _NEAR_MOST_BITS
        first, last = (share * clock.time_limit for share in _SHARES_OF_RESTARTS)
        return not near and first <= clock.spent < last - needed

    def _restarted(self, state: StochasticState) -> StochasticState:
        """With starts that avoid the answers found so far, the one that the search has just given up among them."""
        space, hidden = self.task.space, self.task.space.hidden
        known = Avoided(state.earning, state.ending) if len(state.earning) else nothing_avoided(hidden)
        given_up = self._table(state.average[0]) if state.exploring else state.best
        avoided = known.and_of(space, given_up)
        theta = [self._parameters(table) for table in self._soft_starts(_RESTARTED, avoided)]
        if not theta:
            return self._taken_back(state)
        first = self._first_state(theta, state.best, state.best_score)
        kept = {name: getattr(state, name) for name in ("iteration", "best_multiplier", "history")}
        return replace(
            first,
            **kept,
            begun=state.iteration,
            check_at=state.iteration + first.length + _FIRST_CHECK,
            restarts=state.restarts + 1,
            exploring=1,
            earning=avoided.earning,
            ending=avoided.ending,
        )

    def _until_check(self, state: StochasticState, sequences: int) -> int:
        """Iterations to the next check: a share of those so far, and enough to cost some times as much as this one did."""
        least = _CHECK_COSTS * sequences / (state.batch * len(state.theta))
        count = state.iteration - state.begun
        return max(int(_CHECK_GROWTH * count) + 1 - count, math.ceil(least))

    def _contender(self, theta: Any, *, is_elsewhere: bool) -> dict[str, Any]:
        """What a state notes of parameters that may be the best answer: their table, made feasible.

        A mixture with the safe table is no use where that one is elsewhere: actions that raise the return serve instead.
        """
        table = self._table(theta)
        return {"best": self._mended(table, self._steeper(table) if is_elsewhere else None)}

    def _sequences_of_check(self, state: StochasticState) -> int:
        return int(np.clip(self._share_of_checks * (state.iteration - state.begun) * state.batch, *CHECKED))

    def _taken_back(self, state: StochasticState) -> StochasticState:
        """From the best answer again, with shorter steps and more sequences: noise has led the search away from it."""
        theta = self._parameters(state.best, _KEPT_SHARE)
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
            exploring=0,
            lacking=np.inf,
        )

    def is_done(self, state: StochasticState) -> bool:
        """Whether all iterations were made, or the last checks found nothing better."""
        asked = self._options.iterations is not None
        stalled = state.idle >= _IDLE_CHECKS and state.batch >= _MOST_BATCH
        return state.iteration >= self._length or not len(self._rows) or (not asked and stalled)

    def unpack(self, arrays: dict[str, np.ndarray]) -> StochasticState:
        """The state of the arrays in a checkpoint."""
        return StochasticState.of(arrays)

    def candidates(self, state: StochasticState) -> Float[np.ndarray, "1 T C A"]:
        """The best answer so far, the newest parameters among the contenders."""
        return (self._considered(state) if state.iteration and len(self._rows) else state).best[None]

    def describe(self) -> dict[str, object]:
        """How the gradients are made."""
        return {"gradients": "fresh samples", "sequences": f"{self._first_batch} to {_MOST_BATCH} for each gradient"}
