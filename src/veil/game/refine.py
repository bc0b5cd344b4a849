"""Long horizons by automata: the observer keeps a cluster of beliefs, with more clusters in each round.

The game on any graph gives an upper bound over all policies; its own policy has an opacity that is at least what
`clusters.opacity_lower_bound` proves. Each round clusters the beliefs that the last policy leads to, with twice as many
nodes, until the two bounds are close enough.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, Progress, Stop, interruptible
from ..common.errors import TooLargeError
from ..engine.hidden import build
from ..engine.threads import one_blas_thread
from ..problem.problem import Problem
from .clusters import OpacityBound, clustered_graph, opacity_lower_bound
from .pairs import DEFAULT_MEMORY, GivenGraph, LastEvents, Pairs, make_pairs
from .responses import AgentProblem
from .solve import GameResult, solve_game
from .windows import WindowGameResult, solve_window_game

_GAME_SHARE = 1 / 2  # of the time that is left, for the game of a round; the rest is for measuring and the next rounds
_GROWTH = 1.5  # a round takes at least this many times as long as the one before it
_WINDOWS_SHARE = 1 / 5  # of the time of an enclosure, for windows
_WORTH_A_WINDOW = 0.25  # share of the gap: where a longer window closes less, automata close more in the same time


@dataclass(frozen=True, eq=False)
class RefinedGameResult:
    """Bounds on the largest opacity over all policies with return ≥ threshold.

    `lower` is a proven bound on the opacity of the policy of `best`: its entropy on the graph less `lost_bits` (0 where the
    search ended before a policy was measured). `upper` is that of `bounding`, the game with the best observer. Both
    remember a cluster of beliefs.
    """

    lower: float
    upper: float
    lost_bits: float
    best: GameResult
    bounding: GameResult
    seconds: float
    stopped: str

    @property
    def gap(self) -> float:
        """Upper minus lower bound, in bits."""
        return self.upper - self.lower

    def bounds(self) -> list[tuple[GameResult, float]]:
        """See `GameResult.bounds`."""
        return [(self.bounding, self.lower)]


@one_blas_thread
def refine_game(
    problem: Problem,
    *,
    threshold: float | None = None,
    gap: float = 0.05,
    memory_bytes: int = DEFAULT_MEMORY,
    nodes: int = 32,
    most_nodes: int = 4096,
    known: tuple[float, float] = (0.0, np.inf),
    blind: GameResult | None = None,
    clock: Clock | None = None,
) -> RefinedGameResult:
    """Enclose the value of the game by automata of beliefs, each made from the policy that is best against the last.

    **Arguments:** as for `solve_game`; `nodes`, how many a layer may have at first, doubled in each round up to
    `most_nodes`; `known`, bounds proven elsewhere, which count for the gap. The `clock` reports each round, its iteration
    being the number of nodes. A keyboard interrupt ends it with the best bounds so far.

    Cost: a round costs a game on `nodes · N` pairs a layer, and `T · nodes² · E · N` for the clusters.

    **Raises:** `InfeasibleError` where no policy reaches the threshold; `TooLargeError` where not even the first round fits.
    """
    clock = clock or Clock()
    found = _Rounds(problem, threshold, gap, memory_bytes, known, blind)
    try:
        with interruptible():
            stopped = found.run(nodes, most_nodes, clock)
    except OutOfTime as end:
        stopped = str(end.reason)
    except TooLargeError:
        if found.bounding is None:
            raise
        stopped = "memory"
    return found.result(clock.spent, stopped)


class _Rounds:
    """The best of all rounds so far, and the automaton of the next."""

    def __init__(
        self,
        problem: Problem,
        threshold: float | None,
        gap: float,
        memory_bytes: int,
        known: tuple[float, float],
        blind: GameResult | None,
    ):
        self.problem, self.threshold, self.gap, self.memory_bytes = problem, threshold, gap, memory_bytes
        self.known, self.blind = known, blind
        self.lower = OpacityBound(0.0, 0.0, 0)  # true of every policy
        self.best: GameResult | None = None
        self.bounding: GameResult | None = None

    def run(self, nodes: int, most_nodes: int, clock: Clock) -> str:
        """Rounds with twice as many nodes each; returns why there is no further one."""
        pairs = make_pairs(build(self.problem), LastEvents(1), self.memory_bytes, clock=clock)
        while True:
            begin = clock.spent
            result, upper = self.play(pairs, clock.share(_GAME_SHARE).silent())
            ended = result.stopped in ENDED_BY_CALLER
            if not ended:
                self.measure(result, clock)
            size, bits = max(pairs.graph.sizes), self.lower.bits
            news = Progress("automata", size, most_nodes, bits, math.nan, upper.multiplier, clock.spent, upper.upper)
            clock.report(news)
            if ended:
                return result.stopped
            if min(upper.upper, self.known[1]) - max(self.lower.bits, self.known[0]) <= self.gap:
                return "gap reached"
            clock.check()
            if _GROWTH * (clock.spent - begin) > clock.left:
                return str(Stop.TIME_LIMIT)
            if nodes > most_nodes:
                return "nodes"
            graph = clustered_graph(AgentProblem(self.problem, pairs), result.tables, nodes, clock)
            pairs = make_pairs(build(self.problem), GivenGraph(graph), self.memory_bytes, clock=clock)
            nodes *= 2

    def play(self, pairs: Pairs, clock: Clock) -> tuple[GameResult, GameResult]:
        """One game, and the one with the best bound so far; its policy counts when it is measured."""
        result = solve_game(
            self.problem, threshold=self.threshold, gap=self.gap / 10, pairs=pairs, blind=self.blind, clock=clock
        )
        self.blind = result.blind
        if self.bounding is None or result.upper < self.bounding.upper:
            self.bounding = result
        self.best = result if self.best is None else self.best
        return result, self.bounding

    def measure(self, result: GameResult, clock: Clock) -> None:
        """A proven lower bound on the opacity of a round's policy."""
        found = opacity_lower_bound(result.pairs, result.tables, clock=clock)
        if found.bits > self.lower.bits:
            self.lower, self.best = found, result

    def result(self, seconds: float, stopped: str) -> RefinedGameResult:
        """Both bounds; where no round was played, from the least work that gives them."""
        if self.bounding is None:
            pairs = make_pairs(build(self.problem), LastEvents(1), self.memory_bytes)
            self.play(pairs, Clock(0.0))
        assert self.bounding is not None
        assert self.best is not None
        lower, lost = self.lower.bits, self.lower.lost_bits
        return RefinedGameResult(lower, self.bounding.upper, lost, self.best, self.bounding, seconds, stopped)


