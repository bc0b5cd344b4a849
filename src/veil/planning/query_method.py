"""The method `"queries"`: plans of an observer that chooses where to look, by `veil.querying`."""

from ..common.errors import InputError
from ..common.writers import writer
from ..problem.problem import Problem
from .methods import options_of
from .options import SolveOptions
from .solution import Solution


class QueryMethod:
    """`veil.best_queries` as a method of `veil.solve`: the least that is left, over all policies of the observer."""

    summary = (
        "the least that an observer which chooses its queries is left with, between bounds, by a search of beliefs"
    )
    goals = ("transparent",)
    objectives = ("entropy",)
    memories = ("markov", "timed", "finite", "history")  # the plan remembers all answers, whatever is asked for
    options = options_of("queries")

    def solve(self, problem: Problem, options: SolveOptions) -> Solution:
        """See `Method`. A task `-0.1*return` is the price of queries in bits.

        **Raises:** `InputError` where the goal is not `"transparent"`, or the agent sees more than the observer.
        """
        if options.goal != "transparent":
            words = "an observer that queries wants to know the secret: pass goal='transparent'"
            raise InputError("solve", [f"method 'queries' has goal 'transparent', found {options.goal!r}: {words}"])
        return writer("queries")(problem, options)
