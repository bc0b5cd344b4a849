"""The search for observers: those whose rules prove the smallest upper bound over all policies, within a time.

Rules that need no search come first, so that there is a proof without any time; then the game of an observer without
memory, whose value is the largest prior entropy that a policy attains; then the game on the whole history, or on a bounded
memory where that does not fit. Of several channels it is the game against all of their observers; where that does not fit, or
there is none (`joinable`), that of one of those that are hidden, whose bound holds for the least of all. Each rule counts for
the bound that the verifier's own induction finds. For agents that learn each observation one step late the same graphs then get
rules of their own.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, Stop, interruptible
from ..common.errors import CertificateError, InputError, TooLargeError
from ..common.logs import code_lengths_bits, log2_of_count, posteriors
from ..engine.moves import situations
from ..engine.written import Written
from ..game.ascent import GameResult
from ..game.bounds import Bounds as GameBounds
from ..game.delayed import delayed_pairs
from ..game.enclose import enclose
from ..game.public_graph import WrittenString
from ..game.responses import Task
from ..game.solve import solve_game
from ..problem.apart import joinable
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.unrolled import unroll
from .backward import rule_bound
from .checked_problem import Bounds, CheckedProblem, can_delay
from .claims import ObserverRule, ProvenBound
from .compiled import record_of

MARGIN = 2.0**-39  # bits added to each cost, so that `Σ_z 2^−cost` stays below one by more than the verifier asks
_ALL_SHARE = 0.6  # of the time, for the bound over all policies, where one over agents that learn late follows
_FIRST_SHARE = 0.3  # of the time, for the game of an observer without memory
_GAME_SHARE = 0.8  # of the time, for the game of several channels, where an induction over its tree follows
_LEAST_ITERATIONS = 20  # of a game that follows another, or twice as many as that took
_WORTH_STATING = 1e-4  # bits by which the bound over these must be smaller
# Seconds for each move: of the verifier's induction, and of the shortest game. Measured on one core.
_INDUCTION_SECONDS, _GAME_SECONDS = 2.5e-7, 1e-7
# More than the limit, for the inductions of observers: those of a small problem are worth it.
_LEAST_SECONDS = 0.5


class Proven(NamedTuple):
    """What a search for observers ends with.

    **Attributes:** `bounds`: that over all policies and, where it was asked for and is smaller, that over agents that learn
    each observation one step late; `known`: what some policy is known to hide, None if no game was solved; `interrupted`: the
    caller ended the search.
    """

    bounds: tuple[ProvenBound, ...]
    known: float | None
    interrupted: bool


@dataclass(frozen=True, eq=False)
class Asked:
    """What a bound is asked of: `bounds` of the quantities; `values`, what is earned after the horizon; `gap`, bits at which a
    game ends; `memory_bytes` of a game; `task` for a game, and for the verifier the `factors` of all quantities; `hidden`: the
    channels whose least bits are bounded; `kept`: the bits that others must keep."""

    bounds: Bounds
    values: Float[np.ndarray, "K S"] | None
    gap: float
    memory_bytes: int
    task: Task = ()
    factors: tuple[float, ...] = ()
    hidden: tuple[int, ...] = (0,)
    kept: Mapping[int, float] = field(default_factory=dict)

    @property
    def are_several(self) -> bool:
        """Whether more than one channel counts."""
        return len(self.hidden) > 1 or bool(self.kept)


def best_observers(
    problem: Problem, asked: Asked, clock: Clock, game: GameBounds | None = None, *, delay: int = 0
) -> Proven:
    """The smallest bounds that are found in the time; a keyboard interrupt ends the search with the best.

    **Arguments:** `game`: one that was already solved, instead of solving one; the `clock` reports how far a game is;
    `delay`: 1 to search also for the observer of agents that learn each observation one step late, if the own channel alone
    is hidden and no other must keep bits.
    """
    delay = delay if asked.hidden == (0,) and not asked.kept and _matters(problem) else 0
    searches, interrupted = [_Search(problem, asked, clock.share(_ALL_SHARE) if delay else clock)], False
    try:
        with interruptible():
            solved = searches[0].run(game)
            if delay and solved is not None:
                searches.append(_Search(problem, asked, clock, delay))
                searches[1].delayed(searches[0].bound, solved)
    except OutOfTime as end:  # what was proven until then is complete
        interrupted = end.reason in ENDED_BY_CALLER
    first, *late = (search.bound for search in searches)
    known = searches[0].known
    return Proven(
        (first, *(bound for bound in late if bound.upper < first.upper - _WORTH_STATING)),
        None if known is None else min(known, first.upper),
        interrupted,
    )


def _matters(problem: Problem) -> bool:
    """Whether an agent that does not see the current observation can know less: some state has more than one."""
    record = record_of(problem)
    noisy = int(record.observers[0].tables[0].degree.max()) > 1
    return noisy and can_delay(record) and not problem.observer.untimed and problem.horizon > 0


class _Channel:
    """One channel: what the verifier reads of it, `checked`; its problem, `given`; that whose games are played, `solved`."""

    def __init__(self, problem: Problem, number: int, delay: int):
        self.checked = CheckedProblem(record_of(problem), (number,), delay=delay)
        self.given = problem.only(problem.channels[number].name)
        # The rule of a path is about times; the others are about all that the observer remembers, a string without a clock.
        solved = self.given if self.checked.path is None else self.given.with_clock()
        # Games are about states that carry the time.
        self.solved = unroll(solved)[0] if self.given.observer.varies else solved
        self.first = ProvenBound(
            delay, self.checked.most_bits, (0.0,) * len(self.checked.paid), (_even_odds(self.checked),)
        )

    @property
    def is_ahead(self) -> bool:
        """Whether its secret lies ahead, for which the verifier has no rules but even odds."""
        return self.checked.each is not None and bool(self.checked.each.ahead)

    @property
    def is_played(self) -> bool:
        """Whether there are rules of games: there is none of strings for a path."""
        return not self.checked.untimed or (Written.by(self.given.observer) is not None and self.checked.path is None)

    def takes(self, game: GameBounds) -> bool:
        """Whether a game that was solved elsewhere is about the states of this one."""
        return not game.best.views and (self.checked.path is None or not self.given.observer.varies)

    def induction_seconds(self, nodes: int) -> float:
        """A forecast of the verifier's induction against an observer with so many nodes a layer."""
        checked = self.checked
        carried = checked.values if checked.secret_time < checked.horizon else 1
        return _INDUCTION_SECONDS * checked.horizon * len(checked.at(min(1, checked.horizon)).chance) * nodes * carried

    def rule(self, game: GameResult) -> ObserverRule:
        """The observer of a game, in the verifier's numbers."""
        return _rule_of(self.checked, self.given, self.solved, game)


