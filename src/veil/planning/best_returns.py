"""Policies of large return, regardless of the observer: the greedy time-dependent table and the best stationary one found."""

import contextlib
from itertools import zip_longest

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from ..common.checks import Defects
from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..engine.paid import action_values
from ..engine.return_range import (
    ROUNDING,
    averaged_table,
    best_action_values,
    best_blind_actions,
    is_blind,
    known_actions,
    one_hot,
    return_extremes,
    return_slack,
)
from ..policy.tables import uniform_table
from ..problem.problem import Problem
from .layers import time_average
from .parameters import TableParameters
from .policy_class import make_space

_SHARP_STARTS = (
    16  # tables of single times that a search for a stationary policy looks at: a value of each costs little
)
_STARTS, _ITERATIONS = 6, 500  # of that search, which ends where the largest return is met
_DISCOUNTED_SWEEPS = 3  # horizons of value iteration, after which the discounted rest is a twentieth


def greedy_table(problem: Problem, *, smallest: bool = False) -> Float[np.ndarray, "T C A"]:
    """A deterministic time-dependent policy whose return is the largest (or smallest) that there is.

    One row for each cell of the problem and each decision; of equally good actions the first is taken.

    Over an infinite horizon the best action does not depend on the time: the same table T times. It is the largest
    return as a stationary policy and as a time-dependent one, which acts optimally afterwards; the smallest, as a
    stationary one.

    Where the agent does not know which of several models runs, or does not see its state, a table that no change at a single
    time improves, found by sweeps from each model's own best table, from the best for the prior, or from what the best of an
    agent that sees its state does after each reading; over an infinite horizon, the result of `best_stationary_return`. Its
    return bounds the largest from below, as `max_return` does from above.

    Cost: `O(T · nnz(P))`, times the sweeps for unknown models.
    """
    sign = -1.0 if smallest else 1.0
    if is_blind(problem):
        if problem.return_over == "infinite":
            _, table = _search_stationary(problem, _STARTS, _ITERATIONS, seed=0, sign=sign)
            return np.repeat(table[None], problem.horizon, axis=0)
        return one_hot(problem, best_blind_actions(problem, sign))
    return one_hot(problem, known_actions(problem, problem.horizon, sign))


def discounted_table(problem: Problem) -> Float[np.ndarray, "C A"]:
    """The greedy stationary policy of the same models with a discount of `1 − 1/T`, averaged over the readings of an agent
    that does not see its state.

    Its return over the horizon is near the largest where rewards last, and it is found by value iteration alone.

    Cost: `O(T · nnz(P))`.
    """
    if not problem.agent.sees_state:
        return averaged_table(problem, discounted_table(problem.informed)[None])[0]
    copies = problem.num_cells // (
        len(problem.models) * problem.num_states
    )  # states of an automaton, which pays nothing
    discount = min(problem.discount, 1 - 1 / max(2, problem.horizon))
    chosen = []
    for model in problem.models:
        actions, values = np.zeros((model.num_states, model.num_actions)), np.zeros(model.num_states)
        for _ in range(_DISCOUNTED_SWEEPS * problem.horizon):
            actions = action_values(model, values, discount)
            values = actions.max(axis=1)
        chosen.append(np.tile(np.argmax(actions, axis=1), copies))
    return one_hot(problem, np.concatenate(chosen)[: problem.num_cells])


def best_stationary_return(
    problem: Problem,
    *,
    starts: int = _STARTS,
    iterations: int = _ITERATIONS,
    seed: int = 0,
    enough: float = np.inf,
    clock: Clock = UNLIMITED,
) -> tuple[float, Float[np.ndarray, "C A"]]:
    """A stationary policy of large return: its return and its table.

    Over an infinite horizon the best policy is stationary, and this is it. Over a finite one the stationary maximum is
    not a convex problem, may need random choices and may lie below `max_return`: this is the best that a search found,
    a **lower bound** on the stationary maximum, and exact where it meets `max_return`. The same holds over an infinite
    horizon where the agent does not know which model runs.

    The search climbs the exact gradient of the return: L-BFGS on softmax parameters from several tables (the best
    table of single times, the time-average of the best time-dependent policy, uniform, random), then steps towards the best
    actions, so that deterministic rows become exactly so.

    **Arguments:** `starts`, how many of these tables are climbed from, sharp and spread ones in turn; `iterations` of
    each climb; `seed` of the random ones; `enough`, a return at which the search ends; `clock`, checked before
    each evaluation, ends it too.

    Cost: `O(starts · iterations · T · nnz(P))`; it ends early where the return meets `max_return`.
    """
    defects = Defects("best stationary return")
    for name, value, least in (("starts", starts, 1), ("iterations", iterations, 0), ("seed", seed, 0)):
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            defects.add(f"{name} is {value!r}, expected a whole number, {least} or more")
    defects.raise_if_any()
    return _search_stationary(problem, starts, iterations, seed, enough=enough, clock=clock)


