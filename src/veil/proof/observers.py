"""The search for an observer: the one whose rule proves the smallest bound on all policies, within a time.

Rules that need no search come first, so that there is a proof within any time limit; then the game of an observer who remembers
nothing, which is worth the largest prior entropy that a policy attains; then the game on the whole history, or on a bounded
memory where that does not fit. Each rule counts for what the verifier's own induction finds.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, Stop, interruptible
from ..common.errors import InputError, TooLargeError
from ..common.logs import code_lengths_bits, posteriors
from ..engine.hidden import build
from ..game.pairs import FullHistory, LastEvents, ObserverMemory, Pairs, make_pairs
from ..game.refine import EnclosedGame, RefinedGameResult, enclose_game
from ..game.solve import GameResult, solve_game
from ..game.windows import WindowGameResult
from ..problem.problem import Problem
from .certificate import Witness
from .verify import rule_bound
from .world import World

Game = GameResult | WindowGameResult | RefinedGameResult | EnclosedGame

_MARGIN = 2.0**-39  # bits added to each cost, for Kraft's inequality to hold with room to spare
_BLIND_SHARE = 0.3  # of the time, for the observer who remembers nothing
_GAME_SHARE = 0.65  # of the time, for games whose induction cannot be foreseen
_INDUCTION = 2.5e-7  # seconds that the verifier's induction takes for each move
_LEAST_GAME = 1e-7  # and that the shortest game takes, for each


@dataclass(frozen=True, eq=False)
class Watched:
    """An observer, the bound it proves, and the most that the games know some policy to hide; None where none was played."""

    witness: Witness
    upper: float
    known: float | None = None


def best_watcher(
    world: World,
    wanted: float | None,
    values: Float[np.ndarray, "K S"] | None,
    gap: float,
    clock: Clock,
    memory_bytes: int,
    game: Game | None,
) -> Watched:
    """The observer with the smallest bound that is found in the time; a keyboard interrupt ends the search with the best.

    **Arguments:** `wanted`, δ; `values`, what is earned after the horizon; `gap`, bits at which a game ends; `game`: one
    that was already solved, instead of solving one; `clock` reports how far a game is.
    """
    search = _Search(world, wanted, values, gap, clock, memory_bytes)
    with contextlib.suppress(OutOfTime), interruptible():  # what was proven until then is whole
        search.look_at_starts()
        if game is None:
            game = search.play()
        for part in () if game is None else _parts(game):
            search.offer(_witness(world.problem, part), part.lower)
    return search.best


class _Search:
    """The best observer so far, which is replaced as one, so that no interrupt can part rule and bound."""

    def __init__(self, world: World, wanted: float | None, values: Any, gap: float, clock: Clock, memory_bytes: int):
        self.world, self.problem, self.wanted, self.values = world, world.problem, wanted, values
        self.gap, self.clock, self.memory_bytes = gap, clock, memory_bytes
        self.best = Watched(_even_odds(world), world.most_bits)
        self.blind: GameResult | None = None

    def offer(self, witness: Witness, hidden: float | None = None) -> None:
        """Keep an observer if the verifier's induction finds less for it, and what its game knows to be hidden."""
        bound, best = rule_bound(self.world, witness, self.wanted, self.values), self.best
        known = max((bits for bits in (best.known, hidden) if bits is not None), default=None)
        if bound < best.upper:
            best = Watched(witness, bound)
        self.best = Watched(best.witness, best.upper, None if known is None else min(known, best.upper))

    def look_at_starts(self) -> None:
        """What is known before any step: the posterior of a start given the first event, or of no event at all."""
        if self.problem.secret_table.time == 0:
            witness = _first_event(self.world)
            if self._induction(len(witness.costs)) < self.clock.left:
                self.offer(witness)
        elif self._induction(1) < self.clock.left / 2:
            share = self.clock.share(_BLIND_SHARE)
            self.blind = self._solved(LastEvents(0), share, max(self.gap, 1e-4), _INDUCTION)
            if self.blind is not None:
                self.offer(_witness(self.problem, self.blind))
                if self.blind.stopped in ENDED_BY_CALLER:
                    raise OutOfTime(Stop(self.blind.stopped))

    def play(self) -> Game | None:
        """The game on the whole history, else on bounded memories; None where there is no time for either."""
        found = self._solved(FullHistory(), self.clock, self.gap, _INDUCTION)
        if found is not None:
            return found
        if self._induction(self.world.events) > self.clock.left:
            return None
        try:
            return enclose_game(
                self.problem,
                threshold=self.wanted,
                gap=self.gap,
                memory_bytes=self.memory_bytes,
                blind=self.blind,
                clock=self.clock.share(_GAME_SHARE),
            )
        except TooLargeError:
            return None

    def _solved(self, memory: ObserverMemory, clock: Clock, gap: float, kept: float) -> GameResult | None:
        """The game of an observer with this memory, `kept` seconds a move before the end; None where that cannot be."""
        try:
            pairs = make_pairs(build(self.problem), memory, self.memory_bytes, clock=clock)
        except (TooLargeError, OutOfTime):
            return None
        moves = _moves(pairs)
        spare = clock.share(more=-kept * moves)
        if spare.left < _LEAST_GAME * moves:
            return None
        return solve_game(self.problem, threshold=self.wanted, gap=gap, pairs=pairs, blind=self.blind, clock=spare)

    def _induction(self, nodes: int) -> float:
        """How many seconds the verifier's induction takes at most against an observer of so many nodes a layer."""
        world = self.world
        carried = world.values if world.problem.secret_table.time < world.horizon else 1
        return _INDUCTION * world.horizon * len(world.chance) * nodes * carried


