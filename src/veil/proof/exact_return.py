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
from .checked_policy import CheckedPolicy
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
    """One decision: the distinct x before it with their choices; each move that is taken with its entry, its choice, and the
    number of what it leads to."""

    x: Int[np.ndarray, " n"]
    choices: Float[np.ndarray, "n A"]
    entry: Int[np.ndarray, " m"]
    move: Int[np.ndarray, " m"]
    choice: Int[np.ndarray, " m"]
    number: Int[np.ndarray, " m"]


class _ExactReturn:
    """The pass: what is reached, forward; then the values, backward."""

    def __init__(self, problem: CheckedProblem, policy: CheckedPolicy, paid: Paid):
        self.problem, self.policy, self.paid = problem, policy, paid
        self.bits = bits_for(paid.largest)
        self.rows: dict[int, list[int]] = {}
        self.chances: _Chances | None = None

    def bounds(self) -> tuple[Fraction, Fraction] | None:
        x, events, _ = self.problem.start
        memory, z = self.policy.remembers(0, x, x, x, events), self.problem.settled(0, x, 0 * x)
        index, first = group(memory, x, z)
        reached = self._steps(memory[index], x[index], z[index])
        if reached is None:
            return None
        steps, last = reached
        rewards, terminal = self.paid.given
        values = [scaled(number, self.bits) for number in terminal[last].tolist()]
        for time in range(self.problem.horizon, 0, -1):
            values = self._before(steps[time - 1], values, rewards, self._columns(time))
        low, high = mean(self._start_weights(), [values[number] for number in first.tolist()])
        return Fraction(low, 2**self.bits), Fraction(high, 2**self.bits)

    def _steps(
        self, memory: Int[np.ndarray, " n"], x: Int[np.ndarray, " n"], z: Int[np.ndarray, " n"]
    ) -> tuple[list[_Step], Int[np.ndarray, " n"]] | None:
        """The steps from the starts on, and the x at the end."""
        problem, policy, steps, count = self.problem, self.policy, list[_Step](), 0
        for time in range(problem.horizon):
            moves = problem.at(time + 1)
            count += policy.nodes * int(moves.degree[x].sum())
            if count > _MOST_MOVES:
                return None
            choices = policy.choices(time, memory, x, z)
            entry, move = (np.repeat(part, policy.nodes) for part in moves.of(x))
            node = np.tile(np.arange(policy.nodes), len(move) // policy.nodes)
            choice = moves.row[move] % problem.actions * policy.nodes + node
            kept = np.flatnonzero(choices[entry, choice])
            entry, move, node, choice = entry[kept], move[kept], node[kept], choice[kept]
            y, events = moves.target[move], tuple(column[move] for column in moves.events)
            after = policy.remembers(time + 1, memory[entry], x[entry], y, events) + node
            value = problem.settled(time + 1, y, z[entry])
            index, number = group(after, y, value)
            steps.append(_Step(x, choices, entry, move, choice, number))
            memory, x, z = after[index], y[index], value[index]
        return steps, x

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
        for place, key in enumerate(zip(step.entry.tolist(), step.choice.tolist(), strict=True)):
            places.setdefault(key, []).append(place)
        scores: list[dict[int, Interval]] = [{} for _ in step.x]
        for (entry, choice), taken in places.items():
            x, action = int(step.x[entry]), choice // self.policy.nodes
            weights = self._weights(chances, x * actions + action, int(step.move[taken[0]]))
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