class _Climber:
    """The return of stationary tables `(1, C, A)` times `sign`, with the best one that was evaluated."""

    def __init__(self, problem: Problem, sign: float, clock: Clock = UNLIMITED):
        self.space, self.sign, self.clock = make_space(problem), sign, clock
        self.best: tuple[float, np.ndarray] = -np.inf, uniform_table(problem)[None]
        self.scale = return_slack(problem) / ROUNDING or 1.0

    def value_and_gradient(self, table: Float[np.ndarray, "1 C A"]) -> tuple[float, Float[np.ndarray, "1 C A"]]:
        self.clock.check()
        values, gradients = self.space.summed(table[None], (0,))
        value = self.sign * float(values[0, 0])
        if value > self.best[0]:
            self.best = value, table
        return value, self.sign * gradients[0][0]

    def climb(self, table: np.ndarray, iterations: int) -> np.ndarray:
        """L-BFGS on the softmax parameters."""
        parameters = TableParameters(self.space, table)
        begin = parameters.of(table, 0.1)  # a softmax has no exact zeros to begin with

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = flat.reshape(1, *begin.shape)
            tables = parameters.tables(theta)
            value, gradient = self.value_and_gradient(tables[0])
            return -value / self.scale, -parameters.pull_back(theta, tables, gradient[None]).ravel() / self.scale

        options = {"maxiter": iterations, "ftol": 1e-15, "gtol": 1e-12}
        found = minimize(loss, begin.ravel(), jac=True, method="L-BFGS-B", options=options) if iterations else None
        return table if found is None else parameters.tables(found.x.reshape(1, *begin.shape))[0]

    def finish(self, table: np.ndarray) -> None:
        """Round rows that are all but certain, then step towards the best actions while the return grows."""
        value, _ = self.value_and_gradient(table)
        for certain in (0.5, 0.9, 0.99, 0.999):
            rounded = np.where(table.max(axis=-1, keepdims=True) > certain, _first_best(table), table)
            if (reached := self.value_and_gradient(rounded)[0]) >= value:
                table, value = rounded, reached
        for _ in range(100):
            if (better := self._step(table, value)) is None:
                break
            value, table = better

    def _step(self, table: np.ndarray, value: float) -> tuple[float, np.ndarray] | None:
        gradient = np.where(self.space.available, self.value_and_gradient(table)[1], -np.inf)
        gain = gradient.max(axis=-1) - np.sum(table * np.where(self.space.available, gradient, 0.0), axis=-1)
        best = np.where((gain > 0)[..., None], _first_best(gradient), table)
        for size in 0.5 ** np.arange(8):
            stepped = (1 - size) * table + size * best
            reached = self.value_and_gradient(stepped)[0]
            if reached > value + 1e-14 * self.scale:
                return reached, stepped
        return None


def _first_best(values: Float[np.ndarray, "1 C A"]) -> Float[np.ndarray, "1 C A"]:
    return np.eye(values.shape[-1])[np.argmax(values, axis=-1)]


def _search_stationary(
    problem: Problem,
    starts: int,
    iterations: int,
    seed: int,
    *,
    sign: float = 1.0,
    enough: float = np.inf,
    clock: Clock = UNLIMITED,
) -> tuple[float, np.ndarray]:
    climber, ends = _Climber(problem, sign, clock), return_extremes(problem)
    largest = max(sign * ends.smallest, sign * ends.largest) - return_slack(problem)
    with contextlib.suppress(OutOfTime):
        tables = _stationary_starts(climber, seed)
        for table in tables:
            climber.value_and_gradient(table)
        for table in tables[:starts]:
            if climber.best[0] >= min(largest, enough):
                break
            climber.finish(climber.climb(table, iterations))
    return climber.best[0], climber.best[1][0]


def _stationary_starts(climber: _Climber, seed: int) -> list[Float[np.ndarray, "1 C A"]]:
    """Tables to climb from, in turn a sharp one, which earns most so far, and a spread one, which is led by no table."""
    problem = climber.space.problem
    drawn = np.random.default_rng(seed).exponential(size=(2, *problem.available.shape)) * problem.available
    spread = [uniform_table(problem), *(drawn / drawn.sum(axis=2, keepdims=True))]
    sharp = list[np.ndarray]()
    if problem.return_over == "infinite" and not is_blind(problem):
        sharp, spread = [one_hot(problem, known_actions(problem, 1, climber.sign))[0]], []
    elif problem.return_over == "infinite":
        best = [best_action_values(problem, model, climber.sign)[0] for model in problem.models]
        copies = problem.informed.num_cells // problem.num_states
        each = [np.tile(one_hot(problem, np.argmax(values, axis=1)), (copies, 1)) for values in best]
        sharp = [averaged_table(problem, table[None])[0] for table in each]
    elif problem.horizon:
        timed = greedy_table(problem, smallest=climber.sign < 0)
        times = np.linspace(0, problem.horizon - 1, min(problem.horizon, _SHARP_STARTS)).astype(int)
        sharp = list(np.unique(timed[times], axis=0))
        spread.insert(0, time_average(climber.space.hidden, timed))
    sharp.sort(key=lambda table: -climber.value_and_gradient(table[None])[0])
    return [table[None] for pair in zip_longest(sharp, spread) for table in pair if table is not None]
