"""`opacity`, `opacity_gradient` and `expected_return`: every method behind one function, which states what it did and why."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..common.checks import Defects, as_floats
from ..common.errors import InputError
from ..common.workers import Workers, team_of
from ..engine.additive import chain_sums, sums_and_gradients
from ..engine.chain import make_chain, observed_chain
from ..engine.joint import DEFAULT_MEMORY
from ..policy.markov import MarkovPolicy, TimedPolicy
from ..policy.memories import Memory
from ..policy.memory import MemoryPolicy
from ..policy.policy import Policy
from ..policy.tables import softmax_pull_back
from ..policy.tabular import TablePolicy, table_policy
from ..problem.pairs import OWN
from ..problem.problem import Problem, check_problem
from .exact import Budget
from .ladder import Method as Method
from .ladder import Settings, measure, seconds_of
from .result import Opacity


def opacity(
    problem: Problem,
    policy: Policy,
    method: Method = "auto",
    *,
    pair: str = OWN,
    width: float = 1e-3,
    sequences: int = 2000,
    std_error: float | None = None,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = None,
    merge_tolerance: float = 0.0,
    workers: Workers = "auto",
) -> Opacity:
    """How many bits of the secret stay hidden: `H(Z|Y)` under a policy that the observer knows.

    **Arguments:**

    - `problem`, `policy`: any kind of policy that fits the problem.
    - `method`: `"exact"` enumerates the possible observation sequences; `"bracket"` gives proven bounds at any horizon;
      `"sampled"` estimates, with a standard error; `"auto"` takes the first of these that fits, and the result says
      which and why.
    - `pair`: the pair of the problem whose secret and observer count, by name; the problem's own by default.
    - `width`: of the bracket, in bits.
    - `sequences`, `std_error`, `seed`: of the sample; with `std_error` it grows until its standard error is that small.
    - `memory_bytes`: for messages, 2 GiB by default. `time_limit`: seconds; 300 for exact, 60 for a bracket, 20 for auto.
    - `merge_tolerance`: exact only; above 0, histories that leave the observer the same belief to this tolerance are
      merged, and the result is a bracket that bounds the effect.
    - `workers`: processes that share the sequences of a sample and the two ends of a bracket, by default as many as there
      are cores once the work takes a second; or the address of a Dask scheduler, which needs the extra `veil[cluster]`. The
      result is the same for any number, unless the time limit decides it.

    **Returns:** an `Opacity`.

    **Raises:** `TooLargeError` if an exact value does not fit the budget: before the work starts if the sequences can be
    counted (up to 2,000 hidden states), else once its first part shows that the rest takes many times the limit, or at
    the limit; `InputError`.
    """
    with team_of(workers) as team:
        budget = Budget(memory_bytes, seconds_of(method, time_limit), merge_tolerance, team)
        settings = Settings(method, budget, width, sequences, std_error, seed)
        return measure(observed_chain(make_chain(problem, policy, pair=pair)), settings).opacity


def opacity_gradient(
    problem: Problem,
    theta: ArrayLike | Policy,
    method: Method = "auto",
    *,
    pair: str = OWN,
    width: float = 1e-3,
    sequences: int = 2000,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = None,
    merge_tolerance: float = 0.0,
    memory: Memory | None = None,
    workers: Workers = "auto",
) -> tuple[Opacity, Float[np.ndarray, "*T C A"]]:
    """The opacity of a policy and its gradient in the logits of its table, by the adjoint recursion.

    **Arguments:**

    - `theta`: logits of a softmax policy, `(S, A)` for a stationary one, `(T, S, A)` for a time-dependent one, where -inf
      is an action that is never taken; or a policy given by a table, which is read as `softmax(θ)` with
      `θ = policy.logits()`, the logarithms of its probabilities. Of a `FeaturePolicy`, the table that it has in the problem.
    - `memory`: of logits only: what the policy remembers, as `StateMemory(1)`; θ then has the shape of
      `MemoryPolicy.uniform(problem, memory).probabilities`.
    - `method`, `pair`, `width`, `sequences`, `seed`, `memory_bytes`, `time_limit`, `merge_tolerance`, `workers`: as for
      `opacity`. A sampled gradient is unbiased; that of a bracket is the gradient of its lower bound.

    **Returns:** an `Opacity` and `∂H/∂θ` in bits, of the shape of θ. Actions that the policy never takes, or that are not
    available, have gradient 0.

    **Raises:** as `opacity`; `InputError` if the policy has no table.
    """
    check_problem(problem)
    with team_of(workers) as team:
        budget = Budget(memory_bytes, seconds_of(method, time_limit), merge_tolerance, team)
        settings = Settings(method, budget, width, sequences, None, seed)
        acting = acting_policy(problem, theta, memory)
        chain = observed_chain(make_chain(problem, acting, pair=pair))
        result, slope = measure(chain, settings, gradient=True)
    assert slope is not None
    return result, _in_logits(acting, slope)


def expected_return(problem: Problem, policy: Policy) -> float:
    """The expected return of a policy, exact: over the horizon, or over an infinite horizon with `return_over="infinite"`.

    A time-dependent policy plays optimally for the return after the horizon in the second case.
    """
    chain = make_chain(problem, policy)  # a return depends on neither observer nor secret
    return float(chain_sums(chain, slice(1))[0])


def return_gradient(
    problem: Problem, theta: ArrayLike | Policy, *, memory: Memory | None = None
) -> tuple[float, Float[np.ndarray, "*T C A"]]:
    """The expected return of a policy and its exact gradient in the logits of its table; see `opacity_gradient`."""
    check_problem(problem)
    acting = acting_policy(problem, theta, memory)
    chain = make_chain(problem, acting)
    values, slopes = sums_and_gradients(
        chain.hidden, chain.table[None], chain.hidden.paid[:1], stationary=chain.stationary
    )
    return float(values[0, 0]), _in_logits(acting, slopes[0, 0])


def acting_policy(problem: Problem, given: ArrayLike | Policy, memory: Memory | None) -> TablePolicy:
    """The policy of a table, or of the logits of one."""
    if isinstance(given, Policy):
        if memory is not None:
            raise InputError("memory", ["it is of logits, and a policy is given, which has its own: leave it out"])
        return table_policy(given, problem)
    if memory is not None:
        return MemoryPolicy.softmax(given, problem, memory)
    defects = Defects("softmax parameters")
    array = as_floats(given, "theta", defects)
    defects.raise_if_any()
    kind = TimedPolicy if array is not None and array.ndim == 3 else MarkovPolicy
    return kind.softmax(given, problem)


def _in_logits(policy: TablePolicy, gradient: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, "*T C A"]:
    """The gradient in the logits of a table, in their shape, from the one in the table."""
    gradient = softmax_pull_back(policy.table, gradient)
    return gradient if policy.timed else gradient[0]
