"""The game under several constraints, or against several observers: prices and weights, from the games that they make.

A task is added to each of the bits that are hidden. For prices λ ≥ 0 of the other bounds and weights w of what is counted,
`max_π Σ_j w_j H_j + Σ_k λ_k sign_k (V_k − δ_k)` over policies with return ≥ δ is a game with one constraint. With `Σ w_j = 1`
over the H_j that are hidden its upper bound is one on the least of them, over all policies that meet every constraint; the
weight of an H_j that must be h_j or more is a price, and `w_j h_j` is subtracted. Its policy is a column: the bits and the
slacks. A small linear program mixes the columns so that every constraint is met and the least is largest; its multipliers are
the next prices and weights, and the mixture, which hides at least the mean of its columns since H is concave, is the policy.

While no mixture of the columns keeps all bits that must be kept, there are two programs in turns. The first maximises the
least of what is kept beyond its bound; its multipliers are weights of the kept bits alone, and if their game has an upper bound
below 0 no policy keeps them all. The second allows bits to be missed, the most of what is missed at a penalty that grows from
round to round. Prices have no largest value: once a mixture keeps all bits they are the multipliers of a program without a
penalty.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from ..common.clock import ENDED_BY_CALLER, Clock, OutOfTime
from ..engine.feasibility import feasible_mixture, other_targets
from ..problem.return_rounding import return_rounding
from .ascent import Priced, solve_priced_game
from .records import Players
from .responses import AgentProblem, FlowPoint, Outcome, Tables

# Set by hand: they decide how fast the bounds converge, which are valid for any values.
_ROUNDS = 60  # games at most; about ten suffice for two constraints
_SHARE_OF_GAP = 0.25  # of the gap asked for, at which each of these games ends
_OWN_SHARE = 0.3  # of the gap so far, at which the next game ends: early prices are not worth more
_LARGEST_GAP = 0.1  # at which it ends at the latest
# Against rounding: of the slack, the entropies, and the linear programs.
_INSIDE = 1e-12  # slack, in units of each range, that the policy keeps against rounding, and at least
_ROUNDINGS = 4  # times the bound on rounding errors, since a range may be narrow
_FIRST_PENALTY, _PENALTY_GROWTH = 10.0, 10.0  # of bits that are missed, in bits for a bit, while no mixture keeps them
_LARGEST_PENALTY = 1e6  # bits for a bit, where a bound gains nothing more by it; prices may be larger
_UNREACHABLE = 1e-9  # bits: an upper bound on what is kept beyond its bounds that is further below 0 is a proof
_KEPT_MORE = 4e-12  # bits beyond those that must be kept, for other ways to sum them and for their proof
_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_LEAST_WEIGHT = 1e-9  # below which an observer is left out of a game


@dataclass(frozen=True, eq=False)
class _Column:
    """A policy that reaches the threshold on the return: its bits, and the slacks of the other bounds."""

    point: FlowPoint
    bits: Float[np.ndarray, " J"]
    slack: Float[np.ndarray, " F"]


class _Mixture(NamedTuple):
    """The shares of the columns, the multipliers of bits and slacks, and the least of what is kept beyond its bound."""

    shares: Float[np.ndarray, " C"]
    weights: Float[np.ndarray, " J"]
    multipliers: Float[np.ndarray, " F"]
    spare: float


class Proving(NamedTuple):
    """The game of the smallest upper bound, the agent with its prices, and the weights of the channels."""

    game: Priced
    upper: float
    agent: AgentProblem
    weights: list[float]


class Rounds:
    """The columns so far, the game that proves the best bound, and the prices and weights of the next game.

    **Arguments:** `agent`: of the players, with all of their channels. **Attributes:** `proving`; `mixture`: the policy whose
    least, `lower`, is largest of those that meet everything; `lower` is -inf if none is known; `games`: how many were solved;
    `unreachable`: no policy keeps all bits that must be kept.
    """

    def __init__(
        self, agent: AgentProblem, players: Players, threshold: float | None, gap: float, known: float = np.inf
    ):
        self.agent, self.count, self.kept, self.threshold = agent, players.num_hidden, players.kept, threshold
        self.gap, self.known, self.targets = gap, known, other_targets(agent.problem)
        self.units = np.array([one.unit for one in self.targets])
        errors = np.array([return_rounding(agent.problem, one.quantity) for one in self.targets])
        self.kept_slack = np.maximum(_INSIDE, _ROUNDINGS * errors / self.units)
        self.prices = np.zeros(len(self.targets)) if self.targets else None
        self.weights = np.concatenate([np.full(self.count, 1 / self.count), np.ones(len(self.kept))])
        self.aim = self.kept + _KEPT_MORE
        self.columns: list[_Column] = []
        self.lower, self.games = -np.inf, 0
        self.proving: Proving | None = None
        self.mixture: _Column | None = None
        self.unreachable, self._penalty, self._least_kept = False, _FIRST_PENALTY, -np.inf
        if self.targets:
            self._take(self._column(agent.flows(self._inside())))

    @property
    def open_bits(self) -> float:
        """The smallest upper bound that is known, minus the lower one."""
        return min(np.inf if self.proving is None else self.proving.upper, self.known) - self.lower

    def run(self, iterations: int, clock: Clock) -> str:
        """Games until the bounds are as close as asked for, or the clock says so; returns why they end."""
        try:
            for _ in range(_ROUNDS):
                ended = self.play(iterations, clock)
                if self.open_bits <= self.gap or ended in ENDED_BY_CALLER:
                    return ended if ended in ENDED_BY_CALLER else "gap reached"
                if self.unreachable:
                    return "unreachable"
                clock.check()
        except OutOfTime as end:
            return str(end.reason)
        return "iterations"

    def play(self, iterations: int, clock: Clock) -> str:
        """One game, and the best mixture with its policy; says how the game ended."""
        weights = np.where(self.weights > _LEAST_WEIGHT, self.weights, 0.0)
        bounds = bool(weights[: self.count].any())  # else only what is kept counts, to see whether it can be
        if bounds:
            weights[: self.count] /= weights[: self.count].sum()
        gap = _OWN_SHARE * (self.open_bits if bounds else max(0.0, -self._least_kept))
        if bounds:
            gap = max(_SHARE_OF_GAP * self.gap, min(gap, _LARGEST_GAP))
        table, task = self.agent.table.weighted(weights.tolist()), self.agent.task if bounds else ()
        agent = AgentProblem(self.agent.problem, self.agent.pairs, table, self.prices, task)
        clock = clock.share(1.0).silent()
        found = solve_priced_game(agent, threshold=self.threshold, gap=gap, iterations=iterations, clock=clock)
        self.games += 1
        upper = found.bound.upper - float(weights[self.count :] @ self.kept)
        if not bounds:
            self.unreachable = upper < -_UNREACHABLE
        elif self.proving is None or upper < self.proving.upper:
            self.proving = Proving(found, upper, agent, weights.tolist())
        self.columns.append(self._column(self.agent.flows(found.tables)))
        mixture = self._mixed()
        self.weights, shares = mixture.weights, mixture.shares
        self.prices = mixture.multipliers / self.units if self.targets else None
        point, total = self.columns[0].point, shares[0]
        for share, column in zip(shares[1:].tolist(), self.columns[1:], strict=True):
            total += share
            if share > 0:
                point = point.mixed(column.point, share / total) if total > share else column.point
        self._take(self._moved_inside(self._column(point)))
        return found.stopped

    def _take(self, column: _Column) -> None:
        """Keep a column that meets the constraints; its policy is the answer where it also keeps all bits and hides most."""
        self.columns.append(column)
        hidden, kept = np.split(column.bits, [self.count])
        if np.all(kept >= self.aim) and hidden.min() > self.lower:
            self.lower, self.mixture = float(hidden.min()), column

    def _column(self, point: FlowPoint) -> _Column:
        values = self.agent.other_values(point.flows)
        slack = np.array([one.slack(value) for one, value in zip(self.targets, values.tolist(), strict=True)])
        return _Column(point, self._bits(point.outcome), slack)

    def _bits(self, outcome: Outcome) -> Float[np.ndarray, " J"]:
        """All bits, to those that are hidden the task added."""
        bits = self.agent.table.bits(outcome.joint)
        bits[: self.count] += outcome.bonus
        return bits

    def _inside(self) -> list[np.ndarray]:
        """The policy whose worst slack is largest, on the pairs; even odds where it never goes."""
        flows = zip(feasible_mixture(self.agent.problem).flows[:-1], self.agent.pairs.layers[:-1], strict=True)
        return self.agent.tables([flow.T[:, layer.x] for flow, layer in flows])

    def _mixed(self) -> "_Mixture":
        """The best mixture of the columns that meets everything, and the next prices and weights.

        Where no mixture keeps all bits, those of the two programs for that case, in turns (see above).
        """
        kept = self._program(0.0, 1.0, (None, None)) if len(self.kept) else None
        self._least_kept = 0.0 if kept is None else kept.spare
        if kept is not None and kept.spare < 0 and self.games % 2:
            return kept
        found = self._program(1.0, 0.0, (0.0, 0.0)) if self._least_kept >= 0 else None
        if found is None:  # none keeps them, or only on the edge of what can be kept
            self._penalty = min(_PENALTY_GROWTH * self._penalty, _LARGEST_PENALTY)
            found = self._program(1.0, self._penalty, (None, 0.0))
        assert found is not None
        return found

    def _program(
        self, for_hidden: float, for_kept: float, spare: tuple[float | None, float | None]
    ) -> "_Mixture | None":
        """The mixture that meets the constraints with the largest sum of the least of the hidden bits and the least of what is
        kept beyond its bound, each times a factor; None if there is none.

        **Arguments:** `spare`: between which numbers the second least may lie.
        """
        bits, slack = (np.stack([getattr(one, name) for one in self.columns]) for name in ("bits", "slack"))
        count, size = self.count, bits.shape[1]
        missed = np.maximum(0.0, -slack[0])  # by the first column, which meets the constraints, through rounding
        # Variables: the shares, and the two least ones; a row for each of the bits, then for each of the slacks.
        rows = np.hstack([-np.hstack([bits, slack]).T, np.zeros((size + slack.shape[1], 2))])
        rows[:count, -2] = rows[count:size, -1] = 1.0
        found = linprog(
            np.concatenate([np.zeros(len(bits)), [-for_hidden, -for_kept]]),
            A_ub=rows,
            b_ub=np.concatenate([np.zeros(count), -self.aim, missed]),
            A_eq=np.concatenate([np.ones(len(bits)), np.zeros(2)])[None],
            b_eq=[1.0],
            bounds=[(0, None)] * len(bits) + [(None, None), spare],
            method="highs",
            options=_TOLERANCES,
        )
        if found.x is None:
            return None
        shares, multipliers = np.maximum(found.x[:-2], 0.0), np.maximum(-found.ineqlin.marginals, 0.0)
        return _Mixture(shares / shares.sum(), multipliers[:size], multipliers[size:], float(found.x[-1]))

    def _moved_inside(self, column: _Column) -> _Column:
        """Mixed with the first column, which meets all constraints, until no slack is missing by rounding."""
        if not self.targets:
            return column
        inside, wanted = self.columns[0], self.threshold
        missing = self.kept_slack - column.slack
        short = list(zip(missing.tolist(), (inside.slack - column.slack).tolist(), strict=True))
        if wanted is not None:
            earned, safe = (one.point.outcome.expected_return for one in (column, inside))
            aim = wanted + max(
                _INSIDE * (self.agent.unit + abs(wanted)), _ROUNDINGS * return_rounding(self.agent.problem)
            )
            short.append((aim - earned, safe - earned))
        weight = max((missing / spare for missing, spare in short if 0 < missing < spare), default=0.0)
        return self._column(column.point.mixed(inside.point, min(1.0, 2 * weight))) if weight else column

    def answer(self) -> tuple[float, Tables, Outcome]:
        """What the best policy hides, its tables and its outcome; that of the last column if none meets everything."""
        tables = self.agent.tables((self.mixture or self.columns[-1]).point.flows)
        outcome = self.agent.outcome(tables)
        lower = float(self._bits(outcome)[: self.count].min())
        return lower if self.mixture or not len(self.kept) else -np.inf, tables, outcome
