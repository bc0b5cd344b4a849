"""Long horizons by automata: a better memory for the observer and a better policy for the agent, in turns.

The game on any graph gives an upper bound over all policies. Its events are then redirected by value (`redirect.py`), which
makes the next graph, as long as that lowers the bound. The policy of such a game is moved to clusters of the beliefs that it
leads to and lifted there (`lift.py`), as long as that raises the lower bound. The clusters of the lifted policy, with more
nodes, begin the next turn.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, Progress, interruptible
from ..common.errors import TooLargeError
from ..engine.compile import build
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.problem import Problem
from .arrivals import make_arrivals
from .ascent import GameResult, game_of_policy
from .clusters import Clustered, OpacityBound, clustered_graph, opacity_lower_bound
from .lift import lift
from .pairs import DEFAULT_MEMORY, LastEvents, ObserverMemory, make_pairs
from .redirect import Redirected, redirected_graph
from .responses import AgentProblem
from .solve import least_game, solve_game
from .windows import WindowGameResult, solve_window_game

_TURN_SHARE = 1 / 2  # of the time that is left, for a turn of the observer or of the agent
_GAME_SHARE = 1 / 2  # of the time of a turn, for a game; the rest is for measuring and the next rounds
_GROWTH = 1.5  # a round takes at least this many times as long as the one before it
_WORTH_A_ROUND = 0.1  # share of the gap: the turn of the observer ends where a round closes less
_WORTH_A_LIFT = 0.25  # the same for the agent, whose search is local: the next turn gives it a better place to begin
_GAME_GAP = 0.15  # share of the gap to which a game is solved
_FIRST_GAP = 0.5  # the same for the first game of a turn, which only has to show where its events are best led
_UNIFORM_SHARE = 1e-2  # of a uniform choice in the policy near which a game begins
_MORE_NODES = 1.25  # times as many in each round of lifting
_LIFT_ITERATIONS = 25  # between two clusterings: after about as many the beliefs have moved away from the clusters
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
    """Enclose the value of the game by automata: the observer's improved by value, the agent's policy lifted, in turns.

    **Arguments:** as for `solve_game`; `nodes`, how many a layer of clusters may have at first, half as many more in each
    turn up to `most_nodes`; `known`, bounds proven elsewhere, which count for the gap. The `clock` reports each round, its
    iteration being the number of nodes. A keyboard interrupt ends it with the best bounds so far.

    Cost: a round costs a game on `nodes · N` pairs a layer, and `T · nodes² · E · N` for the clusters.

    Where the time or the memory does not suffice for the first round, the game of an observer without memory takes its place.

    **Raises:** `InfeasibleError` where no policy reaches the threshold; `TooLargeError` where not even that fits.
    """
    clock = clock or Clock()
    found = _Rounds(problem, threshold, gap, memory_bytes, known, blind)
    stopped = found.ended(lambda: found.run(nodes, most_nodes, clock))
    return found.result(clock.spent, stopped)


class BestGames:
    """The best bound and the best policy of the games so far."""

    def __init__(self, memory_bytes: int = DEFAULT_MEMORY) -> None:
        self.memory_bytes = memory_bytes
        self.lower = OpacityBound(0.0, 0.0, 0)  # true of every policy
        self.best: GameResult | None = None
        self.bounding: GameResult | None = None

    def ended(self, rounds: Callable[[], str]) -> str:
        """Play rounds of games, which say why there is no further one; time, an interrupt and memory end them as well."""
        try:
            with interruptible():
                return rounds()
        except OutOfTime as end:
            return str(end.reason)
        except TooLargeError:
            return "memory"

    def take(self, result: GameResult) -> None:
        """A game: its bound counts at once, its policy when it is measured."""
        if self.bounding is None or result.upper < self.bounding.upper:
            self.bounding = result
        self.best = result if self.best is None else self.best

    def measure(self, result: GameResult, clock: Clock) -> None:
        """A proven lower bound on the opacity of a game's policy, where that fits the memory."""
        try:
            found = opacity_lower_bound(result.pairs, result.tables, clock=clock, memory_bytes=self.memory_bytes)
        except TooLargeError:
            return
        if found.bits > self.lower.bits:
            self.lower, self.best = found, result

    def found(self, seconds: float, stopped: str) -> RefinedGameResult:
        """Both bounds, once a game was taken."""
        assert self.bounding is not None
        assert self.best is not None
        lower, lost = self.lower.bits, self.lower.lost_bits
        return RefinedGameResult(lower, self.bounding.upper, lost, self.best, self.bounding, seconds, stopped)


