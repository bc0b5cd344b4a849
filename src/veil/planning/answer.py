"""The answer of a search: the best feasible candidate, measured anew as far as the time allows, as a `Solution`.

It is measured exactly where that fits the time, else on sequences that the search has not seen.
"""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from ..common.clock import Clock, OutOfTime
from ..common.rounding import upper_text
from ..engine.return_range import max_return, return_extremes
from ..measure.constrained import constraint_values
from ..measure.evaluate import expected_return, opacity
from ..measure.pairs import PairValue, pair_value
from ..measure.result import Opacity
from ..measure.sampled import opacity_of_posteriors
from ..policy.memory import memory_document
from ..policy.policy import Policy
from ..problem.return_rounding import return_rounding
from ..proof.feasibility import proven_others, reaches_threshold, stated_return
from .backend import Estimate
from .bits import GRADIENT_PASSES, LANE, in_lanes
from .channels import counted_seconds
from .iteration import Iteration, S
from .mixing import mixture_gain
from .objective import Objective, start_points
from .options import SolveOptions
from .parameters import ROUNDED
from .plan import AFTER_SECONDS, CLOSING_SECONDS, SHARE
from .policy_class import Space, Table, make_space
from .safe_tables import richest_table
from .solution import History, Solution, Status
from .values import GAP_BITS, TOLERANCE_BITS, Values, basins

# Of a time limit this many times what one return takes is kept for the answer, but no more than half of what is left: to
# estimate and check it (measured: 13 returns), and to make the last table feasible.
_RETURNS_OF_ANSWER = 18
_MORE = 10  # times the sequences of an evaluation, on which an answer is measured: a third of its error
# Seconds for each number of a time-dependent table in which an answer is checked and its return is evaluated, after its bits
# are (measured: 3e-8 to 5e-8).
_PER_NUMBER = 6e-8


@dataclass(frozen=True, eq=False)
class Bits:
    """What a table hides, measured by itself: in the problem's own pair, and in the others."""

    own: Opacity
    pairs: tuple[PairValue, ...] = ()


@dataclass(frozen=True, eq=False)
class Candidate:
    """A table that may be the answer, with its bits and return as its search evaluates them.

    **Attributes:** `gap`: what the best first-order change promises; `multiplier`: those with which that is computed;
    `hidden`: what the table hides, if it was measured to compare it.
    """

    table: Table
    bits: float
    returns: float
    gap: float
    multiplier: Float[np.ndarray, " K"]
    hidden: Bits | None = None


# The answer.


def make_answer(
    objective: Objective,
    method: Iteration[S],
    state: S,
    status: Status,
    options: SolveOptions,
    clock: Clock,
    past: Float[np.ndarray, "k 6"],
    safe: Table,
) -> Solution:
    """The best feasible candidate, evaluated anew as far as the time allows; `past` are rows of history before the search.

    Where none is feasible it is the table of largest return, `safe`, if that is: if the threshold is the largest return there
    is, evaluated returns do not tell which tables reach it.
    """
    closing = _closing_clock(status, clock)
    best = best_candidate(objective, method, state, options, closing)
    hidden, gap = best.hidden or measured(objective, best.table, options, closing), best.gap
    if status is Status.TIME_LIMIT and state.iteration == 0 and not len(past):
        status = Status.NOT_SEARCHED
    if status is Status.CONVERGED and not gap <= TOLERANCE_BITS:
        status = Status.ITERATION_LIMIT
    mixing = closing.share(SHARE).silent()
    found = as_solution(
        objective,
        best.table,
        hidden,
        status,
        options,
        clock,
        **objective.prices(best.multiplier),
        stationarity_bits=gap * objective.score_unit if objective.has_terms else gap,
        iterations=state.iteration,
        history=History.of(np.vstack([past, state.history]) if len(past) else state.history),
        settings=method.describe(),
        # Of one channel; the bits of several are no places.
        basins=tuple(objective.weight * one for one in basins(state.ends)) if objective.is_of_bits else (),
        mixture_gain_bits=mixture_gain(objective, options, best.table, method.met(state), mixing),
    )
    if found.feasible or objective.threshold is None or objective.channels.bounds:
        return found
    other = unsearched(objective, safe, replace(options, start=None), clock, status)
    return other if other.feasible else found


