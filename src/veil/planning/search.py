"""One search from beginning to end: from scratch or a checkpoint, smaller classes first, within its limits, to a `Solution`."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime, Stop, interruptible
from ..common.errors import CheckpointError
from ..common.settings import settings
from ..common.workers import Team, team_of
from ..engine.feasibility import check_constraints
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from .answer import answer_seconds, best_candidate, in_class, make_answer, num_closing_sequences, unsearched
from .checkpoint import Checkpoint, read_checkpoint
from .device_layout import memory_errors
from .iteration import Iteration, S, SavedState, SearchState
from .methods import METHODS
from .objective import Objective
from .options import SolveOptions
from .plan import CLOSING_SECONDS, SHARE, Plan, class_seconds, planned
from .policy_class import Space, Table, make_space, memory_words
from .primal_dual import describe_optimizer
from .safe_tables import safe_table
from .solution import Solution, Status
from .starts import play_games

_CLASS = "class."  # begins the names of the arrays of a checkpoint that are about the classes

T = TypeVar("T")

Start = Callable[[Objective, Table, SolveOptions], Iteration[S]]
"""How a method begins: with the objective, the table of largest return, and the options."""


def search(problem: Problem, options: SolveOptions, make: Start[Any]) -> Solution:
    """The best policy that a method finds: `make(objective, safe, options)` gives it, with `safe` the table of largest return.

    The classes that `smaller_classes` names are searched first, each with a share of the time and as many iterations; every
    class begins from the answer of the one before, among other starts, and does not end below it.

    **Raises:** `InfeasibleError` at once where no policy reaches the threshold; `InputError`;
    `CheckpointError`; `TooLargeError` where a device has no memory left.
    """
    clock = Clock(options.time_limit, iterations=options.iterations, progress=options.progress)
    if options.min_opacity is None or options.task is not None:
        check_constraints(problem)
    space = make_space(problem, options.memory)
    with memory_errors(space, options), team_of(options.workers) as team:
        return _search_classes(problem, space, replace(options, workers=team), make, clock)


def _search_classes(problem: Problem, space: Space, options: SolveOptions, make: Start[Any], clock: Clock) -> Solution:
    """See `search`: the plan, the search that follows it, and whether it would come to the same answer again."""
    records = _Records(options, space, clock)
    if records.plan is not None:  # a search that is taken up follows the plan that it began with
        options = replace(options, time_limit=records.plan.time_limit)
    team = options.workers
    assert isinstance(team, Team)
    plan, objectives = planned(problem, options, team)
    records.check(plan)
    found = in_class(space, _searched(options, make, clock, objectives, records))
    decided = clock.was_late or found.status in (Status.TIME_LIMIT, Status.INTERRUPTED, Status.NOT_SEARCHED)
    fewer = options.time_limit is not None and found.opacity.method == "sampled"
    fewer = fewer and found.opacity.num_sequences < num_closing_sequences(options)
    return replace(found, plan=plan, repeatable=not decided and not fewer)


def _searched(
    options: SolveOptions, make: Start[Any], clock: Clock, objectives: list[Objective], records: "_Records"
) -> Solution:
    """The answer of the classes one after the other, from where a checkpoint left off."""
    problem, played = objectives[-1].space.problem, False
    if problem.horizon == 0 and problem.return_over != "infinite":  # there is nothing to decide
        return unsearched(*safe_table(objectives[-1], clock), options, clock, Status.CONVERGED)
    for number in range(records.before.number, len(objectives)):
        last, space, before = number == len(objectives) - 1, objectives[number].space, records.before
        given = space.policy(before.start) if before.start.size else options.start
        seconds = class_seconds(options, last=last)
        part = replace(options, memory=space.memory, start=given, time_limit=seconds)
        own = clock if last else _part_of(clock)
        objective, safe = safe_table(objectives[number], own)
        if options.method == "ascent" and objective.is_sampled and not played:
            played = play_games(objective, clock.share(SHARE))  # the starts of all classes
            own = clock if last else _part_of(clock)
        if own.left > 0 and _is_hopeless(objective, safe):
            if last:
                return unsearched(objective, safe, part, clock, Status.INFEASIBLE)
            records.before = replace(before, number=number + 1)
            continue
        reserved = answer_seconds(objective, safe, clock)
        ending = own.earlier(reserved) if last else own
        limited = replace(objective, clock=ending, closing_seconds=max(reserved / 3, SHARE * CLOSING_SECONDS))
        method, state, status = run(make, limited, safe, part, records.write, records.arrays)
        if last or status is Status.INTERRUPTED or clock.left <= reserved:
            if method is None or state is None:
                return unsearched(objective, safe, part, clock, status)
            return make_answer(objective, method, state, status, part, clock, before.past, safe)
        rows = np.zeros((0, 6))
        if method is not None and state is not None:
            closing = own.share(more=min(CLOSING_SECONDS, own.time_limit / 4))
            best = best_candidate(objective, method, state, part, closing)
            rows = state.history[state.history[:, 0] == 0]
            rows[:, 5] += clock.spent - own.spent  # the clock of a smaller class begins with its search
            price = objective.price(state.best_multiplier)
            rows = np.vstack([rows, [0.0, best.bits, best.returns, price, 0.0, clock.spent]])
            given = space.policy(best.table)
        start = before.start if given is None else objectives[number + 1].space.table_of(given)
        records.before, records.arrays = _Before(number + 1, start, np.vstack([before.past, rows])), None
    raise AssertionError("the last class returns")


def _part_of(clock: Clock) -> Clock:
    """The share of the time in which a smaller class is searched; it may make as many iterations."""
    part = clock.share(SHARE)
    part.iterations = clock.iterations
    return part


@dataclass(frozen=True, eq=False)
class _Before(SavedState):
    """What the search of a class begins with: its number, the answer of the class before, if any, and rows of history."""

    number: int
    start: Table
    past: Float[np.ndarray, "k 6"]


class _Records:
    """The checkpoint of a search: the state of the class that is searched, and what that search began with.

    **Attributes:** `plan`, `before` and the `arrays` of the state: those of the checkpoint to resume from; without one there is
    no plan and no state, and the smallest class comes first.
    """

    def __init__(self, options: SolveOptions, space: Space, clock: Clock):
        path = options.checkpoint or options.resume
        identity = _identity(options, space) if path is not None else {}
        self._options = options
        self._file = None if path is None else Checkpoint(path, identity, options.checkpoint_every)
        self.plan: Plan | None = None
        self.before, self.arrays = _Before(0, np.zeros((0, 0, 0)), np.zeros((0, 6))), None
        if options.resume is not None:
            self.arrays, spent, kept = read_checkpoint(options.resume, identity)
            self.plan = None if kept is None else Plan.of(kept)
            clock.resume_after(spent)
            names = [name for name in self.arrays if name.startswith(_CLASS)]
            about = {name.removeprefix(_CLASS): self.arrays.pop(name) for name in names}
            self.before = _restored(partial(_Before.of, about), options)

    def check(self, plan: Plan) -> None:
        """Keep the plan in the checkpoints that follow; raise `CheckpointError` if the one that was read has another."""
        if self.plan is not None and self.plan != plan:
            raise CheckpointError(
                f"{self._options.resume} follows another plan than this version or device makes ({self.plan.lines()}, here"
                f" {plan.lines()}): search anew"
            )
        if self._file is not None:
            self._file.plan = plan.document()

    def write(self, state: SearchState, seconds: float, *, due: bool = False) -> None:
        """Write a state of a class; with `due`, only where the last file is old enough."""
        if self._file is not None and (not due or self._file.is_due):
            about = {_CLASS + name: array for name, array in self.before.arrays().items()}
            self._file.write(state.arrays() | about, seconds)


def _is_hopeless(objective: Objective, safe: np.ndarray) -> bool:
    """Whether the stationary class was searched for its largest return alone, and that misses the threshold."""
    single = objective.num_constraints == 1 and not objective.num_bits and not objective.others
    return single and objective.space.memory == "markov" and bool(np.any(objective.slacks(safe[None]) < 0))


def _identity(options: SolveOptions, space: Space) -> dict[str, object]:
    """What the result depends on: the same identity, the same result."""
    own, known = METHODS.get(options.method).options, settings(SolveOptions)
    used = [name for name, one in known.items() if one.about.in_identity and (name in own or not one.about.methods)]
    start = None if options.start is None else space.table_of(options.start)
    words: dict[str, object] = {
        "memory": memory_words(space.memory),
        "start": _hash(start),
        "features": _hash(options.features),
        "optimizer": describe_optimizer(options.optimizer),
    }
    found = {name: words.get(name, getattr(options, name)) for name in used}
    return {"problem": fingerprint(space.problem)} | found


def _hash(given: Any) -> str | None:
    """The hash of an array; a text, or None, as it is."""
    return given if given is None or isinstance(given, str) else hashlib.sha256(np.asarray(given).tobytes()).hexdigest()


def _most_hidden(
    objective: Objective, safe: np.ndarray, options: SolveOptions, make: Start[Any]
) -> Float[np.ndarray, "n T C A"] | None:
    """Where bits are to be kept, a table that keeps them: the first found on the way to the largest of their worst slacks.

    It is what the search moves towards where it ends a little short. Its iterations are not counted.
    """
    if not objective.channels.bounds:
        return None
    free = replace(objective.inward(), clock=objective.clock.silent())
    uniform = objective.space.softmax(np.zeros(objective.space.shape))
    if objective.is_sampled:
        free = replace(free, clock=_part_of(free.clock))

    def keeps_all(table: np.ndarray) -> bool:
        return bool(np.all(objective.slacks(table[None]) >= 0))

    method, state, status = run(make, free, safe, options, is_enough=keeps_all)
    if status is Status.INTERRUPTED:
        raise OutOfTime(Stop.INTERRUPTED)
    if objective.is_sampled:  # the search that comes after can do without
        return uniform[None] if state is None else np.stack([uniform, state.best])
    if method is None or status is Status.TIME_LIMIT:
        raise OutOfTime(Stop.TIME_LIMIT)
    return np.stack([uniform, *method.candidates(state)])


def run(
    make: Start[Any],
    objective: Objective,
    safe: np.ndarray,
    options: SolveOptions,
    write: Callable[..., None] = lambda *_, **__: None,
    arrays: dict[str, np.ndarray] | None = None,
    *,
    is_enough: Callable[[Any], bool] = lambda _: False,
) -> tuple[Iteration[Any] | None, Any, Status]:
    """States one after the other, until the method ends, a limit is met, the best table is enough or somebody interrupts.

    The first is that of the arrays of a checkpoint, where there are any. Method and state are None where
    the time did not suffice for them.
    """
    method, state, status, clock = None, None, Status.CONVERGED, objective.clock
    try:
        with clock, interruptible():
            method = make(objective, safe, options)
            if arrays is not None:
                state = _restored(partial(method.unpack, arrays), options)
            else:
                state = method.begin(_most_hidden(objective, safe, options, make))
            seconds, seen = 0.0, None  # of the last iteration: another one is begun where it fits
            while not method.is_done(state):
                if not clock.allows(state.iteration):
                    status = Status.ITERATION_LIMIT
                    break
                if state.best is not seen and is_enough(seen := state.best):
                    break
                clock.check(ahead=seconds)
                begun = clock.spent
                state = method.advance(state)
                seconds = clock.spent - begun
                write(state, clock.spent, due=True)
    except OutOfTime as end:
        status = Status.INTERRUPTED if end.reason is Stop.INTERRUPTED else Status.TIME_LIMIT
    if state is not None:
        write(state, clock.spent)
    return method, state, status


def _restored(unpack: Callable[[], T], options: SolveOptions) -> T:
    """What the arrays of a checkpoint hold."""
    try:
        return unpack()
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{options.resume} does not hold the state of this method: {error}") from error
