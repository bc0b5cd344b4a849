"""The bound that a frontier moves: the threshold on the return, or another by the name of its quantity."""

import contextlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime
from ..common.errors import InputError
from ..common.suggest import suggestion
from ..engine.additive import expected_sums
from ..engine.feasibility import strictest_bound, target, targets
from ..measure.constrained import quantity_values
from ..planning.objective import Channels, make_objective
from ..planning.options import SolveOptions
from ..planning.policy_class import Space, make_space
from ..planning.safe_tables import safe_table
from ..planning.search import run
from ..planning.solution import Solution
from ..planning.table_methods import make_ascent
from ..policy.policy import Policy
from ..problem.constraints import Bound
from ..problem.problem import Problem
from ..problem.return_rounding import return_rounding

RETURN = "return"
# Of the search for the strictest bound of a class: starts, iterations, its share of the time, and how far inside its end is.
_STARTS, _ITERATIONS, _SHARE, _MARGIN = 3, 120, 0.2, 1e-9
_WRITTEN = {"<=": "≤", ">=": "≥"}


@dataclass(frozen=True, eq=False)
class MovedBound:
    """One bound of a problem at any number.

    **Attributes:** `problem`; `number`: which of `problem.bounds` is moved.
    """

    problem: Problem
    number: int

    @staticmethod
    def named(problem: Problem, along: str) -> "MovedBound":
        """By the name of the quantity, `P(formula)` or the formula, or by its text as far as the relation: `energy ≤`.

        **Raises:** `InputError` where no constraint or more than one has that name.
        """
        if along == RETURN:
            return MovedBound(problem if problem.min_return is not None else problem.replace(min_return=0.0), 0)
        wanted = along.strip()
        for written, relation in _WRITTEN.items():
            wanted = wanted.replace(written, relation)
        first = len(problem.bounds) - len(problem.others)
        known = [MovedBound(problem, number) for number in range(first, len(problem.bounds))]
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
    def bound(self) -> Bound:
        """The bound that is moved."""
        return self.problem.bounds[self.number]

    @property
    def name(self) -> str:
        """The name of its quantity."""
        return self.bound.name

    @property
    def sign(self) -> float:
        """+1 if the quantity must be at least the bound, −1 at most."""
        return self.bound.sign

    @property
    def is_threshold(self) -> bool:
        """Whether it is the threshold on the return."""
        return self.problem.min_return is not None and self.number == 0

    @property
    def text(self) -> str:
        """Name and relation: `energy ≤`."""
        return f"{self.name} {self.bound.relation}"

    @property
    def names(self) -> set[str]:
        """What it may be called."""
        formula = {self.name[2:-1]} if self.name.startswith("P(") else set[str]()
        return {self.name, self.text} | formula

    def at(self, bound: float | None) -> Problem:
        """The problem with that number; None for no bound."""
        return self.problem.with_bound(self.number, bound)

    @cached_property
    def free(self) -> Problem:
        """The problem without the bound."""
        return self.at(None)

    def strictest(self, space: Space, richest: Float[np.ndarray, "T C A"], clock: Clock) -> tuple[float, Policy | None]:
        """The strictest bound that policies of the class are found to meet along with the others, and one that meets it.

        Where the class is all policies, or where no time is left, the bound of all policies and None.

        **Arguments:** `richest`: the table of largest return known for the class.
        """
        if self.is_threshold and not self.problem.others:
            return self._largest_return(space, richest), None
        free, one = self.free, self.bound
        moved = target(free, replace(one, bound=0.0), is_threshold=self.is_threshold)
        bound = strictest_bound(free, moved, targets(free))
        if self.is_threshold:
            bound = min(bound, self._largest_return(space, richest))
        terms = ((one.sign, one.quantity),)
        found = None if space.memory == "timed" and free.knows_all else _largest(free, space, terms, clock)
        if found is None:
            return bound, None
        return self.sign * min(self.sign * bound, found[0] - _MARGIN * max(1.0, abs(found[0]))), found[1]

    def _largest_return(self, space: Space, richest: Float[np.ndarray, "T C A"]) -> float:
        hidden, table = space.hidden, richest[None]
        values = expected_sums(hidden, table, hidden.paid[:1], stationary=space.stationary)
        return float(values[0, 0]) - return_rounding(self.problem)  # so that it can be asked for

    def measured(self, solution: Solution) -> tuple[float, float]:
        """The quantity under the policy of a solution, and the price of the bound in bits for one unit of it."""
        if self.is_threshold:
            return solution.expected_return, float(solution.price_bits)
        value = quantity_values(self.problem, solution.policy)[self.bound.quantity]
        if solution.has_hardly_begun:
            return value, float("nan")
        is_free = len(solution.prices) < len(self.problem.bounds)
        return value, 0.0 if is_free else solution.prices[self.number]


def _largest(
    problem: Problem, like: Space, terms: tuple[tuple[float, int], ...], clock: Clock
) -> tuple[float, Policy] | None:
    """The largest sum of terms found in a class under all constraints, with its policy; None where none is feasible in time."""
    space = make_space(problem, like.memory)
    none = Channels((None,) * (1 + len(problem.pairs)))
    objective = replace(make_objective(space, none), weight=0.0, terms=terms, clock=clock.share(_SHARE).silent())
    options = SolveOptions(starts=_STARTS, iterations=_ITERATIONS)
    with contextlib.suppress(OutOfTime):
        method, state, _ = run(make_ascent, *safe_table(objective, objective.clock), options)
        if method is not None and state is not None:
            tables = method.candidates(state)
            values = objective.evaluate(tables)
            if values.feasible[values.best]:
                return float(values.score[values.best]) * objective.score_unit, space.policy(tables[values.best])
    return None
