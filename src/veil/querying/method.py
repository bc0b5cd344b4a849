"""`veil.solve(problem, "queries")`: plans of an observer that chooses where to look, with bounds from both sides."""

import math

from ..common.errors import InputError
from ..engine.feasibility import check_constraints
from ..measure.evaluate import expected_return, opacity
from ..planning.options import SolveOptions
from ..planning.solution import Solution, Status
from ..problem.problem import Problem
from ..problem.terms import read_terms
from ..proof.feasibility import meets_constraints
from .best import best_queries

_SECONDS, _PROOF_SECONDS, _MEASURE_SECONDS = 60.0, 20.0, 20.0  # where no limit is given
_GAP = 1e-6


def solve_queries(problem: Problem, options: SolveOptions) -> Solution:
    """The plan of `veil.best_queries`, measured, with its proof; see `veil.planning.methods.QueryMethod`."""
    check_constraints(problem)
    found = best_queries(
        problem,
        time_limit=_SECONDS if options.time_limit is None else options.time_limit,
        gap=_GAP if options.gap is None else options.gap,
        price=_price(options.task),
        seed=options.seed,
        progress=options.progress,
    )
    value = expected_return(problem, found.policy)
    feasible = meets_constraints(problem, found.policy, value)
    seconds = _PROOF_SECONDS if options.certificate_time_limit is None else options.certificate_time_limit
    reached = Status.CONVERGED if found.gap <= max(_GAP, options.gap or 0.0) * 1.01 else Status.TIME_LIMIT
    certifies = options.certificate and options.task is None
    compared = {"greedy": found.greedy, "all sensors at once": found.floor, "nothing asked": found.blind}
    return Solution(
        policy=found.policy,
        policy_class="all policies that remember the answers",
        opacity=opacity(problem, found.policy, time_limit=_MEASURE_SECONDS),
        expected_return=value,
        threshold=None,
        feasible=feasible,
        status=reached if feasible else Status.INFEASIBLE,
        method="queries",
        goal="transparent",
        detail=found.summary(),
        price_bits=math.nan,
        iterations=found.nodes,
        seconds=found.seconds,
        seed=options.seed,
        needs_observations=True,
        settings={
            "lower": found.lower,
            "upper": found.upper,
            "plan": found.how,
            "compared": {name: bits for name, bits in compared.items() if bits is not None},
        },
        repeatable=False,  # every part of the search has a share of the time
        certificate=found.certify(time_limit=seconds) if certifies else None,
    )


def _price(task: str | None) -> float:
    """The bits that one unit of the return costs, of a task such as `-0.1*return`."""
    terms = () if task is None else read_terms(task)
    if any(one.name != "return" or one.factor > 0 for one in terms):
        words = "method 'queries' has a price of the return alone, such as task='-0.1*return'"
        raise InputError("task", [f"{words}, found {task!r}"])
    return -sum(one.factor for one in terms)
