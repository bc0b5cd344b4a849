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
from ..common.logs import conditional_entropy_bits
from ..engine.feasibility import feasible_mixture, further_targets
from ..engine.hidden import build
from ..engine.return_range import threshold as threshold_of
from ..engine.threads import one_blas_thread
from ..problem.problem import Problem
from .multiplier import FlowPoint
from .pairs import DEFAULT_MEMORY, FullHistory, Pairs, make_pairs
from .responses import AgentProblem
from .solve import GameResult, solve_game

_ROUNDS = 60  # games at most
_SHARE_OF_GAP = 0.25  # of the gap asked for, at which each of these games ends
_OWN_SHARE = 0.3  # of the gap so far, at which the next game ends: early prices are not worth more
_INSIDE = 1e-12  # slack, in units of each range, that the policy keeps against rounding


@dataclass(frozen=True, eq=False)
class ConstrainedGame:
    """The game that proves the best bound, with the policy of the best mixture; `prices` of the further constraints."""

    game: GameResult
    prices: Float[np.ndarray, " F"]


@dataclass(frozen=True, eq=False)
class _Column:
    """A policy that reaches the threshold on the return: its opacity, and the slacks of the further constraints."""

    point: FlowPoint
    bits: float
    slack: Float[np.ndarray, " F"]


@one_blas_thread
def solve_constrained_game(
    problem: Problem, *, gap: float = 1e-3, iterations: int = 10_000, memory_bytes: int = DEFAULT_MEMORY, clock: Clock
) -> ConstrainedGame:
    """The largest opacity over all policies that meet every constraint, on the observation tree, between two proven bounds.

    **Arguments:** as for `solve_game`.

    Cost: that of a game for each round, about ten of them for two constraints.

    **Raises:** `TooLargeError` where the tree does not fit the memory or the time.
    """
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


class _Rounds:
    """The columns so far, the best bound, and the prices of the next game."""

    def __init__(self, problem: Problem, pairs: Pairs, gap: float):
        self.problem, self.pairs, self.gap = problem, pairs, gap
        self.agent, self.targets = AgentProblem(problem, pairs), further_targets(problem)
        self.units = np.array([one.unit for one in self.targets])
        self.columns = [self._column(FlowPoint(*self.agent.flows(self._inside())))]
        self.prices = np.zeros(len(self.targets))
        self.best: tuple[GameResult, np.ndarray] | None = None
        self.mixture = self.columns[0]

    @property
    def open_bits(self) -> float:
        """Upper minus lower bound."""
        return np.inf if self.best is None else self.best[0].upper - self.mixture.bits

    def play(self, iterations: int, clock: Clock) -> str:
        """One game, and the best mixture with its policy; says how the game ended."""
        wanted = max(_SHARE_OF_GAP * self.gap, min(_OWN_SHARE * self.open_bits, 0.01))
        blind = None if self.best is None else self.best[0].blind
        found = solve_game(
            self.problem, pairs=self.pairs, prices=self.prices, gap=wanted, iterations=iterations, blind=blind,
            clock=clock.share(1.0).silent(),
        )  # fmt: skip
        if self.best is None or found.upper < self.best[0].upper:
            self.best = found, self.prices
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
        return _Column(point, conditional_entropy_bits(point.outcome.joint), slack)

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

    def result(self, stopped: str, seconds: float) -> ConstrainedGame:
        """The best bound with the best policy."""
        assert self.best is not None
        game, prices = self.best
        tables = []
        for flow, even in zip(self.mixture.point.flows, self.agent.uniform(), strict=True):
            here = flow.sum(axis=0)
            tables.append(np.where(here > 0, flow / np.where(here > 0, here, 1.0), even))
        outcome = self.agent.outcome(tables)
        found = replace(
            game,
            lower=conditional_entropy_bits(outcome.joint),
            tables=tuple(tables),
            expected_return=outcome.expected_return,
            stopped=stopped,
            seconds=seconds,
        )
        return ConstrainedGame(found, prices)
