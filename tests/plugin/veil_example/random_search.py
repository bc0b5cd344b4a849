"""The method `random`: the best of many random stationary policies that reach the threshold; a baseline."""

import numpy as np

import veil
from veil.common.clock import Clock
from veil.engine.return_range import check_feasible, reaches, threshold
from veil.planning.options import SolveOptions
from veil.planning.solution import Solution, Status


class RandomSearch:
    """Draws `starts` policies, 100 by default, within the time limit."""

    summary = "the best feasible policy among random stationary ones"
    goals = ("opaque",)
    objectives = ("entropy",)
    memories = ("markov",)
    options = frozenset({"starts"})

    def solve(self, problem: veil.Problem, options: SolveOptions) -> Solution:
        """See `veil.planning.methods.Method`."""
        check_feasible(problem)
        clock, generator = Clock(options.time_limit), np.random.default_rng(options.seed)
        best, most, drawn = veil.MarkovPolicy.uniform(problem), -1.0, 0
        for _ in range(options.starts or 100):
            if clock.reason is not None:
                break
            theta = generator.normal(scale=2.0, size=(problem.num_cells, problem.num_actions))
            policy = veil.MarkovPolicy.softmax(theta, problem)
            drawn += 1
            if reaches(problem, veil.expected_return(problem, policy)):
                bits = veil.opacity(problem, policy).bits
                best, most = (policy, bits) if bits > most else (best, most)
        return Solution(
            policy=best,
            policy_class="stationary Markov policies",
            opacity=veil.opacity(problem, best),
            expected_return=veil.expected_return(problem, best),
            threshold=threshold(problem),
            feasible=most >= 0,
            status=Status.CONVERGED if most >= 0 else Status.INFEASIBLE,
            method="random",
            iterations=drawn,
            seconds=clock.spent,
            seed=options.seed,
        )
