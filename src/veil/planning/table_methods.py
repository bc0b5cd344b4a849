"""The methods that search the tables of one class of policies, as `veil.solve` chooses them."""

from dataclasses import replace
from typing import get_args

from ..problem.problem import Problem
from .ascent import make_ascent
from .feature_ascent import search_features
from .methods import options_of
from .options import Goal, Objective, SolveOptions
from .primal_dual import PrimalDual
from .search import search
from .solution import Solution


class TableMethod:
    """What both support: every goal, every objective, and every class of policies with finite memory."""

    goals = get_args(Goal)
    objectives = get_args(Objective)
    memories = ("markov", "timed", "finite")


class AscentMethod(TableMethod):
    """See `veil.planning.ascent`."""

    summary = "gradient ascent from many starts under an augmented Lagrangian, then L-BFGS to a stationary point"
    options = options_of("ascent")

    def solve(self, problem: Problem, options: SolveOptions) -> Solution:
        """See `Method`."""
        options = replace(options, method="ascent")
        if options.features is None:
            return search(problem, options, make_ascent)
        return search_features(problem, options)


class PrimalDualMethod(TableMethod):
    """See `veil.planning.primal_dual`."""

    summary = "the paper's algorithm: gradient ascent on the policy, descent on the multiplier of the return"
    options = options_of("primal-dual")

    def solve(self, problem: Problem, options: SolveOptions) -> Solution:
        """See `Method`."""
        return search(problem, options, PrimalDual)
