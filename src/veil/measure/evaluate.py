"""`opacity`, `opacity_gradient` and `expected_return`: every method behind one function, which states what it did and why."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..common.checks import Defects, as_floats, is_number
from ..common.clock import Clock, OutOfTime
from ..common.errors import InputError, TooLargeError
from ..common.workers import Workers, team_of
from ..engine.additive import chain_sums, sums_and_gradients
from ..engine.chain import Chain, make_chain
from ..engine.followed import Followed
from ..engine.joint import DEFAULT_MEMORY
from ..engine.size import TreeSize, tree_size
from ..policy.markov import MarkovPolicy
from ..policy.memories import Memory
from ..policy.memory import MemoryPolicy
from ..policy.policy import Policy, check_call
from ..policy.tables import softmax_pull_back
from ..policy.tabular import TablePolicy, table_policy
from ..policy.timed import TimedPolicy
from ..problem.pairs import OWN
from ..problem.problem import Problem, check_problem
from .bracket import bracket_gradient, bracket_opacity, bracket_result, bracket_slope, deepen, deepest, window_text
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
from .history import history_bracket
from .result import Opacity
from .sampled import check_settings, sampled_gradient, sampled_opacity
from .trajectory import bracket_path, exact_path, sampled_path

Method = Literal["auto", "exact", "bracket", "sampled"]
_METHODS = ("auto", "exact", "bracket", "sampled")
_WITHOUT_CLOCK = ("auto", "exact")  # the methods that cover an observer without a clock
_STRINGS = "all possible strings of an observer without a clock"
_SECONDS = {"auto": 20.0, "exact": EXACT_SECONDS, "bracket": 60.0, "sampled": EXACT_SECONDS}
# `auto` enumerates where that is a matter of seconds.
_AUTO_EXACT_SECONDS = 5.0
# A forecast of an enumeration is right within about this factor.
_OVERRUN = 3
# Of the time that is left: for counting sequences, for an enumeration that the forecast recommends, and for a bracket; where
# a gradient is wanted the bracket leaves time for it.
_COUNT_SHARE, _EXACT_SHARE, _BRACKET_SHARE, _GRADIENT_SHARE = 0.1, 0.75, 0.5, 0.2
# Sparse rows are tried for this long where a count says that many sequences are possible, and for no larger share of
# the time limit than this.
_TRIAL_SECONDS, _TRIAL_SHARE = 0.3, 0.1
_PATH_EXACT_SHARE = 0.5  # of the time, for the sequences of a secret that is a whole path, where a sample may follow
_HISTORY_EXACT_SHARE = 0.5  # of the time, for the sequences of a history policy, where a bracket may follow


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
    pair: str = OWN,
    width: float = 1e-3,
    sequences: int = 2000,
    std_error: float | None = None,
    seed: int = 0,
    memory_bytes: int = DEFAULT_MEMORY,
    time_limit: float | None = None,
    merge_tolerance: float = 0.0,
    workers: Workers = 1,
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
    - `workers`: processes that share the sequences of a sample and the two ends of a bracket, or the address of a Dask
      scheduler; the result is the same for any number, unless the time limit decides it. Needs the extra `veil[cluster]`,
      and in a script a call below `if __name__ == "__main__":`.

    **Returns:** an `Opacity`.

    **Raises:** `TooLargeError` if an exact value does not fit the budget: before the work starts where the sequences can be
    counted (up to 2,000 hidden states), else once its first part shows that the rest takes many times the limit, or at
    the limit; `InputError`.
    """
    seconds = _SECONDS.get(method, 1.0) if time_limit is None else time_limit
    with team_of(workers) as team:
        budget = Budget(memory_bytes, seconds, merge_tolerance, team)
        return _opacity(problem, policy, _Settings(method, width, sequences, std_error, seed, budget), pair)


def _opacity(problem: Problem, policy: Policy, settings: _Settings, pair: str) -> Opacity:
    check_call(problem, policy)
    method, budget = settings.method, settings.budget
    alone = problem.only(pair)
    chain = make_chain(problem, policy, pair=pair, **_covered(alone, method))
    if alone.secret_table.path is not None:
        return _of_path(chain, settings, gradient=False)[0]
    if chain.silent is not None:
        return exact_opacity(chain, budget, reason=_STRINGS)
    if chain.followed is not None and method in ("auto", "bracket"):
        return _of_history(chain, chain.followed, settings)
    if method == "auto":
        return _Auto(chain, settings).run()[0]
    if method == "exact":
        return exact_opacity(chain, budget)
    if method == "bracket":
        return bracket_opacity(chain, budget, width=settings.width)
    return _sampled(chain, settings)


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
    workers: Workers = 1,
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
    seconds = _SECONDS.get(method, 1.0) if time_limit is None else time_limit
    with team_of(workers) as team:
        budget = Budget(memory_bytes, seconds, merge_tolerance, team)
        settings = _Settings(method, width, sequences, None, seed, budget)
        alone = problem.only(pair)
        acting = _table_policy(problem, theta, memory)
        chain = make_chain(problem, acting, pair=pair, **_covered(alone, method, gradient=True))
        result, slope = _opacity_gradient(alone, chain, settings)
    return result, _in_logits(acting, slope)