def as_solution(
    objective: Objective,
    table: Table,
    hidden: Bits,
    status: Status,
    options: SolveOptions,
    clock: Clock,
    *,
    policy: Policy | None = None,
    settings: Mapping[str, object] | None = None,
    **more: Any,
) -> Solution:
    """A table as an answer, with what it hides, what it earns, and whether it meets every constraint.

    **Arguments:** `policy`, where it is more than the table; `settings` of the method; `more`: further fields of the answer.
    """
    space = objective.space
    policy = space.policy(table) if policy is None else policy
    value, detail = expected_return(space.problem, policy), objective.backend.reason
    feasible = is_feasible(objective, table, policy, hidden, value)
    if not feasible:
        status, detail = Status.INFEASIBLE, _why_infeasible(objective, table, hidden)
    known: dict[str, Any] = {
        "policy_class": space.describe,
        "opacity": hidden.own,
        "pairs": hidden.pairs,
        "expected_return": stated_return(value, objective.threshold, feasible),
        "threshold": objective.threshold,
        "feasible": feasible,
        "status": status,
        "method": options.method,
        "goal": options.goal,
        "objective": options.objective,
        "detail": detail,
        "seconds": clock.spent,
        "seed": options.seed,
        "needs_observations": space.needs_observations,
        "settings": _class_settings(space) | {"evaluation": objective.kind} | dict(settings or {}),
    }
    return Solution(policy=policy, **(known | more))


def unsearched(objective: Objective, safe: np.ndarray, options: SolveOptions, clock: Clock, status: Status) -> Solution:
    """The policy to begin from, or that of largest return: not enough, or all that there was time for."""
    safe = next(iter(_begun(objective, options)), safe)
    hidden = measured(objective, safe, options, _closing_clock(status, clock))
    status = Status.NOT_SEARCHED if status is Status.TIME_LIMIT else status
    return as_solution(objective, safe, hidden, status, options, clock)


def in_class(space: Space, solution: Solution) -> Solution:
    """The answer as one of a class that contains its own; unchanged where it is of that class."""
    if solution.policy_class == space.describe:
        return solution
    return replace(
        solution,
        policy=space.policy(space.table_of(solution.policy)),
        policy_class=space.describe,
        detail=f"the search ended during the search of {solution.policy_class}, from which this class starts",
        needs_observations=space.needs_observations,
        settings=solution.settings | _class_settings(space) | {"searched": solution.policy_class},
    )


def _class_settings(space: Space) -> dict[str, object]:
    """How the class of an answer is asked for, and on which device it was searched."""
    found: dict[str, object] = {"memory": memory_document(space.memory)}
    if space.on_device is not None:
        import jax

        found["device"] = f"{jax.devices()[0].device_kind} (JAX, float32)"
    return found


# The choice of the answer.


def best_candidate(
    objective: Objective, method: Iteration[S], state: S, options: SolveOptions, closing: Clock
) -> Candidate:
    """The table that is the answer: of those that are as good as the best, the one that is nearest to an optimum.

    On samples it is measured beside the policy that the search began from, and the better one is the answer: no class ends
    below a smaller one.
    """
    tables, values = _candidates(objective, method, state, closing)
    parts = [(one, values.part(np.array([one]))) for one in values.as_good(GAP_BITS)[::-1]]
    found = [(*_first_order(objective, tables[one], part, state.best_multiplier, closing), one) for one, part in parts]
    gap, multiplier, chosen = min(found, key=lambda one: one[0])
    table, bits = tables[chosen], float(values.bits[chosen])
    bits = objective.weight * state.best_score if np.isnan(bits) and objective.is_of_bits else bits
    best = Candidate(table, bits, float(values.returns[chosen]), gap, multiplier)
    begun = [one for one in _begun(objective, options) if objective.is_sampled and np.any(one != table)]
    return _better(objective, best, begun[0], options, closing) if begun else best


