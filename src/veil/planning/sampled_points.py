"""Values of single tables for a search on fresh samples: score, slacks, their gradients, and feasible mixtures.

Bits are estimated on sequences drawn for the purpose; expected sums of rewards are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock
from ..policy.tables import softmax_pull_back
from .options import SolveOptions
from .pair_terms import PairBits
from .sampled_values import BitsEstimate, SampleSecrecy
from .soft_starts import terminal_values
from .starts import LEAST_SHARE, logits
from .task import Sums, Task

R = TypeVar("R")

LOWEST = -40.0  # logits below the largest by this much are zero but for rounding
_SECANTS, _BEYOND = (
    3,
    0.03,
)  # so many that all fall short are followed by steps of this share of the rest, or longer ones
_MARGIN = 1e-9  # slack that a candidate keeps, so that sums in another order keep the threshold too


@dataclass(frozen=True, eq=False)
class Point:
    """What an evaluation found: bits and return, the score that is maximised, and the slacks."""

    bits: float
    returns: float
    score: float
    slack: Float[np.ndarray, " K"]


class SampledPoints:
    """Tables of one class as parameters of the rows that can be used, and what they are worth.

    **Arguments:** `task`, whose secrecy is sampled; `safe`, the table of largest return; `options`, of which it uses `seed`.
    """

    def __init__(self, task: Task, safe: Float[np.ndarray, "T C A"], options: SolveOptions):
        assert isinstance(task.secrecy, SampleSecrecy)
        self.task, self._secrecy, self._safe, self._options = task, task.secrecy, safe, options
        space, columns = task.space, [task.secrecy, *task.pairs.sampled]
        self._evaluated = [one for one in columns if one is not None]
        raised = [columns[number] for number in task.pairs.raised]
        self._raised = [one.space for one in raised if one is not None]
        hidden = [columns[one.column] for one in task.pairs.least] or [task.secrecy]
        self._most_bits = min(one.most_bits for one in hidden if one is not None)
        self._rows: Int[np.ndarray, " R"] = space.layers.rows(space.shape[0])
        self._open = space.available[self._rows % space.shape[1]]
        self._base = np.ascontiguousarray(safe)
        self._terminal = terminal_values(task)
        endless = space.problem.return_over == "infinite" and space.stationary
        self._has_one_return = len(task.starts) == 1 and not endless

    def _parameters(self, table: Float[np.ndarray, "T C A"], share: float = LEAST_SHARE) -> Float[np.ndarray, "R A"]:
        """Of a table mixed with a share of the uniform one."""
        return logits(self.task.space, table, share).reshape(-1, table.shape[2])[self._rows]

    def _table(self, theta: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "T C A"]:
        """The table of parameters; rows that cannot be used are those of the safe table."""
        weights = np.where(self._open, np.exp(theta - theta.max(axis=1, keepdims=True)), 0.0)
        table = self._base.copy()
        table.reshape(-1, table.shape[2])[self._rows] = weights / weights.sum(axis=1, keepdims=True)
        return table

    def _pull_back(self, theta: np.ndarray, table: np.ndarray, slope: Float[np.ndarray, "R A"]) -> np.ndarray:
        """The gradient with respect to parameters from the one with respect to the rows of their table."""
        return softmax_pull_back(self._used(table), slope)

    def _bounded(self, theta: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "R A"]:
        """Parameters of the same table, none so small that it could not grow again."""
        return np.maximum(theta - theta.max(axis=1, keepdims=True), LOWEST)

    def _evaluate(self, table: np.ndarray, sequences: int, seed: int) -> tuple[Point, np.ndarray, np.ndarray]:
        """A point, with the gradients of its score and of its slacks in the rows that can be used."""
        task = self.task
        columns = self._columns(lambda one: one.fresh(table, sequences, seed, task.clock))
        estimates, slopes = [one for one, _ in columns], [self._used(slope)[None] for _, slope in columns]
        returns, slack, slack_slope = self._constraints(table)
        beside = self._beside(table)
        more, more_slope = beside.slack[0], self._used_each(beside.slack_slope[0])
        earned, earned_slope = beside.earned[0], self._used(beside.earned_slope[0]) if task.terms else np.zeros(())
        pairs = self._pair_bits(estimates, slopes, 1.0)
        hidden, hidden_slope = np.array(estimates[0].bits), slopes[0][0]
        if task.pairs.least:
            hidden, hidden_slope = pairs.least[0], pairs.least_slope[0]
        earned, earned_slope = earned + pairs.earned[0], earned_slope + pairs.earned_slope[0]
        score = task.score(hidden, np.array(returns), earned)
        return_slope = slack_slope[0] * task.unit if task.is_return_maximised else np.zeros(0)
        score_slope = task.score(hidden_slope, return_slope, earned_slope)
        if task.is_return_maximised:
            slack, slack_slope = slack[:0], slack_slope[:0]
        kept, kept_slope = np.zeros(0), slopes[0][:0]
        if task.min_opacity is not None:
            kept, kept_slope = np.array([estimates[0].bits - estimates[0].std_error - task.bits_kept]), slopes[0]
        point = Point(estimates[0].bits, returns, float(score), np.concatenate([pairs.slack[0], kept, slack, more]))
        return point, score_slope, np.concatenate([pairs.slack_slope[0], kept_slope, slack_slope, more_slope])

    def _columns(self, ask: Callable[[SampleSecrecy], R]) -> list[R]:
        """What each pair is found to hide, the problem's own first; its own again where a pair does not count."""
        own = ask(self._secrecy)
        return [own, *(own if one is None else ask(one) for one in self.task.pairs.sampled)]

    def _pair_bits(self, estimates: list[BitsEstimate], slopes: list[np.ndarray], errors: float) -> PairBits:
        """What the pairs add to a point; their bounds are kept by so many standard errors."""
        bits = [np.array([one.bits]) for one in estimates]
        return self.task.pairs.joined(bits, slopes, [errors * one.std_error for one in estimates])

    def _used(self, slope: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "R A"]:
        return slope.reshape(-1, slope.shape[2])[self._rows]

    def _beside(self, table: np.ndarray) -> Sums:
        """The slacks of the bounds beside the threshold, and the sum of the terms."""
        return self.task.beside(table[None])

    def _used_each(self, slopes: Float[np.ndarray, "F T C A"]) -> Float[np.ndarray, "F R A"]:
        *shape, actions = slopes.shape
        return slopes.reshape(shape[0], shape[1] * shape[2], actions)[:, self._rows]

    def _constraints(self, table: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The return, its slacks and their gradients; where it is maximised its own, scaled, instead."""
        task, space = self.task, self.task.space
        if not self._has_one_return:
            found = replace(task, others=(), terms=()).sums(table[None])
            slopes = found.return_slope / task.unit if task.is_return_maximised else found.slack_slope[0]
            return float(found.returns[0]), found.slack[0], self._used_each(slopes)
        value, slope, _ = space.layers.returns(table, self._terminal)
        if task.num_returns == 0 and not task.is_return_maximised:
            return value, np.zeros(0), np.zeros((0, len(self._rows), table.shape[2]))
        wanted = task.aim if task.threshold is not None else 0.0
        return value, np.array([(value - wanted) / task.unit]), self._used(slope)[None] / task.unit

    def _returns(self, table: np.ndarray) -> tuple[float, np.ndarray]:
        """The return, and the slacks of all constraints but that on the bits."""
        task, layers = self.task, self.task.space.layers
        more = self._beside(table).slack[0] if task.others else np.zeros(0)
        if not self._has_one_return:
            returns, slack, _ = self._constraints(table)
            return returns, np.concatenate([slack, more])
        value = layers.value(table, self._terminal)
        if task.num_returns == 0:
            return value, more
        return value, np.concatenate([[(value - task.aim) / task.unit], more])

    def _checking_clock(self) -> Clock:
        """What limits the estimate of a candidate."""
        return self.task.clock

    def _score(self, table: np.ndarray, sequences: int) -> float:
        """What an answer is worth, on draws that are the same for all of them; -inf where it is not feasible."""
        task = self.task
        returns, slack = self._returns(table)
        if np.any(slack < 0):
            return -np.inf
        seed, clock = self._options.seed + 1, self._checking_clock()
        estimates = self._columns(lambda one: one.estimate(table, sequences, seed, clock))
        bits = estimates[0]
        if task.min_opacity is not None and bits.bits - 2 * bits.std_error < task.bits_kept:
            return -np.inf
        pairs = self._pair_bits(estimates, [np.zeros((1, 0))] * len(estimates), 2.0)
        if np.any(pairs.slack < 0):
            return -np.inf
        earned = task.beside_values(table[None])[1][0] + pairs.earned[0]
        hidden = pairs.least[0] if task.pairs.least else np.array(bits.bits)
        return float(task.score(hidden, np.array(returns), earned))

    def _steeper(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "T C A"]:
        """The table with the action in each row that raises the slacks below 0 fastest, in total, instead."""
        _, slack, slope = self._constraints(table)
        beside = self._beside(table)
        short = np.concatenate([slack, beside.slack[0]]) < 0
        total = np.concatenate([slope, self._used_each(beside.slack_slope[0])])[short].sum(axis=0)
        total = np.where(self._open, total, -np.inf)
        best = np.eye(total.shape[1])[total.argmax(axis=1)]
        used = np.ptp(np.where(self._open, total, total.max(axis=1, keepdims=True)), axis=1) > 0
        result = table.copy()
        flat = result.reshape(-1, table.shape[2])
        flat[self._rows[used]] = best[used]
        return result

    def _mended(
        self, table: Float[np.ndarray, "T C A"], towards: Float[np.ndarray, "T C A"] | None = None
    ) -> Float[np.ndarray, "T C A"]:
        """The table with about the least share of the safe one, or of another, that makes its return suffice.

        It is found by a few secants; where these fall short, as they do where the return curves upward, by longer steps. It is
        the safe one where no share of the other suffices.
        """
        if self.task.min_opacity is not None or self.task.num_constraints == self.task.num_kept:
            return table
        other = self._safe if towards is None else towards

        def slack(share: float) -> float:
            self._checking_clock().check()
            return float(self._returns((1 - share) * table + share * other)[1].min()) - _MARGIN

        low, at_low, high, at_high = 0.0, slack(0.0), 1.0, slack(1.0)
        if at_low >= 0 or at_high < 0:
            return table if at_low >= 0 else self._safe
        for number in range(6):
            part = 1.05 * at_low / (at_low - at_high)
            if number >= _SECANTS and high == 1.0:
                part = max(2 * part, _BEYOND)
            share = low + min(0.95, part) * (high - low)
            found = slack(share)
            if found >= 0:
                high, at_high = share, found
            else:
                low, at_low = share, found
            if high - low < 1e-3:
                break
        return (1 - high) * table + high * other
