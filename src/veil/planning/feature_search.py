"""The search of a feature policy: fitted to the table that a search has found, then improved by the same sampled gradients.

The gradient in the table is pulled back through the softmax and the network to the weights. A mixture with a table of larger
return is no feature policy: steps keep a little inside of the bounds, and only weights whose policy meets them are an answer.
"""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from ..common.checks import Defects
from ..common.clock import Clock, OutOfTime
from ..common.logs import natural_log
from ..policy.feature_maps import RowNetwork
from ..policy.features import FeaturePolicy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.terms import hidden_terms
from .answer import Bits, as_solution, sampled_answer
from .ascent import INSIDE
from .backend import Draw, Tables
from .channels import Asked, make_backend
from .mixing import mixed_until
from .objective import Channels, Objective, make_objective
from .options import SolveOptions
from .parameters import MOST_STEPS, RARE, Parameters, TableParameters, softmax
from .plan import CLOSING_SECONDS, SHARE
from .policy_class import make_space
from .safe_tables import safe_table
from .sampled_ascent import SampledAscent, SampledState
from .schedule import Schedule, first_batch
from .search import run, search
from .solution import History, Solution, Status
from .table_methods import make_ascent


class FeatureParameters(Parameters):
    """Weights of a feature policy, `(B, P, 1)`, as a policy keeps them: rounded to float32.

    **Arguments:** `objective`; `safe`: the table of largest return; `policy`, with the features and first weights; `clock`: of
    the fit to a table.
    """

    mixes = False
    scale = 0.05  # weights move by a twentieth of what logits do: by judgement

    def __init__(self, objective: Objective, safe: np.ndarray, policy: FeaturePolicy, clock: Clock):
        self._objective, self._safe, self._policy, self._clock = objective, safe, policy, clock
        space = objective.space
        self._table = TableParameters(space, safe)
        self._shapes = [one.shape for one in policy.weights]
        self._network = RowNetwork(policy.inputs(space.problem), self._table.rows)

    def policy_of(self, theta: Float[np.ndarray, "P 1"]) -> FeaturePolicy:
        """The policy of weights."""
        return self._policy.with_weights(self._weights(theta))

    def _weights(self, theta: np.ndarray) -> list[np.ndarray]:
        kept = theta.astype(np.float32).astype(float)
        parts = np.split(kept.ravel(), np.cumsum([np.prod(shape) for shape in self._shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]

    def _logits(self, theta: np.ndarray) -> Float[np.ndarray, "R A"]:
        return self._network.logits(self._weights(theta))[0]

    def tables(self, theta: Float[np.ndarray, "B P 1"]) -> Tables:
        """See `Parameters`."""
        return self._table.tables(np.stack([self._logits(one) for one in theta]))

    def pull_back(self, theta: Float[np.ndarray, "B P 1"], tables: Tables, gradient: Any) -> Any:
        """See `Parameters`."""
        rows = self._table.pull_back(theta, tables, gradient)
        flat = rows.reshape(len(theta), -1, *rows.shape[-2:])
        found = [[self._through(one, row) for row in part] for one, part in zip(theta, flat, strict=True)]
        return np.array(found).reshape(*rows.shape[:-2], *theta.shape[1:])

    def _through(self, theta: np.ndarray, rows: Float[np.ndarray, "R A"]) -> Float[np.ndarray, "P 1"]:
        weights = self._weights(theta)
        parts = self._network.pull_back(weights, self._network.logits(weights)[1], rows)
        return np.concatenate([part.ravel() for part in parts])[:, None]

    def bounded(self, theta: Float[np.ndarray, "B P 1"]) -> Float[np.ndarray, "B P 1"]:
        """See `Parameters`."""
        return theta

    def of(self, table: Float[np.ndarray, "T C A"], share: float | None = None) -> Float[np.ndarray, "P 1"]:
        """Weights that fit a table; where they miss a bound, a mixture with the safe table that keeps more of it."""
        theta, margin = np.concatenate([one.ravel() for one in self._policy.weights])[:, None], INSIDE
        while margin < 1:
            inside = mixed_until(lambda one: self._slack(one) - margin, table, self._safe)  # noqa: B023
            theta = self._fitted(inside, theta)
            if self._clock.left == 0 or self._slack(self.tables(theta[None])[0]) >= 0:
                break
            margin *= 2
        return theta

    def _slack(self, table: np.ndarray) -> float:
        return float(self._objective.sums(table[None], gradient=False).slack.min(initial=1.0))

    def _fitted(
        self, goal_table: Float[np.ndarray, "T C A"], theta: Float[np.ndarray, "P 1"]
    ) -> Float[np.ndarray, "P 1"]:
        """Weights for which `Σ visits · KL(goal ‖ policy)` is small, by L-BFGS, within the time of the clock."""
        table, visits = self._table, self._objective.space.visits(goal_table)
        weight = (visits.ravel()[table.rows] / visits.sum())[:, None]
        uniform = table.open / table.open.sum(axis=1, keepdims=True)
        goal = (1 - RARE) * table.used(goal_table) + RARE * uniform  # a network has no exact zeros
        best = [theta.ravel(), np.inf]

        def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
            self._clock.check()
            rows = softmax(self._logits(flat)[None], table.open)[0]
            logs = natural_log(np.where(table.open, np.maximum(rows, np.finfo(float).tiny), 1.0))
            value = -float(np.sum(weight * goal * logs))
            if value < best[1]:
                best[:] = [flat.copy(), value]
            return value, self._through(flat, weight * (rows - goal)).ravel()

        with contextlib.suppress(OutOfTime):
            minimize(loss, theta.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
        return np.asarray(best[0])[:, None]


def search_features(problem: Problem, options: SolveOptions) -> Solution:
    """A table is searched first; a feature policy is fitted to it and trained.

    **Raises:** `InputError` where the problem does not have the features or the objective cannot be sampled; as `search`.
    """
    clock = Clock(options.time_limit, progress=options.progress)
    objective = _prepared(problem, options)
    space, features = objective.space, options.features
    assert features is not None
    policy = FeaturePolicy.initial(
        problem, features, timed=not space.stationary, hidden=options.hidden_units, seed=options.seed
    )
    part = None if options.time_limit is None else options.time_limit / 2
    table = search(problem, replace(options, time_limit=part), make_ascent)
    if not table.feasible or table.status is Status.INTERRUPTED:
        return table
    objective, safe = safe_table(replace(objective, clock=clock), clock)
    found, state, status = policy, None, Status.CONVERGED
    if space.hidden.horizon:  # else there is nothing to decide
        found, state, status = _trained(objective, safe, policy, space.table_of(table.policy), options)
    return _answer(objective, table, found, state, status, options)


def _prepared(problem: Problem, options: SolveOptions) -> Objective:
    defects = Defects("feature policy")
    if options.memory not in ("markov", "timed"):
        defects.add("it has no memory besides the time: use memory='markov' or 'timed'")
    if options.objective == "guess" or options.min_opacity is not None:
        defects.add("it is trained on samples, without objective='guess' and min_opacity: search a table")
    if options.hide != OWN or hidden_terms(problem, options.task) or any(one.bounds for one in problem.pairs):
        defects.add(
            "it is trained on samples, which bounds on pairs, terms H(pair) and hide do not have: search a table"
        )
    defects.raise_if_any()
    space = make_space(problem, options.memory)
    asked = Asked(options.objective, "sampled", Draw(options.sequences, options.seed))
    channels = Channels((make_backend(space, asked), *(None for _ in problem.pairs)))
    return make_objective(space, channels, options)


def _trained(
    objective: Objective,
    safe: np.ndarray,
    policy: FeaturePolicy,
    goal: Float[np.ndarray, "T C A"],
    options: SolveOptions,
) -> tuple[FeaturePolicy, SampledState | None, Status]:
    """The policy fitted to a table and trained, and where its search ended."""
    parameters = FeatureParameters(objective, safe, policy, objective.clock.share(SHARE))

    def make(objective: Objective, _: np.ndarray, options: SolveOptions) -> SampledAscent:
        schedule = Schedule((), MOST_STEPS if options.iterations is None else options.iterations)
        return SampledAscent(objective, parameters, [goal], [goal], schedule, options, first_batch(objective))

    method, state, status = run(make, objective, safe, options)
    if state is None:
        return policy, None, status
    assert isinstance(method, SampledAscent)
    state, status = method.last(state), Status.ITERATION_LIMIT if status is Status.CONVERGED else status
    return parameters.policy_of(state.best_theta), state, status


def _answer(
    objective: Objective,
    table: Solution,
    policy: FeaturePolicy,
    state: SampledState | None,
    status: Status,
    options: SolveOptions,
) -> Solution:
    space, clock = objective.space, objective.clock
    expanded = space.table_of(policy)
    hidden = sampled_answer(space, expanded, options, max(CLOSING_SECONDS, clock.left))
    found = as_solution(
        objective,
        expanded,
        Bits(hidden),
        status,
        options,
        clock,
        policy=policy,
        policy_class=f"feature policies ({table.policy_class})",
        detail=f"fitted to a table that hides {table.opacity.bits:.4f} bits, then trained on samples",
        price_bits=float("nan"),
        iterations=0 if state is None else state.iteration,
        history=History.of([] if state is None else state.history),
        settings=table.settings | {"features": policy.describe(), "parameters": policy.num_parameters},
        plan=table.plan,
        repeatable=table.repeatable,
    )
    missed = "no weights were found that meet the threshold: use more hidden units or time"
    return found if found.feasible else replace(found, detail=missed)
