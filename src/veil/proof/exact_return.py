"""What a policy earns, in whole numbers: decides whether a bound is met where floats cannot.

Every distribution is divided by its exact sum, in the intervals of `common/exact.py`.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import prod

import numpy as np
from jaxtyping import Float

from ..common.exact import Interval, bits_for, discounted, mean, scaled, whole_numbers
from .arithmetic import Numbers, group
from .checked_policy import CheckedPolicy, Step, some
from .checked_problem import CheckedProblem, Paid

_MOST_MOVES = 200_000  # of all steps together, about half a second


def exact_return(problem: CheckedProblem, policy: CheckedPolicy, paid: Paid) -> tuple[Fraction, Fraction] | None:
    """Bounds on the expected sum of a quantity over the horizon; None where it would take too long, or the horizon is infinite.

    `V_t = Σ_a π(a) (R + γ Σ P b V_{t+1}) `, over the (memory, x, z) that the policy reaches, from the last step to the first.
    Cost: about 2 microseconds for each move of each step.
    """
    if problem.endless:
        return None
    starts, _ = policy.begin()
    index, number = group(*starts)
    entries, steps, count = some(starts, index), list[tuple[Numbers, Step]](), 0
    for time in range(problem.horizon):
        moves = problem.at(time + 1)
        count += policy.count(entries.x, moves)
        if count > _MOST_MOVES:
            return None
        steps.append((entries.x, policy.step(time, entries, moves)))
        entries = steps[-1][1].after
    bits, columns, (rewards, last) = bits_for(paid.largest), problem.columns(1), paid.given
    values = [scaled(one, bits) for one in last[entries.x].tolist()]
    for time in range(problem.horizon, 0, -1):
        if any(one.varies for one in problem.observers):
            columns = problem.columns(time)
        (x, step), (_, target, _, (moved, *shown)) = steps[time - 1], columns
        # Means over what is seen, over the states that are reached, and over the choices.
        taken, after = step.taken, [values[one] for one in step.number.tolist()]
        seen = _product([column[taken.move] for column in shown])
        after, first = _means(seen, after, taken.entry, taken.choice, target[taken.move])
        taken = some(taken, first)
        after, first = _means(moved[taken.move].tolist(), after, taken.entry, taken.choice)
        entry, choice = taken.entry[first], taken.choice[first]
        parts = zip(rewards[x[entry], choice // policy.nodes].tolist(), after, strict=True)
        scores = [discounted(scaled(reward, bits), Fraction(paid.discount), value) for reward, value in parts]
        values, _ = _means(step.choices[entry, choice].tolist(), scores, entry)
    x, _, (runs, begun, *shown) = problem.start_columns
    after, first = _means(_product(shown), [values[one] for one in number.tolist()], x)
    x, begun, runs = x[first], begun[first], runs[first]
    after, first = _means(begun.tolist(), after, problem.record.model[x])
    ((low, high),), _ = _means(runs[first].tolist(), after, 0 * first)
    return Fraction(low, 2**bits), Fraction(high, 2**bits)


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
