"""The game at long horizons: two small games on a window around the secret's time enclose the value of the whole game.

For a secret settled at time T and a window of k steps, s = T − k:

    max H(Z | X_s, O_{s+1:T})  ≤  max H(Z|Y)  ≤  max H(Z | O_{s+1:T})

over policies with return ≥ δ. On the right the observer forgets everything before s; on the left it is told X_s, after
which what came before says no more. Either is a game on a public graph of k steps, whose cost depends on k and not on T.
For a secret settled at time 0 the window is the first k steps: on the right the observer stops looking, on the left it is
told X_k, and the agent continues for the return alone. Both bounds converge as k grows where the agent can mix within k steps.
"""

from dataclasses import dataclass

import numpy as np

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, Progress, Stop, interruptible
from ..common.errors import InputError, TooLargeError
from ..engine.compile import build
from ..engine.return_range import best_action_values
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.model import Model
from ..problem.problem import Problem
from .ascent import GameResult
from .pairs import DEFAULT_MEMORY, FullHistory, ObserverMemory, TailEvents, make_pairs
from .solve import solve_game

_GAME_SHARE = 1 / 3  # of the time that is left, for each game of a window: two of them, and the next window
_GROWTH = 4  # a window costs up to this many times what the one before it took


@dataclass(frozen=True, eq=False)
class WindowGameResult:
    """Bounds on the largest opacity over all policies with return ≥ threshold, and the two games that prove them.

    `revealing` gives the policy and the lower bound (its opacity is at least that), `forgetting` the observer's rule and the
    upper bound; their windows have `revealing_steps` and `forgetting_steps`. `problem` is that of the game `revealing`: the
    problem itself, or for a secret settled at time 0 its first steps, after which the agent plays for the return alone.
    """

    lower: float
    upper: float
    revealing: GameResult
    forgetting: GameResult
    revealing_steps: int
    forgetting_steps: int
    problem: Problem
    seconds: float
    stopped: str

    @property
    def gap(self) -> float:
        """Upper minus lower bound, in bits."""
        return self.upper - self.lower

    def bounds(self) -> list[tuple[GameResult, float]]:
        """See `GameResult.bounds`."""
        return [(self.forgetting, self.lower)]


@one_blas_thread
def solve_window_game(
    problem: Problem,
    *,
    threshold: float | None = None,
    gap: float = 0.05,
    memory_bytes: int = DEFAULT_MEMORY,
    steps: int = 2,
    least: float = 0.0,
    blind: GameResult | None = None,
    clock: Clock | None = None,
) -> WindowGameResult:
    """Enclose the value of the game at a horizon whose tree does not fit, by longer and longer windows.

    **Arguments:** as for `solve_game`; `steps`, the first window; `least`, the share of the gap that a window must close for
    a longer one to follow. The `clock` reports each window. A keyboard interrupt ends it with the best bounds so far.

    **Raises:** `InputError` where the secret is settled neither at time 0 nor at time T; `InfeasibleError` where no policy
    reaches the threshold; `TooLargeError` where not even the first window fits the memory; `OutOfTime` where the clock ends
    it before both of its games have a bound.
    """
    clock = clock or Clock()
    threshold = threshold_of(problem) if threshold is None else threshold
    found = _Windows(problem, threshold, gap, memory_bytes, blind)
    try:
        with interruptible():
            stopped = found.lengthen(min(steps, problem.horizon), least, clock)
    except OutOfTime as end:
        if not found.complete:
            raise
        stopped = str(end.reason)
    except TooLargeError:
        if not found.complete:
            raise
        stopped = "memory"
    return found.result(clock.spent, stopped)


@dataclass(frozen=True, eq=False)
class _Side:
    """One of the two games of a window: its problem, the observer's memory, when the observer is told the hidden state."""

    problem: Problem
    memory: ObserverMemory
    told_at: int | None


