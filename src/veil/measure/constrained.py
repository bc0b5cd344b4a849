"""The value of every constrained quantity under a policy: exact, and whether it is within its bound."""

import math
from dataclasses import dataclass

from ..common.values import Value
from ..engine.additive import chain_sums
from ..engine.chain import make_chain
from ..engine.feasibility import constraint_text, targets
from ..policy.policy import Policy, check_call
from ..problem.problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class ConstraintValue(Value):
    """A constraint and the value of its quantity under a policy.

    **Attributes:** `name` of the quantity: `return`, the name of a reward, or `P(formula)`; `relation`, `"≥"` or `"≤"`;
    `bound`, a number, also if a percentage was asked for; `value`, exact; `price_bits`: the multiplier, how many bits one
    more unit of the bound costs to first order, NaN if it is not known.
    """

    name: str
    relation: str
    bound: float
    value: float
    price_bits: float = float("nan")

    @property
    def slack(self) -> float:
        """How far the value is inside its bound, in the quantity's unit; negative if the constraint is missed."""
        return self.value - self.bound if self.relation == "≥" else self.bound - self.value

    @property
    def met(self) -> bool:
        """Whether the value is within its bound; no tolerance."""
        return self.slack >= 0

    def fact(self) -> tuple[str, str]:
        """Name and value for a table: the value, what is required, and the price if it is known."""
        limit, missed = "at least" if self.relation == "≥" else "at most", "" if self.met else " (not met)"
        price = "" if math.isnan(self.price_bits) else f"; price {self.price_bits:.4g} bits per unit"
        return self.name, f"{self.value:.6g}, required: {limit} {self.bound:.6g}{missed}{price}"

    @property
    def text(self) -> str:
        """The constraint in words: `energy ≤ 20`."""
        return constraint_text(self.name, 1.0 if self.relation == "≥" else -1.0, self.bound)


def constraint_values(problem: Problem, policy: Policy) -> tuple[ConstraintValue, ...]:
    """Every constraint of a problem with the value of its quantity under a policy, in the order of `problem.constraints`.

    A constraint with both `min` and `max` is two entries. Cost: that of `expected_return`, for each quantity.

    **Raises:** `InputError` if the policy does not fit the problem.
    """
    check_call(problem, policy)
    values = quantity_values(problem, policy) if problem.bounds else []
    return tuple(
        ConstraintValue(one.name, "≥" if one.sign > 0 else "≤", one.bound, values[one.quantity])
        for one in targets(problem)
    )


def quantity_values(problem: Problem, policy: Policy) -> list[float]:
    """The expected sum of each of `problem.quantities` under a policy, the return first."""
    return chain_sums(make_chain(problem, policy)).tolist()
