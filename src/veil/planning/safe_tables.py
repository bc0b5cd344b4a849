"""Tables that searches begin from and move back to, regardless of the observer: of large return, and inside of all bounds."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..engine.feasibility import ROUNDING as FEASIBLE
from ..engine.feasibility import Mixture, feasible_mixture
from ..engine.paid import action_values
from ..engine.return_range import (
    ROUNDING,
    averaged_table,
    best_action_values,
    best_blind_actions,
    is_blind,
    known_actions,
    max_return,
    one_hot,
    return_extremes,
    return_slack,
    threshold,
)
from ..policy.markov import MarkovPolicy, TimedPolicy
from ..policy.tables import uniform_table
from ..problem.problem import Problem
from .channels import MANY_STATES
from .first_order import DECAYS, Moments, first_order_step
from .layers import time_average
from .objective import Objective
from .parameters import MOST_STEPS, TableParameters
from .plan import SHARE
from .policy_class import Space, Table, make_space
from .schedule import Schedule
from .values import unlike

_SHARP_STARTS = 16  # tables of single times that a search for a stationary policy looks at: a value costs little
_STARTS = 6  # of that search, which ends where nothing is missed: by judgement
_SWEEPS = 3  # horizons of value iteration, after which the discounted rest is a twentieth, e⁻³
_HALVINGS = np.exp2(-np.arange(11.0))  # of steps to a thousandth, and of how far a row may be from certain
_EPS = float(np.finfo(float).eps)


def greedy_table(problem: Problem, *, smallest: bool = False) -> Table:
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
            _, table = best_stationary_return(problem, sign=sign)
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
    # The states of an automaton, which pays nothing.
    copies = problem.num_cells // (len(problem.models) * problem.num_states)
    discount = min(problem.discount, 1 - 1 / max(2, problem.horizon))
    chosen = []
    for model in problem.models:
        actions, values = np.zeros((model.num_states, model.num_actions)), np.zeros(model.num_states)
        for _ in range(_SWEEPS * problem.horizon):
            actions = action_values(model, values, discount)
            values = actions.max(axis=1)
        chosen.append(np.tile(np.argmax(actions, axis=1), copies))
    return one_hot(problem, np.concatenate(chosen)[: problem.num_cells])


def best_stationary_return(
    problem: Problem, *, sign: float = 1.0, enough: float = np.inf, clock: Clock = UNLIMITED
) -> tuple[float, Float[np.ndarray, "C A"]]:
    """A stationary policy of large return: its return and its table; with `sign=-1`, of small return, and minus that.

    Over an infinite horizon the best policy is stationary, and this is it. Over a finite one the stationary maximum is
    not a convex problem, may need random choices and may lie below `max_return`: this is the best that a search found,
    a **lower bound** on the stationary maximum, and exact where it meets `max_return`. The same holds over an infinite
    horizon where the agent does not know which model runs.

    The search climbs the exact gradient of the return: L-BFGS on softmax parameters from several tables, in turn sharp
    ones (the best of single times), by what they earn, and spread ones (the time-average of the best time-dependent policy,
    uniform, random), then steps towards the best actions, so that deterministic rows become exactly so.

    **Arguments:** `enough`, a return at which the search ends; `clock`, checked before each evaluation, ends it too.

    Cost: `O(starts · iterations · T · nnz(P))`; it ends early where the return meets `max_return`.
    """
    climber, ends = _Climber(problem, sign, clock), return_extremes(problem)
    enough = min(enough, max(sign * ends.smallest, sign * ends.largest) - return_slack(problem))
    finite = problem.return_over != "infinite" and problem.horizon
    timed = greedy_table(problem, smallest=sign < 0) if finite else None
    with contextlib.suppress(OutOfTime):
        sharp = list[tuple[float, np.ndarray]]()
        for table in unlike(_sharp_tables(problem, timed, sign), np.array_equal):
            sharp.append((climber.value_and_gradient(table[None])[0], table))
            if climber.best[0] >= enough:
                return climber.best[0], climber.best[1][0]
        sharp.sort(key=lambda found: -found[0])
        pairs = zip_longest((table for _, table in sharp), _spread_tables(climber.space, timed))
        for table in [table[None] for pair in pairs for table in pair if table is not None][:_STARTS]:
            climber.finish(climber.climb(table))
            if climber.best[0] >= enough:
                break
    return climber.best[0], climber.best[1][0]


class _Climber:
    """The return of stationary tables `(1, C, A)` times `sign`, with the best one that was evaluated."""

    def __init__(self, problem: Problem, sign: float, clock: Clock):
        self.space, self.sign, self.clock = make_space(problem), sign, clock
        self.best: tuple[float, np.ndarray] = -np.inf, uniform_table(problem)[None]
        self.slack = return_slack(problem)
        self.scale = self.slack / ROUNDING or 1.0

    def value_and_gradient(self, table: Float[np.ndarray, "1 C A"]) -> tuple[float, Float[np.ndarray, "1 C A"]]:
        if self.best[0] > -np.inf:  # one table is evaluated in any case
            self.clock.check()
        values, gradients = self.space.summed(table[None], (0,))
        value = self.sign * float(values[0, 0])
        if value > self.best[0]:
            self.best = value, table
        return value, self.sign * gradients[0][0]

    def climb(self, table: np.ndarray) -> np.ndarray:
        """L-BFGS on the softmax parameters."""
        parameters = TableParameters(self.space, table)
        begin = parameters.of(table)  # a softmax has no exact zeros to begin with

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            theta = flat.reshape(1, *begin.shape)
            tables = parameters.tables(theta)
            value, gradient = self.value_and_gradient(tables[0])
            return -value / self.scale, -parameters.pull_back(theta, tables, gradient[None]).ravel() / self.scale

        options = {"maxiter": MOST_STEPS, "ftol": _EPS, "gtol": _EPS}
        found = minimize(loss, begin.ravel(), jac=True, method="L-BFGS-B", options=options)
        return parameters.tables(found.x.reshape(1, *begin.shape))[0]

    def finish(self, table: np.ndarray) -> None:
        """Round rows that are all but certain, then step towards the best actions while the return grows."""
        value, _ = self.value_and_gradient(table)
        for doubt in _HALVINGS[1:]:
            rounded = np.where(table.max(axis=-1, keepdims=True) > 1 - doubt, _first_best(table), table)
            if (reached := self.value_and_gradient(rounded)[0]) >= value:
                table, value = rounded, reached
        for _ in range(MOST_STEPS):
            if (better := self._step(table, value)) is None:
                break
            value, table = better

    def _step(self, table: np.ndarray, value: float) -> tuple[float, np.ndarray] | None:
        gradient = np.where(self.space.available, self.value_and_gradient(table)[1], -np.inf)
        gain = gradient.max(axis=-1) - np.sum(table * np.where(self.space.available, gradient, 0.0), axis=-1)
        best = np.where((gain > 0)[..., None], _first_best(gradient), table)
        for size in _HALVINGS:
            stepped = (1 - size) * table + size * best
            reached = self.value_and_gradient(stepped)[0]
            if reached > value + self.slack:
                return reached, stepped
        return None


def _first_best(values: Float[np.ndarray, "1 C A"]) -> Float[np.ndarray, "1 C A"]:
    return np.eye(values.shape[-1])[np.argmax(values, axis=-1)]


def _sharp_tables(problem: Problem, timed: Table | None, sign: float) -> Iterator[Float[np.ndarray, "C A"]]:
    """Stationary tables, most of them deterministic, each the best in some respect; `timed`: the best time-dependent one."""
    if timed is not None:
        yield timed[0]
        if sign > 0 and not is_blind(problem):
            yield discounted_table(problem)
        times = np.linspace(0, problem.horizon - 1, min(problem.horizon, _SHARP_STARTS)).astype(int)
        yield from np.unique(timed[times], axis=0)
    elif problem.return_over == "infinite" and is_blind(problem):
        copies = problem.informed.num_cells // problem.num_states
        for model in problem.models:
            values = best_action_values(problem, model, sign)[0]
            yield averaged_table(problem, np.tile(one_hot(problem, np.argmax(values, axis=1)), (copies, 1))[None])[0]
    elif problem.return_over == "infinite":
        yield one_hot(problem, known_actions(problem, 1, sign))[0]


def _spread_tables(space: Space, timed: Table | None) -> list[Float[np.ndarray, "C A"]]:
    """Stationary tables that leave much open: the time-average of the best time-dependent one, uniform, random."""
    problem = space.problem
    if problem.return_over == "infinite" and not is_blind(problem):
        return []  # the best one is known
    drawn = np.random.default_rng(0).exponential(size=(2, *problem.available.shape)) * problem.available
    spread = [uniform_table(problem), *(drawn / drawn.sum(axis=2, keepdims=True))]
    return spread if timed is None else [time_average(space.hidden, timed), *spread]


def richest_table(space: Space, clock: Clock = UNLIMITED) -> Table:
    """The table of largest return known for the class: by backward induction if it is time-dependent, else by a search.

    The search ends at its share of the time, and over many states well inside the threshold.
    """
    if not space.stationary:
        return space.table_of(TimedPolicy(greedy_table(space.problem)))
    problem, enough = space.problem, np.inf
    if space.hidden.num_states > MANY_STATES:
        wanted = threshold(problem)
        enough = -np.inf if wanted is None else (wanted + max_return(problem)) / 2
    part = clock.share(SHARE) if np.isfinite(clock.time_limit) else clock
    return space.table_of(MarkovPolicy(best_stationary_return(problem, enough=enough, clock=part)[1]))


def safe_table(objective: Objective, clock: Clock) -> tuple[Objective, Table]:
    """An objective, and a table of its class to begin from and to move back to.

    It is the table of largest return, or with other constraints the one whose worst slack is largest, as far as it is found in
    the time. If only rounding errors lie between the threshold and the largest return known for the class, that return is what
    the objective keeps; whether an answer meets the threshold is then decided in exact arithmetic.
    """
    safe = richest_table(objective.space, clock)
    if objective.others:
        with contextlib.suppress(OutOfTime):
            safe = _feasible_table(objective, safe, clock)
    if objective.threshold is None or objective.is_free:
        return objective, safe
    reached = float(objective.returns_by_start(safe).min())
    within = objective.threshold - 2 * (objective.aim - objective.threshold) <= reached < objective.aim
    return replace(objective, aim=reached) if within else objective, safe


def _feasible_table(objective: Objective, richest: Table, clock: Clock) -> Table:
    """The table of the class with the largest worst slack that is found; `richest`, that of largest return, is a start.

    The policy whose worst slack is largest is known over all policies that know the hidden state (`engine.feasibility`). Its
    share of each row of the table is the answer if the agent knows that state and the time; for smaller classes it is a start,
    from which the worst slack is raised by first-order steps to half of that of all policies.
    """
    mixture = feasible_mixture(objective.space.problem)
    known = np.stack([_projected(objective.space, mixture), richest])
    slack = objective.sums(known).slack.min(axis=1)
    best, reached = known[int(np.argmax(slack))], float(slack.max())
    # With one start, hidden states that the agent tells apart and a clock, nothing is lost by the projection.
    enough = max(mixture.upper / 2, -FEASIBLE)
    parameters, count = TableParameters(objective.space, best), objective.num_constraints - objective.num_bits
    theta, every, schedule = parameters.of(best)[None], np.ones(count, dtype=bool), Schedule((), MOST_STEPS)
    moments = Moments.none(theta, every, count)
    for number in range(schedule.last):
        if reached >= enough:
            break
        clock.check()
        tables = parameters.tables(theta)
        found = objective.sums(tables)
        if (worst := float(found.slack.min())) > reached:
            best, reached = tables[0], worst
        jacobian, rate = parameters.pull_back(theta, tables, found.slack_gradient), schedule.rate(number)
        step, moments = first_order_step(
            moments, 0 * theta, found.slack - worst, jacobian, every, rate=rate, decays=DECAYS[False], num_least=count
        )
        theta = parameters.bounded(theta + step)
    return best


def _projected(space: Space, mixture: Mixture) -> Table:
    """The policy of a mixture with its probabilities averaged over what the class does not tell apart."""
    problem = space.problem.informed
    if not problem.horizon:
        return space.softmax(np.zeros(space.shape))
    return space.table_of_flows(problem.with_clock(), ((slice(None), flow) for flow in mixture.flows[:-1]))