def _begun(objective: Objective, options: SolveOptions) -> list[Table]:
    """The policy that the search began from, if it meets all constraints but those on bits."""
    if options.start is None or objective.min_opacity is not None:
        return []
    begun = objective.space.table_of(options.start)
    return [begun] if np.all(objective.sums(begun[None], gradient=False).slack >= 0) else []


def _better(objective: Objective, best: Candidate, begun: Table, options: SolveOptions, closing: Clock) -> Candidate:
    """The better one of a candidate and another table, as both are measured."""
    tables = np.stack([best.table, begun])
    found = [measured(objective, one, options, closing, share) for one, share in zip(tables, (0.5, 1.0), strict=True)]
    charged = [one.own.prior_bits if options.objective == "leakage" else 0.0 for one in found]
    bits = [[one.own.bits - less, *(pair.bits for pair in one.pairs)] for one, less in zip(found, charged, strict=True)]
    values = objective.values_of(tables, [Estimate.exact(np.array(column), None) for column in zip(*bits, strict=True)])
    better = values.best
    return replace(
        best,
        table=tables[better],
        bits=bits[better][0],
        returns=float(values.returns[better]),
        hidden=found[better],
    )


def _candidates(objective: Objective, method: Iteration[S], state: S, closing: Clock) -> tuple[np.ndarray, Values]:
    """Tables that may be the answer, with their values; without gradients, the last one alone, where time is short."""
    tables = np.asarray(state.best)[None]
    with contextlib.suppress(OutOfTime):
        tables = method.candidates(state)
        if not (len(tables) == 1 and objective.is_sampled) and objective.cost_seconds * len(tables) < closing.left:
            # Each by itself, as it was repaired: bits of several tables together round otherwise.
            objective = replace(objective, clock=closing)
            return tables, Values.joined([objective.evaluate(table[None]) for table in tables])
    best = tables[:1] if objective.is_sampled else np.asarray(state.best)[None]
    known = objective.sums(best, gradient=False)
    return best, replace(known, score=np.array([state.best_score]), bits=np.array([np.nan]))


def _first_order(
    objective: Objective, table: np.ndarray, values: Values, multiplier: np.ndarray, clock: Clock
) -> tuple[float, np.ndarray]:
    """What the best first-order change promises, and the multipliers of the bounds at which it promises least.

    With gradient g of the score, slacks s ≥ 0 with Jacobian J, and changes d that put rows of the table on single actions,
    `min_μ max_d g·d + μ·(s + J d)` over possible multipliers: the dual of the best change that keeps the linearised bounds.
    Each d gives a plane below the promise, which is convex in μ, so linear programs of the planes so far, as many as the time
    allows, find the least.
    """
    if not values.score_gradient.size:
        return np.nan, multiplier
    slack, num_least = np.maximum(values.slack[0], 0.0), values.num_least
    gradients = np.concatenate([values.score_gradient, values.slack_gradient[0]])
    gains = gradients - np.sum(table * gradients, axis=-1, keepdims=True)

    def plane(price: np.ndarray) -> np.ndarray:
        """What the best change at some multipliers promises, and how that depends on each of them."""
        total = np.where(objective.space.available, np.tensordot(np.append(1.0, price), gains, 1), -np.inf)
        best = np.broadcast_to(total.argmax(axis=-1)[None, ..., None], (*gains.shape[:-1], 1))
        return np.take_along_axis(gains, best, -1).sum(axis=(1, 2, 3)) + np.append(0.0, slack)

    least, planes = (np.inf, multiplier), list[np.ndarray]()
    is_weight = np.arange(1 + len(slack)) < num_least  # which sum to one
    one_sum = {"A_eq": is_weight[None], "b_eq": [1.0]} if num_least else {}
    bounds = [*((0, most) for most in np.where(is_weight[:-1], 1.0, 2 * (multiplier + 1))), (None, None)]
    price = multiplier
    while True:
        below = plane(price)
        least = min(least, (float(below @ np.append(1.0, price)), price), key=lambda found: found[0])
        known = any(np.array_equal(below, one) for one in planes)  # nothing is learned from it
        if not len(slack) or known or (planes and not clock.left):
            return least
        planes.append(below)
        rows = np.stack(planes)
        found = linprog(
            np.append(0 * slack, 1.0),
            A_ub=np.column_stack([rows[:, 1:], -np.ones(len(rows))]),
            b_ub=-rows[:, 0],
            bounds=bounds,
            **one_sum,
        )
        if not found.success or found.fun >= least[0] - ROUNDED * max(1.0, abs(least[0])):
            return least
        price = found.x[:-1]


