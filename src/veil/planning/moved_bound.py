"""The constraint that a frontier moves: the threshold on the return, or one of the further constraints by its name."""

from dataclasses import dataclass, replace
from functools import cached_property

from ..common.clock import Clock, OutOfTime
from ..common.errors import InputError
from ..common.suggest import suggestion
from ..engine.additive import expected_sums
from ..engine.feasibility import further_targets, return_target, strictest_bound, targets
from ..measure.constrained import constraint_values
from ..policy.policy import Policy
from ..problem.problem import Problem
from ..problem.return_rounding import return_rounding
from .ascent import Ascent
from .feasible_start import feasible_table
from .policy_class import Space, make_space
from .solution import Solution
from .starts import make_starts, richest_table
from .task import make_task
from .terms import terms_of, with_task
from .values import NoSecrecy

RETURN = "return"
# Of the search for the strictest bound of a class: starts, iterations, its share of the time, and how far inside its end is.
_STARTS, _ITERATIONS, _SHARE, _MARGIN = 4, 120, 0.2, 1e-9
_WRITTEN = {"<=": "≤", ">=": "≥"}


@dataclass(frozen=True, eq=False)
class MovedBound:
    """One constraint of a problem at any bound.

    **Attributes:** `problem`; `number`: which of `problem.further` is moved, None for the threshold on the return; `name` of
    its quantity; `sign`, +1 where the quantity must be at least the bound, −1 at most.
    """

    problem: Problem
    number: int | None = None
    name: str = RETURN
    sign: float = 1.0

    @staticmethod
    def named(problem: Problem, along: str) -> "MovedBound":
        """By the name of the quantity, `P(formula)` or the formula, or by its text as far as the relation: `energy ≤`.

        **Raises:** `InputError` where no constraint or more than one has that name.
        """
        if along == RETURN:
            return MovedBound(problem)
        wanted = along.strip()
        for written, relation in _WRITTEN.items():
            wanted = wanted.replace(written, relation)
        known = [MovedBound(problem, number, one.name, one.sign) for number, one in enumerate(problem.further)]
        found = [one for one in known if wanted in one.names]
        if len(found) == 1:
            return found[0]
        if found:
            texts = " or ".join(repr(one.text) for one in found)
            raise InputError("frontier", [f"along is {along!r}, which several constraints have: use {texts}"])
        listed = [RETURN, *(one.name for one in known)]
        raise InputError(
            "frontier", [f"along is {along!r}, expected a constraint of the problem: {suggestion(along, listed)}"]
        )

    @property
    def text(self) -> str:
        """Name and relation: `energy ≤`."""
        return f"{self.name} {'≥' if self.sign > 0 else '≤'}"

    @property
    def names(self) -> set[str]:
        """What it may be called."""
        formula = {self.name[2:-1]} if self.name.startswith("P(") else set[str]()
        return {self.name, self.text} | formula

    def at(self, bound: float | None) -> Problem:
        """The problem with that bound; None for one that every policy meets.

        A further constraint is kept even then, so that the hidden states, and with them the rows of a table, stay the same.
        """
        if self.number is None:
            return self.problem.replace(min_return=bound)
        return self.problem.with_bound(self.number, self._beyond if bound is None else bound)

    @cached_property
    def free(self) -> Problem:
        """The problem without the bound."""
        return self.at(None)

    def strictest(self, space: Space, clock: Clock) -> tuple[float, Policy | None]:
        """The strictest bound that policies of the class are found to meet along with the others, and one that meets it.

        Where the class is all policies, or where no time is left, the bound of all policies and None.
        """
        if self.number is None and not self.problem.further:
            return self._largest_return(space), None
        if self.number is None:
            free, terms = with_task(self.free, RETURN), terms_of(with_task(self.free, RETURN), RETURN)
            bound = strictest_bound(self.free, return_target(self.free, 0.0), further_targets(self.free))
            bound = min(bound, self._largest_return(space))
        else:
            free, terms, known = self.free, ((self.sign, self.number),), targets(self.free)
            moved = further_targets(free)[self.number]
            bound = strictest_bound(free, moved, [one for one in known if one is not moved])
        found = None if space.memory == "timed" and _knows_all(free) else _largest(free, space, terms, clock)
        if found is None:
            return bound, None
        return self.sign * min(self.sign * bound, found[0] - _MARGIN * max(1.0, abs(found[0]))), found[1]

    def _largest_return(self, space: Space) -> float:
        hidden, table = space.hidden, richest_table(space)[None]
        values = expected_sums(hidden, table, hidden.paid[:1], stationary=space.stationary)
        return float(values[0, 0]) - return_rounding(self.problem)  # so that it can be asked for

    def value(self, policy: Policy) -> float:
        """The quantity under a policy."""
        assert self.number is not None
        return constraint_values(self.free, policy)[-len(self.problem.further) :][self.number].value

    def measured(self, solution: Solution) -> tuple[float, float]:
        """The quantity under the policy of a solution, and the price of the bound in bits for one unit of it."""
        if self.number is None:
            return solution.expected_return, float(solution.price_bits)
        price = solution.further_prices[self.number] if solution.further_prices else float("nan")
        return self.value(solution.policy), price

    @cached_property
    def _beyond(self) -> float:
        """A bound that every policy meets, whatever the rounding errors."""
        assert self.number is not None
        target = further_targets(self.problem)[self.number]
        return target.range.smallest - target.unit if self.sign > 0 else target.range.largest + target.unit


def _knows_all(problem: Problem) -> bool:
    """Whether the agent knows the hidden state."""
    return problem.knows_all


def _largest(
    problem: Problem, like: Space, terms: tuple[tuple[float, int], ...], clock: Clock
) -> tuple[float, Policy] | None:
    """The largest sum of terms found in a class under all constraints, with its policy; None where none is feasible in time."""
    space = make_space(problem, like.memory)
    task = replace(make_task(space, terms=terms, secrecy=NoSecrecy()), sign=0.0, clock=clock.share(_SHARE).silent())
    task.clock.iterations = _ITERATIONS
    try:
        safe = feasible_table(task, richest_table(space), task.clock)
        method = Ascent(task, make_starts(space, safe, _STARTS, 0, None), safe[None])
        state = method.begin()
        while not method.is_done(state):
            state = method.advance(state)
        tables = method.candidates(state)
        values = task.evaluate(tables)
    except OutOfTime:
        return None
    chosen = values.best
    if not values.feasible[chosen]:
        return None
    return float(values.score[chosen]) * task.score_unit, space.policy(tables[chosen])