class _Search:
    """The best `bound` so far, with the observers that prove it, and what some policy is `known` to hide."""

    def __init__(self, problem: Problem, asked: Asked, clock: Clock, delay: int = 0):
        self.problem, self.asked, self.clock, self.delay = problem, asked, clock, delay
        self.latest = clock.share(more=_LEAST_SECONDS)  # by which the last induction ends, however many there are
        self.channels = [_Channel(problem, number, delay) for number in asked.hidden]
        first = min((one.first for one in self.channels), key=lambda bound: bound.upper)
        if asked.task:
            first = replace(first, upper=self._proven(first, clock))
        self.bound = first
        self.known: float | None = None

    def run(self, game: GameBounds | None) -> GameBounds | None:
        """All observers in turn, until the time of this search is over; returns the game of a single channel, given or solved.

        **Raises:** `OutOfTime` where the caller ends it.
        """
        if self.asked.are_several and self._together(game):
            return None
        for place, channel in enumerate(self.channels):
            clock = self.clock.share(1 / (len(self.channels) - place))
            if game is not None and (self.asked.are_several or not channel.takes(game)):
                game = None
            try:
                game = self._alone(channel, game, clock)
            except OutOfTime as end:
                if end.reason in ENDED_BY_CALLER:
                    raise
        return game

    def _together(self, game: GameBounds | None) -> bool:
        """The observers of the game of all channels; says whether there is one that fits."""
        asked, channels = self.asked, self.problem.channels
        names = [channels[number].name for number in (*asked.hidden, *asked.kept)]
        try:
            if game is None or not game.best.views:
                path = self.problem.only(names[0]).secret_table.path
                if path is not None or len(joinable(self.problem, tuple(names))) < 2:
                    return False
                game = self._enclosed(self.problem, tuple(names[: len(asked.hidden)]), self.clock.share(_GAME_SHARE))
            rules = _joint_rules(self.problem, game.games[0], asked.kept)
            self._offer(rules, game.games[0].all_prices, self.clock, game.lower)
        except (TooLargeError, InputError, CertificateError):
            return False  # one channel alone has a bound in any case
        _check_ended(game)
        return True

    def _alone(self, channel: _Channel, given: GameBounds | None, clock: Clock) -> GameBounds | None:
        """The observers of one channel: one that needs no search or has no memory, then those of the game, given or solved."""
        if channel.is_ahead:
            return None
        checked = channel.checked
        if checked.secret_time == 0 and checked.path is None and not checked.untimed:
            rule = _first_event(checked)
            if channel.induction_seconds(len(rule.costs)) < clock.left:
                self._offer((rule,), (), clock)
        if given is not None:
            self._offer_all(channel, given, given.games, clock)
            return given
        if channel.induction_seconds(1) >= clock.left / 2:
            return None
        game = self._played(channel, clock.share(_FIRST_SHARE), most_nodes=1)
        larger = channel.is_played and channel.induction_seconds(checked.num_events[0]) <= clock.left
        return self._played(channel, clock, begun=game) if game is not None and larger else game

    def _played(
        self, channel: _Channel, clock: Clock, begun: GameBounds | None = None, **more: Any
    ) -> GameBounds | None:
        """The bounds of a channel with more memory than those of `begun`, whose rules are offered; None if no game fits."""
        try:
            game = self._enclosed(channel.solved, (OWN,), clock, begun=begun, pass_seconds=_INDUCTION_SECONDS, **more)
        except TooLargeError:
            return begun
        known = () if begun is None else begun.games
        self._offer_all(channel, game, [part for part in game.games if part not in known], clock)
        _check_ended(game)
        return game

    def _offer_all(self, channel: _Channel, game: GameBounds, parts: Sequence[GameResult], clock: Clock) -> None:
        for part in parts:
            if not channel.checked.untimed or part.graph.kind == WrittenString.kind or max(part.graph.sizes) == 1:
                known = None if self.asked.are_several else game.lower
                self._offer((channel.rule(part),), part.all_prices, clock, known)

    def delayed(self, first: ProvenBound, game: GameBounds) -> None:
        """For agents that learn observations late: the observer over all policies, then the games on the graphs of `game`."""
        (channel,), clock, asked = self.channels, self.clock, self.asked
        if channel.induction_seconds(len(first.rules[0].costs)) < clock.left:
            self._offer(first.rules, first.prices, clock)
        # Of bounds that are equal but for rounding that of the smaller memory is first: its game takes less time.
        for part in sorted(game.games, key=lambda part: (round(part.upper, 9), part.pairs.num_pairs)):
            with suppress(TooLargeError):
                pairs = delayed_pairs(part.pairs, clock, asked.memory_bytes)
                moves = sum(step.nnz for step in pairs.steps)
                spare = clock.share(more=-_INDUCTION_SECONDS * moves)
                if spare.left < _GAME_SECONDS * moves:
                    continue
                found = solve_game(
                    part.problem, threshold=asked.bounds[0], gap=asked.gap, pairs=pairs, known=first.upper, task=asked.task,
                    iterations=max(_LEAST_ITERATIONS, 2 * part.iterations), clock=spare,
                )  # fmt: skip
                self._offer((channel.rule(found),), found.all_prices, clock)
                _check_ended(found)

    def _offer(
        self,
        rules: tuple[ObserverRule, ...],
        prices: tuple[float, ...],
        clock: Clock,
        hidden: float | None = None,
    ) -> None:
        """Keep observers if the verifier's induction proves less for them, and what their game knows to be hidden."""
        missing = len(self.bound.prices) - len(prices)
        bound = ProvenBound(self.delay, 0.0, (*prices, *(0.0,) * missing), rules)
        upper = self._proven(bound, clock)
        if hidden is not None and hidden > -math.inf:
            hidden = hidden if self.asked.task else max(0.0, hidden)
            self.known = hidden if self.known is None else max(self.known, hidden)
        if upper < self.bound.upper:
            self.bound = replace(bound, upper=upper)

    def _proven(self, bound: ProvenBound, clock: Clock) -> float:
        """What the verifier's own induction finds."""
        asked, numbers = self.asked, tuple(rule.channel for rule in bound.rules)
        checked = next((one.checked for one in self.channels if one.checked.asked == numbers), None)
        if checked is None:
            checked = CheckedProblem(record_of(self.problem), numbers)
        limited = self.latest.within(clock.left + _LEAST_SECONDS)
        return rule_bound(checked, bound, asked.bounds, asked.values, asked.kept, asked.factors, limited)

    def _enclosed(self, problem: Problem, hide: tuple[str, ...], clock: Clock, **more: Any) -> GameBounds:
        asked = self.asked
        given = {"gap": asked.gap, "memory_bytes": asked.memory_bytes, "task": asked.task}
        return enclose(problem, hide, threshold=asked.bounds[0], clock=clock, **given, **more)