def _opacity_gradient(
    problem: Problem, chain: Chain, settings: _Settings
) -> tuple[Opacity, Float[np.ndarray, "T C A"]]:
    """The opacity of a chain and its gradient in the policy's table."""
    method, budget = settings.method, settings.budget
    if problem.secret_table.path is not None:
        result, slope = _of_path(chain, settings, gradient=True)
        assert slope is not None
    elif chain.silent is not None:
        result, slope = exact_gradient(chain, budget, reason=_STRINGS)
    elif method == "auto":
        result, slope = _Auto(chain, settings, gradient=True).run()
        assert slope is not None
    elif method == "exact":
        result, slope = exact_gradient(chain, budget)
    elif method == "bracket":
        result, slope = bracket_gradient(chain, budget, width=settings.width)
    else:
        result, slope = _sampled_gradient(chain, settings)
    return result, slope


def expected_return(problem: Problem, policy: Policy) -> float:
    """The expected return of a policy, exact: over the horizon, or over an infinite horizon where `return_over="infinite"`.

    A time-dependent policy plays optimally for the return after the horizon in the second case.
    """
    chain = make_chain(problem, policy, untimed=True, paths=True)  # a return depends on neither observer nor secret
    return float(chain_sums(chain, slice(1))[0])


def return_gradient(
    problem: Problem, theta: ArrayLike | Policy, *, memory: Memory | None = None
) -> tuple[float, Float[np.ndarray, "*T C A"]]:
    """The expected return of a policy and its exact gradient in the logits of its table; see `opacity_gradient`."""
    check_problem(problem)
    acting = _table_policy(problem, theta, memory)
    chain = make_chain(problem, acting, untimed=True, paths=True)
    values, slopes = sums_and_gradients(
        chain.hidden, chain.table[None], chain.hidden.paid[:1], stationary=chain.stationary
    )
    return float(values[0, 0]), _in_logits(acting, slopes[0, 0])


Measured = tuple[Opacity, np.ndarray | None]


@dataclass(frozen=True)
class _Auto:
    """The cheapest way to the accuracy asked for, by forecast, and why it was taken.

    1. Enumerate where that is forecast to take seconds: dense messages, or else rows with sparse support, which are tried
       for a while (histories merge, so that the number of sequences is no forecast of what they cost).
    2. Else a bracket, as long as the windows so far say that it will reach the width, and sooner than an enumeration.
    3. Else enumerate where the time left is several times the forecast.
    4. Else sample in the time that is left, and keep the proven bounds of the bracket.
    """

    chain: Chain
    settings: _Settings
    gradient: bool = False

    @property
    def _clock(self) -> Clock:
        return self.settings.budget.clock

    def run(self) -> Measured:
        """The result, and its gradient in the table where that is asked for."""
        size = self._size()
        seconds = math.inf
        if size is not None and size.exact:
            seconds = size.seconds(self.chain, gradient=self.gradient)
            if seconds <= min(_AUTO_EXACT_SECONDS, self._clock.left / _OVERRUN):
                found = self._exact(f"all {size.text()} possible sequences can be enumerated in a few seconds")
                if found is not None:
                    return found
        found = self._sparse()
        if found is not None:
            return found
        if size is None:
            number = f"{self.chain.hidden.num_states:,}"
            return self._without_enumeration(
                f"the possible sequences over {number} hidden states are too many", math.inf
            )
        why = f"{size.text()} sequences are possible, too many to enumerate within the budget"
        return self._without_enumeration(why, seconds)

    def _size(self) -> TreeSize | None:
        """The number of sequences; None for a chain of many states, or where counting takes too long."""
        if self.chain.hidden.num_states > COUNTED_STATES:
            return None
        try:
            return tree_size(self.chain, self._clock.share(_COUNT_SHARE))
        except OutOfTime:
            return None

    def _exact(self, reason: str) -> Measured | None:
        budget = self.settings.budget.share(_EXACT_SHARE)
        try:
            if self.gradient:
                result, slope = exact_gradient(self.chain, budget)
            else:
                result, slope = exact_opacity(self.chain, budget), None
        except TooLargeError:  # the forecast was wrong
            return None
        return replace(result, reason=f"{reason}, as {result.reason}"), slope

    def _sparse(self) -> Measured | None:
        counted = self.chain.hidden.num_states <= COUNTED_STATES
        longest = _TRIAL_SECONDS if counted else _AUTO_EXACT_SECONDS
        trial = min(longest, _TRIAL_SHARE * self._clock.left)
        tried = try_sparse(self.chain, self.settings.budget, EntropyObjective, trial, gradient=self.gradient)
        if tried is None:
            return None
        objective, walk, slope = tried
        reason = f"all {_number_text(walk.num_sequences)} possible sequences enumerated as rows with sparse support"
        return exact_result(self.chain, walk, objective, reason), slope

    def _without_enumeration(self, why: str, seconds: float) -> Measured:
        """A bracket where it closes; `seconds`: the forecast of an enumeration."""
        settings, began = self.settings, self._clock.spent
        budget = settings.budget.share(_GRADIENT_SHARE if self.gradient else _BRACKET_SHARE)
        best = deepest(deepen(self.chain, budget, width=settings.width, worth_seconds=seconds))
        if best.width <= settings.width:
            reason = f"bracket: {why}; {window_text(best)} reach the width"
            if self.gradient:
                return bracket_slope(self.chain, best, settings.budget, reason)
            return bracket_result(self.chain, best, reason), None
        if seconds * _OVERRUN <= self._clock.left:
            found = self._exact(
                f"all possible sequences enumerated, forecast to take {seconds:.0f} s: no bracket closes sooner"
            )
            if found is not None:
                return found
        reason = f"sampled: {why}"
        if best.radius or best.num_sequences:
            reason += (
                f"; after {self._clock.spent - began:.0f} s the proven bounds, kept as lower and upper, are still"
                f" {best.width:.2g} bits apart"
            )
        if self.gradient:
            result, slope = _sampled_gradient(self.chain, settings, reason)
        else:
            result, slope = _sampled(self.chain, settings, reason), None
        return replace(result, lower=best.lower, upper=best.upper), slope


