"""What a search maximises and must keep, for many tables at once: score, slacks of the bounds, and their gradients.

The score is a weighted sum of bits of channels and of quantities. Where the least of what several channels hide is maximised,
`max min_j H_j = max t` under `H_j ≥ t`, the score is that least, its gradient is left to the multipliers of those bounds, which
are weights that sum to one, and their slacks are `H_j − min H`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock
from ..common.workers import ALONE, Team
from ..engine.feasibility import Target, other_targets, quantity_range
from ..engine.return_range import return_extremes, threshold
from ..problem.return_rounding import return_rounding
from ..problem.terms import terms_of
from .backend import LEAST_SECONDS, Backend, Draw, Estimate, Tables, array_module, evaluated, summed
from .options import SolveOptions
from .policy_class import Space, Table
from .values import Values

# A tree summed in another order differs by less than this; who must keep some bits keeps as many more.
SUMMED_BITS = 2e-12
_NOTHING, _PLAIN = summed(()), SolveOptions()
ESTIMATED, CERTAIN = 1.0, 2.0
"""Standard errors by which sampled bounds on bits are kept: along the way, and of a table that may be the answer: one miss in
six and in fifty."""


@dataclass(frozen=True)
class Wanted:
    """`sign · (H − bits)` of the channel in a column: 0 or more where it is a bound."""

    column: int
    sign: float
    bits: float


@dataclass(frozen=True, eq=False)
class Channels:
    """What is asked of the bits of channels, each of which is a column: 0 is the problem's own, the others follow.

    **Attributes:** `backends`: how the columns are evaluated, None where a column does not count; `bounds` on columns; `terms`:
    factors of columns, whose sum is maximised too; `least`: the columns whose least is maximised in place of the first one.
    """

    backends: tuple[Backend | None, ...]
    bounds: tuple[Wanted, ...] = ()
    terms: tuple[tuple[float, int], ...] = ()
    least: tuple[Wanted, ...] = ()

    @property
    def wanted(self) -> tuple[Wanted, ...]:
        """Those of which each has a slack."""
        return self.least + self.bounds

    @property
    def used(self) -> list[Backend]:
        """The backends that are evaluated."""
        return [one for one in self.backends if one is not None]

    @property
    def raised(self) -> tuple[int, ...]:
        """The columns of which more bits are wanted, the first where there is none: what starts hide."""
        more = [one.column for one in self.wanted if one.sign > 0]
        more += [column for factor, column in self.terms if factor > 0]
        return tuple(dict.fromkeys(more if self.least and more else [0, *more]))

    @property
    def has_friends(self) -> bool:
        """Whether fewer bits of some column are wanted."""
        return any(one.sign < 0 for one in self.wanted) or any(factor < 0 for factor, _ in self.terms)


@dataclass(frozen=True, eq=False)
class Objective:
    """Maximise a sum of bits and quantities of the tables of one class under bounds on both.

    **Attributes:** `channels`; `weight` of the bits: +1 to hide, −1 to show (`goal="transparent"`), 0 where a task alone is
    maximised under `min_opacity`; `terms`: factors of quantities, by their numbers, whose sum is maximised too; `threshold`: δ
    or None; `aim`: the evaluated return that is kept, inside of δ by rounding errors; `starts`: the distributions from which
    the return is bounded, each a bound of its own; `unit`: the range of returns, by which slacks are scaled; `rounding`: a
    bound on the rounding errors of a return; `is_free`: every policy earns δ, which is then no bound; `min_opacity`: bits of
    the own channel that are kept; `others`: the bounds on quantities beside the threshold, whose slacks come last; `clock`:
    checked by every evaluation; `closing_seconds`: what making the last table feasible may take after that; `team`: who
    shares evaluations.
    """

    space: Space
    channels: Channels
    weight: float
    terms: tuple[tuple[float, int], ...]
    threshold: float | None
    aim: float
    starts: Float[np.ndarray, "K N"]
    unit: float
    rounding: float = 0.0
    is_free: bool = False
    min_opacity: float | None = None
    others: tuple[Target, ...] = ()
    clock: Clock = UNLIMITED
    closing_seconds: float = np.inf
    team: Team = ALONE
    _last: list[tuple[Tables, Values]] = field(default_factory=list, init=False, repr=False)

    # How many bounds of which kind, in the order of the slacks: the least, bits of channels, the return, other quantities.

    @property
    def num_bits(self) -> int:
        """How many slacks are of bits: those of the least first of all."""
        return len(self.channels.wanted)

    @property
    def num_returns(self) -> int:
        """How many bounds there are on the return."""
        return 0 if self.threshold is None or self.is_free else len(self.starts)

    @property
    def num_first(self) -> int:
        """How many bounds there are on bits and on the return."""
        return self.num_bits + self.num_returns

    @property
    def num_constraints(self) -> int:
        """K."""
        return self.num_first + len(self.others)

    @property
    def backend(self) -> Backend:
        """That of the own channel; of any that counts where the own one does not."""
        return next(iter(self.channels.used), _NOTHING)

    @property
    def kind(self) -> str:
        """How bits are evaluated: `"exact"`, `"bracket"` or `"sampled"`; exactly where none count."""
        return next((one.kind for one in self.channels.used), "exact")

    @property
    def is_sampled(self) -> bool:
        """Whether bits are estimates from samples."""
        return bool(self.sampled)

    @property
    def sampled(self) -> list[Space]:
        """The classes of policies under which sequences are drawn, one for each channel that counts."""
        return [space for one in self.channels.used for space in one.drawn]

    @property
    def is_noisy(self) -> np.ndarray:
        """Which slacks are estimates, `(K,)`."""
        return (np.arange(self.num_constraints) < self.num_bits) & self.is_sampled

    @property
    def cost_seconds(self) -> float:
        """The forecast of one evaluation."""
        return max(LEAST_SECONDS, sum(one.cost_seconds for one in self.channels.used))

    @property
    def has_terms(self) -> bool:
        """Whether a sum of quantities or of bits of channels is maximised too."""
        return bool(self.terms or self.channels.terms)

    @property
    def is_of_bits(self) -> bool:
        """Whether what is maximised is the bits of the own channel, or minus them, and nothing else."""
        return bool(self.weight) and not self.has_terms and not self.channels.least

    @property
    def most_score(self) -> float:
        """What is maximised is no larger."""
        columns = [one.column for one in self.channels.least] or [0]
        hidden = [one for one in (self.channels.backends[column] for column in columns) if one is not None]
        if self.has_terms or not self.weight:
            return np.inf
        return min((max(self.weight * end for end in one.ends) for one in hidden), default=np.inf)

    @property
    def units(self) -> Float[np.ndarray, " K"]:
        """By what each slack was divided."""
        others = [one.unit for one in self.others]
        return np.array([1.0] * self.num_bits + [self.unit] * self.num_returns + others)

    @cached_property
    def score_unit(self) -> float:
        """By which what is maximised is divided: 1 for bits, else about the range of the task."""
        problem = self.space.problem
        spread = sum(abs(factor) * quantity_range(problem, number).unit for factor, number in self.terms)
        spread += sum(abs(factor) for factor, _ in self.channels.terms)
        return max(1.0, spread) if self.min_opacity is None else spread or self.unit

    def _priced(self, multiplier: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
        """Multipliers in bits for one unit of what each bounds; in units of the task if bits are kept."""
        return self.score_unit * multiplier / self.units

    def price(self, multiplier: Float[np.ndarray, " K"]) -> float:
        """That of the return, the largest where there are several; that of the bits that are kept where it has no bound."""
        if self.min_opacity is not None and not self.num_returns:
            return float(self._priced(multiplier)[self.num_bits - 1])
        return float(self._priced(multiplier)[self.num_bits : self.num_first].max(initial=0.0))

    def prices(self, multiplier: Float[np.ndarray, " K"]) -> dict[str, Any]:
        """What an answer tells: the price of the return, those of bounds on quantities, and of bounds on further channels."""
        price, priced = self.price(multiplier), self._priced(multiplier).tolist()
        first = [] if self.space.problem.min_return is None else [price]
        pairs = priced[len(self.channels.least) : self.num_bits - (self.min_opacity is not None)]
        return {"price_bits": price, "prices": (*first, *priced[self.num_first :]), "pair_prices": tuple(pairs)}

    def inward(self) -> "Objective":
        """The objective that maximises the least slack of all bounds on bits, to find a table that keeps them."""
        channels = replace(self.channels, bounds=(), terms=(), least=self.channels.bounds)
        return replace(self, channels=channels, weight=1.0, terms=(), min_opacity=None)

    # Evaluations.

    def evaluate(
        self, tables: Tables, draw: Draw | None = None, *, gradient: bool = True, errors: float = ESTIMATED
    ) -> Values:
        """Score, slacks and gradients of each table; exact ones of a single table are kept until another one is evaluated.

        **Arguments:** `draw`: of the sequences of samples; `errors`: standard errors by which sampled bounds are kept.
        """
        is_kept = len(tables) == 1 and gradient and not self.is_sampled
        if is_kept and self._last and np.array_equal(self._last[0][0], tables):
            return self._last[0][1]
        columns = [
            None if one is None else evaluated(one, tables, self.clock, self.team, draw, gradient=gradient)
            for one in self.channels.backends
        ]
        found = self.values_of(tables, columns, gradient=gradient, errors=errors)
        if is_kept:
            self._last[:] = [(tables.copy(), found)]
        return found

    def best_of(self, tables: Sequence[Any]) -> tuple[Any, float]:
        """The best feasible table and its score; where none is feasible, the nearest to it and -inf."""
        values = self.evaluate(np.stack(tables))
        chosen = values.best
        return tables[chosen], float(values.score[chosen]) if values.feasible[chosen] else -np.inf

    def sums(self, tables: Tables, *, gradient: bool = True) -> Values:
        """The same without any bits: slacks of the bounds on quantities alone, and the sum of the terms as the score."""
        none = (None,) * len(self.channels.backends)
        return replace(self, channels=Channels(none), weight=0.0).values_of(tables, none, gradient=gradient)

    def slacks(self, tables: Tables) -> Float[np.ndarray, "B K"]:
        """The slacks alone, without bits where they have no bound."""
        if self.num_bits:
            return self.evaluate(tables).slack
        return self.sums(tables, gradient=False).slack

    def returns_by_start(self, table: Table) -> Float[np.ndarray, " K"]:
        """The return of one table from each of the distributions from which it is bounded."""
        starts = None if len(self.starts) == 1 else self.starts
        return self.space.sums(np.repeat(table[None], len(self.starts), axis=0), (0,), starts=starts)[0]

    def values_of(
        self, tables: Tables, columns: Sequence[Estimate | None], *, gradient: bool = False, errors: float = 0.0
    ) -> Values:
        """Score and slacks, both linear in the values of quantities and in those of channels, which `columns` are."""
        bits: Any = columns  # those that count are there
        sums, num_least = self._sums(tables, gradient), len(self.channels.least)
        rows = [(bits[one.column], one.sign, one.bits) for one in self.channels.wanted]
        rows += [(one, 1 / self.unit, self.aim) for one in self._returns(tables, sums[0], gradient)]
        rows += [(sums[one.quantity], one.sign / one.unit, one.bound) for one in self.others]
        slack = np.empty((len(tables), len(rows)))
        for number, (one, factor, bound) in enumerate(rows):
            margin = errors * one.errors if num_least <= number < self.num_bits else 0.0
            slack[:, number] = factor * (one.values - bound) - margin
        terms = [(self.weight, bits[0])] if self.weight and not num_least else []
        terms += [(factor, bits[column]) for factor, column in self.channels.terms]
        terms += [(factor, sums[number]) for factor, number in self.terms]
        score = sum((factor * one.values for factor, one in terms), np.zeros(len(tables)))
        if num_least:
            least = slack[:, :num_least].min(axis=1, keepdims=True)
            score, slack[:, :num_least] = score + self.weight * least[:, 0], slack[:, :num_least] - least
        empty: Any = np.zeros((len(tables), 0))
        own = columns[0]
        return Values(
            score=score / self.score_unit,
            slack=slack,
            bits=np.zeros(len(tables)) if own is None else own.values,
            returns=sums[0].values,
            score_gradient=_added(tables, terms, self.score_unit) if gradient else empty,
            slack_gradient=_stacked(tables, [(factor, one.gradient) for one, factor, _ in rows]) if gradient else empty,
            num_least=num_least,
        )

    def _sums(self, tables: Tables, gradient: bool) -> dict[int, Estimate]:
        """The return, and the quantities that count, by their numbers."""
        numbers = tuple(sorted({0} | {one.quantity for one in self.others} | {number for _, number in self.terms}))
        values, gradients = self.space.summed(tables, numbers, gradient=gradient)
        pairs = zip(values, gradients, strict=True)
        return {number: Estimate.exact(*pair) for number, pair in zip(numbers, pairs, strict=True)}

    def _returns(self, tables: Tables, whole: Estimate, gradient: bool) -> list[Estimate]:
        """The returns that are bounded, one for each start; `whole`: that of all starts together."""
        if not self.num_returns or len(self.starts) == 1:
            return [whole] * self.num_returns
        count, batch = len(self.starts), len(tables)
        each, starts = np.repeat(tables, count, axis=0), np.tile(self.starts, (batch, 1))
        values, (found,) = self.space.summed(each, (0,), gradient=gradient, starts=starts)
        by_start = [found] * count if found is None else found.reshape(batch, count, *self.space.shape).swapaxes(0, 1)
        return [Estimate.exact(*pair) for pair in zip(values[0].reshape(batch, count).T, by_start, strict=True)]


def _added(tables: Tables, terms: Sequence[tuple[float, Estimate]], unit: float) -> Any:
    """The sum of gradients times their factors, in a unit; large tables take seconds to be multiplied by 1."""
    total: Any = None
    for factor, one in terms:
        more = one.gradient if factor == 1 else factor * one.gradient
        total = more if total is None else total + more
    if total is None:
        return np.zeros(tables.shape)
    return total if unit == 1 else total / unit


def _stacked(tables: Tables, gradients: Sequence[tuple[float, Any]]) -> Any:
    """The products of factors and gradients along a second axis; on the host without arrays in between, which cost as much."""
    if gradients and not isinstance(tables, np.ndarray):
        return array_module(tables).stack([factor * one for factor, one in gradients], axis=1)
    found = np.empty((len(tables), len(gradients), *tables.shape[1:]))
    for number, (factor, one) in enumerate(gradients):
        np.multiply(one, factor, out=found[:, number])
    return found


def make_objective(space: Space, channels: Channels, options: SolveOptions = _PLAIN, team: Team = ALONE) -> Objective:
    """The objective of a problem for one class of policies.

    With `min_opacity` the task is maximised, or the return where there is none, and the bits of the own channel are bounded.
    """
    problem, hidden, min_opacity = space.problem, space.hidden, options.min_opacity
    terms = terms_of(problem, options.task)
    extremes, rounding = return_extremes(problem), return_rounding(problem)
    spread = extremes.largest - extremes.smallest
    wanted = threshold(problem)
    if min_opacity is not None:
        channels = replace(channels, bounds=(*channels.bounds, Wanted(0, 1.0, _bits_kept(channels, min_opacity))))
        if not terms and not channels.terms:
            terms, wanted = ((1.0, 0),), None
    return Objective(
        space=space,
        channels=channels,
        weight=0.0 if min_opacity is not None else -1.0 if options.goal == "transparent" else 1.0,
        terms=terms,
        threshold=wanted,
        aim=-np.inf if wanted is None else wanted + rounding,
        starts=start_points(hidden.start, hidden.state) if options.per_start else hidden.start[None],
        unit=spread if spread > rounding else 1.0,
        rounding=rounding,
        is_free=wanted is not None and not options.per_start and wanted <= extremes.smallest - rounding,
        min_opacity=min_opacity,
        others=tuple(_aimed(one, return_rounding(problem, one.quantity)) for one in other_targets(problem)),
        team=team,
    )


def _bits_kept(channels: Channels, min_opacity: float) -> float:
    """Bits that a table must hide here so that it hides `min_opacity` however its sequences are summed."""
    own = channels.backends[0]
    if own is None or own.drawn:
        return min_opacity
    return min_opacity + SUMMED_BITS if min_opacity else -1.0  # a sum of nothing may round below 0


def _aimed(target: Target, rounding: float) -> Target:
    """The bound that a search keeps: inside of the problem's by what rounding may move the value, where policies reach that."""
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
