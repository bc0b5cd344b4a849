"""One search from beginning to end: from scratch or a checkpoint, within its limits, to a feasible `Solution`."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime, Stop, interruptible
from ..common.errors import CheckpointError
from ..common.settings import settings
from ..engine.return_range import check_feasible, max_return, return_extremes, return_slack
from ..engine.returns import evaluate_returns
from ..measure.evaluate import expected_return, opacity
from ..measure.result import Opacity
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from .ascent import first_order_gain, lagrangian_slope, make_ascent
from .checkpoint import Checkpoint, read_checkpoint
from .iteration import Iteration, S
from .methods import METHODS
from .options import SolveOptions
from .policy_class import Space, make_space, memory_words
from .primal_dual import describe_optimizer
from .solution import History, Solution, Status
from .starts import richest_table
from .task import Task, Values, make_task, start_points
from .values import final_opacity, make_secrecy, sampled_answer

# The first-order gain below which an answer is called converged, in bits.
TOLERANCE_BITS = 1e-3
# Seconds that the answer may take after the time is up or the search was interrupted.
_CLOSING_SECONDS = 1.0
# Candidates this close are as good as each other.
_AS_GOOD_BITS = 1e-5
# A slack above this share of the range of returns does not bind.
_LOOSE = 1e-3


Start = Callable[[Task, Float[np.ndarray, "T C A"], SolveOptions], Iteration[S]]
"""How a method begins: with the task, the table of largest return, and the options."""


def search(problem: Problem, options: SolveOptions, make: Start[S]) -> Solution:
    """The best policy that a method finds: `make(task, safe, options)` gives it, with `safe` the table of largest return.

    **Raises:** `InfeasibleError` at once where no policy reaches the threshold; `InputError`;
    `CheckpointError`.
    """
    clock = Clock(options.time_limit, iterations=options.iterations, progress=options.progress)
    if options.min_opacity is None:
        check_feasible(problem)
    space = make_space(problem, options.memory)
    secrecy = make_secrecy(
        space,
        options.objective,
        options.evaluation,
        sequences=options.sequences,
        seed=options.seed,
        time_limit=options.time_limit,
    )
    task = make_task(
        space,
        goal=options.goal,
        objective=options.objective,
        per_start=options.per_start,
        min_opacity=options.min_opacity,
        secrecy=secrecy,
    )
    safe = richest_table(space, clock)
    task = _within_rounding(task, safe)
    if clock.left > 0 and _is_hopeless(task, safe):
        return _unsearched(task, safe, options, clock, Status.INFEASIBLE)
    limited = replace(task, clock=clock)
    method = make(limited, safe, options)
    state, status = _run(method, limited, safe, options)
    if state is None:
        return _unsearched(task, safe, options, clock, status)
    return _answer(task, method, state, status, options, clock)


def _within_rounding(task: Task, safe: np.ndarray) -> Task:
    """The task, with the largest return known for the class as its threshold where that is short of it by rounding alone.

    Each class sums the same return in an order of its own, and all of the range may be asked for.
    """
    if task.threshold is None or task.is_free:
        return task
    reached = float(task.returns_by_start(safe).min())
    within = reached < task.threshold <= reached + return_slack(task.space.problem)
    return replace(task, threshold=reached) if within else task


def _is_hopeless(task: Task, safe: np.ndarray) -> bool:
    """Whether the stationary class was searched for its largest return alone, and that misses the threshold."""
    single = task.num_constraints == 1 and task.min_opacity is None
    return single and task.space.memory == "markov" and bool(np.any(task.slacks(safe[None]) < 0))


def _identity(options: SolveOptions, space: Space) -> dict[str, object]:
    """What the result depends on: the same identity, the same result."""
    own, known = METHODS.get(options.method).options, settings(SolveOptions)
    used = [name for name, one in known.items() if one.about.in_identity and (name in own or not one.about.methods)]
    found = {name: getattr(options, name) for name in used}
    start = None if options.start is None else hashlib.sha256(space.table_of(options.start).tobytes()).hexdigest()
    words = {"memory": memory_words(space.memory), "start": start, "optimizer": describe_optimizer(options.optimizer)}
    return {"problem": fingerprint(space.problem)} | found | {name: words[name] for name in words if name in found}


def _most_hidden(task: Task, safe: np.ndarray, options: SolveOptions) -> Float[np.ndarray, "n T C A"] | None:
    """Where bits are to be kept, a table that keeps them: the first found on the way to the one that hides most.

    It is what the search moves towards where it ends a little short. Its iterations are not counted.
    """
    if task.min_opacity is None:
        return None
    free = replace(task, min_opacity=None, threshold=None, sign=1.0, clock=task.clock.silent())
    method = make_ascent(free, safe, options)
    state = method.begin()
    while not method.is_done(state) and task.clock.allows(state.iteration):
        if np.all(task.slacks(state.best[None]) >= 0):
            break
        state = method.advance(state)
    uniform = task.space.softmax(np.zeros(task.space.shape))
    return np.stack([uniform, *method.candidates(state)])


def _run(method: Iteration[S], task: Task, safe: np.ndarray, options: SolveOptions) -> tuple[S | None, Status]:
    """States one after the other, until the method ends, a limit is met or somebody interrupts.

    The state is None where the time did not suffice for the first.
    """
    path = options.checkpoint or options.resume
    identity = _identity(options, task.space) if path is not None else {}
    checkpoint = None if path is None else Checkpoint(path, identity, options.checkpoint_every)
    state, status, clock = None, Status.CONVERGED, task.clock
    try:
        with clock, interruptible():
            if options.resume is not None:
                state = _resumed(method, options.resume, identity, clock)
            else:
                state = method.begin(_most_hidden(task, safe, options))
            while not method.is_done(state):
                if not clock.allows(state.iteration):
                    status = Status.ITERATION_LIMIT
                    break
                clock.check()
                state = method.advance(state)
                if checkpoint is not None and checkpoint.is_due:
                    checkpoint.write(state.arrays(), clock.spent)
    except OutOfTime as end:
        status = Status.INTERRUPTED if end.reason is Stop.INTERRUPTED else Status.TIME_LIMIT
    if checkpoint is not None and state is not None:
        checkpoint.write(state.arrays(), clock.spent)
    return state, status


def _resumed(method: Iteration[S], path: str | Path, identity: dict[str, object], clock: Clock) -> S:
    arrays, spent = read_checkpoint(path, identity)
    try:
        state = method.unpack(arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold the state of this method: {error}") from error
    clock.resume_after(spent)
    return state


def _answer(
    task: Task, method: Iteration[S], state: S, status: Status, options: SolveOptions, clock: Clock
) -> Solution:
    """The best feasible candidate, evaluated anew as far as the time allows."""
    space, closing = task.space, _closing_clock(status, clock)
    tables, values = _candidates(task, method, state, closing)
    found = [
        _first_order(task, tables[one], values.part(np.array([one])), state.best_multiplier)
        for one in range(len(tables))
    ]
    # Of those that are as good as the best, the one that is nearest to an optimum.
    close = np.flatnonzero(values.order >= values.order.max() - _AS_GOOD_BITS)
    chosen = close[-1] if len(close) == 1 else min(close[::-1].tolist(), key=lambda one: found[one][0])
    gap, multiplier = found[chosen]
    policy = space.policy(tables[chosen])
    hidden, value = _closing_opacity(task, tables[chosen], options, closing), expected_return(space.problem, policy)
    feasible = _is_feasible(task, tables[chosen], hidden)
    if status is Status.TIME_LIMIT and state.iteration == 0:
        status = Status.NOT_SEARCHED
    if status is Status.CONVERGED and not gap <= TOLERANCE_BITS:
        status = Status.ITERATION_LIMIT
    detail = task.secrecy.reason
    if not feasible:
        status, detail = Status.INFEASIBLE, _why_infeasible(task, tables[chosen])
    return Solution(
        policy=policy,
        policy_class=space.describe,
        opacity=hidden,
        expected_return=value,
        threshold=_stated_threshold(task, value),
        feasible=feasible,
        status=status,
        method=options.method,
        goal=options.goal,
        objective=options.objective,
        detail=detail,
        price_bits=float(multiplier.max(initial=0.0)) * task.price_unit,
        stationarity_bits=gap,
        iterations=state.iteration,
        seconds=clock.spent,
        seed=options.seed,
        needs_observations=space.needs_observations,
        history=History.of(state.history),
        settings={"memory": memory_words(space.memory), "evaluation": task.secrecy.kind} | method.describe(),
    )


def _is_feasible(task: Task, table: np.ndarray, hidden: Opacity) -> bool:
    """Whether the answer, evaluated by itself, meets the constraint; no tolerance.

    Bits are those of the closing evaluation: exact, the lower end of a bracket, or the estimate of a sample.
    """
    if task.min_opacity is None:
        return bool(np.all(task.slacks(table[None]) >= 0))
    return hidden.bits >= task.min_opacity


def _stated_threshold(task: Task, value: float) -> float | None:
    """The threshold; the return itself where every policy earns the threshold but for rounding and this one less by that."""
    return min(task.threshold, value) if task.is_free and task.threshold is not None else task.threshold


def _first_order(task: Task, table: np.ndarray, values: Values, multiplier: np.ndarray) -> tuple[float, np.ndarray]:
    """What the best first-order change promises, and the multiplier of the constraint at which it promises least.

    That multiplier proves most; the promise is convex in it, so it is found by narrowing an interval. Where there are several
    constraints those of the search are taken.
    """

    def gain(price: np.ndarray) -> float:
        return first_order_gain(task, table, lagrangian_slope(values, price[None])[0])

    if not values.score_slope.size:
        return np.nan, multiplier
    if len(multiplier) != 1:
        return gain(multiplier), multiplier
    if values.slack[0, 0] > _LOOSE:  # a constraint that does not bind has no price
        return gain(np.zeros(1)), np.zeros(1)
    low, high = 0.0, 4 * float(multiplier[0]) + 4
    for _ in range(80):
        third = (high - low) / 3
        if gain(np.array([low + third])) <= gain(np.array([high - third])):
            high -= third
        else:
            low += third
    best = min((np.array([low]), np.array([0.0]), multiplier), key=gain)
    return gain(best), best


def _closing_clock(status: Status, clock: Clock) -> Clock:
    """The time that the answer may take: nobody waits long for a search that was stopped."""
    return Clock(_CLOSING_SECONDS + (0.0 if status is Status.INTERRUPTED else clock.left))


def _candidates(task: Task, method: Iteration[S], state: S, closing: Clock) -> tuple[np.ndarray, Values]:
    """Tables that may be the answer, with their values; the best that is known, without slopes, where time is short."""
    space, best = task.space, state.best[None]
    try:
        tables = method.candidates(state)
        if len(tables) == 1 and task.secrecy.kind == "sampled":
            best = tables
        elif task.secrecy.cost_seconds * len(tables) < closing.left:
            # Each by itself, as it was repaired: bits of several tables together round otherwise.
            task = replace(task, clock=closing)
            return tables, Values.joined([task.evaluate(table[None]) for table in tables])
    except OutOfTime:
        pass
    returns, unknown = evaluate_returns(space.problem, space.hidden, best, stationary=space.stationary)[0], np.nan
    if task.min_opacity is None:
        slack = task.slacks(best)
    else:  # a table is only kept as the best once it was seen to be feasible
        slack = np.array([[0.0 if np.isfinite(state.best_score) else -1.0]])
    no_slope = np.zeros((1, 0, 0, 0))
    return best, Values(np.array([state.best_score]), no_slope, slack, no_slope, np.array([unknown]), returns)


def _closing_opacity(task: Task, table: np.ndarray, options: SolveOptions, closing: Clock) -> Opacity:
    """The opacity of the answer: as it was searched, or by what fits the time that is left."""
    space, secrecy, left = task.space, task.secrecy, max(closing.left, 0.5 * _CLOSING_SECONDS)
    if secrecy.kind == "sampled":
        return sampled_answer(space, table, max(10 * options.sequences, 20_000), options.seed, left)
    cost = {"exact": secrecy.cost_seconds / 3, "bracket": 20.0}[secrecy.kind]
    if cost <= left:
        return final_opacity(space, table, secrecy, options.seed)
    return opacity(space.problem, space.policy(table), time_limit=left, seed=options.seed + 1)


def _unsearched(task: Task, safe: np.ndarray, options: SolveOptions, clock: Clock, status: Status) -> Solution:
    """The policy of largest return that is known for the class: not enough, or all that there was time for."""
    space = task.space
    value = expected_return(space.problem, space.policy(safe))
    hidden = _closing_opacity(task, safe, options, _closing_clock(status, clock))
    missed = not _is_feasible(task, safe, hidden)
    if missed:
        status = Status.INFEASIBLE
    elif status is Status.TIME_LIMIT:
        status = Status.NOT_SEARCHED
    return Solution(
        policy=space.policy(safe),
        policy_class=space.describe,
        opacity=hidden,
        expected_return=value,
        threshold=_stated_threshold(task, value),
        feasible=not missed,
        status=status,
        method=options.method,
        goal=options.goal,
        objective=options.objective,
        detail=_why_infeasible(task, safe) if missed else task.secrecy.reason,
        seconds=clock.spent,
        seed=options.seed,
        needs_observations=space.needs_observations,
    )


def _why_infeasible(task: Task, table: np.ndarray) -> str:
    """Which constraint is missed, by how much, and which class of policies can meet it."""
    if task.min_opacity is not None:
        return f"no policy was found that hides {task.min_opacity:g} bits: ask for less, or allow more memory"
    space, wanted, best = task.space, task.threshold, float(task.returns_by_start(table).min())
    assert wanted is not None
    text = f"the best return found for {space.describe} is {best:.6g}, below the threshold {wanted:.6g}"
    if len(task.starts) > 1:
        text += ", from the start state where it is least"
    if not space.stationary or space.problem.return_over == "infinite":  # there the best policy is stationary
        return text
    reached = _with_a_clock(task)
    if reached >= wanted:
        return f"{text}; time-dependent policies reach {reached:.6g}: use memory='timed'"
    if len(task.starts) == 1 or not return_extremes(space.problem).exact:
        return text
    return f"{text}; no policy reaches more than {reached:.6g} from every start state"


def _with_a_clock(task: Task) -> float:
    """The largest return of time-dependent policies; with several start states, from that where it is least.

    It is the largest from each of them at once, where the agent knows which model runs.
    """
    problem = task.space.problem
    if len(task.starts) == 1:
        return max_return(problem)
    space = make_space(problem, "timed")
    timed = replace(task, space=space, starts=start_points(space.hidden.start, space.hidden.state))
    return float(timed.returns_by_start(richest_table(space)).min())
