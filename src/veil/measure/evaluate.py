"""`opacity`, `opacity_gradient` and `expected_return`: every method behind one function, which states what it did and why."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..common.checks import Defects, as_floats, is_number
from ..common.clock import Clock
from ..engine.chain import Chain, make_chain
from ..engine.joint import DEFAULT_MEMORY
from ..engine.returns import evaluate_return
from ..engine.size import tree_size
from ..policy.markov import MarkovPolicy
from ..policy.memories import Memory
from ..policy.memory import MemoryPolicy
from ..policy.policy import Policy
from ..policy.tables import softmax_pull_back
from ..policy.tabular import TablePolicy
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
# Sparse rows are tried for this long where a count says that many sequences are possible, and for no larger share of
# the time limit than this.
_TRIAL_SECONDS, _TRIAL_SHARE = 0.3, 0.1


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
    policy: Policy,
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
    chain = make_chain(problem, policy)
    if chain.followed is not None and method != "sampled":
        return history_opacity(chain.followed, method, budget, width)
    if method == "auto":
        return _auto(chain, settings)
    if method == "exact":
        return exact_opacity(chain, budget)
    if method == "bracket":
        return bracket_opacity(chain, budget, width=width)
    return _sampled(chain, settings)


def opacity_gradient(
    problem: Problem,
    theta: ArrayLike,
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
    choice = _choose(chain, budget, gradient=True) if method == "auto" else _Choice(settings.method, "")
    if choice.found is not None:
        result, slope = choice.found
        assert slope is not None
        return result, _in_theta(policy, slope)
    chosen, reason = choice.method, choice.reason
    if chosen == "exact":
        result, slope = exact_gradient(chain, budget, reason=reason)
    elif chosen == "bracket":
        result, slope = bracket_gradient(chain, budget, width=width, reason=reason)
    else:
        result, slope = sampled_gradient(
            chain, sequences=sequences, seed=seed, memory_bytes=memory_bytes, reason=reason
        )
    return result, _in_theta(policy, slope)


def expected_return(problem: Problem, policy: Policy) -> float:
    """The expected return of a policy, exact: over the horizon, or over an infinite horizon where `return_over="infinite"`.

    A time-dependent policy plays optimally for the return after the horizon in the second case.
    """
    chain = make_chain(problem, policy)
    if chain.followed is not None:
        return history_return(problem, chain.followed)
    return evaluate_return(problem, chain)[0]


def return_gradient(
    problem: Problem, theta: ArrayLike, *, memory: Memory | None = None
) -> tuple[float, Float[np.ndarray, "*T C A"]]:
    """The expected return of a softmax policy and its exact gradient in the parameters; see `opacity_gradient`."""
    policy, chain = _softmax_chain(problem, theta, memory)
    value, slope = evaluate_return(problem, chain)
    return value, _in_theta(policy, slope)


@dataclass(frozen=True)
class _Choice:
    """What `auto` does, and why; `found` where the choice itself has come upon the answer."""

    method: Method
    reason: str
    found: tuple[Opacity, np.ndarray | None] | None = None


def _choose(chain: Chain, budget: Budget, *, gradient: bool) -> _Choice:
    """The cheapest method by forecast: dense messages where they take seconds, else sparse rows where those do.

    The number of sequences is no forecast of what sparse rows cost, since histories merge: they are tried for a while.
    """
    counted = chain.hidden.num_states <= COUNTED_STATES
    size = tree_size(chain) if counted else None
    if size is not None and size.exact:
        seconds = size.seconds(chain, gradient=gradient)
        if seconds <= min(_AUTO_EXACT_SECONDS, budget.time_limit):
            return _Choice("exact", f"all {size.text()} possible sequences can be enumerated in a few seconds")
    trial = min(_TRIAL_SECONDS if counted else _AUTO_EXACT_SECONDS, _TRIAL_SHARE * budget.time_limit)
    tried = try_sparse(chain, budget, EntropyObjective, trial, gradient=gradient)
    if tried is not None:
        objective, walk, slope = tried
        reason = f"all {_number_text(walk.num_sequences)} possible sequences enumerated as rows with sparse support"
        return _Choice("exact", reason, (exact_result(chain, walk, objective, reason), slope))
    if size is None:
        return _Choice("sampled", f"the possible sequences over {chain.hidden.num_states:,} hidden states are too many")
    return _Choice("bracket", f"{size.text()} sequences are possible, too many to enumerate within the budget")


def _number_text(number: float) -> str:
    return f"{number:,.0f}" if number < 1e15 else f"{number:.3g}"


def _auto(chain: Chain, settings: _Settings) -> Opacity:
    choice = _choose(chain, settings.budget, gradient=False)
    if choice.found is not None:
        return choice.found[0]
    if choice.method == "exact":
        return exact_opacity(chain, settings.budget, reason=choice.reason)
    if choice.method == "sampled":
        return replace(_sampled(chain, settings), reason=f"sampled: {choice.reason}")
    clock = Clock()
    bracket = bracket_opacity(chain, settings.budget, width=settings.width, give_up=True)
    if bracket.upper - bracket.lower <= settings.width:
        return replace(bracket, reason=f"bracket: {choice.reason}; {bracket.reason} reach the width")
    spent = clock.spent
    return replace(
        _sampled(chain, settings),
        lower=bracket.lower,
        upper=bracket.upper,
        reason=f"sampled: {choice.reason}; after {spent:.0f} s the proven bounds, kept as lower and upper, are still"
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


def _softmax_chain(problem: Problem, theta: ArrayLike, memory: Memory | None) -> tuple[TablePolicy, Chain]:
    if memory is not None:
        policy = MemoryPolicy.softmax(theta, problem, memory)
        return policy, make_chain(problem, policy)
    defects = Defects("softmax parameters")
    array = as_floats(theta, "theta", defects)
    defects.raise_if_any()
    kind = TimedPolicy if array is not None and array.ndim == 3 else MarkovPolicy
    policy = kind.softmax(theta, problem)
    return policy, make_chain(problem, policy)


def _in_theta(policy: TablePolicy, gradient: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "*T C A"]:
    """The gradient with respect to the parameters, in their shape, from the one with respect to the table."""
    gradient = softmax_pull_back(policy.table, gradient)
    return gradient if policy.timed else gradient[0]
