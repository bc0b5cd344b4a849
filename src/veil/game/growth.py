"""Memories of the observer that grow: none, the whole one, windows, last events, clusters of beliefs, turn by turn.

Every game on such a memory proves an upper bound over all policies. That of no memory is the largest prior entropy that a
policy attains. The whole memory ends the search if it fits. Else windows (`windows.py`) are best where the agent mixes soon.
Clusters of beliefs (`clusters.py`) carry what lasts, such as which goal it chose long ago: the game's events are redirected by
value (`redirect.py`) while that lowers the bound, then its policy is moved to clusters of the beliefs that it leads to and
lifted there (`lift.py`) while that raises the lower bound, and the clusters of the lifted policy, with more nodes, are next.
Where there are no clusters of beliefs, as for whole paths, the observer remembers one event more.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, Progress, Stop, interruptible
from ..common.errors import TooLargeError
from ..engine.compile import build
from ..problem.problem import Problem
from .arrivals import make_arrivals
from .ascent import GameResult, game_of_policy, made_pairs
from .bounds import Bounds
from .clusters import Clustered, clustered_graph, opacity_lower_bound
from .lift import lift
from .pairs import LastEvents, ObserverMemory, Pairs, make_pairs
from .public_graph import whole_memory
from .redirect import Redirected, redirected_graph
from .responses import AgentProblem, Tables, Task
from .solve import solve_game
from .windows import has_windows, window_sides

WHOLE_GAP, _WIDE_GAP = 1e-3, 0.05  # bits, by default: of the whole memory, and of one that grows
LONG_SECONDS = 600.0  # of a memory that grows, where no limit is given: more of it always gains a little
_GROWING_SHARE = 0.65  # of the time, for memories that grow, where passes over the last graph follow
_GAME_SECONDS = 1e-7  # of the shortest game, for each move: measured on one core
# All shares and growths below decide how fast the bounds converge, which hold for any values. They were set by the gaps of the
# later grid with 60 decisions and of the 15 × 15 cells after equal time (`benchmarks/game.py`).
_BLIND_SHARE, _BLIND_GAP, _BLIND_ITERATIONS = 0.2, 1e-4, 100  # of the time, for the game without memory; bits; at most
_WINDOWS_SHARE, _WINDOW_GAME_SHARE = 1 / 5, 1 / 3  # of the time, for windows; of what is left of it, for a game of one
_WINDOW_GROWTH = 4  # a window costs up to this many times what the one before it took
_FIRST_WINDOW = 2
_WORTH_A_WINDOW = 0.25  # share of the gap: where a longer window closes less, automata close more in the same time
_TURN_SHARE = 1 / 2  # of the time that is left, for a turn of the observer or of the agent
_GAME_SHARE = (
    1 / 2
)  # of the time of a turn, for a game that others follow; the rest is for measuring and the next rounds
_ROUND_GROWTH = 1.5  # a round takes at least this many times as long as the one before it
_WORTH_A_ROUND = 0.1  # share of the gap: the turn of the observer ends where a round closes less
_WORTH_A_LIFT = 0.25  # the same for the agent, whose search is local: the next turn gives it a better place to begin
_WORTH_AN_EVENT = 0.02  # share of the bound: an event more that lowers it by less is the last
_LEAST_GAP = 0.1  # share of the gap asked for; no game is solved to less
_PATH_GAP = 0.25  # the same where nothing is known of what the policy hides
_GAME_GAP = 0.15  # share of the gap so far to which a game is solved
_FIRST_GAP = 0.5  # the same for the first game of a turn, which only has to show where its events are best led
_UNIFORM_SHARE = 1e-2  # of a uniform choice in the policy near which a game begins
_MORE_NODES = 1.25  # times as many in each round of lifting
_LIFT_ITERATIONS = 25  # between two clusterings: after about as many the beliefs have moved away from the clusters

Near = tuple[Clustered | Redirected, GameResult]
"""A game near whose policy another begins, and how the policy moves to the other's memory."""


class Turn(Protocol):
    """One size of the observer's memory."""

    def play(self, growth: "Growth") -> "Turn | None":
        """Play its games; says which memory is next, None if a larger one is not worth it."""
        ...


