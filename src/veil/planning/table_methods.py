"""The methods that search one class of policies, as `veil.solve` chooses them, and how each is put together."""

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from jaxtyping import Float

from ..problem.problem import Problem
from .ascent import MOST_BATCH, Ascent
from .iteration import Iteration
from .methods import options_of
from .objective import Objective
from .options import Goal, SolveOptions
from .options import Objective as Quantity
from .parameters import TableParameters
from .primal_dual import PrimalDual
from .schedule import Schedule, exact_schedule, first_batch, num_exact_starts, num_sampled_starts, sampled_schedule
from .search import search
from .solution import Solution
from .starts import exact_starts, sampled_starts

# Seconds for each transition and sequence of a gradient, for each decision, for each transition and quantity of a sum of
# rewards with its gradient, and for each parameter and bound of a step (measured on one core).
_PER_ENTRY, _PER_STEP, _PER_SUM, _PER_PARAMETER = 4e-9, 4e-4, 6e-9, 2e-8
_LEAST_BATCH = 32


def make_ascent(objective: Objective, safe: Float[np.ndarray, "T C A"], options: SolveOptions) -> Iteration[Any]:
    """The default method for an objective; `safe` is the table of largest return, which candidates are mixed with."""
    given = [] if options.start is None else [objective.space.table_of(options.start)]
    if objective.is_sampled:
        return _on_samples(objective, safe, options, given)
    count = options.starts or num_exact_starts(objective)
    starts = exact_starts(objective, safe, count, options.seed) + given
    schedule = exact_schedule(objective, options.iterations)
    return Ascent(objective, TableParameters(objective.space, safe), starts, [safe, *given], schedule, options)


def _on_samples(
    objective: Objective, safe: Float[np.ndarray, "T C A"], options: SolveOptions, given: list[np.ndarray]
) -> Iteration[Any]:
    space = objective.space
    if space.on_device is not None:
        from .device_parameters import on_device  # imports JAX

        return on_device(objective, safe, options, given)
    batch, limit = first_batch_of(objective, MOST_BATCH // 2), objective.clock.time_limit
    seconds = _step_seconds(objective, batch)
    most = options.starts or num_sampled_starts(seconds, limit) + len(given)
    starts = sampled_starts(objective, safe, replace(options, starts=most), given)
    schedule = sampled_schedule(len(starts), seconds, limit, options.iterations)
    return Ascent(objective, TableParameters(space, safe), starts, [safe, *given], schedule, options, batch)


def first_batch_of(objective: Objective, most: int) -> int:
    """Sequences of the first gradients of an objective on samples."""
    return first_batch(_PER_ENTRY * _entries(objective), _LEAST_BATCH, most)


def planned_samples(objective: Objective, options: SolveOptions, batch: int) -> tuple[int, Schedule]:
    """Starts and schedule of a search on samples with the time limit of the options."""
    limit = math.inf if options.time_limit is None else options.time_limit
    seconds = _step_seconds(objective, batch)
    starts = options.starts or num_sampled_starts(seconds, limit) + (options.start is not None)
    return starts, sampled_schedule(starts, seconds, limit, options.iterations)


def _step_seconds(objective: Objective, batch: int) -> float:
    """The forecast of one step of one start: its bits, sums of rewards, and parameters."""
    bits = _PER_ENTRY * _entries(objective) * batch
    bits += _PER_STEP * objective.space.hidden.horizon * len(objective.sampled)
    hidden, quantities = objective.space.hidden, 1 + len(objective.others) + len(objective.terms)
    sums = _PER_SUM * hidden.horizon * hidden.kernel.num_entries * hidden.kernel.num_actions * (1 + quantities)
    return bits + sums + _PER_PARAMETER * int(np.prod(objective.space.shape)) * (2 + objective.num_constraints)


def _entries(objective: Objective) -> int:
    """Transitions at all times, of all channels that are sampled."""
    return sum(one.space.layers.num_entries for one in objective.sampled)


class TableMethod:
    """What both support: every goal, every objective, and every class of policies with finite memory."""

    goals = get_args(Goal)
    objectives = get_args(Quantity)
    memories = ("markov", "timed", "finite")


class AscentMethod(TableMethod):
    """See `veil.planning.ascent`."""

    summary = "many starts, those of convex games among them, and gradient steps that keep every bound"
    options = options_of("ascent")

    def solve(self, problem: Problem, options: SolveOptions) -> Solution:
        """See `Method`."""
        options = replace(options, method="ascent")
        if options.features is None:
            return search(problem, options, make_ascent)
        from .feature_search import search_features

        return search_features(problem, options)


class PrimalDualMethod(TableMethod):
    """See `veil.planning.primal_dual`."""

    summary = "the paper's algorithm: gradient ascent on the policy, descent on the multiplier of the return"
    options = options_of("primal-dual")

    def solve(self, problem: Problem, options: SolveOptions) -> Solution:
        """See `Method`."""
        return search(problem, options, PrimalDual)
