"""The policy classes side by side: what each hides and earns, how long its search took, and what is proven for all."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ..common.clock import Clock, ProgressOption
from ..common.errors import InputError, VeilError
from ..common.rounding import upper_text
from ..common.settings import checked, takes
from ..common.text import in_parentheses
from ..common.values import Value
from ..measure.result import Opacity
from ..planning.plan import AFTER_SECONDS
from ..planning.solution import TOLD_BITS, Solution, Status
from ..planning.solve import solve
from ..policy.memories import Memory, StateMemory
from ..policy.policy import Policy
from ..problem.problem import Problem, check_problem
from ..problem.trivial import trivial_bound
from ..proof.certify import certify
from .options import CompareOptions

_MEMORIES: tuple[str | Memory, ...] = ("markov", "timed", StateMemory(1), "history")


@dataclass(frozen=True, eq=False, repr=False)
class ComparedClass(Value):
    """The best policy known of one class.

    **Attributes:** `policy_class`, in words; `policy`, `opacity`, `expected_return`, `feasible`, `status`; `seconds` of its
    search; `from_smaller_class`: whether its own search found nothing better than the policy of a class that it contains;
    `doubts`: why the policy may be far from the best of the class, and what would help, a sentence each.
    """

    policy_class: str
    policy: Policy
    opacity: Opacity
    expected_return: float
    feasible: bool
    status: Status
    seconds: float
    from_smaller_class: bool = False
    doubts: tuple[str, ...] = ()

    @property
    def ending(self) -> str:
        """How its search ended, in words."""
        return self.status.name.lower().replace("_", " ") + ", from a smaller class" * self.from_smaller_class


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Value):
    """One row for each class, smaller classes first.

    **Attributes:** `rows`; `upper_bits`, the proven upper bound over all policies that meet the threshold, inf if none was
    proven; `failed`, the classes that could not be searched, each with the reason; `threshold`; `seconds`; `trivial`, why the
    bound says nothing about this problem, empty if it does.
    """

    rows: tuple[ComparedClass, ...]
    upper_bits: float
    failed: tuple[tuple[str, str], ...]
    threshold: float | None
    seconds: float
    trivial: str = ""

    def summary(self) -> str:
        """The table, and the proven bound below it."""
        width = max([len(row.policy_class) for row in self.rows] + [5])
        lines = [f"{'class':<{width}} {'bits':>9} {'return':>10} {'seconds':>8}  status"]
        for row in self.rows:
            numbers = f"{row.opacity.bits:9.4f} {row.expected_return:10.5g} {row.seconds:8.1f}"
            lines.append(f"{row.policy_class:<{width}} {numbers}  {row.ending}")
        return "\n".join([*lines, *self.notes])

    @property
    def notes(self) -> list[str]:
        """The doubts about rows, the proven bound, and the classes that were not searched, a sentence each."""
        lines = [f"{row.policy_class}: {doubt}" for row in self.rows for doubt in row.doubts]
        if math.isfinite(self.upper_bits):
            words = f"{upper_text(self.upper_bits, 6)} bits{in_parentheses(self.trivial)}"
            lines.append(f"Proven upper bound over all policies: {words}.")
        return lines + [f"Not searched: {name}: {reason}" for name, reason in self.failed]


@takes(CompareOptions)
def compare(problem: Problem, options: CompareOptions) -> Comparison:
    """The best policy of each of several classes, under the problem's threshold, and the proven bound over all policies.

    Each search begins from the best policy of the classes before it, among other starts. If a class contains a smaller one
    and its own search ends lower, its row holds the policy of the smaller class and says so. Classes that cannot be searched
    (a history policy on a problem that is too large) are listed with the reason.

    Ctrl-C ends the comparison: the rows so far are returned, without a proof.

    **Returns:** a `Comparison`.

    **Raises:** `InputError`; `InfeasibleError` if no policy meets the threshold.
    """
    check_problem(problem)
    options, wrong = checked(options)
    if wrong:
        raise InputError("compare", wrong.values())
    memories, clock = options.memories or _MEMORIES, Clock(options.time_limit)
    rows: list[ComparedClass] = []
    failed: list[tuple[str, str]] = []
    upper, wanted = math.inf, None
    for number, memory in enumerate(memories):
        parts = len(memories) - number + options.certificate
        limit = None if math.isinf(clock.left) else clock.left / parts
        best = max((row for row in rows if row.feasible), key=lambda row: row.opacity.bits, default=None)
        try:
            found, has_best = _searched(problem, memory, best, options, limit)
        except VeilError as error:
            if not rows and number == len(memories) - 1:
                raise
            failed.append((str(memory), str(error)))
            continue
        upper, wanted = (
            min(upper, found.upper_bits if found.upper_bits == found.upper_bits else math.inf),
            found.threshold,
        )
        row = ComparedClass(
            found.policy_class, found.policy, found.opacity, found.expected_return, found.feasible, found.status,
            found.seconds, doubts=found.doubts,
        )  # fmt: skip
        rows.append(_at_least(row, best) if best is not None and has_best else row)
        if found.status is Status.INTERRUPTED:
            break
    if options.certificate and not any(row.status is Status.INTERRUPTED for row in rows):
        seconds = AFTER_SECONDS if math.isinf(clock.left) else clock.left
        upper = min(upper, _proven(problem, rows, seconds, options.progress))
    rows = [replace(row, doubts=()) if upper - row.opacity.bits <= TOLD_BITS else row for row in rows]
    return Comparison(tuple(rows), upper, tuple(failed), wanted, clock.spent, trivial_bound(problem, upper))


def _searched(
    problem: Problem, memory: Any, best: ComparedClass | None, options: CompareOptions, limit: float | None
) -> tuple[Solution, bool]:
    """One search, begun from the best policy so far if the class contains it, and whether it does."""
    plain: dict[str, Any] = {
        "seed": options.seed,
        "time_limit": limit,
        "certificate": False,
        "progress": options.progress,
    }
    if memory == "history":
        return solve(problem, "game", "history", **plain), True
    if best is not None:
        with suppress(InputError):
            return solve(problem, memory=memory, start=best.policy, **plain), True
    return solve(problem, memory=memory, **plain), False


def _at_least(row: ComparedClass, best: ComparedClass) -> ComparedClass:
    """The row, with the policy of a smaller class where that hides more."""
    if row.feasible and row.opacity.bits >= best.opacity.bits:
        return row
    own: dict[str, Any] = {name: getattr(row, name) for name in ("policy_class", "status", "seconds", "doubts")}
    return replace(best, **own, from_smaller_class=True)


def _proven(problem: Problem, rows: list[ComparedClass], seconds: float, progress: ProgressOption) -> float:
    """The upper bound over all policies that a certificate of the best row proves; inf where there is none."""
    best = max((row for row in rows if row.feasible), key=lambda row: row.opacity.bits, default=None)
    if best is None:
        return math.inf
    try:
        return certify(problem, best.policy, seconds, progress=progress).upper
    except VeilError:
        return math.inf
