"""One search from beginning to end: from scratch or a checkpoint, within its limits, to a feasible `Solution`."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from ..engine.returns import evaluate_returns
from ..engine.space import Space, make_space
from ..opacity.evaluate import opacity
from ..opacity.result import Opacity
from ..policy.tables import Policy
from ..problem.checks import Defects, is_number
from ..problem.errors import CheckpointError
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from .ascent import Ascent, first_order_gain, lagrangian_slope, num_starts
from .checkpoint import Checkpoint, read_checkpoint
from .max_return import check_feasible, max_return
from .primal_dual import PrimalDual, PrimalDualSettings
from .solution import History, Solution, Status
from .starts import make_starts, richest_table
from .task import Task, Values, make_task
from .values import EVALUATIONS, OBJECTIVES, Secrecy, final_opacity, make_secrecy
from .watch import Progress, Stopped, Watch

# The first-order gain below which an answer is called converged, in bits.
TOLERANCE_BITS = 1e-3
# Seconds that the answer may take after the time is up or the search was interrupted.
_CLOSING_SECONDS = 1.0
# Candidates this close are as good as each other.
_AS_GOOD_BITS = 1e-5
# A slack above this share of the range of returns does not bind.
_LOOSE = 1e-3


class State(Protocol):
    """Where a method stands; what it needs to go on can be written as arrays."""

    @property
    def iteration(self) -> int: ...  # noqa: D102
    @property
    def best(self) -> np.ndarray: ...  # noqa: D102
    @property
    def best_multiplier(self) -> np.ndarray: ...  # noqa: D102
    @property
    def best_score(self) -> float: ...  # noqa: D102
    @property
    def history(self) -> np.ndarray: ...  # noqa: D102
    def arrays(self) -> dict[str, np.ndarray]: ...  # noqa: D102


class Method(Protocol):
    """A method as a sequence of states, each made from the one before and nothing else."""

    def begin(self) -> Any: ...  # noqa: D102
    def advance(self, state: Any, watch: Watch) -> Any: ...  # noqa: D102
    def is_done(self, state: Any) -> bool: ...  # noqa: D102
    def unpack(self, arrays: dict[str, np.ndarray]) -> Any: ...  # noqa: D102
    def candidates(self, state: Any) -> Float[np.ndarray, "B T C A"]: ...  # noqa: D102


@dataclass(frozen=True)
class Options:
    """The settings of a search, as `veil.solve` takes them."""

    method: str = "ascent"
    memory: Any = "markov"
    goal: str = "opaque"
    objective: Any = "entropy"
    evaluation: Any = "auto"
    per_start: bool = False
    min_opacity: float | None = None
    seed: int = 0
    starts: int | None = None
    start: Policy | None = None
    sequences: int = 2000
    time_limit: float | None = None
    iterations: int | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: float = 10.0
    resume: str | Path | None = None
    progress: "bool | Callable[[Progress], None] | None" = None
    primal_dual: PrimalDualSettings = field(default_factory=PrimalDualSettings)

    def __post_init__(self) -> None:
        defects = Defects("solve")
        for name, choices in (
            ("method", ("ascent", "primal-dual")),
            ("goal", ("opaque", "transparent")),
            ("objective", OBJECTIVES),
            ("evaluation", EVALUATIONS),
        ):
            if getattr(self, name) not in choices:
                found, listed = getattr(self, name), ", ".join(map(repr, choices))
                defects.add(f"{name} is {found!r}, expected one of {listed}")
        for name, least in (("seed", 0), ("starts", 1), ("iterations", 0), ("sequences", 2)):
            value = getattr(self, name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if value is not None and not (whole and value >= least):
                defects.add(f"{name} is {value!r}, expected a whole number, {least} or more")
        for name in ("time_limit", "min_opacity", "checkpoint_every"):
            value = getattr(self, name)
            absent = value is None and name != "checkpoint_every"
            if not (absent or (value is not None and is_number(value) and value >= 0)):
                defects.add(f"{name} is {value!r}, expected a number, 0 or more")
        defects.raise_if_any()

    def identity(self, problem: Problem, space: Space) -> dict[str, Any]:
        """What the result depends on: the same identity, the same result."""
        start = None if self.start is None else hashlib.sha256(space.table_of(self.start).tobytes()).hexdigest()
        names = ("method", "goal", "objective", "evaluation", "per_start", "min_opacity", "seed", "starts", "sequences")
        settings = {name: getattr(self, name) for name in (*names, "iterations")}
        own = {"primal_dual": self.primal_dual.describe()} if self.method == "primal-dual" else {}
        return {"problem": fingerprint(problem), "memory": repr(space.memory), "start": start} | settings | own


def search(problem: Problem, options: Options) -> Solution:
    """The best policy that a method finds; see `veil.solve`.

    **Raises:** `InfeasibleError` at once where no policy whatever reaches the threshold; `InputError`;
    `CheckpointError`.
    """
    if options.min_opacity is None:
        check_feasible(problem)
    watch = Watch(options.time_limit, options.iterations, progress=options.progress)
    space = make_space(problem, options.memory)
    secrecy = make_secrecy(space, options.objective, options.evaluation, sequences=options.sequences, seed=options.seed)
    task = make_task(
        space,
        goal=options.goal,
        objective=options.objective,
        per_start=options.per_start,
        min_opacity=options.min_opacity,
        secrecy=secrecy,
    )
    safe = richest_table(space)
    if _is_hopeless(task, safe):
        return _unsearched(task, safe, options, watch, Status.INFEASIBLE)
    method = _make_method(replace(task, secrecy=_Limited(secrecy, watch)), safe, options)
    state, status = _run(method, options, problem, space, watch)
    if state is None:
        return _unsearched(task, safe, options, watch, status)
    return _answer(task, method, state, status, options, watch)


class _Limited:
    """A secrecy that keeps to the time of the search, whoever asks for it."""

    def __init__(self, inner: Secrecy, watch: Watch):
        self._inner, self._watch = inner, watch
        self.kind, self.reason, self.cost_seconds = inner.kind, inner.reason, inner.cost_seconds

    def __call__(self, tables: np.ndarray, check: Callable[[], None]) -> tuple[np.ndarray, np.ndarray]:
        """See `Secrecy`."""
        return self._inner(tables, self._watch.check)


def _is_hopeless(task: Task, safe: np.ndarray) -> bool:
    """Whether the stationary class was searched for its largest return alone, and that misses the threshold."""
    single = task.min_opacity is None and task.threshold is not None and len(task.starts) == 1
    return single and task.space.memory == "markov" and bool(np.any(task.slacks(safe[None]) < 0))


def _make_method(task: Task, safe: np.ndarray, options: Options) -> Method:
    if options.method == "primal-dual":
        return PrimalDual(task, safe, options.primal_dual, options.seed, options.start, options.objective)
    count = options.starts or num_starts(task)
    known = safe[None] if options.start is None else np.stack([safe, task.space.table_of(options.start)])
    return Ascent(task, make_starts(task.space, safe, count, options.seed, options.start), known)


def _run(method: Method, options: Options, problem: Problem, space: Space, watch: Watch) -> tuple[Any, Status]:
    """States one after the other, until the method ends, a limit is met or somebody interrupts.

    The state is None where the time did not suffice for the first.
    """
    path = options.checkpoint or options.resume
    identity = options.identity(problem, space) if path is not None else {}
    checkpoint = None if path is None else Checkpoint(path, identity, options.checkpoint_every)
    state, status = None, Status.CONVERGED
    try:
        if options.resume is not None:
            state = _resumed(method, options.resume, identity, watch)
        else:
            state = method.begin()
        while not method.is_done(state):
            if options.iterations is not None and state.iteration >= options.iterations:
                status = Status.ITERATION_LIMIT
                break
            watch.check()
            state = method.advance(state, watch)
            if checkpoint is not None and checkpoint.is_due:
                checkpoint.write(state.arrays(), watch.seconds)
    except Stopped:
        status = Status.TIME_LIMIT
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    finally:
        watch.close()
    if checkpoint is not None and state is not None:
        checkpoint.write(state.arrays(), watch.seconds)
    return state, status


def _resumed(method: Method, path: str | Path, identity: dict[str, Any], watch: Watch) -> Any:
    arrays, spent = read_checkpoint(path, identity)
    try:
        state = method.unpack(arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold the state of this method: {error}") from error
    watch.resume_after(spent)
    return state


def _answer(task: Task, method: Method, state: Any, status: Status, options: Options, watch: Watch) -> Solution:
    """The best feasible candidate, evaluated anew as far as the time allows."""
    space, closing = task.space, Watch(_seconds_left(status, options, watch))
    tables, values = _candidates(task, method, state, closing)
    order = np.where(values.feasible, values.score, -1e6 + np.min(values.slack, axis=1, initial=0.0))
    chosen = len(order) - 1
    if order[chosen] < order.max() - _AS_GOOD_BITS:  # the last candidate is the most finished one
        chosen = int(np.argmax(order))
    feasible = bool(values.feasible[chosen])
    gap, multiplier = _first_order(task, tables[chosen], values.part(np.array([chosen])), state.best_multiplier)
    if status is Status.CONVERGED and not gap <= TOLERANCE_BITS:
        status = Status.ITERATION_LIMIT
    detail = task.secrecy.reason
    if not feasible:
        status, detail = Status.INFEASIBLE, _why_infeasible(task, float(values.returns[chosen]))
    own = {"primal_dual": method.describe()} if isinstance(method, PrimalDual) else {}
    return Solution(
        policy=space.policy(tables[chosen]),
        policy_class=space.describe,
        opacity=_closing_opacity(task, tables[chosen], options, closing),
        expected_return=float(values.returns[chosen]),
        threshold=task.threshold,
        feasible=feasible,
        status=status,
        method=options.method,
        goal=options.goal,
        objective=options.objective,
        detail=detail,
        price_bits=float(multiplier.max(initial=0.0)) * task.price_unit,
        stationarity_bits=gap,
        iterations=state.iteration,
        seconds=watch.seconds,
        seed=options.seed,
        needs_observations=space.needs_observations,
        history=History.of(state.history),
        settings={"memory": repr(space.memory), "evaluation": task.secrecy.kind, "starts": options.starts} | own,
    )


def _first_order(task: Task, table: np.ndarray, values: Values, multiplier: np.ndarray) -> tuple[float, np.ndarray]:
    """What the best first-order change promises, and the multiplier of the constraint at which it promises least.

    That multiplier proves most; the promise is convex in it, so it is found by narrowing an interval. Where there are several
    constraints those of the search are taken.
    """

    def gain(price: np.ndarray) -> float:
        return first_order_gain(task, table, lagrangian_slope(values, price[None])[0])

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


def _seconds_left(status: Status, options: Options, watch: Watch) -> float:
    """What the answer may take: nobody waits long for a search that was stopped."""
    if status is Status.INTERRUPTED:
        return _CLOSING_SECONDS
    return math.inf if options.time_limit is None else max(0.0, watch.time_left) + _CLOSING_SECONDS


def _candidates(task: Task, method: Method, state: Any, closing: Watch) -> tuple[np.ndarray, Values]:
    """Tables that may be the answer, with their values; the best that is known, without slopes, where time is short."""
    try:
        tables = method.candidates(state)
        if task.secrecy.cost_seconds * len(tables) < closing.time_left:
            return tables, task.evaluate(tables, closing.check)
    except Stopped:
        pass
    space, best = task.space, state.best[None]
    returns, unknown = evaluate_returns(space.problem, space.hidden, best, stationary=space.stationary)[0], np.nan
    if task.min_opacity is None:
        slack = task.slacks(best)
    else:  # a table is only kept as the best once it was seen to be feasible
        slack = np.array([[0.0 if np.isfinite(state.best_score) else -1.0]])
    slope, slack_slope = np.full(best.shape, unknown), np.full((1, slack.shape[1], *space.shape), unknown)
    return best, Values(np.array([state.best_score]), slope, slack, slack_slope, np.array([unknown]), returns)


def _closing_opacity(task: Task, table: np.ndarray, options: Options, closing: Watch) -> Opacity:
    """The opacity of the answer: as it was searched, or by what fits the time that is left."""
    space, secrecy, left = task.space, task.secrecy, max(closing.time_left, 0.5 * _CLOSING_SECONDS)
    cost = {"exact": 1 / 3, "bracket": 20 / secrecy.cost_seconds, "sampled": 10.0}[secrecy.kind] * secrecy.cost_seconds
    if cost <= left:
        return final_opacity(space, table, secrecy, options.seed, options.sequences)
    method = "sampled" if secrecy.kind == "sampled" else "auto"
    return opacity(space.problem, space.policy(table), method, time_limit=left, seed=options.seed + 1)


def _unsearched(task: Task, safe: np.ndarray, options: Options, watch: Watch, status: Status) -> Solution:
    """The policy of largest return that is known for the class: not enough, or all that there was time for."""
    space = task.space
    value = float(evaluate_returns(space.problem, space.hidden, safe[None], stationary=space.stationary)[0][0])
    hidden = _closing_opacity(task, safe, options, Watch(_seconds_left(status, options, watch)))
    if task.min_opacity is None:
        missed = bool(np.any(task.slacks(safe[None]) < 0))
    else:
        missed = hidden.lower < task.min_opacity
    status = Status.INFEASIBLE if missed else status
    return Solution(
        policy=space.policy(safe),
        policy_class=space.describe,
        opacity=hidden,
        expected_return=value,
        threshold=task.threshold,
        feasible=not missed,
        status=status,
        method=options.method,
        goal=options.goal,
        objective=options.objective,
        detail=_why_infeasible(task, value) if missed else task.secrecy.reason,
        seconds=watch.seconds,
        seed=options.seed,
        needs_observations=space.needs_observations,
    )


def _why_infeasible(task: Task, best: float) -> str:
    """Which constraint is missed, by how much, and which class of policies can meet it."""
    if task.min_opacity is not None:
        return f"no policy was found that hides {task.min_opacity:g} bits: ask for less, or allow more memory"
    space, wanted = task.space, task.threshold
    text = f"the best return found for {space.describe} is {best:.6g}, below the threshold {wanted:.6g}"
    if len(task.starts) > 1:
        text += " from every start state"
    if space.stationary and wanted is not None and max_return(space.problem) >= wanted:
        text += f"; policies with a clock reach {max_return(space.problem):.6g}: use memory='timed'"
    return text