# What a table hides.


def measured(objective: Objective, table: Table, options: SolveOptions, closing: Clock, share: float = 1.0) -> Bits:
    """What a table hides, as it was searched or by what fits a share of the time, split among all channels on samples."""
    space, problem, seed = objective.space, objective.space.problem, options.seed
    policy, backend, count = space.policy(table), objective.backend, 1 + len(problem.pairs)
    seconds = share * max(closing.left - _seconds_of_policy(space), CLOSING_SECONDS / 2)
    if objective.is_sampled:
        own = sampled_answer(space, table, options, seconds / count)
    elif backend.kind == "exact" and backend.cost_seconds / GRADIENT_PASSES <= seconds:
        own = opacity(problem, policy, "exact")
    else:
        own = opacity(problem, policy, time_limit=min(seconds, AFTER_SECONDS), seed=seed + 1)
    pairs = list[PairValue]()
    for pair, one in zip(problem.pairs, objective.channels.backends[1:], strict=True):
        if objective.is_sampled:
            part = seconds / count if pair.belief is None else seconds / count / 2
            alone = sampled_answer(make_space(problem.only(pair.name), space.memory), table, options, part)
            drawn = alone.num_sequences if alone.method == "sampled" else options.sequences
            given = {"sequences": drawn, "seed": seed + 1, "time_limit": part}
            pairs.append(pair_value(problem, pair, policy, hidden=alone, **given))
        elif one is not None:
            pairs.append(pair_value(problem, pair, policy, method="exact"))
        else:
            pairs.append(pair_value(problem, pair, policy, seed=seed, time_limit=seconds / (count - 1)))
    return Bits(own, tuple(pairs))


def sampled_answer(space: Space, table: Table, options: SolveOptions, seconds: float) -> Opacity:
    """The opacity of a table that was searched on samples: exact where that fits the seconds, else a large sample.

    The sample is of sequences that the search has not seen: as many as fit the seconds, at least 64.
    """
    chain, sequences, seed = space.chain(table), num_closing_sequences(options), options.seed
    if counted_seconds(space, chain, seconds) <= min(AFTER_SECONDS, seconds / 2):
        return opacity(space.problem, space.policy(table), "exact")
    if space.hidden.each is not None or space.hidden.path is not None:
        given = {"sequences": sequences, "seed": seed + 1, "time_limit": max(CLOSING_SECONDS, seconds)}
        return opacity(space.problem, space.policy(table), "sampled", **given)
    lane = LANE if space.on_device is None else space.on_device.chunk
    found = in_lanes(
        lambda count, generator: space.layers.posteriors(table, space.layers.draw(table, count, generator)),
        sequences, lane, seed, seconds,
    )  # fmt: skip
    return opacity_of_posteriors(space.layers.prior(table), found)


def num_closing_sequences(options: SolveOptions) -> int:
    """On how many new sequences an answer is measured if the time suffices."""
    return _MORE * max(options.sequences, SolveOptions.sequences)


# Time for the answer.


def answer_seconds(objective: Objective, safe: Table, clock: Clock) -> float:
    """Seconds of a time limit that are kept for the answer, by the time that one return takes now; 0 without a limit."""
    if math.isinf(clock.time_limit):
        return 0.0
    measured = Clock()
    objective.returns_by_start(safe)
    wanted = _RETURNS_OF_ANSWER * measured.spent + _seconds_of_policy(objective.space)
    return min(wanted, clock.left / 2)


def _closing_clock(status: Status, clock: Clock) -> Clock:
    """The time that the answer may take: nobody waits long for a search that was stopped."""
    return Clock(CLOSING_SECONDS if status is Status.INTERRUPTED else max(clock.left, CLOSING_SECONDS / 2))


