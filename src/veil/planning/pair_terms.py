"""What the pairs (secret, observer) of a problem ask of a search: bounds, terms of the score, and the least of several.

Bits are columns: 0 is the problem's own pair, whose values the search evaluates anyway, the others follow in the order of
`problem.pairs`. All are exact, with exact gradients in the one table that acts against all observers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.workers import ALONE, Team
from ..measure.pairs import check_observations
from ..problem.pairs import OWN, find_pair, hidden_names
from .loss_values import LossSecrecy
from .options import SolveOptions
from .policy_class import Space, make_space
from .terms import hidden_terms
from .values import Secrecy, evaluated, make_secrecy

# A tree summed in another order differs by less than this; who must keep some bits keeps as many more.
SUMMED_BITS = 2e-12

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
    least_slope: Tables
    slack: Float[np.ndarray, "B K"]
    slack_slope: Float[np.ndarray, "B K T C A"]
    earned: Float[np.ndarray, " B"]
    earned_slope: Tables


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

    def inward(self, kept: Iterable[Wanted]) -> "PairTask":
        """The task that maximises the least slack of all bounds and of further ones, to find a table that meets them."""
        return replace(self, bounds=(), terms=(), least=(*self.bounds, *kept))

    def evaluate(
        self, own: Float[np.ndarray, " B"], own_slope: Tables, tables: Tables, clock: Clock, team: Team = ALONE
    ) -> PairBits:
        """Values and slopes for each table, from those of the problem's own pair."""
        found = [(own, own_slope)]
        found += [(own, own_slope) if one is None else evaluated(one, tables, clock, team) for one in self.secrecies]
        aimed = [
            (one.sign * (found[one.column][0] - one.bits), one.sign * found[one.column][1]) for one in self._wanted
        ]
        slack, slope = np.zeros((len(tables), 0)), np.zeros((len(tables), 0, *tables.shape[1:]))
        if aimed:
            slack, slope = np.stack([one for one, _ in aimed], axis=1), np.stack([one for _, one in aimed], axis=1)
        count = len(self.least)
        least = slack[:, :count].min(axis=1) if count else np.zeros(len(tables))
        slack[:, :count] -= least[:, None]
        earned, earned_slope = np.zeros(len(tables)), np.zeros(tables.shape)
        for factor, column in self.terms:
            earned, earned_slope = earned + factor * found[column][0], earned_slope + factor * found[column][1]
        return PairBits(least, np.zeros(tables.shape), slack, slope, earned, earned_slope)

    @property
    def _wanted(self) -> tuple[Wanted, ...]:
        return self.least + self.bounds


def no_pairs() -> PairTask:
    """Where the problem's own pair is all that matters."""
    return PairTask()


def make_pair_task(space: Space, options: SolveOptions, own: Secrecy, time_limit: float | None) -> PairTask:
    """What a search must know of the pairs of a problem.

    **Raises:** `InputError` where an option names no pair or does not go with others; `TooLargeError` where the sequences of
    one of them are too many to enumerate.
    """
    problem = space.problem
    for pair in problem.pairs:
        check_observations(pair, needed=space.needs_observations)
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
        return found
    _check(found, options, own)
    used = {one.column for one in (*least, *bounds)} | {column for _, column in terms}
    return replace(
        found,
        secrecies=tuple(
            _secrecy(space, pair.name, options, time_limit) if columns[pair.name] in used else None
            for pair in problem.pairs
        ),
    )


def _check(found: PairTask, options: SolveOptions, own: Secrecy) -> None:
    if options.objective != "entropy" or (found.least and options.goal != "opaque"):
        raise InputError(
            "pairs", ["pairs are about the entropy H(Z|Y): use objective='entropy', and with hide goal='opaque'"]
        )
    if found.least and options.min_opacity is not None:
        raise InputError(
            "hide", ["min_opacity keeps the bits of the problem's own pair, and hide maximises others: use one"]
        )
    _check_exact(own, OWN)


def _secrecy(space: Space, name: str, options: SolveOptions, time_limit: float | None) -> Secrecy:
    alone, belief = make_space(space.problem.pair(name), options.memory), find_pair(name, space.problem.pairs).belief
    if belief is not None:
        return LossSecrecy(alone, belief)
    found = make_secrecy(alone, "entropy", options.evaluation, time_limit=time_limit)
    _check_exact(found, name)
    return found


def _check_exact(secrecy: Secrecy, name: str) -> None:
    if secrecy.kind != "exact":
        raise TooLargeError(
            f"pair {name!r}: a search with bounds on pairs, terms H(pair) or hide evaluates all sequences exactly, and this one"
            f" would take {secrecy.reason}: shorten the horizon, or set evaluation='exact'"
        )
