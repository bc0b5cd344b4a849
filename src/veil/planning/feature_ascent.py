"""Training of a feature policy: fitted to the table that a search has found, then improved by the same sampled gradients.

The gradient with respect to the table is pulled back through the softmax and the network to the weights; batch sizes, checks,
multipliers and averages are those of `stochastic`. A mixture with a table of larger return is no feature policy, so the
threshold is kept by staying a little inside of it, and only weights whose policy meets it are an answer.
"""

import contextlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from ..common.checks import Defects
from ..common.clock import Clock, OutOfTime, Stop, interruptible
from ..common.logs import natural_log
from ..measure.evaluate import expected_return
from ..policy.feature_maps import RowNetwork
from ..policy.features import FeaturePolicy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .answer import Bits, is_feasible
from .ascent import make_ascent
from .feasible_start import feasible_table
from .options import SolveOptions
from .policy_class import Space, make_space
from .sampled_values import make_sampled
from .search import search, within_reach
from .solution import History, Solution, Status
from .starts import richest_table
from .stochastic import CHECKED, StochasticAscent
from .stochastic_state import StochasticState
from .task import Sums, Task, make_task
from .terms import hidden_terms, terms_of
from .values import sampled_answer

SHARE_OF_TABLE = 0.4  # of a time limit, for the table that the policy is fitted to
_SHARE_OF_SAFE = 0.1  # of what is left then, for the table of largest return
_SHARE_OF_FIT = 0.4  # of what is left then, to fit it
_FITTED_ITERATIONS = 400  # of L-BFGS
_SEEN = 1e-7  # rows with a smaller share of the visits are not fitted
_LEAST_SHARE = 1e-3  # of the uniform policy in what is fitted, since a network has no exact zeros
# Slack as a share of the range of returns: what the search aims at, and what a table that is fitted has, more in each attempt.
_INSIDE, _MARGINS = 0.01, (0.01, 0.03, 0.1, 0.3)
_RATE = 0.01  # Adam's first step for weights
_ITERATIONS = 400  # where no number is asked for


@dataclass(frozen=True, eq=False)
class FeatureState(StochasticState):
    """With the weights of the best answer."""

    best_theta: Float[np.ndarray, "P 1"]


