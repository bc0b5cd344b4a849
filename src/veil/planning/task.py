"""What a search maximises and must keep, for many tables at once: score, constraints, and their slopes.

Where the least of what several pairs hide is maximised, `max min_j H_j = max t` under `H_j ≥ t`, the score is that least, its
slope is left to the multipliers of those constraints, which are weights that sum to one, and their slacks are `H_j − min H`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.errors import InputError
from ..common.workers import ALONE, Team
from ..engine.additive import expected_sums, sums_and_gradients
from ..engine.feasibility import Target, other_targets, quantity_range
from ..engine.return_range import return_extremes, threshold
from ..problem.return_rounding import return_rounding
from .options import Objective
from .pair_terms import SUMMED_BITS, PairTask, no_pairs
from .policy_class import Space
from .values import Secrecy, evaluated, make_secrecy

Tables = Float[np.ndarray, "B T C A"]


@dataclass(frozen=True, eq=False)
class Values:
    """One evaluation of B tables. A table is feasible where all of its K slacks are 0 or more.

    `score` is maximised; slacks are in units of the range of the constrained quantity, so that multipliers of different
    problems are of one size. `secrecy` and `returns` are the two quantities in their own units. The multipliers of the first
    `num_least` slacks are weights that sum to one.
    """

    score: Float[np.ndarray, " B"]
    score_slope: Tables
    slack: Float[np.ndarray, "B K"]
    slack_slope: Float[np.ndarray, "B K T C A"]
    secrecy: Float[np.ndarray, " B"]
    returns: Float[np.ndarray, " B"]
    num_least: int = 0

    def pulls(self, multiplier: Float[np.ndarray, "B K"], penalty: float) -> Float[np.ndarray, "B K"]:
        """The multipliers that the augmented Lagrangian takes over: `max(0, μ − ρ s)`, or the weights nearest to `μ − ρ s`."""
        return possible_multipliers(multiplier - penalty * self.slack, self.num_least)

    def merit(self, multiplier: Float[np.ndarray, "B K"], penalty: float) -> Float[np.ndarray, " B"]:
        """The augmented Lagrangian: `score + min_p Σ_k p_k s_k + (p_k − μ_k)² / 2ρ` over possible multipliers p."""
        pull, count = self.pulls(multiplier, penalty), self.num_least
        found = self.score - np.sum((pull**2 - multiplier**2)[:, count:], axis=1) / (2 * penalty)
        if count:
            moved = (pull - multiplier)[:, :count]
            found = found + np.sum(pull[:, :count] * self.slack[:, :count] + moved**2 / (2 * penalty), axis=1)
        return found

    @property
    def feasible(self) -> np.ndarray:
        """Which tables meet every constraint, `(B,)`; no tolerance."""
        return np.all(self.slack >= 0, axis=1)

    def as_good(self, tolerance: float = 0.0) -> Int[np.ndarray, " n"]:
        """The tables that are as good as the best, but for `tolerance`.

        Feasible tables come first and are compared by score; without any, tables are compared by their worst slack.
        """
        feasible = np.flatnonzero(self.feasible)
        if len(feasible):
            return feasible[self.score[feasible] >= self.score[feasible].max() - tolerance]
        worst = self.slack.min(axis=1)
        return np.flatnonzero(worst >= worst.max() - tolerance)

    @property
    def best(self) -> int:
        """The first of the best tables."""
        return int(self.as_good()[0])

    def part(self, chosen: np.ndarray) -> "Values":
        """Some of the tables."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in _ARRAYS})

    @staticmethod
    def joined(parts: "list[Values]") -> "Values":
        """Of all the tables of several evaluations."""
        return replace(parts[0], **{n: np.concatenate([getattr(part, n) for part in parts]) for n in _ARRAYS})


_ARRAYS = ("score", "score_slope", "slack", "slack_slope", "secrecy", "returns")


