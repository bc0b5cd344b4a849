"""The plan of a search: which classes are searched, how they are evaluated, from how many starts, on what, and why.

A plan is a function of the problem and the options alone. What can be forecast is forecast from counted work, so that the same
problem and options have the same plan on every machine; the clock ends a search, and does not decide what it does before.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from ..common.workers import ALONE, Team
from ..measure.ladder import seconds_of
from ..problem.problem import Problem
from ..problem.terms import with_task
from .backend import PER_ENTRY
from .channels import make_channels
from .device_layout import chosen_layout
from .layers import Layers
from .methods import check_options
from .objective import Objective, make_objective
from .options import SolveOptions
from .policy_class import make_space, memory_words, smaller_classes
from .sampled_ascent import FIRST_CHECK
from .schedule import (
    LONGEST,
    exact_schedule,
    first_batch,
    num_exact_starts,
    num_sampled_starts,
    sampled_schedule,
    step_seconds,
)

SHARE = 0.2
"""Of a time limit, or of what is left of it, for each work before the last search: a smaller class, convex games, starts, their
mixture, a table that meets all bounds. By judgement: shares of 0.1 to 0.25, one for each work, ended within
0.004 bits of it on two floors and two maps."""
SHARE_AFTER = 0.25
"""Of a time limit, for what comes after the main work: the proof, and the search that a game is compared with. By judgement."""
CLOSING_SECONDS = 1.0
"""Seconds that the answer may take after the search was interrupted, and each check of it in any case. By judgement."""
AFTER_SECONDS = seconds_of("auto", None)
"""Seconds in which an answer is measured, and in which it is proven, where no limit leaves less: as `veil.opacity` takes."""


@dataclass(frozen=True)
class ClassPlan:
    """What is planned for one class of policies.

    **Attributes:** `policy_class` in words, and `memory` as options name it; `evaluation`: `"exact"`, `"bracket"` or
    `"sampled"`, and `why`; `starts`; `rounds`: pairs of iterations and of starts that stay after them; `last`: the most
    iterations of the start that is left; `batch`: sequences of the first gradients, 0 where they are exact; `optimiser` of
    the last one; `device`.
    """

    policy_class: str
    memory: str
    evaluation: str
    why: str
    starts: int
    rounds: tuple[tuple[int, int], ...]
    last: int
    batch: int
    optimiser: str
    device: str

    @property
    def text(self) -> str:
        """The plan in one sentence."""
        kept = ", ".join(f"{kept} after {length} more" for length, kept in self.rounds).replace("more", "iterations", 1)
        begin = f"{self.starts} starts" + (f"; the best continue: {kept}; then" if kept else ",")
        drawn = f" on {self.batch} sequences and more for each gradient" if self.batch else ""
        return f"{self.policy_class}: {self.why}; {begin} {self.optimiser}{drawn}, {self.device}"


@dataclass(frozen=True)
class Plan:
    """How `veil.solve` searches: the classes one after the other, smaller ones first; `time_limit`: seconds of the search."""

    method: str
    time_limit: float | None
    classes: tuple[ClassPlan, ...]

    def lines(self) -> list[str]:
        """A sentence for each class."""
        return [one.text for one in self.classes]

    def document(self) -> dict[str, Any]:
        """As results and checkpoints hold it: values of JSON."""
        classes = [asdict(one) | {"rounds": [list(pair) for pair in one.rounds]} for one in self.classes]
        return {"method": self.method, "time_limit": self.time_limit, "classes": classes}

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Plan":
        """The plan of such a document."""
        classes = [
            ClassPlan(**{**one, "rounds": tuple((length, kept) for length, kept in one["rounds"])})
            for one in document["classes"]
        ]
        return cls(document["method"], document["time_limit"], tuple(classes))


def plan(problem: Problem, options: SolveOptions) -> Plan:
    """The plan of `veil.solve(problem, …)` with these options; nothing is searched.

    A method that is not a search of tables, such as `"game"`, has a plan without classes.

    Cost: that of the hidden chains of the classes, and of counting observation sequences.

    **Raises:** `InputError` for options that are wrong or do not fit the problem; `TooLargeError`.
    """
    options = check_options(options)
    options = replace(options, method="ascent" if options.method == "auto" else options.method)
    limit = search_seconds(options)
    if limit is not None and options.features is not None:
        limit /= 2  # for the table that a feature policy is fitted to
    options = replace(options, time_limit=limit)
    if options.method != "ascent":
        return Plan(options.method, limit, ())
    return planned(with_task(problem, options.task), options)[0]


def search_seconds(options: SolveOptions) -> float | None:
    """The part of the time limit that the search may take."""
    if options.time_limit is None or not options.certificate:
        return options.time_limit
    return (1 - SHARE_AFTER) * options.time_limit


def planned(problem: Problem, options: SolveOptions, team: Team = ALONE) -> tuple[Plan, list[Objective]]:
    """The plan of a search of tables whose time limit is that of the options, and the objective of each class."""
    if problem.horizon == 0:  # one observation at most, all of which are evaluated
        options = replace(options, evaluation="auto")
    memories, plans, objectives = _classes_of(problem, options), list[ClassPlan](), list[Objective]()
    for number, memory in enumerate(memories):
        last = number == len(memories) - 1
        own = replace(options, memory=memory, time_limit=class_seconds(options, last=last))
        space = make_space(problem, memory)
        if not problem.pairs:  # the chains of pairs share their tables
            space = space.on_reachable_rows()
        on_device = replace(space, on_device=chosen_layout(space, own))
        channels = make_channels(on_device, own, own.time_limit, team)
        # Exact values are found on the host.
        space = on_device if any(one.drawn for one in channels.used) else space
        objective = make_objective(space, channels, own, team)
        if not last and not _is_worth_it(objective, own):
            continue
        _expect(objective, own)
        if options.method == "ascent":
            plans.append(_of_class(objective, own, is_given=options.start is not None or bool(objectives)))
        objectives.append(objective)
    return Plan(options.method, options.time_limit, tuple(plans)), objectives


def _classes_of(problem: Problem, options: SolveOptions) -> tuple[Any, ...]:
    """The memories of the classes that may be searched one after the other, the one that was asked for last."""
    if options.method != "ascent" or options.start is not None:
        return (options.memory,)
    return (*smaller_classes(make_space(problem, options.memory).memory), options.memory)


def class_seconds(options: SolveOptions, *, last: bool) -> float | None:
    """The time limit for which a class is planned."""
    return options.time_limit if last or options.time_limit is None else SHARE * options.time_limit


def _is_worth_it(objective: Objective, options: SolveOptions) -> bool:
    """Whether a smaller class can be searched in its time: on samples, up to the first check of what it has found."""
    if options.time_limit is None or not objective.is_sampled or objective.space.on_device is not None:
        return True
    return FIRST_CHECK * step_seconds(objective, first_batch(objective)) <= options.time_limit


def _expect(objective: Objective, options: SolveOptions) -> None:
    """Tell what evaluates samples how much work to expect at most."""
    count = LONGEST if options.iterations is None else options.iterations
    for layers in (space.layers for space in objective.sampled):
        if isinstance(layers, Layers):
            seconds = PER_ENTRY * layers.num_entries * first_batch(objective) * count
            layers.expected_seconds = seconds if options.time_limit is None else min(seconds, options.time_limit)


def _of_class(objective: Objective, options: SolveOptions, *, is_given: bool) -> ClassPlan:
    """`is_given`: whether it begins from a policy beside its own starts."""
    space = objective.space
    if objective.is_sampled:
        batch, starts = first_batch(objective), num_sampled_starts(objective, options, int(is_given))
        schedule = sampled_schedule(objective, options, starts)
        optimiser = "Adam on fresh samples, averaged"
    else:
        batch, starts = 0, (options.starts or num_exact_starts(objective)) + is_given
        schedule = exact_schedule(objective, options.iterations, starts)
        optimiser = "L-BFGS to a stationary point"
    return ClassPlan(
        policy_class=space.describe,
        memory=memory_words(space.memory),
        evaluation=objective.kind,
        why=objective.backend.reason,
        starts=starts,
        rounds=schedule.rounds,
        last=schedule.last,
        batch=batch,
        optimiser=optimiser,
        device="NumPy" if space.on_device is None else "the device of JAX",
    )
