"""The search for an observer: the one whose rule proves the smallest upper bound over all policies, within a time.

Rules that need no search come first, so that there is a proof without any time; then the game of an observer without
memory, whose value is the largest prior entropy that a policy attains; then the game on the whole history, or on a bounded
memory where that does not fit. Each rule counts for the bound that the verifier's own induction finds. For agents that learn
each observation one step late the same graphs then get rules of their own.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, Stop, interruptible
from ..common.errors import InputError, TooLargeError
from ..common.logs import code_lengths_bits, log2_of_count, posteriors
from ..engine.compile import build
from ..engine.moves import situations
from ..engine.written import Written
from ..game.ascent import GameResult
from ..game.bounds import Bounds as GameBounds
from ..game.delayed import delayed_pairs
from ..game.enclose import enclose
from ..game.pairs import LastEvents, Pairs, make_pairs
from ..game.public_graph import WrittenString
from ..game.responses import Task
from ..game.rule_tables import EachTable, PathTable
from ..game.solve import solve_game
from ..problem.problem import Problem
from ..problem.unrolled import unroll
from .backward import rule_bound
from .checked_problem import Bounds, CheckedProblem, can_delay
from .claims import ObserverRule, ProvenBound
from .compiled import record_of

MARGIN = 2.0**-39  # bits added to each cost, so that `Σ_z 2^−cost` stays below one by more than the verifier asks
_BLIND_SHARE, _BLIND_GAP = 0.3, 1e-4  # of the time, and bits, for the game of an observer without memory
_ALL_SHARE = 0.6  # of the time, for the bound over all policies, where one over agents that learn late follows
_MOST_ITERATIONS = 10_000  # of a game; of one that follows another at most twice as many as that took, and at least
_LEAST_ITERATIONS = 20
_WORTH_STATING = 1e-4  # bits by which the bound over these must be smaller
# Seconds for each move: of the verifier's induction, and of the shortest game. Measured on one core.
_INDUCTION_SECONDS, _GAME_SECONDS = 2.5e-7, 1e-7
LEAST_SECONDS = (
    0.5  # for the induction of an observer in any case: that of a small problem is worth more than the limit
)


@dataclass(frozen=True, eq=False)
class ObserverBound:
    """An observer and the upper bound it proves; `known`: what some policy is known to hide, None if no game was solved.

    `delayed`: the observer for agents that learn each observation one step late, where its bound was asked for and is smaller;
    `interrupted`: the caller ended the search for a better one.
    """

    bound: ProvenBound
    known: float | None = None
    delayed: "ObserverBound | None" = None
    interrupted: bool = False

    @property
    def upper(self) -> float:
        """The bound, in bits."""
        return self.bound.upper


@dataclass(frozen=True, eq=False)
class Asked:
    """What a bound is asked of: `bounds` of the quantities; `values`, what is earned after the horizon; `gap`, bits at which a
    game ends; `memory_bytes` of a game; `task` for a game, and for the verifier the `factors` of all quantities."""

    bounds: Bounds
    values: Float[np.ndarray, "K S"] | None
    gap: float
    memory_bytes: int
    task: Task = ()
    factors: tuple[float, ...] = ()


def best_observer(
    problem: Problem, asked: Asked, clock: Clock, game: GameBounds | None, delay: int = 0, channel: int = 0
) -> ObserverBound:
    """The observer with the smallest bound that is found in the time; a keyboard interrupt ends the search with the best.

    **Arguments:** `game`: one that was already solved, instead of solving one; the `clock` reports how far a game is; `delay`:
    1 to search also for the observer of agents that learn each observation one step late; `channel`: the number of the one
    whose bits count.
    """
    delay = delay if _matters(problem) else 0
    about = problem.channels[channel]
    if about.table.path is not None and about.observer.varies:
        game = None  # its rule is about states without the time
    search = _Search(problem, channel, 0, asked, clock.share(_ALL_SHARE) if delay else clock)
    late, interrupted = None, False
    try:
        with interruptible():
            game = search.run(game)
            if delay and game is not None:
                late = _Search(problem, channel, delay, asked, clock)
                late.delayed(search.best.bound, game)
    except OutOfTime as end:  # what was proven until then is complete
        interrupted = end.reason in ENDED_BY_CALLER
    best = replace(search.best, interrupted=interrupted)
    if late is None or late.best.upper >= best.upper - _WORTH_STATING:
        return best
    return replace(best, delayed=late.best)


def _matters(problem: Problem) -> bool:
    """Whether an agent that does not see the current observation can know less: some state has more than one."""
    record = record_of(problem)
    noisy = int(record.observers[0].tables[0].degree.max()) > 1
    return noisy and can_delay(record) and not problem.observer.untimed and problem.horizon > 0


class _Search:
    """The best observer so far; rule and bound are replaced together, so that no interrupt can mix two of them."""

    def __init__(self, problem: Problem, channel: int, delay: int, asked: Asked, clock: Clock):
        self.problem, self.asked, self.clock = CheckedProblem(record_of(problem), (channel,), delay=delay), asked, clock
        self.given = problem.only(problem.channels[channel].name)
        # The rule of a path is about times; the others are about all that the observer remembers, a string without a clock.
        self.solved = self.given if self.problem.path is None else self.given.with_clock()
        if self.given.observer.varies:  # games are about states that carry the time
            self.solved = unroll(self.solved)[0]
        bound = ProvenBound(delay, self.problem.most_bits, (0.0,) * len(self.problem.paid), (_even_odds(self.problem),))
        if asked.task:
            bound = replace(bound, upper=self._proven(bound, clock.share(more=LEAST_SECONDS)))
        self.best = ObserverBound(bound)
        self.blind: GameResult | None = None

    def run(self, game: GameBounds | None) -> GameBounds | None:
        """All observers in turn, until the time of this search is over; returns the game, given or solved.

        **Raises:** `OutOfTime` where the caller ends it.
        """
        if self.problem.each is not None and self.problem.each.ahead:  # for which no rule is checked
            return None
        try:
            self.try_simple()
            solved = self.solve() if game is None else None
            game = solved or game
            for part in () if game is None else game.games:
                if not self.problem.untimed or part.graph.kind == WrittenString.kind:
                    assert game is not None
                    known = game.lower if self.asked.task else max(0.0, game.lower)
                    self.offer(self.rule(part), part.multiplier, part.prices, None if known == -math.inf else known)
            if solved is not None and solved.stopped in ENDED_BY_CALLER:
                raise OutOfTime(Stop(solved.stopped))
        except OutOfTime as end:
            if end.reason in ENDED_BY_CALLER:
                raise
        return game

    def rule(self, game: GameResult) -> ObserverRule:
        """The observer of a game, in the verifier's numbers."""
        return _rule_of(self.problem, self.given, self.solved, game)

    def offer(
        self, rule: ObserverRule, price: float = 0.0, prices: tuple[float, ...] = (), hidden: float | None = None
    ) -> None:
        """Keep an observer if the verifier's induction proves less for it, and what its game knows to be hidden."""
        clock, best = self.clock.share(more=LEAST_SECONDS), self.best
        all_prices = price, *prices, *(0.0,) * (len(self.problem.paid) - 1 - len(prices))
        bound = ProvenBound(self.problem.delay, 0.0, all_prices, (rule,))
        upper = self._proven(bound, clock)
        known = max((bits for bits in (best.known, hidden) if bits is not None), default=None)
        if upper < best.upper:
            best = ObserverBound(replace(bound, upper=upper))
        self.best = ObserverBound(best.bound, None if known is None else min(known, best.upper))

    def _proven(self, bound: ProvenBound, clock: Clock) -> float:
        """What the verifier's own induction finds."""
        return rule_bound(
            self.problem, bound, self.asked.bounds, self.asked.values, factors=self.asked.factors, clock=clock
        )

    def offer_game(self, game: GameResult) -> None:
        """The observer of a game, kept if it is better; the end of the search if the caller wants it."""
        self.offer(self.rule(game), game.multiplier, game.prices)
        if game.stopped in ENDED_BY_CALLER:
            raise OutOfTime(Stop(game.stopped))

    def try_simple(self) -> None:
        """The observer who stops looking after the first event, for a secret settled at time 0; else one without memory."""
        if self.problem.secret_time == 0 and self.problem.path is None and not self.problem.untimed:
            rule = _first_event(self.problem)
            if self._induction_seconds(len(rule.costs)) < self.clock.left:
                self.offer(rule)
        elif self._induction_seconds(1) < self.clock.left / 2:
            self.blind = self._blind(self.clock.share(_BLIND_SHARE))
            if self.blind is not None:
                self.offer_game(self.blind)

    def solve(self) -> GameBounds | None:
        """The game on all that the observer remembers, else on memories that grow; None where there is no time for either."""
        problem, written = self.problem, Written.by(self.given.observer)
        if problem.untimed and (written is None or problem.path is not None):  # there is no rule of strings for a path
            return None
        if self._induction_seconds(problem.num_events[0]) > self.clock.left:
            return None
        try:
            return enclose(
                self.solved,
                threshold=self.asked.bounds[0],
                gap=self.asked.gap,
                memory_bytes=self.asked.memory_bytes,
                blind=self.blind,
                task=self.asked.task,
                pass_seconds=_INDUCTION_SECONDS,
                clock=self.clock,
            )
        except TooLargeError:
            return None

    def delayed(self, first: ProvenBound, game: GameBounds) -> None:
        """For agents that learn observations late: the observer over all policies, then the games on the graphs of `game`."""
        (rule,), (price, *prices) = first.rules, first.prices
        if self._induction_seconds(len(rule.costs)) < self.clock.left:
            self.offer(rule, price, tuple(prices))
        for part in game.games:
            try:
                pairs = delayed_pairs(part.pairs, self.clock, self.asked.memory_bytes)
            except TooLargeError:
                continue
            most = max(_LEAST_ITERATIONS, 2 * part.iterations)
            found = self._solved(part.problem, pairs, self.clock, self.asked.gap, part.blind, most)
            if found is not None:
                self.offer_game(found)

    def _blind(self, clock: Clock) -> GameResult | None:
        """The game of an observer without memory, with time left for the induction; None where that does not fit."""
        try:
            pairs = make_pairs(build(self.solved), LastEvents(0), self.asked.memory_bytes, clock=clock)
        except (TooLargeError, OutOfTime):
            return None
        return self._solved(self.solved, pairs, clock, max(self.asked.gap, _BLIND_GAP), None, _MOST_ITERATIONS)

    def _solved(
        self, problem: Problem, pairs: Pairs, clock: Clock, gap: float, blind: GameResult | None, most: int
    ) -> GameResult | None:
        """The game on some pairs, with time left for the induction; None where there is no time."""
        moves = sum(step.nnz for step in pairs.steps)
        spare = clock.share(more=-_INDUCTION_SECONDS * moves)
        if spare.left < _GAME_SECONDS * moves:
            return None
        threshold, task = self.asked.bounds[0], self.asked.task
        return solve_game(
            problem, threshold=threshold, gap=gap, iterations=most, pairs=pairs, blind=blind, task=task, clock=spare
        )

    def _induction_seconds(self, nodes: int) -> float:
        """A forecast of the verifier's induction against an observer with so many nodes a layer."""
        problem = self.problem
        carried = problem.values if problem.secret_time < problem.horizon else 1
        return _INDUCTION_SECONDS * problem.horizon * len(problem.at(min(1, problem.horizon)).chance) * nodes * carried


