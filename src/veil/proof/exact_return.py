"""What a policy earns, in whole numbers: decides whether a bound is met where floats cannot.

Every distribution is divided by its exact sum, in the intervals of `common/exact.py`.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..common.exact import Interval, bits_for, discounted, mean, proportions, scaled, whole_numbers
from .arithmetic import group
from .checked_policy import CheckedPolicy
from .checked_problem import CheckedProblem, Paid, moves, starts

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

    def bounds(self) -> tuple[Fraction, Fraction] | None:
        x, event, _ = self.problem.start
        memory, z = self.policy.remembers(0, x, x, x, event), self.problem.settled(0, x, 0 * x)
        index, first = group(memory, x, z)
        reached = self._steps(memory[index], x[index], z[index])
        if reached is None:
            return None
        steps, last = reached
        self.columns = moves(self.problem.unrolled)
        rewards, terminal = self.paid.given
        values = [scaled(number, self.bits) for number in terminal[last].tolist()]
        for step in reversed(steps):
            values = self._before(step, values, rewards)
        low, high = mean(self._start_weights(), [values[number] for number in first.tolist()])
        return Fraction(low, 2**self.bits), Fraction(high, 2**self.bits)

    def _steps(
        self, memory: Int[np.ndarray, " n"], x: Int[np.ndarray, " n"], z: Int[np.ndarray, " n"]
    ) -> tuple[list[_Step], Int[np.ndarray, " n"]] | None:
        """The steps from the starts on, and the x at the end."""
        problem, policy, steps, count = self.problem, self.policy, list[_Step](), 0
        for time in range(problem.horizon):
            count += policy.nodes * int(problem.degree[x].sum())
            if count > _MOST_MOVES:
                return None
            choices = policy.choices(time, memory, x, z)
            entry, move = (np.repeat(part, policy.nodes) for part in problem.moves(x))
            node = np.tile(np.arange(policy.nodes), len(move) // policy.nodes)
            choice = problem.row[move] % problem.actions * policy.nodes + node
            kept = np.flatnonzero(choices[entry, choice])
            entry, move, node, choice = entry[kept], move[kept], node[kept], choice[kept]
            y, event = problem.target[move], problem.event[move]
            after = node if policy.nodes > 1 else policy.remembers(time + 1, memory[entry], x[entry], y, event)
            value = problem.settled(time + 1, y, z[entry])
            index, number = group(after, y, value)
            steps.append(_Step(x, choices, entry, move, choice, number))
            memory, x, z = after[index], y[index], value[index]
        return steps, x

    def _before(self, step: _Step, values: list[Interval], rewards: Float[np.ndarray, "N A"]) -> list[Interval]:
        """The values before a step, from those after it."""
        discount, actions = Fraction(self.paid.discount), self.problem.actions
        places: dict[tuple[int, int], list[int]] = {}
        for place, key in enumerate(zip(step.entry.tolist(), step.choice.tolist(), strict=True)):
            places.setdefault(key, []).append(place)
        scores: list[dict[int, Interval]] = [{} for _ in step.x]
        for (entry, choice), taken in places.items():
            x, action = int(step.x[entry]), choice // self.policy.nodes
            weights = self._weights(x * actions + action, int(step.move[taken[0]]))
            after = mean(weights, [values[number] for number in step.number[taken].tolist()])
            paid = scaled(float(rewards[x, action]), self.bits)
            scores[entry][choice] = discounted(paid, discount, after)
        rows = zip(scores, step.choices.tolist(), strict=True)
        return [mean(whole_numbers([row[choice] for choice in own]), list(own.values())) for own, row in rows]

    def _weights(self, row: int, first: int) -> list[int]:
        """The probabilities of the moves of (x, a), of which the first is given, as whole numbers in proportion."""
        if row not in self.rows:
            rows, target, _, moved, shown = self.columns
            part = slice(first, int(np.searchsorted(rows, row, side="right")))
            self.rows[row] = proportions(target[part].tolist(), moved[part].tolist(), shown[part].tolist())
        return self.rows[row]

    def _start_weights(self) -> list[int]:
        x, _, weight, begun, shown = starts(self.problem.unrolled)
        model = self.problem.model_state[0][x].tolist()
        totals = {k: sum(map(Fraction, self.problem.unrolled.models[k].initial.tolist())) for k in set(model)}
        parts = zip(weight.tolist(), begun.tolist(), model, strict=True)
        chances = [Fraction(runs) * Fraction(chance) / totals[k] for runs, chance, k in parts]
        return proportions(x.tolist(), chances, shown.tolist())