class _Windows:
    """The best of both sides so far."""

    def __init__(
        self, problem: Problem, threshold: float | None, gap: float, memory_bytes: int, blind: GameResult | None
    ):
        self.problem, self.threshold, self.gap, self.memory_bytes = problem, threshold, gap, memory_bytes
        self.blind = blind
        self.revealing: tuple[GameResult, int, Problem] | None = None
        self.forgetting: tuple[GameResult, int] | None = None

    @property
    def complete(self) -> bool:
        """Whether both sides have a bound."""
        return self.revealing is not None and self.forgetting is not None

    @property
    def open_bits(self) -> float:
        """Upper minus lower bound."""
        assert self.revealing is not None
        assert self.forgetting is not None
        return self.forgetting[0].upper - self.revealing[0].lower

    def lengthen(self, length: int, least: float, clock: Clock) -> str:
        """Longer and longer windows; returns why there is no further one."""
        before = np.inf
        while True:
            begin = clock.spent
            try:
                stopped = self.play(length, clock)
            except TooLargeError:
                if self.complete or length <= 1:
                    raise
                length = 1
                continue
            if self.complete:
                clock.report(self.progress(length, clock.spent))
            if stopped in ENDED_BY_CALLER:
                if not self.complete:
                    raise OutOfTime(Stop(stopped))
                return stopped
            if self.open_bits <= self.gap:
                return "gap reached"
            clock.check()
            if length == self.problem.horizon:
                return "whole horizon"
            if self.open_bits > (1 - least) * before:
                return "too slow"
            before = self.open_bits
            if _GROWTH * (clock.spent - begin) > clock.left:
                return str(Stop.TIME_LIMIT)
            length += 1

    def play(self, length: int, clock: Clock) -> str:
        """Both games of a window; returns how the last one ended."""
        result, played = None, None
        for number, side in enumerate(_sides(self.problem, length)):
            if result is None or side is not played:  # over the whole horizon the two are one game
                result = self._solve(side, clock.share(_GAME_SHARE).silent())
            played = side
            if number == 0 and (self.revealing is None or result.lower > self.revealing[0].lower):
                self.revealing = result, length, side.problem
            if number == 1 and (self.forgetting is None or result.upper < self.forgetting[0].upper):
                self.forgetting = result, length
            if result.stopped in ENDED_BY_CALLER:
                break
        assert result is not None
        return result.stopped

    def _solve(self, side: _Side, clock: Clock) -> GameResult:
        hidden = build(side.problem)
        pairs = make_pairs(hidden, side.memory, self.memory_bytes, told_at=side.told_at, clock=clock)
        result = solve_game(
            side.problem, threshold=self.threshold, gap=self.gap / 10, pairs=pairs, blind=self.blind, clock=clock
        )
        self.blind = result.blind
        return result

    def progress(self, length: int, seconds: float) -> Progress:
        """The bounds so far."""
        assert self.revealing is not None
        assert self.forgetting is not None
        best, lower = self.forgetting[0], self.revealing[0].lower
        return Progress("windows", length, self.problem.horizon, lower, np.nan, best.multiplier, seconds, best.upper)

    def result(self, seconds: float, stopped: str) -> WindowGameResult:
        """Both bounds, once there are both."""
        assert self.revealing is not None
        assert self.forgetting is not None
        (revealing, revealing_steps, problem), (forgetting, forgetting_steps) = self.revealing, self.forgetting
        return WindowGameResult(
            lower=revealing.lower,
            upper=forgetting.upper,
            revealing=revealing,
            forgetting=forgetting,
            revealing_steps=revealing_steps,
            forgetting_steps=forgetting_steps,
            problem=problem,
            seconds=seconds,
            stopped=stopped,
        )


def _sides(problem: Problem, length: int) -> tuple[_Side, _Side]:
    """The games of a window: first the one whose observer is told the hidden state, then the one who forgets."""
    time, horizon = problem.secret_table.time, problem.horizon
    if length == horizon:
        whole = _Side(problem, FullHistory(), None)
        return whole, whole
    if time == horizon:
        begin = horizon - length
        return _Side(problem, TailEvents(begin), begin), _Side(problem, TailEvents(begin), None)
    if time == 0:
        first = _first_steps(problem, length)
        return _Side(first, FullHistory(), length), _Side(first, FullHistory(), None)
    raise InputError("game on windows", [f"the secret is settled at time {time}, expected 0 or the horizon {horizon}"])


def _first_steps(problem: Problem, length: int) -> Problem:
    """The problem up to a time before its horizon, with what the best continuation earns as its terminal rewards."""
    models = []
    for model in problem.models:
        best = best_action_values(problem, model)
        value = best[min(length, len(best) - 1)].max(axis=1)
        names = model.states.all(), model.actions.all()
        models.append(
            Model(
                model.matrices, model.rewards, model.initial, model.discount, value, *names, available=model.available
            )
        )
    return problem.replace(
        model=models if len(models) > 1 else models[0], horizon=length, return_over="horizon", min_return=None
    )
