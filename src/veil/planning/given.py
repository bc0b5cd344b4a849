"""The answer about a policy that was given: what it hides and earns, measured, without a search and without a proof."""

import math

from ..common.clock import Clock
from ..engine.return_range import threshold
from ..measure.constrained import constraint_values
from ..measure.evaluate import expected_return, opacity
from ..measure.pairs import pair_values
from ..policy.policy import Policy
from ..problem.problem import Problem
from ..proof.feasibility import reaches_threshold
from .solution import Solution, Status


def given_solution(problem: Problem, policy: Policy, *, seed: int = 0, time_limit: float | None = None) -> Solution:
    """A policy with its measured values, as a `Solution` with the status `GIVEN`.

    **Arguments:** `seed`: as for `veil.opacity`; `time_limit`: seconds for all pairs together.

    **Raises:** `InputError` if the policy does not fit the problem.
    """
    earned, values = expected_return(problem, policy), constraint_values(problem, policy)
    clock, first = Clock(time_limit), None if time_limit is None else time_limit / (1 + len(problem.pairs))
    hidden = opacity(problem, policy, seed=seed, time_limit=first)
    rest = None if time_limit is None else clock.left
    wanted, pairs = threshold(problem), pair_values(problem, policy, seed=seed, time_limit=rest)
    others = values[wanted is not None :]
    return Solution(
        policy=policy,
        policy_class=policy.describe(),
        opacity=hidden,
        expected_return=earned,
        threshold=wanted,
        feasible=reaches_threshold(problem, policy, earned) and all(one.met for one in (*others, *pairs)),
        status=Status.GIVEN,
        method="none",
        price_bits=math.nan,
        seed=seed,
        seconds=clock.spent,
        needs_observations=policy.needs_observations,
        constraints=values,
        pairs=pairs,
        certificate_note=Status.GIVEN.value,
        problem=problem,
    )