def _check_ended(game: GameBounds | GameResult) -> None:
    """The end of the search if the caller ended a game."""
    if game.stopped in ENDED_BY_CALLER:
        raise OutOfTime(Stop(game.stopped))


def _joint_rules(problem: Problem, game: GameResult, kept: Mapping[int, float]) -> tuple[ObserverRule, ...]:
    """The observers of a game of several channels, with weights of the hidden ones that sum to one or more, exactly."""
    numbers = {one.name: number for number, one in enumerate(problem.channels)}
    weights = [one.weight for one in game.rules]
    hidden = [number for number, one in enumerate(game.rules) if numbers[one.name] not in kept]
    largest = max(hidden, key=lambda number: weights[number])
    while sum(Fraction(weights[number]) for number in hidden) < 1:
        weights[largest] = math.nextafter(weights[largest], math.inf)
    return tuple(
        ObserverRule(one.first, one.following, one.costs() + MARGIN, game.graph.kind, numbers[one.name], weight)
        for one, weight in zip(game.rules, weights, strict=True)
    )


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
    (rule,), nodes = game.rules, game.graph.sizes[-1]
    following = (*rule.following, *[_loops(problem, nodes)] * (problem.horizon - len(rule.following)))
    if problem.path is None and problem.each is None:
        return ObserverRule(rule.first, following, rule.costs() + MARGIN, game.graph.kind, problem.asked[0])
    unread = problem.labels[0].size  # the last values alone are not what the rule is about
    costs = np.full((nodes, unread), log2_of_count(unread) + MARGIN)
    found = ObserverRule(rule.first, following, costs, game.graph.kind, problem.asked[0])
    if problem.each is not None:
        values = problem.each.values  # even odds at times that do not count
        each = [np.full((size, values), log2_of_count(values) + MARGIN) for size in game.graph.sizes]
        for number, (part, _) in enumerate(rule.parts):
            each[part.time] = rule.costs(number) + MARGIN
        return replace(found, each=tuple(each))
    keys, costs = zip(*_path_rule(problem, given, solved, game), strict=True)
    return replace(found, path_keys=keys, path_costs=costs)


def _path_rule(
    problem: CheckedProblem, given: Problem, solved: Problem, game: GameResult
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The keys and costs of each part of a rule for a whole path, in the verifier's numbers of what it tells apart."""
    (rule,), hidden = game.rules, game.pairs.hidden
    count = rule.parts[0][0].width
    assert game.is_exact == problem.tells_state, "game and verifier must agree on what the events tell"
    numbers = np.arange(count)
    if game.is_exact:
        numbers = situations(solved, hidden)
        numbers = numbers if not given.observer.varies else given_situations(given, solved)[numbers]
    for part, cost in rule.parts:
        rest, before = np.divmod(part.key, count)
        node, after = np.divmod(rest, count)
        triple = np.stack([node, numbers[after] if part.arrives else after, numbers[before]], axis=1)
        order = np.lexsort(triple.T[::-1])
        yield triple[order].astype(np.int32), cost[order] + MARGIN


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
