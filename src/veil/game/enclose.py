"""The one way to enclose a game, of one channel or several: observers with more and more memory.

Every game on a memory proves an upper bound over all policies. That of no memory is the largest prior entropy that a
policy attains. The whole memory ends the search if it fits. Else windows (`windows.py`) are best where the agent mixes soon.
Clusters of beliefs (`clusters.py`) carry what lasts, such as which goal it chose long ago: the game's events are redirected by
value (`redirect.py`) while that lowers the bound, then its policy is moved to clusters of the beliefs that it leads to and
lifted there (`lift.py`) while that raises the lower bound, and the clusters of the lifted policy, with more nodes, are next.
Where there are no clusters of beliefs, as for whole paths, the observer remembers one event more.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, Progress, Stop, interruptible
from ..common.errors import TooLargeError
from ..engine.compile import build
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .arrivals import make_arrivals
from .ascent import GameResult, made_pairs
from .bounds import Bounds
from .clusters import Automaton, clustered_graph, opacity_lower_bound
from .lift import lift
from .pairs import DEFAULT_MEMORY, LastEvents, ObserverMemory, make_pairs
from .public_graph import whole_memory
from .records import Players, players_of
from .redirect import redirected_graph
from .responses import AgentProblem, Tables, Task
from .rule_tables import charged_table
from .solve import game_of_policy, play
from .windows import has_windows, window_sides

WHOLE_GAP, _WIDE_GAP = 1e-3, 0.05  # bits, by default: of the whole memory, and of one that grows
_ITERATIONS = 10_000  # of a game at most
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
_GAME_SHARE = 1 / 2  # of the time of a turn, for a game that others follow; the rest is for measuring and more rounds
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


@one_blas_thread
def enclose(
    problem: Problem,
    hide: tuple[str, ...] = (OWN,),
    *,
    threshold: float | None = None,
    gap: float | None = None,
    most_nodes: int = 4096,
    memory_bytes: int = DEFAULT_MEMORY,
    task: Task = (),
    pass_seconds: float = 0.0,
    begun: Bounds | None = None,
    clock: Clock | None = None,
) -> Bounds:
    """Enclose the largest `min_j H(Z_j|Y_j) + Σ_k c_k V_k` over all policies that meet the constraints, under the bits that
    pairs must keep.

    One channel is played against an observer without memory, then on the whole memory of its observer if that fits, else on
    memories that grow; several on the histories of all of their observers together.

    **Arguments:** `hide`: the channels; `threshold`: δ, that of the problem by default; `gap`: the search ends where the bounds
    are this close, by default 0.001 bits, and 0.05 where a memory grows, or where the `clock` says so, after 600 s by default,
    or its iterations of a game on the whole memory; `most_nodes`: of clusters of beliefs; with 1 the observer without memory is
    the only one. `task`: the factors c_k of quantities, none by default;
    `pass_seconds`: for each move between pairs, time that the caller needs afterwards; `begun`: the bounds of an observer
    without memory, if they are known. A keyboard interrupt ends it with the best bounds so far.

    **Raises:** `InfeasibleError` where no policy meets the constraints; `TooLargeError` where not even an observer without
    memory fits, or where several observers, or one without a clock, have too large a memory; `InputError` where the
    observers of several pairs cannot be put together.
    """
    limits = gap, most_nodes, memory_bytes, task, pass_seconds
    search = Enclosure(problem, hide, threshold, *limits, begun, clock or Clock())
    return search.run(search.turns())


@dataclass(eq=False)
class Enclosure:
    """The best bounds so far, and the games that prove them; the arguments are those of `enclose`.

    **Attributes:** `games`: that of the smallest upper bound of each kind of memory.
    """

    problem: Problem
    hide: tuple[str, ...] = (OWN,)
    threshold: float | None = None
    asked_gap: float | None = None
    most_nodes: int = 4096
    memory_bytes: int = DEFAULT_MEMORY
    task: Task = ()
    pass_seconds: float = 0.0
    begun: Bounds | None = None
    clock: Clock = field(default_factory=Clock)
    nodes: int = 128  # of the first clusters of beliefs, a quarter more in each turn

    def __post_init__(self) -> None:
        kept = any(one.min for one in self.problem.pairs if one.name not in self.hide)
        self.several = len(self.hide) > 1 or kept
        if not self.several and OWN not in self.hide:
            self.problem = self.problem.only(*self.hide)
        self.threshold = threshold_of(self.problem) if self.threshold is None else self.threshold
        self.gap, self.hidden = self.asked_gap or WHOLE_GAP, build(self.problem)
        self.lower = -np.inf if self.task or kept else 0.0  # true of every policy
        self.best: GameResult | None = None
        self.games: dict[str, GameResult] = {}
        if self.begun is not None:
            self.lower, self.best, self.games["no memory"] = self.begun.lower, self.begun.best, self.begun.games[0]
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

    def run(self, turns: Iterator[None]) -> Bounds:
        """Turn after turn, until both bounds are close or the time, the memory or the caller ends it."""
        begun, stopped = self.clock, self._run(turns)
        if not self.games:
            blind = Players.single(self.problem, make_pairs(self.hidden, LastEvents(0)))
            self._play("no memory", blind, 0.0, Clock(0.0))
        assert self.best is not None
        games = sorted(self.games.values(), key=lambda game: game.upper)
        return Bounds(self.lower, self.best, tuple(games), stopped, begun.spent)

    def _run(self, turns: Iterator[None]) -> str:
        try:
            with interruptible():
                for _ in turns:
                    if self.open_bits <= self.gap:
                        return "gap reached"
        except OutOfTime as end:
            if self.several and not self.games:  # the caller's: until the memory is made there is nothing to return
                raise KeyboardInterrupt from end
            return str(end.reason)
        except TooLargeError:
            if self.several:
                raise
            return "memory"
        return self.ended

    def turns(self) -> Iterator[None]:
        """Games on larger and larger memories; after each turn the bounds may be close enough."""
        # Of a path the game without memory is no smaller than that of one event, and tells less.
        if not self.games and not self.several and (self.is_value or self.most_nodes == 1):
            clock = self.clock.share(_BLIND_SHARE).silent()
            pairs = made_pairs(self.problem, LastEvents(0), self.memory_bytes, clock)
            players = Players.single(self.problem, pairs)
            self._play("no memory", players, max(self.gap, _BLIND_GAP), clock, iterations=_BLIND_ITERATIONS)
            yield
            if self.most_nodes == 1:
                return
        try:
            players = self._whole()
            moves = sum(step.nnz for step in players.pairs.steps)
            if self.pass_seconds and self.clock.left < (_GAME_SECONDS + self.pass_seconds) * moves:
                raise TooLargeError("there is no time for the game on the whole history")
        except TooLargeError:
            if self.several or self.hidden.written is not None:  # automata of events need a clock
                raise
            yield from self.growing()
            return
        clock = self.clock.share(more=-self.pass_seconds * moves)
        iterations = _ITERATIONS if self.clock.iterations is None else self.clock.iterations
        self.ended = self._play("all", players, self.gap, clock, iterations=iterations).stopped
        yield

    def _whole(self) -> Players:
        """The observers with all that they can remember."""
        if self.several:
            return players_of(self.problem, self.hide, self.memory_bytes, self.clock)
        pairs = made_pairs(self.problem, whole_memory(self.hidden), self.memory_bytes, self.clock)
        return Players.single(self.problem, pairs)

    def growing(self, *, windows: bool = True) -> Iterator[None]:
        """Games on memories that grow: windows, then the last events or what follows them."""
        self.gap, clock = self.asked_gap or _WIDE_GAP, self.clock
        if math.isinf(clock.time_limit):
            self.clock = clock.within(LONG_SECONDS)
        elif self.pass_seconds:
            self.clock = clock.share(_GROWING_SHARE)
        if windows and has_windows(self.problem) and self.is_plain:
            yield from self._windows(self.clock.share(_WINDOWS_SHARE).silent())
        for number in range(int(self.is_value), self.problem.horizon + 2):
            before = self.upper
            game = self._observer_turn(LastEvents(number), redirects=self.is_value and not self.is_plain)
            if self.is_value and (not self.is_plain or self.lower <= 0):  # else it would hardly hide more
                self._measure(game)
            elif not self.is_value and game.stopped == "gap reached":  # one cut short may be hardly searched
                self.best = game
            yield
            if self.is_value and self.is_plain:
                yield from self._clusters(game)
                return
            if not self.is_value and before - self.upper < _WORTH_AN_EVENT * self.upper:
                return

    def _windows(self, turn: Clock) -> Iterator[None]:
        """The two games of each window around the secret's time, in the time of this turn."""
        length, horizon, before = min(_FIRST_WINDOW, self.problem.horizon), self.problem.horizon, np.inf
        while True:
            begin = turn.spent
            try:
                told, forgets = window_sides(self.problem, length)
                for side in (told, forgets)[told is forgets :]:  # over the whole horizon the two are one game
                    clock, hidden = turn.share(_WINDOW_GAME_SHARE), build(side.problem)
                    pairs = make_pairs(hidden, side.memory, self.memory_bytes, told_at=side.told_at, clock=clock)
                    self._play("window", Players.single(side.problem, pairs), _LEAST_GAP * self.gap, clock)
            except TooLargeError:
                if "window" in self.games or length == 1:
                    return
                length = 1
                continue
            except OutOfTime as end:
                if end.reason in ENDED_BY_CALLER or self.clock.reason is not None:
                    raise
                return  # not even one window: automata need less
            self._report("windows", length, horizon)
            slow = self.open_bits > (1 - _WORTH_A_WINDOW) * before
            long = _WINDOW_GROWTH * (turn.spent - begin) > turn.left
            yield
            if length == horizon or slow or long:
                return
            length, before = length + 1, self.open_bits

    def _clusters(self, game: GameResult) -> Iterator[None]:
        """Clusters of the beliefs that the policy of a game leads to, more and more in each layer."""
        nodes = self.nodes
        while nodes <= self.most_nodes:
            agent = AgentProblem(self.problem, game.pairs)
            moving = clustered_graph(agent, game.tables, nodes, self.clock, self.memory_bytes)
            game = self._observer_turn(moving.memory, (moving, game), redirects=True)
            if self.open_bits > self.gap:
                game, nodes = self._lifted(game, nodes)
            yield

    def _play(
        self,
        kind: str,
        players: Players,
        gap: float,
        clock: Clock,
        *,
        iterations: int = _ITERATIONS,
        prior: Tables | None = None,
    ) -> GameResult:
        """One game; unless its observer is told the hidden state its bound counts, its policy when it is measured.

        **Raises:** `OutOfTime` where the caller ended the game, whose bound then counts all the same.
        """
        game = play(
            players, self.threshold, gap, iterations, prior=prior, known=self.upper, task=self.task, clock=clock
        )
        told = game.graph.told_at is not None
        if not told and (kind not in self.games or game.upper < self.games[kind].upper):
            self.games[kind] = game
        self._keep(game.lower if told or self._is_exact(game) else game.task_value, game)
        if game.stopped in ENDED_BY_CALLER:
            raise OutOfTime(Stop(game.stopped))
        return game

    def _observer_turn(
        self, memory: ObserverMemory, near: tuple[Automaton, GameResult] | None = None, *, redirects: bool
    ) -> GameResult:
        """A game on a memory and, with `redirects`, those redirected from it while the bound falls; the best of them.

        **Arguments:** `near`: a game near whose policy it begins, and how that policy moves to the memory.
        """
        best: GameResult | None = None
        turn, share = self.clock.share(_TURN_SHARE), _GAME_GAP if near is None else _FIRST_GAP
        while True:
            clock, prior = turn.share(_GAME_SHARE) if redirects else turn, None
            pairs = make_pairs(self.hidden, memory, self.memory_bytes, clock=clock)
            players = Players.single(self.problem, pairs)
            if near is not None:
                agent, (moving, old) = AgentProblem(self.problem, pairs, players.table), near
                prior = agent.spread(moving.moved(old.pairs, old.tables, agent), _UNIFORM_SHARE)
            game = self._play("events", players, self._aim(share), clock.silent(), prior=prior)
            self._report("automata", max(game.graph.sizes), self.most_nodes)
            fallen = np.inf if best is None else best.upper - game.upper
            best = game if best is None or fallen > 0 else best
            if not redirects or self.open_bits <= self.gap:
                return best
            if fallen < _WORTH_A_ROUND * self.open_bits or turn.left < _ROUND_GROWTH * game.seconds:
                return best
            agent = AgentProblem(self.problem, game.pairs, prices=np.array(game.prices), task=self.task)
            moving, share = redirected_graph(agent, game, self.clock, self.memory_bytes), _GAME_GAP
            memory, near = moving.memory, (moving, game)

    def _lifted(self, game: GameResult, nodes: int) -> tuple[GameResult, int]:
        """The policy of a game, lifted in rounds on more and more clusters of its beliefs while that gains; their number."""
        turn, before, clock, memory_bytes = self.clock.share(_TURN_SHARE), -np.inf, self.clock, self.memory_bytes
        while True:
            begin = clock.spent
            agent = AgentProblem(self.problem, game.pairs)
            clustered = clustered_graph(agent, game.tables, nodes, clock, memory_bytes)
            pairs = make_pairs(self.hidden, clustered.memory, memory_bytes, clock=clock)
            charged = charged_table(pairs, make_arrivals(pairs, clock, memory_bytes))
            agent = AgentProblem(self.problem, pairs, charged)
            tables = clustered.moved(game.pairs, game.tables, agent)
            lifted = lift(agent, tables, self.threshold, game.multiplier, _LIFT_ITERATIONS, turn)
            game = game_of_policy(AgentProblem(self.problem, pairs), lifted.tables, game)
            self._keep(lifted.bits, game)
            gained, before = lifted.bits - before, lifted.bits
            nodes = math.ceil(_MORE_NODES * nodes)
            worth = gained >= _WORTH_A_LIFT * self.open_bits and nodes <= self.most_nodes
            worth = worth and turn.left >= clock.spent - begin
            # Measuring takes as long as lifting, and finds no more than what the graph's own observer does not know.
            if not worth or self.upper - game.lower <= self.gap:
                self._measure(game)
            self._report("automata", max(game.graph.sizes), self.most_nodes)
            if not worth or self.open_bits <= self.gap:
                return game, nodes

    def _aim(self, share: float) -> float:
        """The gap to which a game is solved: a share of the gap so far."""
        return max(_LEAST_GAP * self.gap, share * min(self.open_bits, 1.0)) if self.is_value else _PATH_GAP * self.gap

    def _is_exact(self, game: GameResult) -> bool:
        """Whether the lower bound of a game is what its policy hides, and not from an observer of some steps alone."""
        return game.is_whole and game.is_exact and game.problem.horizon == self.problem.horizon

    def _keep(self, bits: float, game: GameResult) -> None:
        """A lower bound on what the policy of a game hides, its task included."""
        if self.best is None or bits > self.lower or (bits == self.lower and self._is_exact(game)):
            self.lower, self.best = max(bits, self.lower), game

    def _measure(self, game: GameResult) -> None:
        """A proven lower bound on what the policy of a game hides, where that fits the memory."""
        try:
            found = opacity_lower_bound(game.pairs, game.tables, clock=self.clock, memory_bytes=self.memory_bytes)
        except TooLargeError:
            return
        self._keep(found.bits + game.task_value, game)

    def _report(self, phase: str, size: int, of: int) -> None:
        """Progress: both bounds, and how large the memory is."""
        best = min(self.games.values(), key=lambda game: game.upper)
        clock = self.clock
        clock.report(Progress(phase, size, of, self.lower, math.nan, best.multiplier, clock.spent, best.upper))