class Growth:
    """The best bounds so far, and the games that prove them; the arguments are those of `enclose`."""

    def __init__(
        self,
        problem: Problem,
        threshold: float | None,
        gap: float | None,
        nodes: int,
        most_nodes: int,
        memory_bytes: int,
        clock: Clock,
        task: Task = (),
        iterations: int = 10_000,
        pass_seconds: float = 0.0,
        begun: Bounds | None = None,
    ):
        self.problem, self.threshold, self.asked_gap, self.clock, self.task = problem, threshold, gap, clock, task
        self.nodes, self.most_nodes, self.memory_bytes = nodes, most_nodes, memory_bytes
        self.iterations, self.pass_seconds = iterations, pass_seconds
        self.gap = gap or WHOLE_GAP
        self.hidden = build(problem)
        self.lower = -np.inf if task else 0.0  # true of every policy
        self.best: GameResult | None = None
        self.games: dict[type[Turn], GameResult] = {}
        self.is_begun = begun is not None
        """Those of the smallest upper bounds of each kind of memory."""
        if begun is not None:
            self.lower, self.best, self.games[Nothing] = begun.lower, begun.best, begun.games[0]
        self.ended = "nodes" if self.is_value else "whole horizon"

    @property
    def is_value(self) -> bool:
        """Whether the secret is one value, so that what a policy hides can be bounded from below on a graph."""
        return self.hidden.path is None and self.hidden.each is None

    @property
    def is_plain(self) -> bool:
        """Whether the return alone counts beside the bits, as lifted policies need it."""
        return not self.problem.others and not self.task

    @property
    def upper(self) -> float:
        """The smallest upper bound so far."""
        return min((game.upper for game in self.games.values()), default=np.inf)

    @property
    def open_bits(self) -> float:
        """Upper minus lower bound."""
        return self.upper - self.lower

    def run(self, first: "Turn | None" = None) -> Bounds:
        """Turn after turn, until both bounds are close or the time, the memory or the caller ends it."""
        # Of a path the game without memory is no smaller than that of one event, and tells less.
        begins_small = (self.is_value or self.most_nodes == 1) and not self.is_begun
        begun, stopped = self.clock, self._turns(first or (Nothing() if begins_small else Whole()))
        if not self.games:
            self.play(Nothing, make_pairs(self.hidden, LastEvents(0)), 0.0, Clock(0.0))
        assert self.best is not None
        games = sorted(self.games.values(), key=lambda game: game.upper)
        return Bounds(self.lower, self.best, tuple(games), stopped, begun.spent)

    def _turns(self, turn: "Turn | None") -> str:
        try:
            with interruptible():
                while turn is not None:
                    turn = turn.play(self)
                    if self.open_bits <= self.gap:
                        return "gap reached"
        except OutOfTime as end:
            return str(end.reason)
        except TooLargeError:
            return "memory"
        return self.ended

    def first(self) -> "Turn":
        """The first memory that grows."""
        if has_windows(self.problem) and self.is_plain:
            return Window(min(_FIRST_WINDOW, self.problem.horizon), self.clock.share(_WINDOWS_SHARE).silent())
        return Events(int(self.is_value))

    def begin_growing(self) -> None:
        """The limits of memories that grow, once it is known that the whole one does not fit."""
        self.gap, clock = self.asked_gap or _WIDE_GAP, self.clock
        if math.isinf(clock.time_limit):
            self.clock = clock.within(LONG_SECONDS)
        elif self.pass_seconds:
            self.clock = clock.share(_GROWING_SHARE)

    def play(
        self,
        kind: "type[Turn]",
        pairs: Pairs,
        gap: float,
        clock: Clock,
        *,
        problem: Problem | None = None,
        iterations: int = 10_000,
        prior: Tables | None = None,
    ) -> GameResult:
        """One game; unless its observer is told the hidden state its bound counts, its policy when it is measured.

        **Raises:** `OutOfTime` where the caller ended the game, whose bound then counts all the same.
        """
        game = solve_game(
            problem or self.problem, threshold=self.threshold, gap=gap, iterations=iterations, pairs=pairs, prior=prior,
            known=self.upper, task=self.task, clock=clock,
        )  # fmt: skip
        told = game.graph.told_at is not None
        if not told and (kind not in self.games or game.upper < self.games[kind].upper):
            self.games[kind] = game
        proven = told or (game.is_whole and game.is_exact and game.problem is self.problem)
        self.keep(game.lower if proven else game.task_value, game)
        if game.stopped in ENDED_BY_CALLER:
            raise OutOfTime(Stop(game.stopped))
        return game

    def observer_turn(self, memory: ObserverMemory, near: Near | None = None, *, redirects: bool) -> GameResult:
        """A game on a memory and, with `redirects`, those redirected from it while the bound falls; the best of them."""
        best: GameResult | None = None
        turn, share = self.clock.share(_TURN_SHARE), _GAME_GAP if near is None else _FIRST_GAP
        while True:
            clock, prior = turn.share(_GAME_SHARE) if redirects else turn, None
            pairs = make_pairs(self.hidden, memory, self.memory_bytes, clock=clock)
            if near is not None:
                agent, (moving, old) = AgentProblem(self.problem, pairs), near
                prior = agent.spread(moving.moved(old.pairs, old.tables, agent), _UNIFORM_SHARE)
            game = self.play(Events, pairs, self.aim(share), clock.silent(), prior=prior)
            self.report("automata", max(game.graph.sizes), self.most_nodes)
            fallen = np.inf if best is None else best.upper - game.upper
            best = game if best is None or fallen > 0 else best
            if not redirects or self.open_bits <= self.gap:
                return best
            if fallen < _WORTH_A_ROUND * self.open_bits or turn.left < _ROUND_GROWTH * game.seconds:
                return best
            agent = AgentProblem(self.problem, game.pairs, prices=np.array(game.prices), task=self.task)
            moving, share = redirected_graph(agent, game, self.clock, self.memory_bytes), _GAME_GAP
            memory, near = moving.memory, (moving, game)

    def aim(self, share: float) -> float:
        """The gap to which a game is solved: a share of the gap so far."""
        return max(_LEAST_GAP * self.gap, share * min(self.open_bits, 1.0)) if self.is_value else _PATH_GAP * self.gap

    def keep(self, bits: float, game: GameResult) -> None:
        """A lower bound on what the policy of a game hides, its task included."""
        if self.best is None or bits > self.lower or (bits == self.lower and game.is_whole):
            self.lower, self.best = max(bits, self.lower), game

    def measure(self, game: GameResult) -> None:
        """A proven lower bound on what the policy of a game hides, where that fits the memory."""
        try:
            found = opacity_lower_bound(game.pairs, game.tables, clock=self.clock, memory_bytes=self.memory_bytes)
        except TooLargeError:
            return
        self.keep(found.bits + game.task_value, game)

    def report(self, phase: str, size: int, of: int) -> None:
        """Progress: both bounds, and how large the memory is."""
        best = min(self.games.values(), key=lambda game: game.upper)
        clock = self.clock
        clock.report(Progress(phase, size, of, self.lower, math.nan, best.multiplier, clock.spent, best.upper))