@dataclass(frozen=True, eq=False)
class Sums:
    """Expected sums of rewards of B tables, with their slopes: returns, slacks of K bounds, and the sum of a task's terms."""

    returns: Float[np.ndarray, " B"]
    return_slope: Tables
    slack: Float[np.ndarray, "B K"]
    slack_slope: Float[np.ndarray, "B K T C A"]
    earned: Float[np.ndarray, " B"]
    earned_slope: Tables


def _columns(parts: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Arrays of a shape `(B, …)` side by side, `(B, K, …)`, also if there are none."""
    return np.stack(parts, axis=1) if parts else np.zeros((shape[0], 0, *shape[1:]))


def possible_multipliers(moved: Float[np.ndarray, "B K"], num_least: int) -> Float[np.ndarray, "B K"]:
    """The nearest possible multipliers: 0 or more, the first `num_least` weights that sum to one."""
    found = np.maximum(0.0, moved)
    if num_least:
        found[:, :num_least] = nearest_weights(moved[:, :num_least])
    return found


def nearest_weights(points: Float[np.ndarray, "B n"]) -> Float[np.ndarray, "B n"]:
    """The nearest point of the simplex, `w ≥ 0` and `Σ w = 1`, to each point: `max(0, x − t)` with t by sorting."""
    falling = -np.sort(-points, axis=1)
    shift = (np.cumsum(falling, axis=1) - 1) / np.arange(1, points.shape[1] + 1)
    last = np.sum(falling > shift, axis=1) - 1
    return np.maximum(0.0, points - shift[np.arange(len(points)), last][:, None])


@dataclass(frozen=True, eq=False)
class Task:
    """Maximise the secrecy (or minimise it, or maximise the return) of the tables of one class under constraints.

    **Attributes:** `sign`: +1 to hide, −1 to show (`goal="transparent"`); `threshold`, δ or None; `aim`: the evaluated
    return at which slacks are 0: δ and the bound on rounding errors, or the largest return known for the class where
    that is less; `starts`, `(K, N)`: the distributions from which the return must reach δ, one of them unless each start
    state has a constraint of its own; `min_opacity`: where given, the return is maximised and the secrecy kept at this many
    bits; `unit`: the range of returns, by which slacks are scaled; `rounding`: a bound on the
    rounding errors of a return; `is_free`: every policy earns δ, which is then no
    constraint; `others`: the bounds beside the threshold, whose slacks come after its own; `terms`: factors of
    quantities, by their numbers, whose sum is maximised too, or, if bits are kept, in place of the return; `pairs`: those
    beside the problem's own, their bounds, what they add to the score, and which of them the least is maximised of; `clock`:
    checked by every evaluation; `closing_seconds`: what making the last table feasible may take after that; `team`: who
    shares evaluations.
    """

    space: Space
    secrecy: Secrecy
    sign: float
    threshold: float | None
    aim: float
    starts: Float[np.ndarray, "K N"]
    min_opacity: float | None
    unit: float
    rounding: float = 0.0
    is_free: bool = False
    others: tuple[Target, ...] = ()
    terms: tuple[tuple[float, int], ...] = ()
    pairs: PairTask = field(default_factory=no_pairs)
    clock: Clock = UNLIMITED
    closing_seconds: float = np.inf
    team: Team = ALONE
    _last: list[tuple[Tables, Values]] = field(default_factory=list, init=False, repr=False)

    @property
    def num_constraints(self) -> int:
        """K."""
        return self.num_first + len(self.others)

    @property
    def num_first(self) -> int:
        """How many constraints there are on bits and on the return."""
        return self.num_kept + self.num_returns

    @property
    def num_kept(self) -> int:
        """How many constraints there are on bits: the first slacks are theirs, those of the least first of all."""
        return (self.min_opacity is not None) + self.pairs.num_slacks

    @property
    def num_returns(self) -> int:
        """How many constraints there are on the return."""
        return 0 if self.threshold is None or self.is_free else len(self.starts)

    @property
    def is_return_maximised(self) -> bool:
        """Whether bits are kept, and the return is what is maximised."""
        return self.min_opacity is not None and not self.has_terms

    @property
    def has_terms(self) -> bool:
        """Whether a sum of quantities is maximised too."""
        return bool(self.terms or self.pairs.terms)

    @property
    def units(self) -> Float[np.ndarray, " K"]:
        """By what each slack was divided."""
        others = [one.unit for one in self.others]
        return np.array([1.0] * self.num_kept + [self.unit] * self.num_returns + others)

    def price(self, multiplier: Float[np.ndarray, " K"]) -> float:
        """The multiplier of the return in bits for one unit of it, the largest where there are several.

        Where bits are kept it is in units of the task; that of the bits, where the return has no bound.
        """
        if self.min_opacity is not None and not self.num_returns:
            return float(multiplier[self.num_kept - 1]) * self.score_unit
        return float(multiplier[self.num_kept : self.num_first].max(initial=0.0)) * (self.score_unit / self.unit)

    def prices(self, multiplier: Float[np.ndarray, " K"]) -> list[float]:
        """The multipliers of all bounds of the problem in bits for one unit of each; in units of the task if bits are kept."""
        first = [] if self.space.problem.min_return is None else [self.price(multiplier)]
        found = zip(multiplier[self.num_first :].tolist(), self.others, strict=True)
        return first + [self.score_unit * one / target.unit for one, target in found]

    def pair_prices(self, multiplier: Float[np.ndarray, " K"]) -> list[float]:
        """The multipliers of the bounds of pairs, in the order of the bounds; bits for one more bit of each."""
        begin = len(self.pairs.least)
        return [self.score_unit * one for one in multiplier[begin : self.pairs.num_slacks].tolist()]

    @property
    def score_unit(self) -> float:
        """By which what is maximised is divided: 1 for bits, else about the range of the task."""
        problem = self.space.problem
        spread = sum(abs(factor) * quantity_range(problem, number).unit for factor, number in self.terms)
        spread += self.pairs.spread
        return max(1.0, spread) if self.min_opacity is None else spread or self.unit

    def evaluate(self, tables: Tables) -> Values:
        """Score, slacks and slopes of each table; those of a single table are kept until another one is evaluated."""
        if len(tables) != 1:
            return self._evaluate(tables)
        if not (self._last and np.array_equal(self._last[0][0], tables)):
            self._last[:] = [(tables.copy(), self._evaluate(tables))]
        return self._last[0][1]

    def _evaluate(self, tables: Tables) -> Values:
        secrecy, slope = evaluated(self.secrecy, tables, self.clock, self.team)
        sums = self.sums(tables)
        slack, slack_slope, earned, earned_slope = sums.slack, sums.slack_slope, sums.earned, sums.earned_slope
        hidden, hidden_slope = secrecy, slope
        if self.min_opacity is not None:
            slack = np.concatenate([(secrecy - self.bits_kept)[:, None], slack], axis=1)
            slack_slope = np.concatenate([slope[:, None], slack_slope], axis=1)
        if self.pairs:
            bits = self.pairs.evaluate(secrecy, slope, tables, self.clock, self.team)
            earned, earned_slope = earned + bits.earned, earned_slope + bits.earned_slope
            hidden, hidden_slope = (bits.least, bits.least_slope) if self.pairs.least else (secrecy, slope)
            slack = np.concatenate([bits.slack, slack], axis=1)
            slack_slope = np.concatenate([bits.slack_slope, slack_slope], axis=1)
        score = self.score(hidden, sums.returns, earned)
        score_slope = self.score(hidden_slope, sums.return_slope, earned_slope)
        return Values(score, score_slope, slack, slack_slope, secrecy, sums.returns, len(self.pairs.least))

    def score(self, secrecy: np.ndarray, returns: np.ndarray, earned: np.ndarray) -> np.ndarray:
        """What is maximised, from the secrecy, the return and the sum of the terms; of their slopes, its slope."""
        if self.min_opacity is not None:
            return (returns if self.is_return_maximised else earned) / self.score_unit
        return (self.sign * secrecy + earned if self.has_terms else self.sign * secrecy) / self.score_unit

    @cached_property
    def _numbers(self) -> tuple[int, ...]:
        """The quantities that the bounds beside the threshold and the terms are about."""
        return tuple(sorted({one.quantity for one in self.others} | {number for _, number in self.terms}))

    def sums(self, tables: Tables) -> "Sums":
        """The returns, the slacks of the bounds on quantities, that on the return first, and the sum of the terms."""
        values, slopes = self._with_slopes((0, *self._numbers), tables)
        slack, slack_slope = self._slacks(tables, values[0], slopes[0])
        more = self._beside(values, slopes, tables)
        return replace(
            more,
            slack=np.concatenate([slack, more.slack], axis=1),
            slack_slope=np.concatenate([slack_slope, more.slack_slope], axis=1),
        )

    def beside(self, tables: Tables) -> "Sums":
        """The same without the return: the slacks of the bounds beside the threshold, and the sum of the terms."""
        return self._beside(*self._with_slopes(self._numbers, tables), tables)

    def beside_values(self, tables: Tables) -> tuple[Float[np.ndarray, "B F"], Float[np.ndarray, " B"]]:
        """Slacks and sum of `beside` alone."""
        space, numbers = self.space, self._numbers
        paid = [space.hidden.paid[number] for number in numbers]
        found = expected_sums(space.hidden, tables, paid, stationary=space.stationary)
        values = dict(zip(numbers, found, strict=True))
        slack = [one.sign / one.unit * (values[one.quantity] - one.bound) for one in self.others]
        return _columns(slack, (len(tables),)), self._weighted(values, (len(tables),))

    def _with_slopes(
        self, numbers: Sequence[int], tables: Tables
    ) -> tuple[dict[int, Float[np.ndarray, " B"]], dict[int, Tables]]:
        """The values of quantities and their slopes, by the numbers of the quantities."""
        space, wanted = self.space, sorted(set(numbers))
        paid = [space.hidden.paid[number] for number in wanted]
        if not paid:
            return {}, {}
        values, slopes = sums_and_gradients(space.hidden, tables, paid, stationary=space.stationary)
        return dict(zip(wanted, values, strict=True)), dict(zip(wanted, slopes, strict=True))

    def _beside(self, values: dict[int, np.ndarray], slopes: dict[int, np.ndarray], tables: Tables) -> "Sums":
        empty, scales = np.zeros(0), [one.sign / one.unit for one in self.others]
        slack = [scale * (values[one.quantity] - one.bound) for scale, one in zip(scales, self.others, strict=True)]
        slack_slope = [scale * slopes[one.quantity] for scale, one in zip(scales, self.others, strict=True)]
        return Sums(
            values.get(0, empty),
            slopes.get(0, empty),
            _columns(slack, (len(tables),)),
            _columns(slack_slope, tables.shape),
            self._weighted(values, (len(tables),)),
            self._weighted(slopes, tables.shape),
        )

    def _weighted(self, by_quantity: dict[int, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
        """The sum of the terms, from values or slopes of the quantities."""
        return sum((factor * by_quantity[number] for factor, number in self.terms), np.zeros(shape))

    @property
    def cost_seconds(self) -> float:
        """The forecast of one evaluation."""
        return self.secrecy.cost_seconds + self.pairs.cost_seconds

    @property
    def bits_kept(self) -> float:
        """Bits that a table must hide here so that it hides `min_opacity` however its sequences are summed."""
        assert self.min_opacity is not None
        if self.min_opacity == 0:
            return -np.inf if self.secrecy.kind == "exact" else 0.0  # a sum of nothing may round below 0
        return self.min_opacity + (SUMMED_BITS if self.secrecy.kind == "exact" else 0.0)

    def returns_by_start(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, " K"]:
        """The return of one table from each of the distributions from which it is constrained."""
        tables, space = np.repeat(table[None], len(self.starts), axis=0), self.space
        paid = space.hidden.paid[:1]
        return expected_sums(space.hidden, tables, paid, stationary=space.stationary, starts=self.starts)[0]

    def slacks(self, tables: Tables) -> Float[np.ndarray, "B K"]:
        """The slacks alone, without the secrecy where it is not constrained."""
        if self.num_kept:
            return self.evaluate(tables).slack
        if self.num_returns > 1:
            return self.sums(tables).slack
        more = self.beside_values(tables)[0]
        if not self.num_returns:
            return more
        space = self.space
        values = expected_sums(space.hidden, tables, space.hidden.paid[:1], stationary=space.stationary)[0]
        return np.concatenate([(values[:, None] - self.aim) / self.unit, more], axis=1)

    def _slacks(self, tables: Tables, returns: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.threshold is None or self.is_free:
            return np.zeros((len(tables), 0)), np.zeros((len(tables), 0, *self.space.shape))
        if len(self.starts) == 1:
            return (returns[:, None] - self.aim) / self.unit, slope[:, None] / self.unit
        space, count = self.space, len(self.starts)
        values, slopes = sums_and_gradients(
            space.hidden,
            np.repeat(tables, count, axis=0),
            space.hidden.paid[:1],
            stationary=space.stationary,
            starts=np.tile(self.starts, (len(tables), 1)),
        )
        values, slopes = values.reshape(-1, count), slopes.reshape(len(tables), count, *space.shape)
        return (values - self.aim) / self.unit, slopes / self.unit


def make_task(
    space: Space,
    *,
    goal: str = "opaque",
    objective: Objective = "entropy",
    per_start: bool = False,
    min_opacity: float | None = None,
    terms: tuple[tuple[float, int], ...] = (),
    secrecy: Secrecy | None = None,
    pairs: PairTask | None = None,
    team: Team = ALONE,
) -> Task:
    """The task of a problem for one class of policies."""
    problem, hidden = space.problem, space.hidden
    if min_opacity is not None and (goal != "opaque" or objective != "entropy"):
        raise InputError(
            "min_opacity", ["it constrains the entropy from below: use goal='opaque' and objective='entropy'"]
        )
    extremes, rounding = return_extremes(problem), return_rounding(problem)
    spread = extremes.largest - extremes.smallest
    has_terms = bool(terms or (pairs is not None and pairs.terms))
    wanted = threshold(problem) if min_opacity is None or has_terms else None
    return Task(
        space=space,
        secrecy=secrecy or make_secrecy(space, objective),
        sign=-1.0 if goal == "transparent" else 1.0,
        threshold=wanted,
        aim=-np.inf if wanted is None else wanted + rounding,
        starts=start_points(hidden.start, hidden.state) if per_start else hidden.start[None],
        min_opacity=min_opacity,
        unit=spread if spread > rounding else 1.0,
        rounding=rounding,
        is_free=wanted is not None and not per_start and wanted <= extremes.smallest - rounding,
        others=tuple(_aimed(one, return_rounding(problem, one.quantity)) for one in other_targets(problem)),
        terms=terms,
        pairs=no_pairs() if pairs is None else pairs,
        team=team,
    )


def _aimed(target: Target, rounding: float) -> Target:
    """The constraint that a search keeps: inside the bound by what rounding may move its value, where policies reach that."""
    edge, other = target.range.largest, target.range.smallest
    edge, other = (edge, other) if target.sign > 0 else (other, edge)
    if target.sign * other >= target.sign * target.bound:  # every policy meets it
        return target
    inside = min(target.sign * target.bound + rounding, target.sign * edge)
    return replace(target, bound=target.sign * max(target.sign * target.bound, inside))


def start_points(start: np.ndarray, state: np.ndarray) -> Float[np.ndarray, "K N"]:
    """For each start state of the model, how the hidden chain begins when it is the start."""
    possible = np.unique(state[start > 0])
    rows = np.stack([np.where(state == one, start, 0.0) for one in possible])
    return rows / rows.sum(axis=1, keepdims=True)
