"""What a policy earns, in whole numbers: decides whether a bound is met where floats cannot.

Every distribution is divided by its exact sum, in the intervals of `common/exact.py`.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import Any

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
        (entry, move, choice), after = step.taken, [values[one] for one in step.number.tolist()]
        seen = _product([column[move] for column in shown])
        after, place = _means(after, (seen, entry, choice, target[move]), (moved[move].tolist(), entry, choice))
        gained = rewards[x[entry[place]], choice[place] // policy.nodes].tolist()
        parts = zip(gained, after, strict=True)
        scores = [discounted(scaled(reward, bits), Fraction(paid.discount), value) for reward, value in parts]
        values, _ = _means(scores, (step.share[place].tolist(), entry[place]))
    x, _, (runs, begun, *shown) = problem.start_columns
    levels = (_product(shown), x), (begun.tolist(), problem.record.model[x]), (runs.tolist(), 0 * x)
    ((low, high),), _ = _means([values[one] for one in number.tolist()], *levels)
    return Fraction(low, 2**bits), Fraction(high, 2**bits)


def _means(values: list[Interval], *levels: tuple[Any, ...]) -> tuple[list[Interval], Numbers]:
    """Means within means, and the number of one row of each kind that is left: each level has the weights of the first rows,
    and columns, in which rows that are averaged are equal."""
    place = np.arange(len(values))
    for weights, *columns in levels:
        index, number = group(*(column[place] for column in columns))
        parts: list[tuple[list[float | Fraction], list[Interval]]] = [([], []) for _ in index]
        for kind, row, value in zip(number.tolist(), place.tolist(), values, strict=True):
            parts[kind][0].append(weights[row])
            parts[kind][1].append(value)
        values, place = [mean(whole_numbers(own), found) for own, found in parts], place[index]
    return values, place


def _product(columns: Sequence[Float[np.ndarray, " m"]]) -> list[Fraction]:
    """The products of what the observers see, exactly."""
    return [prod(map(Fraction, row), start=Fraction(1)) for row in zip(*(one.tolist() for one in columns), strict=True)]
