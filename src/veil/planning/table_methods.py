"""The methods that search one class of policies, as `veil.solve` chooses them, and how each is put together."""

import contextlib
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from jaxtyping import Float

from ..common.clock import OutOfTime
from ..problem.problem import Problem
from .device_layout import COMPILE_SECONDS
from .exact_ascent import ExactAscent
from .iteration import Iteration
from .methods import options_of
from .mixing import apart, best_mixture, coin_of, parts_of
from .objective import Objective
from .options import Goal, SolveOptions
from .options import Objective as Quantity
from .parameters import table_parameters
from .plan import SHARE
from .primal_dual import PrimalDual
from .sampled_ascent import SampledAscent
from .schedule import exact_schedule, first_batch, num_exact_starts, num_sampled_starts, sampled_schedule
from .search import search
from .solution import Solution
from .starts import exact_starts, sampled_starts


def make_ascent(objective: Objective, safe: Float[np.ndarray, "T C A"], options: SolveOptions) -> Iteration[Any]:
    """The default method for an objective; `safe` is the table of largest return, which candidates are mixed with."""
    space, given = objective.space, [] if options.start is None else [objective.space.table_of(options.start)]
    parameters = table_parameters(space, safe)
    if not objective.is_sampled:
        count = options.starts or num_exact_starts(objective)
        starts, known = exact_starts(objective, safe, count, options.seed) + given, [safe, *given]
        if coin_of(space) is not None:  # where there is none, so many starts are spread that mixtures add little
            starts, known = _with_mixture(objective, options, starts, known)
        schedule = exact_schedule(objective, options.iterations, len(starts))
        return ExactAscent(objective, parameters, starts, known, schedule, options)
    if space.on_device is not None:
        objective.clock.check(ahead=COMPILE_SECONDS)
    most = num_sampled_starts(objective, options, len(given))
    starts = sampled_starts(objective, safe, replace(options, starts=most), given)
    starts, known = _with_mixture(objective, options, starts, [safe, *given])
    schedule, known = sampled_schedule(objective, options, len(starts)), [space.layers.send(one) for one in known]
    return SampledAscent(objective, parameters, starts, known, schedule, options, first_batch(objective))


def _with_mixture(
    objective: Objective, options: SolveOptions, starts: list[np.ndarray], known: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Starts and known tables with the best mixture of them: feasible from the first second, and with a coin a start too."""
    space, found = objective.space, None
    with contextlib.suppress(OutOfTime):
        single = [one for one in starts if len(parts_of(space, one)) == 1]
        found = best_mixture(objective, options, [*known, *single], objective.clock.share(SHARE))
    if coin_of(space) is not None:
        starts = [*apart(space, starts, known[0]), *([] if found is None else [found])]
    return starts, [*known, *([] if found is None else [found])]


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
