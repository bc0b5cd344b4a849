"""A table of a class of policies that meets several constraints, for searches to begin from and to move back to.

The policy whose worst slack is largest is known over all policies that know the hidden state (`engine.feasibility`). Its share
of each row of the table is the answer where the agent knows that state and the time; for smaller classes it is a start, from
which the worst slack is raised by gradient steps.
"""

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock
from ..engine.compile import build
from ..engine.feasibility import ROUNDING, Mixture, feasible_mixture
from ..engine.return_range import averaged_table, normalised
from ..policy.markov import MarkovPolicy
from ..policy.tables import softmax_pull_back
from ..policy.timed import TimedPolicy
from .policy_class import Space
from .starts import logits
from .task import Task

_ITERATIONS, _RATE, _DECAYS = 300, 0.1, (0.9, 0.99)  # of Adam
_WORTH = 0.5  # share of the largest worst slack at which a table is far enough inside
_SHARPNESS = (20.0, 400.0)  # of the soft minimum of the slacks, at the beginning and the end


def feasible_table(task: Task, richest: Float[np.ndarray, "T C A"], clock: Clock) -> Float[np.ndarray, "T C A"]:
    """The table of the class with the largest worst slack that is found; `richest`, that of largest return, is a start.

    Cost: where the agent does not know the hidden state and the time, up to 300 evaluations of all constraints.
    """
    if not task.num_constraints:
        return richest
    mixture = feasible_mixture(task.space.problem)
    known = np.stack([projected(task.space, mixture), richest])
    slack = task.sums(known).slack.min(axis=1)
    best, reached = known[int(np.argmax(slack))], float(slack.max())
    # With one start, hidden states that the agent tells apart and a clock, nothing is lost by the projection.
    enough = max(_WORTH * mixture.upper, -ROUNDING)
    return best if reached >= enough else _raised(task, best, reached, enough, clock)


def projected(space: Space, mixture: Mixture) -> Float[np.ndarray, "T C A"]:
    """The policy of a mixture with its probabilities averaged over what the class does not tell apart."""
    given, problem = space.problem, space.problem.informed
    hidden, flows = build(problem.with_clock()), mixture.flows[:-1]
    if not problem.horizon:
        return space.softmax(np.zeros(space.shape))
    by_cell = np.zeros((problem.horizon, hidden.num_cells, problem.num_actions))
    for time, flow in enumerate(flows):
        np.add.at(by_cell[time], hidden.cell, flow)
    always = by_cell.sum(axis=0)
    even = problem.available / problem.available.sum(axis=1, keepdims=True)
    stationary = normalised(always, even)
    timed = np.stack([normalised(one, stationary) for one in by_cell])
    if space.stationary:
        table = stationary if given.agent.sees_state else averaged_table(given, timed).mean(axis=0)
        return space.table_of(MarkovPolicy(table))
    return space.table_of(TimedPolicy(averaged_table(given, timed)))


def _raised(task: Task, start: np.ndarray, reached: float, enough: float, clock: Clock) -> np.ndarray:
    """The table with the largest worst slack on the way of Adam on a soft minimum of the slacks."""
    theta, best = logits(task.space, start, 0.05), start
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    first, second = _DECAYS
    for count in range(1, _ITERATIONS + 1):
        clock.check()
        table = task.space.softmax(theta)
        found = task.sums(table[None])
        slacks, slopes = found.slack, found.slack_slope
        worst = float(slacks.min())
        if worst > reached:
            best, reached = table, worst
            if reached >= enough:
                break
        sharpness = _SHARPNESS[0] * (_SHARPNESS[1] / _SHARPNESS[0]) ** (count / _ITERATIONS)
        weights = np.exp(sharpness * (worst - slacks[0]))
        gradient = softmax_pull_back(table, np.einsum("k,ktca->tca", weights / weights.sum(), slopes[0]))
        mean, square = first * mean + (1 - first) * gradient, second * square + (1 - second) * gradient**2
        theta = theta + _RATE * (mean / (1 - first**count)) / (np.sqrt(square / (1 - second**count)) + 1e-12)
    return best