def _moves(pairs: Pairs) -> int:
    return sum(step.nnz for step in pairs.steps)


def _parts(game: Game) -> Iterator[GameResult | WindowGameResult | RefinedGameResult]:
    """The games within a game, the one that proves most first."""
    parts = (game.windows, game.refined) if isinstance(game, EnclosedGame) else (game,)
    yield from sorted((part for part in parts if part is not None), key=lambda part: part.upper)


def _even_odds(world: World) -> Witness:
    """The observer who remembers nothing and holds every value for equally likely: `log2 |Z|`."""
    return _unmoved(world, np.zeros(_first_events(world), dtype=np.int32), np.full((1, world.values), 1 / world.values))


def _first_event(world: World) -> Witness:
    """For a secret settled at time 0: the observer who stops looking after the first event: `H(Z|O_0)`."""
    x, event, mass = world.start
    shape = _first_events(world), world.values
    joint = np.bincount(event * world.values + world.label[x], mass, shape[0] * shape[1]).reshape(shape)
    rule = posteriors(joint)
    possible = joint.sum(axis=1) > 0
    node = np.where(possible, np.cumsum(possible) - 1, -1).astype(np.int32)
    return _unmoved(world, node, rule[possible])


def _unmoved(world: World, first: np.ndarray, rule: np.ndarray) -> Witness:
    """An observer who stays in the node that the first event led to."""
    table = np.repeat(np.arange(len(rule), dtype=np.int32)[:, None], world.events, axis=1)
    costs = code_lengths_bits(rule) + _MARGIN
    words = "nothing" if len(rule) == 1 else "the first event"
    return Witness(first, (table,) * world.horizon, costs, 0.0, words)


def _first_events(world: World) -> int:
    observer = world.problem.observer
    return observer.num_observations if observer.sees_first else 1


def _witness(problem: Problem, game: GameResult | WindowGameResult | RefinedGameResult) -> Witness:
    """The observer of a game, over the whole horizon: one who stops looking stays where it is."""
    if isinstance(game, WindowGameResult):
        game = game.forgetting
    elif isinstance(game, RefinedGameResult):
        game = game.bounding
    graph = game.graph
    if graph.told is not None:
        raise InputError("game", ["its observer is told the hidden state, which proves nothing about others"])
    following = list(graph.following)
    if len(following) < problem.horizon:
        observer = problem.observer
        events = observer.num_observations * (problem.num_actions if observer.sees_actions else 1)
        stay = np.repeat(np.arange(graph.sizes[-1], dtype=np.int32)[:, None], events, axis=1)
        following += [stay] * (problem.horizon - len(following))
    costs = np.where(game.pairs.reachable, game.costs + _MARGIN, np.inf)
    return Witness(graph.first, tuple(following), costs, game.multiplier, graph.kind)