def _of_history(chain: Chain, followed: Followed, settings: _Settings) -> Opacity:
    """A history policy: all sequences where `auto` may and they fit half of the budget, else histories merged by beliefs."""
    if settings.method == "auto":
        try:
            return exact_opacity(chain, settings.budget.share(_HISTORY_EXACT_SHARE))
        except TooLargeError:
            pass
    return history_bracket(followed, settings.budget, settings.width)


def _covered(problem: Problem, method: str, *, gradient: bool = False) -> dict[str, bool]:
    """What a method covers beside a secret at one time and an observer with a clock: one of the others, not both."""
    clock = problem.secret_table.path is None and method in _WITHOUT_CLOCK
    return {"untimed": clock, "paths": method != "bracket" or not gradient}


def _of_path(chain: Chain, settings: _Settings, *, gradient: bool) -> Measured:
    """A whole path: all sequences where `auto` may and they fit half of the time, else the nearer of a bracket and a sample."""
    budget, method = settings.budget, settings.method
    if method == "bracket":
        return bracket_path(chain, budget, width=settings.width), None
    reason, known = "", None
    if method in ("auto", "exact"):
        whole = method == "exact"
        try:
            return exact_path(chain, budget if whole else budget.share(_PATH_EXACT_SHARE), gradient=gradient)
        except TooLargeError:
            if whole:
                raise
        why = "the possible sequences are too many to enumerate within the budget"
        reason = f"sampled: {why}"
        if not gradient:
            known = bracket_path(chain, budget.share(_BRACKET_SHARE), width=settings.width)
            known = replace(known, reason=f"bracket: {why}; {known.reason}")
            if known.width <= settings.width:
                return known, None
            reason += f"; the proven bounds, kept as lower and upper, are {known.width:.2g} bits apart"
    found, slope = sampled_path(
        chain,
        budget,
        sequences=settings.sequences,
        std_error=settings.std_error,
        seed=settings.seed,
        gradient=gradient,
        reason=reason,
        workers=settings.budget.team,
    )
    if known is None:
        return found, slope
    if known.width <= 2 * found.std_error:
        return known, None
    return replace(found, lower=known.lower, upper=known.upper), None


def _number_text(number: float) -> str:
    return f"{number:,.0f}" if number < 1e15 else f"{number:.3g}"


def _sampled(chain: Chain, settings: _Settings, reason: str = "") -> Opacity:
    return sampled_opacity(
        chain,
        sequences=settings.sequences,
        std_error=settings.std_error,
        seed=settings.seed,
        memory_bytes=settings.budget.memory_bytes,
        reason=reason,
        clock=settings.budget.clock,
        workers=settings.budget.team,
    )


def _sampled_gradient(
    chain: Chain, settings: _Settings, reason: str = ""
) -> tuple[Opacity, Float[np.ndarray, "T C A"]]:
    return sampled_gradient(
        chain,
        sequences=settings.sequences,
        seed=settings.seed,
        memory_bytes=settings.budget.memory_bytes,
        reason=reason,
        clock=settings.budget.clock,
        partial=True,
        workers=settings.budget.team,
    )


def _table_policy(problem: Problem, given: ArrayLike | Policy, memory: Memory | None) -> TablePolicy:
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
