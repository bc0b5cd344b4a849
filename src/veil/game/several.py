"""The game under several constraints where the observation tree does not fit: automata of the observer, more and more.

`rounds.py` has the prices of the constraints; each game on an automaton proves an upper bound over all policies.
"""

import numpy as np

from ..common.clock import Clock
from ..engine.compile import build
from ..engine.threads import one_blas_thread
from ..problem.problem import Problem
from .ascent import GameResult
from .pairs import DEFAULT_MEMORY, GivenGraph, LastEvents, ObserverMemory, make_pairs
from .redirect import redirected_graph
from .refine import BestGames, EnclosedGame, RefinedGameResult
from .responses import AgentProblem
from .solve import least_game, solve_game

_TURN = 0.5  # of the time that is left, for a game on an automaton
_WORTH_A_ROUND = 0.05  # share of the gap: where redirecting closes less, the observer remembers one event more


@one_blas_thread
def enclose_constrained_game(
    problem: Problem, *, gap: float = 0.05, memory_bytes: int = DEFAULT_MEMORY, clock: Clock
) -> EnclosedGame:
    """Enclose the value of the game under several constraints where the tree does not fit, by automata of the observer.

    The first observer remembers one event; while the bound falls its events are redirected by value at the prices found, and
    then an observer of one event more follows. The policy that is known to hide most against an observer who remembers
    everything is kept.

    **Raises:** `TooLargeError` where not even an observer without memory fits.
    """
    found = _Automata(problem, gap, memory_bytes)
    stopped = found.ended(lambda: found.run(clock))
    return EnclosedGame(None, found.result(stopped, clock.spent))


class _Automata(BestGames):
    """The best bound and the best policy of the games on automata so far."""

    def __init__(self, problem: Problem, gap: float, memory_bytes: int):
        super().__init__(memory_bytes)
        self.problem, self.gap = problem, gap
        self.last: GameResult | None = None

    @property
    def open_bits(self) -> float:
        """Upper minus lower bound."""
        return np.inf if self.bounding is None else self.bounding.upper - self.lower.bits

    def run(self, clock: Clock) -> str:
        """Games on automata, redirected while that lowers the bound, else with one more event; returns why they end."""
        events, memory = 1, LastEvents(1)
        while self.open_bits > self.gap:
            fallen = self.play(memory, clock)
            clock.check()
            if fallen < _WORTH_A_ROUND * self.open_bits:
                events += 1
                memory = LastEvents(events)
            else:
                memory = self.redirected(clock)
        return "gap reached"

    def play(self, memory: ObserverMemory, clock: Clock) -> float:
        """One game; says by how much it lowered the bound."""
        pairs = make_pairs(build(self.problem), memory, self.memory_bytes, clock=clock)
        game = solve_game(
            self.problem, pairs=pairs, gap=max(self.gap / 4, 0.1 * min(self.open_bits, 1.0)), clock=clock.share(_TURN)
        )
        before = np.inf if self.bounding is None else self.bounding.upper
        self.last = game
        self.take(game)
        self.measure(game, clock)
        return before - game.upper

    def redirected(self, clock: Clock) -> GivenGraph:
        """The memory of the last game, its events redirected at its prices."""
        assert self.last is not None
        agent = AgentProblem(self.problem, self.last.pairs, prices=np.array(self.last.prices))
        return redirected_graph(agent, self.last, clock, self.memory_bytes).memory

    def result(self, stopped: str, seconds: float) -> RefinedGameResult:
        """Both bounds; where time ended before, from the least work that gives them, without measuring its policy."""
        if self.bounding is None:
            self.take(least_game(self.problem, None))
        return self.found(seconds, stopped)