def _seconds_of_policy(space: Space) -> float:
    """The forecast for making a policy of a table, with the rows that are not searched, and for its return."""
    summed = space.hidden.horizon * space.hidden.paid[0].reward.size
    return _PER_NUMBER * max(summed, space.shape[0] * space.problem.available.size)


# Whether all constraints are met.


def is_feasible(objective: Objective, table: Table, policy: Policy, hidden: Bits, expected_return: float) -> bool:
    """Whether the answer, a table and its policy, evaluated by itself, is proven to meet every constraint; no tolerance.

    Values within rounding errors of their bounds are decided in exact arithmetic. Bits are those of the closing
    evaluation: exact, the lower end of a bracket, or the estimate of a sample.
    """
    problem = objective.space.problem
    if objective.others and not all(one.met for one in proven_others(problem, policy)):
        return False
    if not all(one.met for one in hidden.pairs):
        return False
    if objective.min_opacity is not None and hidden.own.bits < objective.min_opacity:
        return False
    if np.any(objective.sums(table[None], gradient=False).slack[:, : objective.num_returns] < 0):
        return False
    if objective.threshold is None or objective.is_free:
        return True
    if len(objective.starts) > 1:
        return objective.aim >= objective.threshold + return_rounding(problem)
    return objective.min_opacity is not None or reaches_threshold(problem, policy, expected_return)


def _why_infeasible(objective: Objective, table: np.ndarray, hidden: Bits) -> str:
    """Which constraint is missed, by how much, and which class of policies can meet it."""
    if objective.others or any(one is not None for one in objective.channels.backends[1:]):
        return _missed_constraints(objective, table, hidden)
    if objective.min_opacity is not None:
        return f"no policy was found that hides {objective.min_opacity:g} bits: ask for less, or allow more memory"
    space, wanted, best = objective.space, objective.threshold, float(objective.returns_by_start(table).min())
    assert wanted is not None
    if best >= wanted - return_rounding(space.problem):
        off = upper_text(abs(wanted - best) + return_rounding(space.problem), significant=2)
        return (
            f"whether {space.describe} reach the threshold {wanted!r} is not decided: the largest return found is within"
            f" {off} of it: lower min_return by that much"
        )
    text = f"the best return found for {space.describe} is {best:.6g}, below the threshold {wanted:.6g}"
    if len(objective.starts) > 1:
        text += ", from the start state with the least return"
    if not space.stationary or space.problem.return_over == "infinite":  # there the best policy is stationary
        return text
    reached = _with_a_clock(objective)
    if reached >= wanted:
        return f"{text}; time-dependent policies reach {reached:.6g}: use memory='timed'"
    if len(objective.starts) == 1 or not return_extremes(space.problem).exact:
        return text
    return f"{text}; no policy reaches more than {reached:.6g} from every start state"


def _missed_constraints(objective: Objective, table: np.ndarray, hidden: Bits) -> str:
    """Which of several constraints the best table that was found misses."""
    values = constraint_values(objective.space.problem, objective.space.policy(table))
    missed = [f"{one.text} (reached {one.value:.6g})" for one in values if not one.met]
    missed += [f"{one.text} (reached {one.reached})" for one in hidden.pairs if not one.met]
    kept = "" if objective.min_opacity is None else f" and hides {objective.min_opacity:g} bits"
    remedy = ": use memory='timed'" if objective.space.stationary else ": relax a constraint, or allow more memory"
    return f"no policy was found that meets all constraints{kept}; missed: {', '.join(missed) or 'the bits'}{remedy}"


def _with_a_clock(objective: Objective) -> float:
    """The largest return of time-dependent policies; with several start states, from that where it is least.

    It is the largest from each of them at once, where the agent knows which model runs.
    """
    problem = objective.space.problem
    if len(objective.starts) == 1:
        return max_return(problem)
    space = make_space(problem, "timed")
    timed = replace(objective, space=space, starts=start_points(space.hidden.start, space.hidden.state))
    return float(timed.returns_by_start(richest_table(space)).min())