@dataclass(frozen=True, eq=False)
class EnclosedGame:
    """The better of both ways to enclose a game at a long horizon, for each bound.

    `windows` is None where the secret is settled neither at time 0 nor at time T, `refined` where it was not needed.
    """

    windows: WindowGameResult | None
    refined: RefinedGameResult | None

    @property
    def parts(self) -> list[WindowGameResult | RefinedGameResult]:
        """Those of the two that were solved."""
        return [part for part in (self.windows, self.refined) if part is not None]

    @property
    def lower(self) -> float:
        """A proven lower bound on the opacity of one of the two policies."""
        return max(part.lower for part in self.parts)

    @property
    def upper(self) -> float:
        """The upper bound over all policies with the return asked for."""
        return min(part.upper for part in self.parts)

    @property
    def gap(self) -> float:
        """Upper minus lower bound, in bits."""
        return self.upper - self.lower

    @property
    def stopped(self) -> str:
        """Why the last search ended."""
        return self.parts[-1].stopped

    def bounds(self) -> list[tuple[GameResult, float]]:
        """See `GameResult.bounds`."""
        return [bound for part in sorted(self.parts, key=lambda part: part.upper) for bound in part.bounds()]


SolvedGame = GameResult | WindowGameResult | RefinedGameResult | EnclosedGame


def enclose_game(
    problem: Problem,
    *,
    threshold: float | None = None,
    gap: float = 0.05,
    memory_bytes: int = DEFAULT_MEMORY,
    nodes: int = 128,
    blind: GameResult | None = None,
    clock: Clock | None = None,
) -> EnclosedGame:
    """Enclose the value of the game at a horizon whose tree does not fit: windows first, then automata of beliefs.

    Windows (a fifth of the time at most) are best where the agent mixes soon; automata of beliefs carry what lasts, as
    which goal it chose long ago. **Arguments:** as for `solve_window_game` and `refine_game`.
    """
    clock, windows = clock or Clock(), None
    if problem.secret_table.time in (0, problem.horizon):
        windows = solve_window_game(
            problem,
            threshold=threshold,
            gap=gap,
            memory_bytes=memory_bytes,
            least=_WORTH_A_WINDOW,
            blind=blind,
            clock=clock.share(_WINDOWS_SHARE),
        )
        if windows.gap <= gap or windows.stopped in ENDED_BY_CALLER:
            return EnclosedGame(windows, None)
    refined = refine_game(
        problem,
        threshold=threshold,
        gap=gap,
        memory_bytes=memory_bytes,
        nodes=nodes,
        known=(0.0, np.inf) if windows is None else (windows.lower, windows.upper),
        blind=blind if windows is None else windows.forgetting.blind,
        clock=clock,
    )
    return EnclosedGame(windows, refined)
