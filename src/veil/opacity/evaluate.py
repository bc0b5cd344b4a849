"""`opacity` and `opacity_gradient`: one door for every method, which says in the result what it did and why."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from ..engine.chain import Chain
from ..engine.hidden import build
from ..engine.joint import DEFAULT_MEMORY
from ..engine.returns import evaluate_return
from ..policy.markov import MarkovPolicy
from ..policy.tables import Policy, check_fits, policy_is_stationary, softmax_pull_back
from ..policy.timed import TimedPolicy
from ..problem.errors import InputError
from ..problem.problem import Problem
from .exact import DEFAULT_SECONDS, Budget, exact_gradient, exact_opacity, make_chain
from .result import Opacity

Method = Literal["auto", "exact"]


def opacity(
    problem: Problem,
    policy: Policy,
    method: Method = "auto",
    *,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = DEFAULT_SECONDS,
    merge_tolerance: float = 0.0,
) -> Opacity:
    """How many bits of the secret stay hidden: `H(Z|Y)` under a policy that the watcher knows.

    **Arguments:**

    - `problem`, `policy`: a `MarkovPolicy` or a `TimedPolicy` that fits the problem.
    - `method`: `"exact"` enumerates the possible observation sequences.
    - `memory_bytes`, `time_limit`, `merge_tolerance`: the budget of the exact method, see `Budget`.

    **Returns:** an `Opacity`.

    **Raises:** `TooLargeError`, before the work starts, where the tree does not fit the budget; `InputError`.
    """
    _check_method(method)
    budget = Budget(memory_bytes, time_limit, merge_tolerance)
    return exact_opacity(make_chain(problem, policy), budget)


def opacity_gradient(
    problem: Problem,
    theta: Any,
    method: Method = "exact",
    *,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = DEFAULT_SECONDS,
    merge_tolerance: float = 0.0,
) -> tuple[Opacity, Float[np.ndarray, "*T C A"]]:
    """The opacity of a softmax policy and its gradient in the parameters, by the adjoint recursion.

    **Arguments:** `theta`: `(S, A)` for a stationary policy, `(T, S, A)` for one with a clock; -inf is an action never
    taken, whose gradient is 0. The rest as for `opacity`.

    **Returns:** an `Opacity` and the gradient in bits, of theta's shape. Actions that are not available have gradient 0.
    """
    _check_method(method)
    policy, chain = _softmax_chain(problem, theta)
    result, slope = exact_gradient(chain, Budget(memory_bytes, time_limit, merge_tolerance))
    return result, _in_theta(policy, slope)


def expected_return(problem: Problem, policy: Policy) -> float:
    """The expected return of a policy, exact: over the horizon, or for ever where `return_over="infinite"`.

    A policy with a clock plays optimally for the return after the horizon in the second case.
    """
    return evaluate_return(problem, make_chain(problem, policy))[0]


def return_gradient(problem: Problem, theta: Any) -> tuple[float, Float[np.ndarray, "*T C A"]]:
    """The expected return of a softmax policy and its exact gradient in the parameters `(S, A)` or `(T, S, A)`."""
    policy, chain = _softmax_chain(problem, theta)
    value, slope = evaluate_return(problem, chain)
    return value, _in_theta(policy, slope)


def _check_method(method: str) -> None:
    if method not in ("auto", "exact"):
        raise InputError("opacity", [f"method is {method!r}, expected 'auto' or 'exact'"])


def _softmax_chain(problem: Problem, theta: Any) -> tuple[MarkovPolicy | TimedPolicy, Chain]:
    timed = np.ndim(theta) == 3
    policy = (TimedPolicy if timed else MarkovPolicy).softmax(theta, problem)
    chain = Chain(build(problem), check_fits(policy, problem), stationary=policy_is_stationary(policy))
    return policy, chain


def _in_theta(policy: MarkovPolicy | TimedPolicy, slope: np.ndarray) -> np.ndarray:
    gradient = softmax_pull_back(policy.table, slope)
    return gradient if policy.timed else gradient[0]
