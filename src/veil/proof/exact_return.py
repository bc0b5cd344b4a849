"""What a policy earns, in whole numbers: decides whether a bound is met where floats cannot.

Every distribution is divided by its exact sum, in the intervals of `common/exact.py`.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..common.exact import Interval, bits_for, discounted, mean, proportions, scaled, whole_numbers
from .arithmetic import group
from .checked_policy import CheckedPolicy, Entries, Taken, some
from .checked_problem import CheckedProblem, Paid

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
    """One decision: the distinct x before it with their choices; the moves that are taken, and the number of what each leads
    to."""

    x: Int[np.ndarray, " n"]
    choices: Float[np.ndarray, "n A"]
    taken: Taken
    number: Int[np.ndarray, " m"]


class _ExactReturn:
    """The pass: what is reached, forward; then the values, backward."""

    def __init__(self, problem: CheckedProblem, policy: CheckedPolicy, paid: Paid):
        self.problem, self.policy, self.paid = problem, policy, paid
        self.bits = bits_for(paid.largest)
        self.rows: dict[int, list[int]] = {}
        self.chances: _Chances | None = None

    def bounds(self) -> tuple[Fraction, Fraction] | None:
        starts, _ = self.policy.begin()
        index, first = group(*starts)
        reached = self._steps(some(starts, index))
        if reached is None:
            return None
        steps, last = reached
        rewards, terminal = self.paid.given
        values = [scaled(number, self.bits) for number in terminal[last].tolist()]
        for time in range(self.problem.horizon, 0, -1):
            values = self._before(steps[time - 1], values, rewards, self._columns(time))
        low, high = mean(self._start_weights(), [values[number] for number in first.tolist()])
        return Fraction(low, 2**self.bits), Fraction(high, 2**self.bits)

    def _steps(self, entries: Entries) -> tuple[list[_Step], Int[np.ndarray, " n"]] | None:
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

    def _columns(self, time: int) -> "_Chances":
        """The factors of the moves of a time, which are the same at all times unless an observer depends on it."""
        varies = any(one.varies for one in self.problem.observers)
        if self.chances is None or varies:
            row, target, _, (moved, *shown) = self.problem.columns(time)
            self.chances, self.rows = _Chances(row, target, moved, shown), {}
        return self.chances

    def _before(
        self, step: _Step, values: list[Interval], rewards: Float[np.ndarray, "N A"], chances: "_Chances"
    ) -> list[Interval]:
        """The values before a step, from those after it."""
        discount, actions = Fraction(self.paid.discount), self.problem.actions
        places: dict[tuple[int, int], list[int]] = {}
        for place, key in enumerate(zip(step.taken.entry.tolist(), step.taken.choice.tolist(), strict=True)):
            places.setdefault(key, []).append(place)
        scores: list[dict[int, Interval]] = [{} for _ in step.x]
        for (entry, choice), taken in places.items():
            x, action = int(step.x[entry]), choice // self.policy.nodes
            weights = self._weights(chances, x * actions + action, int(step.taken.move[taken[0]]))
            after = mean(weights, [values[number] for number in step.number[taken].tolist()])
            paid = scaled(float(rewards[x, action]), self.bits)
            scores[entry][choice] = discounted(paid, discount, after)
        rows = zip(scores, step.choices.tolist(), strict=True)
        return [mean(whole_numbers([row[choice] for choice in own]), list(own.values())) for own, row in rows]

    def _weights(self, chances: "_Chances", row: int, first: int) -> list[int]:
        """The probabilities of the moves of (x, a), of which the first is given, as whole numbers in proportion."""
        if row not in self.rows:
            part = slice(first, int(np.searchsorted(chances.row, row, side="right")))
            shown = _product([column[part] for column in chances.shown])
            self.rows[row] = proportions(chances.target[part].tolist(), chances.moved[part].tolist(), shown)
        return self.rows[row]

    def _start_weights(self) -> list[int]:
        x, _, (weight, begun, *shown) = self.problem.start_columns
        starts, _, factors = self.problem.record.starts
        model, totals = self.problem.record.model[x].tolist(), dict[int, Fraction]()
        for k, chance in zip(self.problem.record.model[starts].tolist(), factors.tolist(), strict=True):
            totals[k] = totals.get(k, Fraction(0)) + Fraction(chance)
        parts = zip(weight.tolist(), begun.tolist(), model, strict=True)
        chances = [Fraction(runs) * Fraction(chance) / totals[k] for runs, chance, k in parts]
        return proportions(x.tolist(), chances, _product(shown))


class _Chances(NamedTuple):
    """The moves of a time with the factors of their probabilities: of the next state, and of what each observer sees of it."""

    row: Int[np.ndarray, " m"]
    target: Int[np.ndarray, " m"]
    moved: Float[np.ndarray, " m"]
    shown: list[Float[np.ndarray, " m"]]


def _product(columns: Sequence[Float[np.ndarray, " m"]]) -> list[Fraction]:
    """The products of what the observers see, exactly."""
    return [prod(map(Fraction, row), start=Fraction(1)) for row in zip(*(one.tolist() for one in columns), strict=True)]
