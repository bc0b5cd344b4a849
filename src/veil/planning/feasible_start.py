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
from .first_order import DECAYS, Moments, first_order_step
from .game_starts import table_of_flows
from .objective import Objective
from .parameters import TableParameters
from .policy_class import Space

# Steps at most, and their size in logits: that of the first steps on samples (`schedule`).
_ITERATIONS, _RATE = 300, 0.2
_SPREAD = 0.05  # share of the uniform policy that steps begin from: with less, certain rows hardly move
_WORTH = 0.5  # share of the largest worst slack at which a table is far enough inside


def feasible_table(
    objective: Objective, richest: Float[np.ndarray, "T C A"], clock: Clock
) -> Float[np.ndarray, "T C A"]:
    """The table of the class with the largest worst slack that is found; `richest`, that of largest return, is a start.

    Cost: where the agent does not know the hidden state and the time, up to 300 evaluations of all constraints.
    """
    if objective.num_constraints == objective.num_bits:
        return richest
    mixture = feasible_mixture(objective.space.problem)
    known = np.stack([projected(objective.space, mixture), richest])
    slack = objective.sums(known).slack.min(axis=1)
    best, reached = known[int(np.argmax(slack))], float(slack.max())
    # With one start, hidden states that the agent tells apart and a clock, nothing is lost by the projection.
    enough = max(_WORTH * mixture.upper, -ROUNDING)
    return best if reached >= enough else _raised(objective, best, reached, enough, clock)


def projected(space: Space, mixture: Mixture) -> Float[np.ndarray, "T C A"]:
    """The policy of a mixture with its probabilities averaged over what the class does not tell apart."""
    problem = space.problem.informed
    if not problem.horizon:
        return space.softmax(np.zeros(space.shape))
    hidden = build(problem.with_clock())
    by_cell = np.zeros((problem.horizon, hidden.num_cells, problem.num_actions))
    for time, flow in enumerate(mixture.flows[:-1]):
        np.add.at(by_cell[time], hidden.cell, flow)
    return table_of_flows(space, by_cell)


def _raised(
    objective: Objective, start: np.ndarray, reached: float, enough: float, clock: Clock
) -> Float[np.ndarray, "T C A"]:
    """The table with the largest worst slack on the way of first-order steps that raise the least of all slacks."""
    parameters, count = TableParameters(objective.space, start), objective.num_constraints - objective.num_bits
    theta, best, every = parameters.of(start, _SPREAD)[None], start, np.ones(count, dtype=bool)
    moments = Moments.none(theta, every, count)
    for _ in range(_ITERATIONS):
        clock.check()
        tables = parameters.tables(theta)
        found = objective.sums(tables)
        if (worst := float(found.slack.min())) > reached:
            best, reached = tables[0], worst
            if reached >= enough:
                break
        jacobian = parameters.pull_back(theta, tables, found.slack_gradient)
        step, moments = first_order_step(
            moments, 0 * theta, found.slack - worst, jacobian, every, rate=_RATE, decays=DECAYS[False], num_least=count
        )
        theta = parameters.bounded(theta + step)
    return best