@dataclass(frozen=True)
class Nothing:
    """No memory: the game is small, and its bound the largest prior entropy that a policy attains."""

    def play(self, growth: Growth) -> Turn | None:
        """See `Turn`."""
        clock = growth.clock.share(_BLIND_SHARE).silent()
        pairs = made_pairs(growth.problem, LastEvents(0), growth.memory_bytes, clock)
        growth.play(Nothing, pairs, max(growth.gap, _BLIND_GAP), clock, iterations=_BLIND_ITERATIONS)
        return Whole() if growth.most_nodes > 1 else None


@dataclass(frozen=True)
class Whole:
    """All that the observer remembers, if that fits."""

    def play(self, growth: Growth) -> Turn | None:
        """See `Turn`."""
        try:
            pairs = made_pairs(growth.problem, whole_memory(growth.hidden), growth.memory_bytes, growth.clock)
            moves = sum(step.nnz for step in pairs.steps)
            clock = growth.clock.share(more=-growth.pass_seconds * moves)
            if growth.pass_seconds and clock.left < _GAME_SECONDS * moves:
                raise TooLargeError("there is no time for the game on the whole history")
        except TooLargeError:
            if growth.hidden.written is not None:  # automata of events need a clock
                raise
            growth.begin_growing()
            return growth.first()
        growth.ended = growth.play(Whole, pairs, growth.gap, clock, iterations=growth.iterations).stopped
        return None


