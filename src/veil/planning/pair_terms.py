"""What the pairs (secret, observer) of a problem ask of a search: bounds, terms of the score, and the least of several.

Bits are columns: 0 is the problem's own pair, whose values the search evaluates anyway, the others follow in the order of
`problem.pairs`. All are exact, or all are sampled, with gradients in the one table that acts against all observers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.workers import ALONE, Team
from ..problem.pairs import OWN, Pair, hidden_names
from .loss_values import LossSecrecy
from .options import SolveOptions
from .policy_class import Space, make_space
from .sampled_values import SampledLoss, SampleSecrecy, make_sampled
from .terms import hidden_terms
from .values import Secrecy, evaluated, make_secrecy

# A tree summed in another order differs by less than this; who must keep some bits keeps as many more.
SUMMED_BITS = 2e-12

_TOGETHER = "the sequences of one of the pairs are too many to enumerate"

Tables = Float[np.ndarray, "B T C A"]


@dataclass(frozen=True)
class Wanted:
    """`sign · (H − bits)` of the pair in a column: 0 or more where it is a bound."""

    column: int
    sign: float
    bits: float


@dataclass(frozen=True, eq=False)
class PairBits:
    """One evaluation of B tables: the least, the slacks of the least and of the bounds, the sum of the terms; with slopes."""

    least: Float[np.ndarray, " B"]
    least_slope: Float[np.ndarray, "B *shape"]
    slack: Float[np.ndarray, "B K"]
    slack_slope: Float[np.ndarray, "B K *shape"]
    earned: Float[np.ndarray, " B"]
    earned_slope: Float[np.ndarray, "B *shape"]


@dataclass(frozen=True, eq=False)
class PairTask:
    """The part of a task that is about pairs.

    **Attributes:** `secrecies`: how the columns after the first are evaluated, None where a column is not used; `bounds`;
    `terms`: factors of columns, whose sum is maximised too; `least`: what the least is maximised of, in place of the bits of
    the problem's own pair; empty where that is maximised.
    """

    secrecies: tuple[Secrecy | None, ...] = ()
    bounds: tuple[Wanted, ...] = ()
    terms: tuple[tuple[float, int], ...] = ()
    least: tuple[Wanted, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bounds or self.terms or self.least)

    @property
    def num_slacks(self) -> int:
        """Slacks: those of the least, then those of the bounds."""
        return len(self.least) + len(self.bounds)

    @property
    def spread(self) -> float:
        """About the range of the terms, in bits."""
        return sum(abs(factor) for factor, _ in self.terms)

    @property
    def cost_seconds(self) -> float:
        """The forecast of one evaluation of the columns after the first."""
        return sum(one.cost_seconds for one in self.secrecies if one is not None)

    @property
    def sampled(self) -> tuple[SampleSecrecy | None, ...]:
        """How the columns after the first are evaluated in a search on samples."""
        return tuple(one if isinstance(one, SampleSecrecy) else None for one in self.secrecies)

    @property
    def raised(self) -> tuple[int, ...]:
        """The columns of which more bits are wanted, that of the problem's own pair where there is none: what starts hide."""
        more = [one.column for one in self._wanted if one.sign > 0]
        more += [column for factor, column in self.terms if factor > 0]
        return tuple(dict.fromkeys(more if self.least and more else [0, *more]))

    @property
    def has_friends(self) -> bool:
        """Whether fewer bits of some column are wanted."""
        return any(one.sign < 0 for one in self._wanted) or any(factor < 0 for factor, _ in self.terms)

    def inward(self, kept: Iterable[Wanted]) -> "PairTask":
        """The task that maximises the least slack of all bounds and of further ones, to find a table that meets them."""
        return replace(self, bounds=(), terms=(), least=(*self.bounds, *kept))

    def evaluate(
        self, own: Float[np.ndarray, " B"], own_slope: Tables, tables: Tables, clock: Clock, team: Team = ALONE
    ) -> PairBits:
        """Values and slopes for each table, from those of the problem's own pair."""
        found = [(own, own_slope)]
        found += [(own, own_slope) if one is None else evaluated(one, tables, clock, team) for one in self.secrecies]
        return self.joined([one for one, _ in found], [one for _, one in found])

    def joined(
        self,
        bits: Sequence[Float[np.ndarray, " B"]],
        slopes: Sequence[Float[np.ndarray, "B *shape"]],
        margins: Sequence[float] = (),
    ) -> PairBits:
        """From the bits of each column and their slopes; bounds are kept with a margin for each column, if any."""
        shape, count = slopes[0].shape, len(self.least)
        aimed = [(one.sign * (bits[one.column] - one.bits), one.sign * slopes[one.column]) for one in self._wanted]
        slack, slope = np.zeros((len(bits[0]), 0)), np.zeros((len(bits[0]), 0, *shape[1:]))
        if aimed:
            slack, slope = np.stack([one for one, _ in aimed], axis=1), np.stack([one for _, one in aimed], axis=1)
        least = slack[:, :count].min(axis=1) if count else np.zeros(len(bits[0]))
        slack[:, :count] -= least[:, None]
        if margins:
            slack[:, count:] -= [margins[one.column] for one in self.bounds]
        earned, earned_slope = np.zeros(len(bits[0])), np.zeros(shape)
        for factor, column in self.terms:
            earned, earned_slope = earned + factor * bits[column], earned_slope + factor * slopes[column]
        return PairBits(least, np.zeros(shape), slack, slope, earned, earned_slope)

    @property
    def _wanted(self) -> tuple[Wanted, ...]:
        return self.least + self.bounds