class _Rounds(BestGames):
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
        super().__init__(memory_bytes)
        self.problem, self.gap = problem, gap
        self.threshold = threshold_of(problem) if threshold is None else threshold
        self.known, self.blind = known, blind

    @property
    def known_bits(self) -> tuple[float, float]:
        """Lower and upper bound, those known from elsewhere included."""
        upper = np.inf if self.bounding is None else self.bounding.upper
        return max(self.lower.bits, self.known[0]), min(upper, self.known[1])

    @property
    def open_bits(self) -> float:
        """Upper minus lower bound."""
        lower, upper = self.known_bits
        return upper - lower

    def run(self, nodes: int, most_nodes: int, clock: Clock) -> str:
        """Turns with more nodes each; returns why there is no further one."""
        policy = self.play(LastEvents(1), clock.share(_GAME_SHARE).silent(), _GAME_GAP)
        if policy.stopped in ENDED_BY_CALLER:
            return policy.stopped
        if self.known[0] <= 0:  # else it would hardly hide more
            self.measure(policy, clock)
        self.report(policy, most_nodes, clock)
        while self.open_bits > self.gap:
            clock.check()
            if nodes > most_nodes:
                return "nodes"
            clustered = self._clustered(AgentProblem(self.problem, policy.pairs), policy, nodes, clock)
            policy = self.bound(clustered, policy, most_nodes, clock)
            if policy.stopped in ENDED_BY_CALLER:
                return policy.stopped
            if self.open_bits > self.gap:
                policy, nodes = self.lift(policy, nodes, most_nodes, clock)
        return "gap reached"

    def bound(self, moving: Clustered | Redirected, policy: GameResult, most_nodes: int, clock: Clock) -> GameResult:
        """Games on a graph and those redirected from it, while the bound falls; returns the best of them."""
        best: GameResult | None = None
        turn, result = clock.share(_TURN_SHARE), policy
        while True:
            share = _FIRST_GAP if best is None else _GAME_GAP
            result = self.play(moving.memory, turn.share(_GAME_SHARE).silent(), share, (moving, result))
            self.report(result, most_nodes, clock)
            fallen = np.inf if best is None else best.upper - result.upper
            best = result if fallen > 0 else best
            assert best is not None
            if result.stopped in ENDED_BY_CALLER or self.open_bits <= self.gap:
                return best
            if fallen < _WORTH_A_ROUND * self.open_bits or turn.left < _GROWTH * result.seconds:
                break
            moving = redirected_graph(AgentProblem(self.problem, result.pairs), result, clock, self.memory_bytes)
        return best

    def _clustered(self, agent: AgentProblem, policy: GameResult, nodes: int, clock: Clock) -> Clustered:
        return clustered_graph(agent, policy.tables, nodes, clock, self.memory_bytes)

    def play(
        self,
        memory: ObserverMemory,
        clock: Clock,
        share: float,
        near: tuple[Clustered | Redirected, GameResult] | None = None,
    ) -> GameResult:
        """One game; its bound counts at once, its policy when it is measured.

        **Arguments:** `share` of the gap to which it is solved; `near`: a game, and how its policy moves to this memory.
        """
        pairs = make_pairs(build(self.problem), memory, self.memory_bytes, clock=clock)
        gap = max(self.gap / 10, share * min(self.open_bits, 1.0))
        prior = None
        if near is not None:
            agent, (moving, game) = AgentProblem(self.problem, pairs), near
            prior = agent.spread(moving.moved(game.pairs, game.tables, agent), _UNIFORM_SHARE)
        result = solve_game(
            self.problem,
            threshold=self.threshold,
            gap=gap,
            pairs=pairs,
            blind=self.blind,
            prior=prior,
            clock=clock,
        )
        self.blind = result.blind or self.blind
        self.take(result)
        return result

    def lift(self, result: GameResult, nodes: int, most_nodes: int, clock: Clock) -> tuple[GameResult, int]:
        """The policy of a game, lifted in rounds on more and more clusters of its beliefs while that gains.

        Returns the last policy, and how many nodes the next turn begins with.
        """
        turn = clock.share(_TURN_SHARE)
        before = -np.inf
        while True:
            begin = clock.spent
            agent = AgentProblem(self.problem, result.pairs)
            clustered = self._clustered(agent, result, nodes, clock)
            pairs = make_pairs(agent.pairs.hidden, clustered.memory, self.memory_bytes, clock=clock)
            agent = AgentProblem(self.problem, pairs, make_arrivals(pairs, clock, self.memory_bytes))
            tables = clustered.moved(result.pairs, result.tables, agent)
            lifted = lift(agent, tables, self.threshold, result.multiplier, _LIFT_ITERATIONS, turn)
            result = game_of_policy(agent, lifted.point, result, self.threshold)
            if lifted.bits > self.lower.bits:
                self.lower, self.best = OpacityBound(lifted.bits, result.lower - lifted.bits, nodes), result
            gained, before = lifted.bits - before, lifted.bits
            nodes = math.ceil(_MORE_NODES * nodes)
            worth = (
                gained >= _WORTH_A_LIFT * self.open_bits and nodes <= most_nodes and turn.left >= clock.spent - begin
            )
            # Measuring takes as long as lifting, and finds no more than what the graph's own observer does not know.
            if not worth or self.known_bits[1] - result.lower <= self.gap:
                self.measure(result, clock)
            self.report(result, most_nodes, clock)
            if not worth or self.open_bits <= self.gap:
                return result, nodes

    def report(self, result: GameResult, most_nodes: int, clock: Clock) -> None:
        """Progress: both bounds, and the nodes of the last graph."""
        assert self.bounding is not None
        (lower, upper), size, multiplier = self.known_bits, max(result.graph.sizes), self.bounding.multiplier
        clock.report(Progress("automata", size, most_nodes, lower, math.nan, multiplier, clock.spent, upper))

    def result(self, seconds: float, stopped: str) -> RefinedGameResult:
        """Both bounds; where no round was played, from the least work that gives them."""
        if self.bounding is None:
            self.take(self.blind or least_game(self.problem, self.threshold))
        return self.found(seconds, stopped)


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
    clock, windows, ended = clock or Clock(), None, None
    if problem.secret_table.time in (0, problem.horizon):
        try:
            windows = solve_window_game(
                problem,
                threshold=threshold,
                gap=gap,
                memory_bytes=memory_bytes,
                least=_WORTH_A_WINDOW,
                blind=blind,
                clock=clock.share(_WINDOWS_SHARE),
            )
        except (TooLargeError, OutOfTime) as end:  # not even one window: automata need less
            if isinstance(end, OutOfTime) and end.reason in ENDED_BY_CALLER:
                clock = Clock(0.0)
                ended = str(end.reason)
        if windows is not None and (windows.gap <= gap or windows.stopped in ENDED_BY_CALLER):
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
    return EnclosedGame(windows, refined if ended is None else replace(refined, stopped=ended))
