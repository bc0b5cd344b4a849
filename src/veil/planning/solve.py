"""`veil.solve`: one function for every method, which joins the search with the proof; and the answer about a given policy."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..common.clock import Clock
from ..common.errors import VeilError
from ..common.settings import takes
from ..common.workers import team_of
from ..engine.return_range import threshold
from ..measure.constrained import ConstraintValue, constraint_values, quantity_values
from ..measure.evaluate import expected_return, opacity
from ..measure.pairs import PairValue, pair_values
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem, check_problem
from ..problem.terms import hidden_terms, terms_of, with_task
from ..proof.certify import prove
from ..proof.feasibility import meets_constraints, proven_others
from .methods import METHODS, check_options
from .options import SolveOptions
from .plan import AFTER_SECONDS, CLOSING_SECONDS, Plan, search_seconds
from .solution import Solution, Status


@takes(SolveOptions)
def solve(problem: Problem, options: SolveOptions) -> Solution:
    """The policy that leaves the observer most uncertain while the problem's constraints are met.

    With `task` a sum of rewards, of probabilities of formulas and of bits hidden in pairs is added to the objective,
    `"-0.1*energy"` for bits minus a tenth of the energy; with `min_opacity` it is maximised instead, and that many bits are a
    constraint. With `hide="foe, own"` the least of what is hidden in these pairs is maximised.

    Methods: `"ascent"`, the default, climbs from many starts on exact gradients (on fresh samples if those are too
    expensive), polishes the best to a stationary point and makes it exactly feasible; `"primal-dual"` is the paper's
    algorithm; `"game"` finds the best over all policies with any memory, between proven bounds; `"queries"` plans for
    an observer that chooses where to look (`veil.best_queries`). Packages can add others (`veil.planning.methods`).

    Memories: `"markov"`, the state; `"timed"`, state and time; `ObservationMemory(k)`, `StateMemory(k)`,
    `ZoneMemory(zones)`, `Controller(nodes)`, `Mixture(tables)`; `"history"`, with `method="game"` alone. Unless a `start` is
    given, `"ascent"` searches the stationary and time-dependent policies that a larger class contains first, each with a share
    of the time and as many iterations, and goes on from their answer: a larger class does not end below a smaller one.

    Ctrl-C ends the search as a time limit does: the best feasible policy so far is returned. Unless `certificate=False`,
    `solution.certificate` proves how far from the best of all policies the answer can be, or `certificate_note` says why
    there is no proof.

    **Returns:** a `Solution`; its status says how the search ended and its class which policies were searched.

    **Raises:** `InfeasibleError`, at once, if no policy reaches the threshold; `InputError`, listing every option that is
    wrong; `CheckpointError`; `TooLargeError`.
    """
    check_problem(problem)
    options = check_options(options)
    clock = Clock(options.time_limit)
    method = METHODS.get(options.method)()
    limit, seconds = options.time_limit, search_seconds(options)
    asked = with_task(problem, options.task)
    with team_of(options.workers) as team:
        part = replace(options, time_limit=seconds, workers=team)
        solution = method.solve(asked, part)
    left = None if limit is None or seconds is None else max(clock.left - (limit - seconds), CLOSING_SECONDS)
    solution = _completed(problem, asked, solution, options, left)
    if not options.certificate:
        return replace(solution, certificate_note="it was not asked for")
    return _with_proof(problem, solution, options, min(_proof_seconds(solution, options), clock.left))


def _proof_seconds(solution: Solution, options: SolveOptions) -> float:
    """What the proof may take: of a game it is the policy that takes long, and the game itself is part of the proof."""
    if options.certificate_time_limit is not None:
        return options.certificate_time_limit
    return AFTER_SECONDS if solution.proof is None or options.time_limit is None else math.inf


def _completed(
    problem: Problem, asked: Problem, solution: Solution, options: SolveOptions, time_limit: float | None
) -> Solution:
    """The answer of a method with what every answer tells: all constraints, pairs and the task, with values and prices.

    It is not feasible where it misses a constraint that its method does not know of. `asked`: the problem with the quantities
    of its task; `time_limit`: to measure the pairs where the method did not.
    """
    # Multipliers in units of a task are no bits, and those of a search that has hardly begun are no prices.
    begun = not solution.has_hardly_begun
    known = begun and (options.min_opacity is None or solution.threshold is None)
    price = solution.price_bits if known else math.nan
    prices = (solution.prices if known else ()) or (math.nan,) * len(problem.bounds)
    pair_prices = solution.pair_prices if begun else ()
    pairs = solution.pairs or pair_values(problem, solution.policy, seed=solution.seed, time_limit=time_limit)
    pairs = _priced(problem, pairs, pair_prices)
    others = proven_others(problem, solution.policy)
    own = prices[len(prices) - len(others) :]
    values = [replace(one, price_bits=price) for one, price in zip(others, own, strict=True)]
    missed = [one.text for one in (*values, *pairs) if not one.met]
    if solution.threshold is not None:
        values.insert(0, ConstraintValue("return", "≥", solution.threshold, solution.expected_return, price))
    more: dict[str, Any] = {"price_bits": price, "prices": prices, "pair_prices": pair_prices, "pairs": pairs}
    if solution.plan is None:
        more["plan"] = Plan("ascent" if options.method == "auto" else options.method, search_seconds(options), ())
    if options.task is not None:
        hidden = {one.name: one.bits for one in pairs} | {OWN: solution.opacity.bits}
        more |= {"task": options.task, "task_value": _task_value(asked, solution.policy, hidden, options.task)}
    if missed and solution.feasible:
        detail = f"method {solution.method!r} returned a policy that misses {' and '.join(missed)}"
        more |= {"feasible": False, "status": Status.INFEASIBLE, "detail": detail}
    return replace(solution, problem=problem, constraints=tuple(values), hide=options.hide, **more)


def _priced(problem: Problem, values: tuple[PairValue, ...], prices: tuple[float, ...]) -> tuple[PairValue, ...]:
    """What is hidden in each pair with the price of its bounds."""
    found, left = list[PairValue](), list(prices)
    for pair, value in zip(problem.pairs, values, strict=True):
        own = [left.pop(0) for sign, bits in pair.bounds if (sign < 0 or bits > 0) and left]
        found.append(replace(value, price_bits=max(own, default=math.nan)))
    return tuple(found)


def _task_value(asked: Problem, policy: Policy, hidden: Mapping[str, float], task: str) -> float:
    """The sum that a task names, under a policy that hides so many bits in each channel."""
    values = quantity_values(asked, policy)
    total = sum(factor * values[number] for factor, number in terms_of(asked, task))
    return total + sum(factor * hidden[name] for factor, name in hidden_terms(asked, task))


def _with_proof(problem: Problem, solution: Solution, options: SolveOptions, seconds: float) -> Solution:
    """The answer with its certificate, or with the reason why it has none."""
    if solution.certificate is not None:  # of the method itself
        return solution
    note = _why_no_proof(problem, solution, options)
    if note:
        return replace(solution, certificate_note=note)
    try:
        proof, interrupted = prove(
            problem, solution.policy, seconds, goal="opaque" if options.goal == "opaque" else "transparent",
            hide=options.hide, task=options.task, game=solution.proof, progress=options.progress,
        )  # fmt: skip
    except KeyboardInterrupt:
        return replace(solution, status=Status.INTERRUPTED, certificate_note="the proof was interrupted")
    except VeilError as error:
        return replace(solution, certificate_note=str(error))
    note = "the proof was interrupted: with more time its bounds may be closer" if interrupted else ""
    return replace(solution, certificate=proof, certificate_note=note, proof=None)


def _why_no_proof(problem: Problem, solution: Solution, options: SolveOptions) -> str:
    if solution.status is Status.INTERRUPTED:
        return "the search was interrupted"
    if solution.status is Status.INFEASIBLE:
        return "no feasible policy was found"
    if options.objective != "entropy":
        return f"certificates are about the entropy H(Z|Y), and the objective was {options.objective!r}"
    if options.min_opacity is not None:
        return "certificates are about the most bits for a return, not about the most return for some bits"
    return ""


def given_solution(problem: Problem, policy: Policy, *, seed: int = 0, time_limit: float | None = None) -> Solution:
    """A policy with its measured values, as a `Solution` with the status `GIVEN`.

    **Arguments:** `seed`: as for `veil.opacity`; `time_limit`: seconds for all pairs together.

    **Raises:** `InputError` if the policy does not fit the problem.
    """
    earned, values = expected_return(problem, policy), constraint_values(problem, policy)
    clock, first = Clock(time_limit), None if time_limit is None else time_limit / (1 + len(problem.pairs))
    hidden = opacity(problem, policy, seed=seed, time_limit=first)
    pairs = pair_values(problem, policy, seed=seed, time_limit=clock.rest)
    return Solution(
        policy=policy,
        policy_class=policy.describe(),
        opacity=hidden,
        expected_return=earned,
        threshold=threshold(problem),
        feasible=meets_constraints(problem, policy, earned) and all(one.met for one in pairs),
        status=Status.GIVEN,
        method="none",
        price_bits=math.nan,
        seed=seed,
        seconds=clock.spent,
        needs_observations=policy.needs_observations,
        constraints=values,
        pairs=pairs,
        certificate_note=Status.GIVEN.value,
        problem=problem,
    )