@dataclass(frozen=True)
class Window:
    """A window around the secret's time: its two games. `turn`: the time of all windows; `before`: the gap before this one."""

    length: int
    turn: Clock
    before: float = np.inf

    def play(self, growth: Growth) -> Turn:
        """See `Turn`."""
        begin, horizon = self.turn.spent, growth.problem.horizon
        try:
            told, forgets = window_sides(growth.problem, self.length)
            for side in (told, forgets)[told is forgets :]:  # over the whole horizon the two are one game
                clock, hidden = self.turn.share(_WINDOW_GAME_SHARE), build(side.problem)
                pairs = make_pairs(hidden, side.memory, growth.memory_bytes, told_at=side.told_at, clock=clock)
                growth.play(Window, pairs, _LEAST_GAP * growth.gap, clock, problem=side.problem)
        except TooLargeError:
            return Events(1) if Window in growth.games or self.length == 1 else Window(1, self.turn)
        except OutOfTime as end:
            if end.reason in ENDED_BY_CALLER or growth.clock.reason is not None:
                raise
            return Events(1)  # not even one window: automata need less
        growth.report("windows", self.length, horizon)
        slow = growth.open_bits > (1 - _WORTH_A_WINDOW) * self.before
        if self.length == horizon or slow or _WINDOW_GROWTH * (self.turn.spent - begin) > self.turn.left:
            return Events(1)
        return Window(self.length + 1, self.turn, growth.open_bits)


@dataclass(frozen=True)
class Events:
    """The last so many events."""

    number: int

    def play(self, growth: Growth) -> Turn | None:
        """See `Turn`."""
        before = growth.upper
        game = growth.observer_turn(LastEvents(self.number), redirects=growth.is_value and not growth.is_plain)
        fallen = before - growth.upper
        if not growth.is_value:
            if game.stopped == "gap reached":  # one cut short may be hardly searched
                growth.best = game
            return Events(self.number + 1) if fallen >= _WORTH_AN_EVENT * growth.upper else None
        if not growth.is_plain or growth.lower <= 0:  # else it would hardly hide more
            growth.measure(game)
        return Clusters(game, growth.nodes) if growth.is_plain else Events(self.number + 1)


@dataclass(frozen=True)
class Clusters:
    """Clusters of the beliefs that the policy of a game leads to, so many in each layer."""

    game: GameResult
    nodes: int

    def play(self, growth: Growth) -> Turn | None:
        """See `Turn`."""
        if self.nodes > growth.most_nodes:
            return None
        agent = AgentProblem(growth.problem, self.game.pairs)
        moving = clustered_graph(agent, self.game.tables, self.nodes, growth.clock, growth.memory_bytes)
        game = growth.observer_turn(moving.memory, (moving, self.game), redirects=True)
        if growth.open_bits <= growth.gap:
            return None
        return self.lifted(growth, game)

    def lifted(self, growth: Growth, game: GameResult) -> Turn:
        """The policy of a game, lifted in rounds on more and more clusters of its beliefs while that gains."""
        turn, before, nodes = growth.clock.share(_TURN_SHARE), -np.inf, self.nodes
        clock, memory_bytes = growth.clock, growth.memory_bytes
        while True:
            begin = clock.spent
            agent = AgentProblem(growth.problem, game.pairs)
            clustered = clustered_graph(agent, game.tables, nodes, clock, memory_bytes)
            pairs = make_pairs(growth.hidden, clustered.memory, memory_bytes, clock=clock)
            agent = AgentProblem(growth.problem, pairs, make_arrivals(pairs, clock, memory_bytes))
            tables = clustered.moved(game.pairs, game.tables, agent)
            lifted = lift(agent, tables, growth.threshold, game.multiplier, _LIFT_ITERATIONS, turn)
            game = game_of_policy(agent, lifted.tables, lifted.outcome, game, growth.threshold)
            growth.keep(lifted.bits, game)
            gained, before = lifted.bits - before, lifted.bits
            nodes = math.ceil(_MORE_NODES * nodes)
            worth = gained >= _WORTH_A_LIFT * growth.open_bits and nodes <= growth.most_nodes
            worth = worth and turn.left >= clock.spent - begin
            # Measuring takes as long as lifting, and finds no more than what the graph's own observer does not know.
            if not worth or growth.upper - game.lower <= growth.gap:
                growth.measure(game)
            growth.report("automata", max(game.graph.sizes), growth.most_nodes)
            if not worth or growth.open_bits <= growth.gap:
                return Clusters(game, nodes)
