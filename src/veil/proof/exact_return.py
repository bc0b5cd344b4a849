"""What a policy earns, in whole numbers: decides whether a bound is met where floats cannot.

Every distribution is divided by its exact sum, in the intervals of `common/exact.py`.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..common.exact import Interval, bits_for, discounted, mean, scaled, whole_numbers
from .arithmetic import group
from .checked_policy import CheckedPolicy, Entries, Taken, some
from .checked_problem import CheckedProblem, Paid

Numbers = Int[np.ndarray, " n"]
_MOST_MOVES = 200_000  # of all steps together, about half a second


def exact_return(
    problem: CheckedProblem, policy: CheckedPolicy, paid: Paid | None = None
) -> tuple[Fraction, Fraction] | None:
    """Bounds on the expected sum of a quantity, the return by default, over the horizon; None where it would take too long,
    or over an infinite horizon.

    `V_t = Σ_a π(a) (R + γ Σ P b V_{t+1}) `, over the (memory, x, z) that the policy reaches, from the last step to the first.
    Cost: about 2 microseconds for each move of each step.
    """
    if problem.endless:
        return None
    return _ExactReturn(problem, policy, paid or problem.paid[0]).bounds()


class _Step(NamedTuple):
    """One decision: the x before it with their choices; the moves that are taken, and the number of what each leads to."""

    x: Numbers
    choices: Float[np.ndarray, "n A"]
    taken: Taken
    number: Numbers


class _ExactReturn:
    """The pass: what is reached, forward; then the values, backward."""

    def __init__(self, problem: CheckedProblem, policy: CheckedPolicy, paid: Paid):
        self.problem, self.policy, self.paid = problem, policy, paid
        self.bits = bits_for(paid.largest)

    def bounds(self) -> tuple[Fraction, Fraction] | None:
        starts, _ = self.policy.begin()
        index, number = group(*starts)
        reached = self._steps(some(starts, index))
        if reached is None:
            return None
        steps, last = reached
        values = [scaled(one, self.bits) for one in self.paid.given[1][last].tolist()]
        columns = self.problem.columns(1)
        for time in range(self.problem.horizon, 0, -1):
            if any(one.varies for one in self.problem.observers):
                columns = self.problem.columns(time)
            values = self._before(steps[time - 1], columns, values)
        x, _, (runs, begun, *shown) = self.problem.start_columns
        model, after = self.problem.record.model, [values[one] for one in number.tolist()]
        after, first = _means(_product(shown), after, x)
        x, begun, runs = x[first], begun[first], runs[first]
        after, first = _means(begun.tolist(), after, model[x])
        ((low, high),), _ = _means(runs[first].tolist(), after, 0 * first)
        return Fraction(low, 2**self.bits), Fraction(high, 2**self.bits)

    def _steps(self, entries: Entries) -> tuple[list[_Step], Numbers] | None:
        """The steps from the starts on, and the x at the end."""
        problem, policy, steps, count = self.problem, self.policy, list[_Step](), 0
        for time in range(problem.horizon):
            moves = problem.at(time + 1)
            count += policy.nodes * int(moves.degree[entries.x].sum())
            if count > _MOST_MOVES:
                return None
            choices, every = policy.choices(time, *entries), policy.every(entries.x, moves)
            taken = some(every, np.flatnonzero(choices[every.entry, every.choice]))
            arrived, _ = policy.arrive(time + 1, entries, taken, moves)
            index, number = group(*arrived)
            steps.append(_Step(entries.x, choices, taken, number))
            entries = some(arrived, index)
        return steps, entries.x

    def _before(self, step: _Step, columns: tuple[Any, ...], values: list[Interval]) -> list[Interval]:
        """The values before a step, from those after it: means over what is seen, over states, over choices."""
        (_, target, _, (moved, *shown)), taken, paid = columns, step.taken, self.paid
        after = [values[one] for one in step.number.tolist()]
        seen = _product([column[taken.move] for column in shown])
        after, first = _means(seen, after, taken.entry, taken.choice, target[taken.move])
        taken = some(taken, first)
        after, first = _means(moved[taken.move].tolist(), after, taken.entry, taken.choice)
        taken = some(taken, first)
        rewards = paid.given[0][step.x[taken.entry], taken.choice // self.policy.nodes].tolist()
        parts, discount = zip(rewards, after, strict=True), Fraction(paid.discount)
        scores = [discounted(scaled(reward, self.bits), discount, value) for reward, value in parts]
        return _means(step.choices[taken.entry, taken.choice].tolist(), scores, taken.entry)[0]


def _means(
    weights: Sequence[float | Fraction], values: list[Interval], *columns: Numbers
) -> tuple[list[Interval], Numbers]:
    """The mean of the values in rows that are equal in some columns, and the number of one row of each kind."""
    index, number = group(*columns)
    parts: list[tuple[list[float | Fraction], list[Interval]]] = [([], []) for _ in index]
    for place, weight, value in zip(number.tolist(), weights, values, strict=True):
        parts[place][0].append(weight)
        parts[place][1].append(value)
    return [mean(whole_numbers(own), found) for own, found in parts], index


def _product(columns: Sequence[Float[np.ndarray, " m"]]) -> list[Fraction]:
    """The products of what the observers see, exactly."""
    return [prod(map(Fraction, row), start=Fraction(1)) for row in zip(*(one.tolist() for one in columns), strict=True)]
