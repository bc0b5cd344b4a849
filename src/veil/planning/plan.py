"""The plan of a search: which classes are searched, how they are evaluated, from how many starts, on what, and why.

A plan is a function of the problem and the options alone; the clock ends a search, and does not decide what it does before.
The one exception is said where it applies: over many states, sequences are counted only for a share of the time limit.
"""

from dataclasses import asdict, dataclass, replace

from ..problem.problem import Problem
from .ascent import MOST_BATCH
from .channels import make_channels
from .device_plan import chosen_plan
from .objective import make_objective
from .options import SolveOptions
from .policy_class import make_space, memory_words, smaller_classes
from .schedule import Schedule, exact_schedule, num_exact_starts
from .solve import check_options
from .table_methods import first_batch_of, planned_samples
from .terms import terms_of, with_task


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
        rounds = " and ".join(f"{length} iterations, of which {kept} stay," for length, kept in self.rounds)
        begin = f"{self.starts} starts" + (f", {rounds} then" if rounds else ",")
        drawn = f" on {self.batch} sequences and more for each gradient" if self.batch else ""
        return f"{self.policy_class}: {self.why}; {begin} {self.optimiser}{drawn}, {self.device}"


@dataclass(frozen=True)
class Plan:
    """How `veil.solve` would search: the classes one after the other, smaller ones first."""

    method: str
    classes: tuple[ClassPlan, ...]

    def lines(self) -> list[str]:
        """A sentence for each class."""
        return [one.text for one in self.classes]

    def document(self) -> dict[str, object]:
        """As results hold it."""
        return asdict(self)


def plan(problem: Problem, options: SolveOptions) -> Plan:
    """The plan of `veil.solve(problem, …)` with these options; nothing is searched.

    A method that is not a search of tables, such as `"game"`, has a plan without classes.

    Cost: that of the hidden chains of the classes, and of counting observation sequences.

    **Raises:** `InputError` for options that are wrong or do not fit the problem; `TooLargeError`.
    """
    options = check_options(options)
    method = "ascent" if options.method == "auto" else options.method
    if method != "ascent":
        return Plan(method, ())
    asked = with_task(problem, options.task)
    smaller = () if options.start is not None else smaller_classes(make_space(asked, options.memory).memory)
    classes = (*smaller, options.memory)
    return Plan(method, tuple(_of_class(asked, replace(options, method=method, memory=one)) for one in classes))


def _of_class(problem: Problem, options: SolveOptions) -> ClassPlan:
    space = make_space(problem, options.memory)
    space = replace(space, on_device=chosen_plan(space, options))
    objective = make_objective(
        space,
        make_channels(space, options, options.time_limit),
        goal=options.goal,
        per_start=options.per_start,
        min_opacity=options.min_opacity,
        terms=terms_of(problem, options.task),
    )
    if objective.is_sampled:
        batch = first_batch_of(objective, MOST_BATCH // 2)
        starts, schedule = planned_samples(objective, options, batch)
        optimiser = "Adam on fresh samples, averaged"
    else:
        batch, starts = 0, options.starts or num_exact_starts(objective)
        schedule: Schedule = exact_schedule(objective, options.iterations)
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