def no_pairs() -> PairTask:
    """Where the problem's own pair is all that matters."""
    return PairTask()


def make_pair_task(
    space: Space, options: SolveOptions, own: Secrecy, time_limit: float | None, team: Team = ALONE
) -> tuple[Secrecy, PairTask]:
    """What a search must know of the pairs of a problem, and how it evaluates the problem's own one.

    Where one of them is sampled all are: a search is on samples or is not.

    **Raises:** `InputError` where an option names no pair or does not go with others.
    """
    problem = space.problem
    columns = {OWN: 0} | {one.name: 1 + number for number, one in enumerate(problem.pairs)}
    hidden = hidden_names(problem.pairs, options.hide)
    least = () if hidden == (OWN,) else tuple(Wanted(columns[name], 1.0, 0.0) for name in hidden)
    bounds = tuple(
        Wanted(columns[pair.name], sign, bits + sign * SUMMED_BITS)
        for pair in problem.pairs
        for sign, bits in pair.bounds
        if sign < 0 or bits > 0
    )
    terms = tuple((factor, columns[name]) for factor, name in hidden_terms(problem, options.task))
    found = PairTask((), bounds, terms, least)
    if not found:
        return own, found
    _check(found, options, own)
    used = {one.column for one in (*least, *bounds)} | {column for _, column in terms}
    asked = [pair if columns[pair.name] in used else None for pair in problem.pairs]
    if own.kind == "exact":
        exact = [None if pair is None else _exact_column(space, pair, options, time_limit) for pair in asked]
        if all(pair is None or one is not None for pair, one in zip(asked, exact, strict=True)):
            return own, replace(found, secrecies=tuple(exact))
        own = make_sampled(space, "entropy", options.sequences, options.seed, _TOGETHER, team)
    sampled = (None if pair is None else sampled_column(space, pair, options, team) for pair in asked)
    return own, replace(found, secrecies=tuple(sampled))


def _check(found: PairTask, options: SolveOptions, own: Secrecy) -> None:
    if options.objective != "entropy" or (found.least and options.goal != "opaque"):
        raise InputError(
            "pairs", ["pairs are about the entropy H(Z|Y): use objective='entropy', and with hide goal='opaque'"]
        )
    if found.least and options.min_opacity is not None:
        raise InputError(
            "hide", ["min_opacity keeps the bits of the problem's own pair, and hide maximises others: use one"]
        )
    if own.kind == "bracket":
        raise InputError("evaluation", ["'bracket' is not available with pairs: use 'exact' or 'sampled'"])


def _exact_column(space: Space, pair: Pair, options: SolveOptions, time_limit: float | None) -> Secrecy | None:
    """How one pair is evaluated on all sequences; None where these are too many.

    **Raises:** `TooLargeError` where they are, and exact values were asked for.
    """
    alone = make_space(space.problem.only(pair.name), options.memory)
    try:
        if pair.belief is not None:
            return LossSecrecy(alone, pair.belief)
        found = make_secrecy(alone, "entropy", options.evaluation, time_limit=time_limit)
    except TooLargeError as error:
        if options.evaluation == "exact":
            raise TooLargeError(f"pair {pair.name!r}: {error}") from error
        return None
    return found if found.kind == "exact" else None


def sampled_column(space: Space, pair: Pair, options: SolveOptions, team: Team = ALONE) -> SampleSecrecy:
    """How one pair of a problem is evaluated on drawn sequences, by the policies of a class."""
    alone = make_space(space.problem.only(pair.name), options.memory)
    if pair.belief is not None:
        return SampledLoss(alone, pair.belief, options.sequences, options.seed, _TOGETHER, team)
    return make_sampled(alone, "entropy", options.sequences, options.seed, _TOGETHER, team)
