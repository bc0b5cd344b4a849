"""`opacity` and `opacity_gradient`: one door for every method, which says in the result what it did and why."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from ..common.checks import Defects, as_floats, is_number
from ..common.clock import Clock
from ..engine.chain import Chain, make_chain
from ..engine.joint import DEFAULT_MEMORY
from ..engine.returns import evaluate_return
from ..engine.size import tree_size
from ..policy.history import HistoryPolicy
from ..policy.markov import MarkovPolicy
from ..policy.memories import Memory
from ..policy.memory import MemoryPolicy
from ..policy.tables import Policy, softmax_pull_back
from ..policy.timed import TimedPolicy
from ..problem.problem import Problem
from .bracket import bracket_gradient, bracket_opacity
from .exact import (
    COUNTED_STATES,
    EXACT_SECONDS,
    Budget,
    EntropyObjective,
    exact_gradient,
    exact_opacity,
    exact_result,
    try_sparse,
)
from .history import history_opacity, history_return
from .result import Opacity
from .sampled import check_settings, sampled_gradient, sampled_opacity

Method = Literal["auto", "exact", "bracket", "sampled"]
_METHODS = ("auto", "exact", "bracket", "sampled")
_SECONDS = {"auto": 20.0, "exact": EXACT_SECONDS, "bracket": 60.0, "sampled": EXACT_SECONDS}
# `auto` enumerates where that is a matter of seconds.
_AUTO_EXACT_SECONDS = 5.0


@dataclass(frozen=True)
class _Settings:
    method: Method
    width: float
    sequences: int
    std_error: float | None
    seed: int
    budget: Budget

    def __post_init__(self) -> None:
        defects = Defects("opacity")
        if self.method not in _METHODS:
            defects.add(f"method is {self.method!r}, expected one of {', '.join(map(repr, _METHODS))}")
        if not (is_number(self.width) and self.width >= 0):
            defects.add(f"width is {self.width!r}, expected bits, 0 or more")
        defects.raise_if_any()
        check_settings(self.sequences, self.std_error, self.seed)


def opacity(
    problem: Problem,
    policy: Policy | HistoryPolicy,
    method: Method = "auto",
    *,
    width: float = 1e-3,
    sequences: int = 2000,
    std_error: float | None = None,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = None,
    merge_tolerance: float = 0.0,
) -> Opacity:
    """How many bits of the secret stay hidden: `H(Z|Y)` under a policy that the observer knows.

    **Arguments:**

    - `problem`, `policy`: a `MarkovPolicy`, `TimedPolicy`, `MemoryPolicy` or `HistoryPolicy` that fits the problem.
    - `method`: `"exact"` enumerates the possible observation sequences; `"bracket"` gives proven bounds at any horizon;
      `"sampled"` estimates, with a standard error; `"auto"` takes the first of these that fits, and the result says
      which and why.
    - `width`: of the bracket, in bits.
    - `sequences`, `std_error`, `seed`: of the sample; with `std_error` it grows until its standard error is that small.
    - `memory_bytes`: for messages, 2 GiB by default. `time_limit`: seconds; 300 for exact, 60 for a bracket, 20 for auto.
    - `merge_tolerance`: exact only; above 0, histories that leave the observer the same belief to this tolerance are
      merged, and the result is a bracket that bounds the effect.

    **Returns:** an `Opacity`.

    **Raises:** `TooLargeError`, before the work starts, where an exact value does not fit the budget; `InputError`.
    """
    budget = Budget(memory_bytes, _SECONDS.get(method, 1.0) if time_limit is None else time_limit, merge_tolerance)
    settings = _Settings(method, width, sequences, std_error, seed, budget)
    if isinstance(policy, HistoryPolicy) and method != "sampled":
        return history_opacity(problem, policy, method, budget, width)
    chain = make_chain(problem, policy)
    if method == "auto":
        return _auto(chain, settings)
    if method == "exact":
        return exact_opacity(chain, budget)
    if method == "bracket":
        return bracket_opacity(chain, budget, width=width)
    return _sampled(chain, settings)


def opacity_gradient(
    problem: Problem,
    theta: Any,
    method: Method = "exact",
    *,
    width: float = 1e-3,
    sequences: int = 2000,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = None,
    merge_tolerance: float = 0.0,
    memory: Memory | None = None,
) -> tuple[Opacity, Float[np.ndarray, "*T C A"]]:
    """The opacity of a softmax policy and its gradient in the parameters, by the adjoint recursion.

    **Arguments:**

    - `theta`: `(S, A)` for a stationary policy, `(T, S, A)` for a time-dependent one; -inf is an action that is never
      taken, with gradient 0.
    - `memory`: what the policy remembers, as `StateMemory(1)`; theta then has the shape of
      `MemoryPolicy.uniform(problem, memory).probabilities`.
    - `method`, `width`, `sequences`, `seed`, `memory_bytes`, `time_limit`, `merge_tolerance`: as for `opacity`. A sampled
      gradient is unbiased; that of a bracket is the gradient of its lower bound.

    **Returns:** an `Opacity` and the gradient in bits, of theta's shape. Actions that are not available have gradient 0.
    """
    budget = Budget(memory_bytes, _SECONDS.get(method, 1.0) if time_limit is None else time_limit, merge_tolerance)
    settings = _Settings(method, width, sequences, None, seed, budget)
    policy, chain = _softmax_chain(problem, theta, memory)
    found = _quick(chain, budget, gradient=True) if method == "auto" else None
    if found is not None:
        return found[0], _in_theta(policy, found[1])
    chosen, reason = _choose(chain, budget, gradient=True) if method == "auto" else (settings.method, "")
    if chosen == "exact":
        result, slope = exact_gradient(chain, budget, reason=reason)
    elif chosen == "bracket":
        result, slope = bracket_gradient(chain, budget, width=width, reason=reason)
    else:
        result, slope = sampled_gradient(
            chain, sequences=sequences, seed=seed, memory_bytes=memory_bytes, reason=reason
        )
    return result, _in_theta(policy, slope)


def expected_return(problem: Problem, policy: Policy | HistoryPolicy) -> float:
    """The expected return of a policy, exact: over the horizon, or over an infinite horizon where `return_over="infinite"`.

    A time-dependent policy plays optimally for the return after the horizon in the second case.
    """
    if isinstance(policy, HistoryPolicy):
        return history_return(problem, policy)
    return evaluate_return(problem, make_chain(problem, policy))[0]


def return_gradient(
    problem: Problem, theta: Any, *, memory: Memory | None = None
) -> tuple[float, Float[np.ndarray, "*T C A"]]:
    """The expected return of a softmax policy and its exact gradient in the parameters; see `opacity_gradient`."""
    policy, chain = _softmax_chain(problem, theta, memory)
    value, slope = evaluate_return(problem, chain)
    return value, _in_theta(policy, slope)


def _choose(chain: Chain, budget: Budget, *, gradient: bool) -> tuple[Method, str]:
    """The method that `auto` begins with, and why."""
    hidden = chain.hidden
    if hidden.num_states > COUNTED_STATES:
        return "sampled", f"{hidden.num_states:,} hidden states leave too many sequences possible to enumerate them"
    size = tree_size(chain)
    seconds = size.seconds(chain, gradient=gradient)
    if seconds <= min(_AUTO_EXACT_SECONDS, budget.time_limit) and size.exact:
        return "exact", f"all {size.text()} possible sequences can be enumerated in a few seconds"
    return "bracket", f"{size.text()} sequences are possible, too many to enumerate within the budget"


def _quick(chain: Chain, budget: Budget, *, gradient: bool) -> tuple[Opacity, np.ndarray] | None:
    """The exact value of a chain of many states, where few sequences are possible; None where it takes longer.

    Dense messages over many states are never worth trying, and a count costs as much as the walk.
    """
    if chain.hidden.num_states <= COUNTED_STATES:
        return None
    seconds = min(_AUTO_EXACT_SECONDS, 0.25 * budget.time_limit)
    found = try_sparse(chain, budget, EntropyObjective, seconds, gradient)
    if found is None:
        return None
    objective, walk, slope = found
    reason = f"all {walk.num_sequences:,.0f} possible sequences enumerated by what they leave possible"
    return exact_result(chain, walk, objective, reason), np.zeros(0) if slope is None else slope


def _auto(chain: Chain, settings: _Settings) -> Opacity:
    found = _quick(chain, settings.budget, gradient=False)
    if found is not None:
        return found[0]
    method, reason = _choose(chain, settings.budget, gradient=False)
    if method == "exact":
        return exact_opacity(chain, settings.budget, reason=reason)
    if method == "sampled":
        return replace(_sampled(chain, settings), reason=f"sampled: {reason}")
    clock = Clock()
    bracket = bracket_opacity(chain, settings.budget, width=settings.width)
    if bracket.upper - bracket.lower <= settings.width:
        return replace(bracket, reason=f"bracket: {reason}; {bracket.reason} reach the width")
    spent = clock.spent
    sample = _sampled(chain, settings)
    return replace(
        sample,
        # An estimate outside proven bounds is known to be off.
        bits=min(max(sample.bits, bracket.lower), bracket.upper),
        lower=bracket.lower,
        upper=bracket.upper,
        reason=f"sampled: {reason}; after {spent:.0f} s the proven bounds, kept as lower and upper, are still"
        f" {bracket.upper - bracket.lower:.2g} bits apart",
    )


def _sampled(chain: Chain, settings: _Settings) -> Opacity:
    return sampled_opacity(
        chain,
        sequences=settings.sequences,
        std_error=settings.std_error,
        seed=settings.seed,
        memory_bytes=settings.budget.memory_bytes,
    )


def _softmax_chain(
    problem: Problem, theta: Any, memory: Memory | None
) -> tuple[MarkovPolicy | TimedPolicy | MemoryPolicy, Chain]:
    if memory is not None:
        policy = MemoryPolicy.softmax(theta, problem, memory)
        return policy, make_chain(problem, policy)
    defects = Defects("softmax parameters")
    array = as_floats(theta, "theta", defects)
    defects.raise_if_any()
    kind = TimedPolicy if array is not None and array.ndim == 3 else MarkovPolicy
    policy = kind.softmax(theta, problem)
    return policy, make_chain(problem, policy)


def _in_theta(policy: MarkovPolicy | TimedPolicy | MemoryPolicy, slope: np.ndarray) -> np.ndarray:
    gradient = softmax_pull_back(policy.table, slope)
    return gradient if policy.timed else gradient[0]