def _even_odds(problem: CheckedProblem) -> ObserverRule:
    """The observer who remembers nothing and holds every value for equally likely, or every state that can precede another."""
    first = np.zeros(_first_events(problem), dtype=np.int32)
    found, codes = _staying(problem, first, np.full((1, problem.values), 1 / problem.values)), problem.codes
    if codes is None:
        return found
    count = int(codes.max()) + 1
    moves = problem.at(1)
    before = np.unique(codes[moves.target] * count + codes[moves.row // problem.actions])
    keys = [np.stack([0 * key, key // count, key % count], axis=1) for key in (before, np.arange(count))]
    rows = [np.unique(key[:, 1], return_inverse=True, return_counts=True)[1:] for key in keys]
    costs = [code_lengths_bits(1 / counts[row.ravel()]) + MARGIN for row, counts in rows]
    keys, costs = ((*[part[0]] * problem.horizon, part[1]) for part in (keys, costs))
    return replace(found, path_keys=keys, path_costs=costs)


def _first_event(problem: CheckedProblem) -> ObserverRule:
    """For a secret settled at time 0: the observer who stops looking after the first event: `H(Z|O_0)`."""
    x, (event, *_), mass = problem.start
    shape = _first_events(problem), problem.values
    joint = np.bincount(event * problem.values + problem.labels[0].of[x], mass, shape[0] * shape[1]).reshape(shape)
    possible = joint.sum(axis=1) > 0
    node = np.where(possible, np.cumsum(possible) - 1, -1).astype(np.int32)
    return _staying(problem, node, posteriors(joint)[possible])


def _staying(problem: CheckedProblem, first: Int[np.ndarray, " F"], rule: Float[np.ndarray, "n Z"]) -> ObserverRule:
    """An observer who stays in the node that the first event led to."""
    words, each = "nothing" if len(rule) == 1 else "the first event", ()
    following = (_loops(problem, len(rule)),) * problem.horizon
    if problem.each is not None:
        values = problem.each.values
        each = (np.full((len(rule), values), log2_of_count(values) + MARGIN),) * (problem.horizon + 1)
    return ObserverRule(first, following, code_lengths_bits(rule) + MARGIN, words, problem.asked[0], each=each)


def _loops(problem: CheckedProblem, nodes: int) -> Int[np.ndarray, "n E"]:
    """A step in which every event leaves every node as it is."""
    return np.repeat(np.arange(nodes, dtype=np.int32)[:, None], problem.num_events[0], axis=1)


def _first_events(problem: CheckedProblem) -> int:
    (observer,) = problem.observers
    return observer.observations if observer.sees_first else 1


def _rule_of(problem: CheckedProblem, given: Problem, solved: Problem, game: GameResult) -> ObserverRule:
    """The observer of a game, over the whole horizon: one who stops looking stays in its node."""
    graph = game.graph
    if graph.told is not None:
        raise InputError("game", ["its observer is told the hidden state, so its bound is not one over all policies"])
    missing = problem.horizon - len(graph.following)
    following = (*graph.following, *[_loops(problem, graph.sizes[-1])] * missing)
    more = ((), (), ())
    if game.pairs.hidden.each is not None:
        costs, more = _unread(problem, graph.sizes[-1]), ((), (), _each_rule(problem, game))
    elif game.pairs.hidden.path is None:
        costs = np.where(game.pairs.reachable, game.costs + MARGIN, np.inf)
    else:
        costs, more = _unread(problem, graph.sizes[-1]), (*_path_rule(problem, given, solved, game), ())
    return ObserverRule(graph.first, following, costs, graph.kind, problem.asked[0], 1.0, *more)


def _unread(problem: CheckedProblem, nodes: int) -> Float[np.ndarray, "n Z"]:
    """Costs of the last values alone, where they are not what the rule is about: even odds."""
    size = problem.labels[0].size
    return np.full((nodes, size), log2_of_count(size) + MARGIN)


def _each_rule(problem: CheckedProblem, game: GameResult) -> tuple[Float[np.ndarray, "n Z"], ...]:
    """The costs of a game's rule for a secret with a value at every time; even odds at times that do not count."""
    table = EachTable(game.pairs)
    found = [np.full((size, table.values), log2_of_count(table.values) + MARGIN) for size in game.graph.sizes]
    for time, key, costs in zip(table.times, table.keys, table.parts(game.costs), strict=True):
        found[time] = np.full(found[time].shape, np.inf)
        found[time].ravel()[key] = costs + MARGIN
    return tuple(found)


def _path_rule(
    problem: CheckedProblem, given: Problem, solved: Problem, game: GameResult
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """The keys and costs of a game's rule for a whole path, in the verifier's numbers of what it tells apart."""
    hidden, table = game.pairs.hidden, PathTable(game.pairs)
    assert problem.codes is not None
    assert table.is_exact == problem.tells_state, "game and verifier must agree on what the events tell"
    numbers = np.arange(table.num_codes)
    if table.is_exact:
        numbers = situations(solved, hidden)
        numbers = numbers if not given.observer.varies else given_situations(given, solved)[numbers]
    keys, costs = [], []
    for time, (key, cost) in enumerate(zip(table.keys, table.parts(game.costs), strict=True)):
        rest, before = np.divmod(key, table.num_codes)
        node, after = np.divmod(rest, table.num_codes)
        triple = np.stack([node, numbers[after] if time < problem.horizon else after, numbers[before]], axis=1)
        order = np.lexsort(triple.T[::-1])
        keys.append(triple[order].astype(np.int32))
        costs.append(cost[order] + MARGIN)
    return tuple(keys), tuple(costs)


def given_situations(given: Problem, unrolled: Problem) -> Int[np.ndarray, " N"]:
    """For each situation (model, memory, state that carries the time) the one of the given problem behind it.

    Both remember the same, perhaps in another order.
    """
    state = unroll(given.with_clock())[1]
    table, larger = given.secret_table, unrolled.secret_table
    memory = np.zeros(len(larger.memory_step), dtype=np.int64)
    known = np.zeros(len(memory), dtype=bool)
    memory[larger.memory_start], known[larger.memory_start] = table.memory_start[state], True
    edge = np.flatnonzero(known)
    while len(edge):
        after, behind = larger.memory_step[edge], table.memory_step[memory[edge]][:, state]
        new = ~known[after]
        memory[after[new]], known[after[new]] = behind[new], True
        edge = np.unique(after[new])
    shape = len(given.models), len(memory), len(state)
    k, m, s = np.unravel_index(np.arange(math.prod(shape)), shape)
    return (k * len(table.memory_step) + memory[m]) * given.num_states + state[s]
