"""Whether a policy is proven to reach the threshold: by the verifier, and in exact arithmetic where floats cannot tell."""

import numpy as np

from ..common.errors import VeilError
from ..engine.return_range import reaches, threshold
from ..engine.returns import optimal_values
from ..policy.policy import Policy
from ..problem.problem import Problem
from .checked_problem import CheckedProblem
from .policy_values import policy_return


def reaches_threshold(problem: Problem, policy: Policy, expected_return: float) -> bool:
    """Whether the return of a policy is proven to be `problem.min_return` or more, as its certificate will say.

    **Arguments:** `expected_return`: as it was evaluated; far enough from the threshold it decides without the verifier.
    """
    if reaches(problem, expected_return):
        return True
    try:
        return policy_return(CheckedProblem(problem), policy, after_horizon(problem), threshold(problem)).feasible
    except VeilError:  # too large for the verifier, or an observer that it does not cover
        return False


def stated_return(expected_return: float, threshold: float | None, feasible: bool) -> float:
    """An evaluated return, not below a threshold that it is proven to reach."""
    return max(expected_return, threshold) if feasible and threshold is not None else expected_return


def after_horizon(problem: Problem) -> np.ndarray | None:
    """What an optimal continuation earns after the horizon, `(K, S)`; None where nothing does."""
    return np.stack([optimal_values(one) for one in problem.models]) if problem.return_over == "infinite" else None
