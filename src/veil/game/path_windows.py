"""The game of a whole path where the observation tree does not fit: observers who remember the last events, more and more.

Any function of the history may be the memory of the observer's rules, so every such game proves an upper bound over all
policies. What its policy hides from an observer who remembers everything is not known here: it is measured, or proven by a
certificate.
"""

import itertools
import math

from ..common.clock import ENDED_BY_CALLER, Clock, Progress
from ..engine.compile import build
from ..problem.problem import Problem
from .ascent import GameResult
from .pairs import DEFAULT_MEMORY, LastEvents, make_pairs
from .refine import BestGames, RefinedGameResult
from .solve import least_game, solve_game

_TURN_SHARE = 1 / 2  # of the time that is left, for a game
_WORTH_A_WINDOW = 0.02  # share of the bound: an event more that lowers it by less is the last
_GAME_SHARE = 1 / 4  # of the gap, to which a game is solved


def enclose_path_game(
    problem: Problem,
    *,
    threshold: float | None = None,
    gap: float = 0.05,
    memory_bytes: int = DEFAULT_MEMORY,
    clock: Clock,
) -> RefinedGameResult:
    """Upper bounds over all policies by observers of 0, 1, 2, … events, and the policy of the last one solved; `lower` is 0.

    It ends where one more event lowers the bound by less than a fiftieth of it, or does not fit the memory or the time.

    **Raises:** `InfeasibleError` where no policy reaches the threshold; `TooLargeError` where not even an observer without
    memory fits.
    """
    found = BestGames(memory_bytes)

    def rounds() -> str:
        for events in itertools.count():
            before = math.inf if found.bounding is None else found.bounding.upper
            game = _play(problem, threshold, gap, memory_bytes, events, clock)
            found.take(game)
            if game.stopped == "gap reached":  # one cut short may be hardly searched
                found.best = game
            assert found.bounding is not None
            upper, spent = found.bounding.upper, clock.spent
            clock.report(Progress("automata", events, 0, math.nan, math.nan, game.multiplier, spent, upper))
            if game.stopped in ENDED_BY_CALLER:
                return game.stopped
            if before - upper < _WORTH_A_WINDOW * upper:
                break
            clock.check()
        return "whole horizon"

    stopped = found.ended(rounds)
    if found.bounding is None:
        found.take(least_game(problem, threshold))
    return found.found(clock.spent, stopped)


def _play(
    problem: Problem, threshold: float | None, gap: float, memory_bytes: int, events: int, clock: Clock
) -> GameResult:
    """The game of an observer who remembers so many events."""
    pairs = make_pairs(build(problem), LastEvents(events), memory_bytes, clock=clock)
    turn = clock.share(_TURN_SHARE).silent()
    return solve_game(problem, threshold=threshold, gap=_GAME_SHARE * gap, pairs=pairs, clock=turn)