class FeatureAscent(StochasticAscent):
    """`StochasticAscent` on the weights of a feature policy.

    **Arguments:** `task`, whose secrecy is sampled; `safe`, the table of largest return; `options`; `policy`, with the
    features and first weights; `goal`: the table to fit.
    """

    def __init__(
        self,
        task: Task,
        safe: Float[np.ndarray, "T C A"],
        options: SolveOptions,
        policy: FeaturePolicy,
        goal: Float[np.ndarray, "T C A"],
    ):
        super().__init__(task, safe, options)
        self._policy, self._goal, self._inside = policy, goal, _INSIDE
        self._lost_bits, self._most_restarts = np.inf, 0  # the weights of an answer go on from where they are
        self._length = _ITERATIONS if options.iterations is None else options.iterations
        self._shapes = [one.shape for one in policy.weights]
        self._network = RowNetwork(policy.inputs(task.space.problem), self._rows)

    def policy_of(self, theta: Float[np.ndarray, "P 1"]) -> FeaturePolicy:
        """The policy of weights."""
        return self._policy.with_weights(self._weights(theta))

    def advance(self, state: StochasticState) -> FeatureState:
        """One step of Adam."""
        after = super().advance(state)
        assert isinstance(after, FeatureState)
        return after

    def with_best(self, state: StochasticState) -> FeatureState:
        """The state with the newest weights among the contenders."""
        after = self._considered(state)
        assert isinstance(after, FeatureState)
        return after

    def _weights(self, theta: np.ndarray) -> list[np.ndarray]:
        parts = np.split(theta.ravel(), np.cumsum([np.prod(shape) for shape in self._shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _rounded(self, theta: np.ndarray) -> np.ndarray:
        """As a policy keeps them."""
        return theta.astype(np.float32).astype(float)

    def _table(self, theta: Float[np.ndarray, "P 1"]) -> Float[np.ndarray, "T C A"]:
        return super()._table(self._network.logits(self._weights(theta))[0])

    def _pull_back(self, theta: np.ndarray, table: np.ndarray, slope: Float[np.ndarray, "R A"]) -> np.ndarray:
        weights = self._weights(theta)
        active = self._network.logits(weights)[1]
        parts = self._network.pull_back(weights, active, super()._pull_back(theta, table, slope))
        return np.concatenate([part.ravel() for part in parts])[:, None]

    def _bounded(self, theta: np.ndarray) -> np.ndarray:
        return theta

    def _constraints(self, table: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        value, slack, slope = super()._constraints(table)
        return value, slack - self._inside, slope

    def _beside(self, table: np.ndarray) -> Sums:
        found = super()._beside(table)
        return replace(found, slack=found.slack - self._inside)

    def _short(self, table: np.ndarray) -> Float[np.ndarray, " K"]:
        """The slacks without the margin that training keeps."""
        return np.concatenate([super()._constraints(table)[1], super()._beside(table).slack[0]])

    def _score(self, table: np.ndarray, sequences: int) -> float:
        task, slack = self.task, self._short(table)
        if np.any(slack < 0) or not task.clock.left:
            return -np.inf
        bits = self._secrecy.estimate(table, sequences, self._options.seed + 1, task.clock).bits
        earned = task.beside_values(table[None])[1][0]
        return float(task.score(np.array(bits), np.zeros(()), earned))

    def _first_weights(self) -> Float[np.ndarray, "P 1"]:
        """Weights that fit the table; where they miss the threshold, a mixture with the safe table that earns more."""
        clock = self.task.clock.share(_SHARE_OF_FIT)
        theta = np.concatenate([one.ravel() for one in self._policy.weights])[:, None]
        for self._inside in _MARGINS:
            theta = self._rounded(self._fitted(self._mended(self._goal), theta, clock))
            if clock.left == 0 or np.all(self._short(self._table(theta)) >= 0):
                break
        self._inside = _INSIDE
        return theta

    def _fitted(
        self, goal_table: Float[np.ndarray, "T C A"], theta: Float[np.ndarray, "P 1"], clock: Clock
    ) -> Float[np.ndarray, "P 1"]:
        """Weights for which `Σ visits · KL(goal ‖ policy)` is small, by L-BFGS, within the time of a clock."""
        layers, space = self.task.space.layers, self.task.space
        visits = np.zeros(space.shape[:2])
        for time, occupied in enumerate(layers.returns(goal_table, self._terminal)[2]):
            np.add.at(visits[0 if space.stationary else time], space.hidden.cell, occupied)
        share = visits.ravel()[self._rows] / visits.sum()
        chosen = np.flatnonzero(share > _SEEN)
        weight, mask = share[chosen][:, None], self._open[chosen]
        network = RowNetwork(self._policy.inputs(space.problem), self._rows[chosen])
        uniform = mask / mask.sum(axis=1, keepdims=True)
        goal = (1 - _LEAST_SHARE) * self._used(goal_table)[chosen] + _LEAST_SHARE * uniform
        best = [theta.ravel(), np.inf]

        def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
            clock.check()
            weights = self._weights(theta)
            found, active = network.logits(weights)
            found = np.where(mask, found, -np.inf)
            found -= found.max(axis=1, keepdims=True)
            table = np.exp(found)
            total = table.sum(axis=1, keepdims=True)
            table /= total
            value = -float(np.sum(weight * goal * np.where(mask, found - natural_log(total), 0.0)))
            parts = network.pull_back(weights, active, weight * (table - goal))
            if value < best[1]:
                best[:] = [theta.copy(), value]
            return value, np.concatenate([part.ravel() for part in parts])

        with contextlib.suppress(OutOfTime):
            minimize(
                loss, theta.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _FITTED_ITERATIONS, "maxcor": 20}
            )
        return np.asarray(best[0])[:, None]

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> FeatureState:
        """The state before the first iteration: the weights that fit the table."""
        theta = self._first_weights()
        table = self._table(theta)
        first = self._first_state([theta], table, self._score(table, CHECKED[0]))
        fields = {name: getattr(first, name) for name in StochasticState.__dataclass_fields__}
        return FeatureState(**fields | {"rate": _RATE, "best_theta": theta})

    def _contender(self, theta: np.ndarray, *, is_elsewhere: bool) -> dict[str, Any]:
        """The weights as a policy keeps them, and their table, which cannot be made feasible by mixing."""
        rounded = self._rounded(theta)
        return {"best": self._table(rounded), "best_theta": rounded}


def search_features(problem: Problem, options: SolveOptions) -> Solution:
    """A table is searched first; a feature policy is fitted to it and trained.

    **Raises:** `InputError` where the problem does not have the features or the task cannot be sampled; as `search`.
    """
    clock = Clock(options.time_limit, progress=options.progress)
    space, task = _prepared(problem, options)
    features = options.features
    assert features is not None
    policy = FeaturePolicy.initial(
        problem, features, timed=not space.stationary, hidden=options.hidden_units, seed=options.seed
    )
    part = None if options.time_limit is None else SHARE_OF_TABLE * options.time_limit
    table = search(problem, replace(options, time_limit=part), make_ascent)
    if not table.feasible or table.status is Status.INTERRUPTED:
        return table
    if not space.hidden.horizon:  # there is nothing to decide
        return _answer(task, table, policy, None, Status.CONVERGED, clock)
    return _trained(replace(task, clock=clock), policy, table, options)


def _prepared(problem: Problem, options: SolveOptions) -> tuple[Space, Task]:
    defects = Defects("feature policy")
    if options.memory not in ("markov", "timed"):
        defects.add("it has no memory beside the time: use memory='markov' or 'timed'")
    if options.objective == "guess" or options.min_opacity is not None:
        defects.add("it is trained on samples, which objective='guess' and min_opacity do not have: search a table")
    if options.hide != OWN or hidden_terms(problem, options.task) or any(one.bounds for one in problem.pairs):
        defects.add(
            "it is trained on samples, which bounds on pairs, terms H(pair) and hide do not have: search a table"
        )
    defects.raise_if_any()
    space = make_space(problem, options.memory)
    task = make_task(
        space,
        goal=options.goal,
        objective=options.objective,
        per_start=options.per_start,
        terms=terms_of(problem, options.task),
        secrecy=make_sampled(space, options.objective, options.sequences, options.seed, "feature policies"),
    )
    return space, task


def _trained(task: Task, policy: FeaturePolicy, table: Solution, options: SolveOptions) -> Solution:
    clock = task.clock
    safe = richest_table(task.space, clock.share(_SHARE_OF_SAFE))
    if task.others:
        with contextlib.suppress(OutOfTime):
            safe = feasible_table(task, safe, clock.share(_SHARE_OF_SAFE))
    task = within_reach(task, safe)
    method = FeatureAscent(task, safe, options, policy, task.space.table_of(table.policy))
    state: FeatureState | None = None
    status = Status.ITERATION_LIMIT
    try:
        with clock, interruptible():
            state = method.begin()
            while not method.is_done(state):
                state = method.advance(state)
    except OutOfTime as end:
        status = Status.INTERRUPTED if end.reason is Stop.INTERRUPTED else Status.TIME_LIMIT
    with contextlib.suppress(OutOfTime):
        state = state if state is None else method.with_best(state)
    found = policy if state is None else method.policy_of(state.best_theta)
    return _answer(task, table, found, state, status, clock)


def _answer(
    task: Task, table: Solution, policy: FeaturePolicy, state: FeatureState | None, status: Status, clock: Clock
) -> Solution:
    space, problem = task.space, task.space.problem
    expanded = space.table_of(policy)
    hidden = sampled_answer(space, expanded, 20_000, table.seed, max(1.0, clock.left))
    value = expected_return(problem, policy)
    feasible = is_feasible(task, expanded, policy, Bits(hidden), value)
    detail = f"fitted to a table that hides {table.opacity.bits:.4f} bits, then trained on samples"
    if not feasible:
        status, detail = (
            Status.INFEASIBLE,
            "no weights were found that meet the threshold: use more hidden units or time",
        )
    history = np.zeros((0, 6)) if state is None else state.history
    return replace(
        table,
        policy=policy,
        policy_class=f"feature policies ({table.policy_class})",
        opacity=hidden,
        pairs=(),
        expected_return=value,
        feasible=feasible,
        status=status,
        detail=detail,
        price_bits=float("nan"),
        stationarity_bits=float("nan"),
        iterations=0 if state is None else state.iteration,
        history=History.of(history),
        seconds=clock.spent,
        settings=table.settings | {"features": policy.describe(), "parameters": policy.num_parameters},
    )
