"""Whether a policy is proven to meet the constraints: by the verifier, and in exact arithmetic where floats cannot tell."""

import math
from dataclasses import replace

import numpy as np

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.errors import VeilError
from ..common.exact import always_met
from ..engine.feasibility import other_targets
from ..engine.paid import optimal_values
from ..engine.return_range import reaches, threshold
from ..measure.constrained import ConstraintValue, constraint_values
from ..policy.policy import Policy
from ..problem.problem import Problem
from ..problem.return_rounding import return_rounding
from .checked_policy import channels_heard
from .checked_problem import Bounds, CheckedProblem
from .compiled import free_quantities, record_of
from .described import described
from .policy_values import ProvenValue, policy_values


def meets_constraints(problem: Problem, policy: Policy, expected_return: float, clock: Clock = UNLIMITED) -> bool:
    """Whether a policy is proven to meet every bound on a quantity, as its certificate says.

    **Arguments:** `expected_return`: as it was evaluated; far enough from the threshold it decides without the verifier.
    `clock`: of the verifier, who proves nothing where its time does not suffice.
    """
    return reaches_threshold(problem, policy, expected_return, clock) and all(
        one.met for one in proven_others(problem, policy)
    )


def reaches_threshold(problem: Problem, policy: Policy, expected_return: float, clock: Clock = UNLIMITED) -> bool:
    """Whether the return of a policy is proven to be `problem.min_return` or more, whatever the other bounds."""
    if reaches(problem, expected_return):
        return True
    found = _verified(problem, policy, clock)
    return found is not None and found[0].met


def proven_others(problem: Problem, policy: Policy) -> tuple[ConstraintValue, ...]:
    """The bounds beside the threshold with the values of their quantities; each is `met` where that is proven.

    A value within rounding errors of its bound is decided by the verifier, and stated on the side of the bound that is so;
    where the verifier cannot tell, outside.
    """
    if not problem.others:
        return ()
    values = constraint_values(problem, policy)[-len(problem.others) :]
    stated, near = list[ConstraintValue](), list[bool]()
    for one, value in zip(problem.others, values, strict=True):
        about, last = problem.quantities[one.quantity], problem.channels[0].terminals[one.quantity]
        sure = always_met(one.sign, value.bound, about.paid, last, about.discount, problem.horizon)
        stated.append(_stated(value, True) if sure else value)
        near.append(not sure and abs(value.slack) <= return_rounding(problem, one.quantity))
    if not any(near):
        return tuple(stated)
    found = _verified(problem, policy)
    met = [False] * len(stated) if found is None else [one.met for one in found[1 : 1 + len(values)]]
    return tuple(_stated(one, proven) if close else one for one, proven, close in zip(stated, met, near, strict=True))


def _stated(one: ConstraintValue, met: bool) -> ConstraintValue:
    """A value on the side of its bound that is proven."""
    inside = 1.0 if one.relation == "≥" else -1.0
    if met:
        return one if one.met else replace(one, value=one.bound)
    return replace(one, value=math.nextafter(one.bound, -inside * math.inf)) if one.met else one


def _verified(problem: Problem, policy: Policy, clock: Clock = UNLIMITED) -> tuple[ProvenValue, ...] | None:
    """What the verifier proves of a policy's return and constraints; None where it cannot."""
    try:
        content, record = described(problem, policy), record_of(problem)
        checked = CheckedProblem(record, (0,), channels_heard(record, *content))
        every, bounds = (-1, problem.horizon + 1), bounds_of(problem)
        return policy_values(
            checked, content, every, 0.0, after_horizon(problem), bounds=bounds, clock=clock, bits=False
        ).quantities
    except (VeilError, OutOfTime):  # too large for the verifier, or an observer that it does not cover
        return None


def bounds_of(problem: Problem) -> Bounds:
    """The bounds of all constraints as numbers: the threshold on the return, None where there is none, then the others; None
    for each quantity that a task counts without a bound."""
    return threshold(problem), *(one.bound for one in other_targets(problem)), *(None for _ in free_quantities(problem))


def stated_return(expected_return: float, threshold: float | None, feasible: bool) -> float:
    """An evaluated return, not below a threshold that it is proven to reach."""
    return max(expected_return, threshold) if feasible and threshold is not None else expected_return


def after_horizon(problem: Problem) -> np.ndarray | None:
    """What an optimal continuation earns after the horizon in each hidden state, and one against the return, `(2, N)`; None
    where nothing does."""
    if problem.return_over != "infinite":
        return None
    record = record_of(problem)
    found = [np.stack([optimal_values(one, sign) for one in problem.models]) for sign in (1.0, -1.0)]
    return np.stack([one[record.model, record.state] for one in found])
