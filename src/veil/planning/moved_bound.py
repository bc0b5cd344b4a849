"""The constraint that a frontier moves: the threshold on the return, or one of the further constraints by its name."""

from dataclasses import dataclass
from functools import cached_property

from ..common.errors import InputError
from ..common.suggest import suggestion
from ..engine.feasibility import further_targets, return_target, strictest_bound, targets
from ..engine.returns import return_values
from ..measure.constrained import constraint_values
from ..policy.policy import Policy
from ..problem.problem import Problem
from ..problem.return_rounding import return_rounding
from .policy_class import Space
from .solution import Solution
from .starts import richest_table

RETURN = "return"
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

    def strictest(self, space: Space) -> float:
        """The strictest bound that policies meet along with the other constraints; for the return, policies of the class."""
        if self.number is not None:
            moved = further_targets(self.free)[self.number]
            others = [one for one in targets(self.free) if one is not moved]
            return strictest_bound(self.free, moved, others)
        richest = richest_table(space)
        values = return_values(self.problem, space.hidden, richest[None], stationary=space.stationary)
        largest = float(values[0]) - return_rounding(self.problem)  # so that it can be asked for
        if not self.problem.further:
            return largest
        return min(largest, strictest_bound(self.free, return_target(self.free, 0.0), further_targets(self.free)))

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
