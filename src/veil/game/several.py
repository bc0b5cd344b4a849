"""The game under several constraints: prices of the further ones, found from the games that they make.

For prices λ ≥ 0 of the further constraints, `max_π H + Σ_k λ_k sign_k (V_k − δ_k)` over policies with return ≥ δ is a game with
one constraint, whose upper bound holds for all policies that meet every constraint. Its policy is a column: opacity and values.
A small linear program mixes the columns so that every constraint is met; its multipliers are the next prices, and the mixture,
which hides at least the mean of its columns since H is concave, is the policy.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime, too_large_if_late
from ..engine.feasibility import feasible_mixture, further_targets
from ..engine.hidden import build
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.problem import Problem
from .multiplier import FlowPoint
from .pairs import DEFAULT_MEMORY, FullHistory, GivenGraph, LastEvents, ObserverMemory, Pairs, make_pairs
from .redirect import redirected_graph
from .refine import BestGames, EnclosedGame, RefinedGameResult
from .responses import AgentProblem
from .solve import GameResult, solve_game

_ROUNDS = 60  # games at most
_SHARE_OF_GAP = 0.25  # of the gap asked for, at which each of these games ends
_OWN_SHARE = 0.3  # of the gap so far, at which the next game ends: early prices are not worth more
_TURN = 0.5  # of the time that is left, for a game on an automaton
_WORTH_A_ROUND = 0.05  # share of the gap: where redirecting closes less, the observer remembers one event more
_INSIDE = 1e-12  # slack, in units of each range, that the policy keeps against rounding


@dataclass(frozen=True, eq=False)
class _Column:
    """A policy that reaches the threshold on the return: its opacity, and the slacks of the further constraints."""

    point: FlowPoint
    bits: float
    slack: Float[np.ndarray, " F"]


@one_blas_thread
def solve_constrained_game(
    problem: Problem,
    *,
    gap: float = 1e-3,
    iterations: int = 10_000,
    memory_bytes: int = DEFAULT_MEMORY,
    pairs: Pairs | None = None,
    clock: Clock,
) -> GameResult:
    """The largest `H(Z|M_T)` over all policies that meet every constraint, between two proven bounds.

    **Arguments:** as for `solve_game`; the observer remembers the whole history unless the `pairs` of another memory are given.

    **Returns:** the game that proves the best bound, with its `prices`, and the policy of the best mixture.

    Cost: that of a game for each round, about ten of them for two constraints.

    **Raises:** `TooLargeError` where the tree does not fit the memory or the time.
    """
    if pairs is None:
        with too_large_if_late(
            "the time limit was reached before the game's graph was built: use a longer time_limit, or method='ascent'"
        ):
            pairs = make_pairs(build(problem), FullHistory(), memory_bytes, clock=Clock(clock.left).or_unlimited())
    rounds = _Rounds(problem, pairs, gap)
    stopped = "iterations"
    try:
        for _ in range(_ROUNDS):
            ended = rounds.play(iterations, clock)
            if rounds.open_bits <= gap or ended in ENDED_BY_CALLER:
                stopped = ended if ended in ENDED_BY_CALLER else "gap reached"
                break
            clock.check()
    except OutOfTime as end:
        stopped = str(end.reason)
    return rounds.result(stopped, clock.spent)


@one_blas_thread
def enclose_constrained_game(
    problem: Problem, *, gap: float = 0.05, memory_bytes: int = DEFAULT_MEMORY, clock: Clock
) -> EnclosedGame:
    """Enclose the value of the game under several constraints where the tree does not fit, by automata of the observer.

    The first observer remembers one event; while the bound falls its events are redirected by value at the prices found, and
    then an observer of one event more follows. The policy that is known to hide most against an observer who remembers
    everything is kept.

    **Raises:** `TooLargeError` where not even the first automaton fits.
    """
    found = _Automata(problem, gap, memory_bytes)
    stopped = found.ended(lambda: found.run(clock))
    return EnclosedGame(None, found.result(stopped, clock.spent))


class _Automata(BestGames):
    """The best bound and the best policy of the games on automata so far."""

    def __init__(self, problem: Problem, gap: float, memory_bytes: int):
        super().__init__()
        self.problem, self.gap, self.memory_bytes = problem, gap, memory_bytes
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
        pairs = make_pairs(build(self.problem), memory, self.memory_bytes, clock=Clock(clock.left).or_unlimited())
        game = solve_constrained_game(
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
        return redirected_graph(agent, self.last, clock).memory

    def result(self, stopped: str, seconds: float) -> RefinedGameResult:
        """Both bounds; where time ended before, from the least work that gives them."""
        if self.bounding is None:
            self.play(LastEvents(0), Clock(0.0))
        return self.found(seconds, stopped)


class _Rounds:
    """The columns so far, the best bound, and the prices of the next game."""

    def __init__(self, problem: Problem, pairs: Pairs, gap: float):
        self.problem, self.pairs, self.gap = problem, pairs, gap
        self.agent, self.targets = AgentProblem(problem, pairs), further_targets(problem)
        self.units = np.array([one.unit for one in self.targets])
        self.columns = [self._column(FlowPoint(*self.agent.flows(self._inside())))]
        self.prices = np.zeros(len(self.targets))
        self.best: GameResult | None = None
        self.mixture = self.columns[0]

    @property
    def open_bits(self) -> float:
        """Upper minus lower bound."""
        return np.inf if self.best is None else self.best.upper - self.mixture.bits

    def play(self, iterations: int, clock: Clock) -> str:
        """One game, and the best mixture with its policy; says how the game ended."""
        wanted = max(_SHARE_OF_GAP * self.gap, min(_OWN_SHARE * self.open_bits, 0.01))
        blind = None if self.best is None else self.best.blind
        found = solve_game(
            self.problem, pairs=self.pairs, prices=self.prices, gap=wanted, iterations=iterations, blind=blind,
            clock=clock.share(1.0).silent(),
        )  # fmt: skip
        if self.best is None or found.upper < self.best.upper:
            self.best = found
        self.columns.append(self._column(FlowPoint(*self.agent.flows(found.tables))))
        weights, multipliers = self._mixed()
        self.prices = multipliers / self.units
        point = self.columns[0].point
        total = weights[0]
        for weight, column in zip(weights[1:].tolist(), self.columns[1:], strict=True):
            total += weight
            if weight > 0:
                point = point.mixed(column.point, weight / total) if total > weight else column.point
        mixture = self._moved_inside(self._column(point))
        self.columns.append(mixture)
        if mixture.bits > self.mixture.bits:
            self.mixture = mixture
        return found.stopped

    def _column(self, point: FlowPoint) -> _Column:
        values = self.agent.further_values(point.flows)
        slack = np.array([one.slack(value) for one, value in zip(self.targets, values.tolist(), strict=True)])
        return _Column(point, self.agent.table.entropy(point.outcome.joint), slack)

    def _inside(self) -> list[np.ndarray]:
        """The policy whose worst slack is largest, on the pairs; even odds where it never goes."""
        tables = []
        for time, even in enumerate(self.agent.uniform()):
            flow = feasible_mixture(self.problem).flows[time].T[:, self.pairs.layers[time].x]
            here = flow.sum(axis=0)
            tables.append(np.where(here > 0, flow / np.where(here > 0, here, 1.0), even))
        return tables

    def _mixed(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights of the columns that hide most and meet every constraint, and the multipliers of these."""
        slack = np.stack([column.slack for column in self.columns])
        found = linprog(
            [-column.bits for column in self.columns],
            A_ub=-slack.T,
            b_ub=np.maximum(0.0, -self.columns[0].slack),  # which the first column meets
            A_eq=np.ones((1, len(slack))),
            b_eq=[1.0],
            method="highs",
        )
        weights = np.maximum(found.x, 0.0)
        return weights / weights.sum(), np.maximum(-found.ineqlin.marginals, 0.0)

    def _moved_inside(self, column: _Column) -> _Column:
        """Mixed with the first column until no slack is missing by rounding."""
        inside, wanted = self.columns[0], threshold_of(self.problem)
        short = [(_INSIDE - one, safe - one) for one, safe in zip(column.slack, inside.slack, strict=True)]
        if wanted is not None:
            earned, safe = (one.point.outcome.expected_return for one in (column, inside))
            short.append((wanted + _INSIDE * (1 + abs(wanted)) - earned, safe - earned))
        weight = max((missing / spare for missing, spare in short if 0 < missing < spare), default=0.0)
        return self._column(column.point.mixed(inside.point, min(1.0, 2 * weight))) if weight else column

    def result(self, stopped: str, seconds: float) -> GameResult:
        """The best bound with the best policy."""
        assert self.best is not None
        tables = []
        for flow, even in zip(self.mixture.point.flows, self.agent.uniform(), strict=True):
            here = flow.sum(axis=0)
            tables.append(np.where(here > 0, flow / np.where(here > 0, here, 1.0), even))
        outcome = self.agent.outcome(tables)
        return replace(
            self.best,
            lower=self.agent.table.entropy(outcome.joint),
            tables=tuple(tables),
            expected_return=outcome.expected_return,
            stopped=stopped,
            seconds=seconds,
        )
