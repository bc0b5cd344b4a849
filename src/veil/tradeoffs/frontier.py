"""The frontier: how many bits can be kept for each bound of a constraint, as a curve with the price of the bound along it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, Progress
from ..common.errors import InputError, VeilError
from ..common.rounding import upper_text
from ..common.settings import checked, settings, takes
from ..common.values import Value
from ..common.workers import team_of
from ..planning.methods import unsupported
from ..planning.options import SolveOptions
from ..planning.policy_class import Space, make_space, memory_words
from ..planning.safe_tables import richest_table
from ..planning.search import search
from ..planning.solution import Solution, Status
from ..planning.table_methods import make_ascent
from ..policy.policy import Policy
from ..policy.tabular import table_policy
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem, check_problem
from ..proof.certify import certify
from .frontier_file import CurveFile, FrontierPoint
from .moved_bound import RETURN, MovedBound
from .options import FrontierOptions

POINT = "point"
"""The phase of a report that is about a point of the curve and not about a search."""

# A point is begun from its neighbours, so it needs fewer starts and iterations than a search from nothing.
_STARTS, _ITERATIONS = 5, 240

_FIRST = 3.0  # the share of the first search in the time, in those of the others
_LEAST_SECONDS = 0.25  # that a search is given, if there are so many left


@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Value):
    """The trade-off between a constraint and opacity in one class of policies, from the freest point to the strictest bound.

    Each point is a policy, so the curve is attained; with `proof_seconds` points have upper bounds over all policies too.
    `status` is that of the sweep: points that a limit cut off are missing. `along` is the name of the bounded quantity, and
    `relation` says whether it must be at least (`"≥"`) or at most (`"≤"`) the threshold. `doubts`: why points may be far from
    the best, and what would help, a sentence each.
    """

    points: tuple[FrontierPoint, ...]
    policy_class: str
    status: Status
    seconds: float
    along: str = RETURN
    relation: str = "≥"
    doubts: tuple[str, ...] = ()

    @property
    def returns(self) -> Float[np.ndarray, " k"]:
        """The return of each point; increasing where the curve is along the return."""
        return np.array([point.expected_return for point in self.points])

    @property
    def values(self) -> Float[np.ndarray, " k"]:
        """The bounded quantity of each point, to the strict side."""
        return np.array([point.value for point in self.points])

    @property
    def bits(self) -> Float[np.ndarray, " k"]:
        """The opacity of each point, not increasing."""
        return np.array([point.opacity.bits for point in self.points])

    @property
    def prices_bits(self) -> Float[np.ndarray, " k"]:
        """The price of the bound at each point."""
        return np.array([point.price_bits for point in self.points])

    @property
    def upper_bits(self) -> Float[np.ndarray, " k"]:
        """The proven upper bound of each point, inf where there is none; not increasing."""
        return np.array([point.upper_bits for point in self.points])

    def summary(self) -> str:
        """The curve as a table, with the proven upper bounds where there are any."""
        lines = [f"{self.policy_class}: {len(self.points)} points in {self.seconds:.1f} s, {self.status.name.lower()}"]
        width = max(12, len(self.along))
        proven = bool(np.isfinite(self.upper_bits).any())
        lines.append(
            f"{'threshold':>12} {self.along:>{width}} {'bits':>8} {'bits a unit':>12}" + f" {'at most':>8}" * proven
        )
        for point in self.points:
            line = (
                f"{point.threshold:12.6g} {point.value:{width}.6g} {point.opacity.bits:8.4f} {point.price_bits:12.4g}"
            )
            lines.append(line + f" {upper_text(point.upper_bits):>8}" * proven)
        return "\n".join([*lines, *self.doubts])


@takes(FrontierOptions)
def frontier(problem: Problem, options: FrontierOptions) -> Frontier:
    """The most that can be hidden for each return, from where return costs nothing to the largest return of the class.

    With `along` another of the problem's constraints is moved instead: the name of a reward, or a formula. The curve then goes
    from the bound that costs nothing to the strictest that policies of the class are found to meet along with the others;
    points that no policy of the class was found to meet are missing.

    The freest policy is sought first, from many starts; the points between its value and the strictest bound are then found
    from their neighbours on both sides, up the curve and down again, and each is at least as good as any point with a
    stricter bound, since that point's policy serves here too.

    With `thresholds` the points are those, the freest first, which is also the first search.

    The bound that the problem has for the moved constraint is not used; all others hold at every point. `starts` and
    `iterations` are those of the first search. `time_limit` is for the whole curve: each search has its share of what is left,
    and points for which none is left are missing. With `checkpoint` the points are kept in a file, and a call with the same
    problem, options and file searches those that are missing or that the time limit cut short.

    With `proof_seconds` each point is given the upper bound of a certificate, over all policies that meet its threshold. What
    is proven for a freer threshold holds for a stricter one, so the bounds do not increase along the curve.

    Cost: about one search from many starts and twice `points` short ones.

    **Raises:** `InputError`; `InfeasibleError` if no policy meets a threshold; `CheckpointError`.
    """
    check_problem(problem)
    options, wrong = checked(options)
    shared = [name for name in settings(FrontierOptions) if name in settings(SolveOptions) and name != "checkpoint"]
    common = {name: getattr(options, name) for name in shared}
    given = {name: value for name, value in common.items() if name not in wrong}
    wrong |= {name: f"{name}: {words}" for name, words in unsupported("ascent", given).items()}
    if "proof_seconds" not in wrong and options.proof_seconds > 0 and options.objective != "entropy":
        wrong["proof_seconds"] = (
            f"proof_seconds: bounds are about the entropy, and the objective is {options.objective!r}"
        )
    if wrong:
        raise InputError("frontier", wrong.values())
    clock = Clock(options.time_limit)
    moved = MovedBound.named(problem, options.along)
    with team_of(options.workers) as team:
        sweep = _Sweep(moved, replace(SolveOptions(method="ascent", **common), workers=team), clock)
        found = sweep.run(
            options.points, options.thresholds, options.proof_seconds, _file_of(options, moved, sweep.space)
        )
        found = sweep.bounded(found, options.proof_seconds)
    relation = "≥" if moved.sign > 0 else "≤"
    return Frontier(tuple(found), sweep.policy_class, sweep.status, clock.spent, moved.name, relation, sweep.doubts)


def _file_of(options: FrontierOptions, moved: MovedBound, space: Space) -> CurveFile | None:
    if options.checkpoint is None:
        return None
    known: dict[str, object] = {
        name: getattr(options, name) for name, one in settings(FrontierOptions).items() if one.about.in_identity
    }
    given = options.thresholds
    own: dict[str, object] = {
        "problem": fingerprint(moved.free),
        "memory": memory_words(space.memory),
        "thresholds": None if given is None else np.unique(np.asarray(given, dtype=float)).tolist(),
        "kind": "frontier",
    }
    return CurveFile(options.checkpoint, known | own, space)


class _Sweep:
    """The searches of one curve, each begun from what its neighbours found."""

    def __init__(self, moved: MovedBound, options: SolveOptions, clock: Clock):
        self._moved, self._options, self._clock = moved, options, clock
        self.status = Status.CONVERGED
        space = self.space = make_space(moved.problem, options.memory)
        self.policy_class = space.describe
        richest = richest_table(space, clock)
        self._richest = space.policy(richest)
        self._strictest, self._last = moved.strictest(space, richest, clock)
        self._hurried = dict[int, bool]()  # whether no search of a point got far

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why points may be far from the best, and what would help."""
        hurried = sum(self._hurried.values())
        words = f"The searches of {hurried} of {len(self._hurried)} points had hardly begun at the time limit"
        return (f"{words}, so that these may be far from the best: raise time_limit.",) if hurried else ()

    def run(
        self, count: int, given: Sequence[float] | None, proof_seconds: float, file: CurveFile | None
    ) -> list[FrontierPoint]:
        """The points that the time allows, the freest first; those that a search in the file settled are not searched again."""
        wanted = None if given is None else np.unique(np.asarray(given, dtype=float))[:: int(self._moved.sign)]
        count = count if wanted is None else len(wanted)
        done, found, spent = (0, {}, 0.0) if file is None else file.read()
        self._clock.resume_after(spent)
        thresholds = wanted
        if thresholds is None and 0 in found:
            thresholds = self._spaced(found[0].value, count)
        order = (*range(count), *range(count - 2, 0, -1))
        settled = True  # whether all searches so far ended by themselves
        for number, index in enumerate(order):
            if number < done and thresholds is not None:
                continue
            solution = self._search(*self._asked(index, found, thresholds), self._seconds(number, order, proof_seconds))
            if solution is None:
                break
            value, price = self._moved.measured(solution)
            if thresholds is None:
                thresholds = self._spaced(value, count)
            best = found.get(index)
            if solution.feasible and (best is None or solution.opacity.bits > best.opacity.bits):
                table = table_policy(solution.policy)
                found[index] = FrontierPoint(
                    float(thresholds[index]), solution.expected_return, solution.opacity, price, table, value
                )
                self._report(found[index], number + 1, len(order))
            if solution.status is Status.INTERRUPTED:
                self.status = Status.INTERRUPTED
                break
            self._hurried[index] = self._hurried.get(index, True) and solution.has_hardly_begun
            settled = settled and solution.status not in (Status.TIME_LIMIT, Status.NOT_SEARCHED)
            done = number + 1 if settled else done
            if file is not None:
                file.write(done, found, self._clock.spent)
        last, sign = self._strictest, self._moved.sign
        return [] if thresholds is None else list(_cleaned(found, thresholds, sign * thresholds >= sign * last))

    def bounded(self, points: Sequence[FrontierPoint], seconds: float) -> list[FrontierPoint]:
        """The points with what is proven of all policies that meet their bounds, in that many seconds each at most.

        A proof for a freer bound serves a stricter one too. An interrupt ends the proofs, and the points are kept.
        """
        upper, bounded = math.inf, list[FrontierPoint]()
        for number, point in enumerate(points):
            limit = min(seconds, self._clock.left / (len(points) - number))
            if limit > 0 and self.status is not Status.INTERRUPTED:
                problem = self._moved.at(point.threshold)
                try:
                    upper = min(upper, certify(problem, point.policy, limit, progress=False).upper)
                except KeyboardInterrupt:
                    self.status = Status.INTERRUPTED
                except VeilError:  # such as a bound that nobody is proven to meet: nothing is proven here
                    pass
            bounded.append(replace(point, upper_bits=upper))
        return bounded

    def _report(self, point: FrontierPoint, searches: int, of: int) -> None:
        """Tell a function that follows the sweep of a point that was found, or found better; its multiplier is the price."""
        if callable(self._options.progress):
            bits, spent = point.opacity.bits, self._clock.spent
            news = Progress(POINT, searches, of, bits, point.expected_return, point.price_bits, spent)
            self._options.progress(news)

    def _spaced(self, freest: float, count: int) -> Float[np.ndarray, " k"]:
        strictest = self._strictest
        return np.linspace(min(freest, strictest, key=lambda bound: self._moved.sign * bound), strictest, count)

    def _asked(
        self, index: int, found: dict[int, FrontierPoint], thresholds: Float[np.ndarray, " k"] | None
    ) -> tuple[float | None, Policy | None]:
        """The threshold of a point, and the policy of a neighbour to begin from; none for the first search."""
        threshold = None if thresholds is None else float(thresholds[index])
        if index == 0:
            return threshold, None
        if thresholds is not None and index == len(thresholds) - 1 and self._last is not None:
            return threshold, self._last
        neighbour = found.get(index - 1) if index not in found else found.get(index + 1)
        return threshold, self._richest if neighbour is None else neighbour.policy

    def _seconds(self, number: int, order: Sequence[int], proof_seconds: float) -> float | None:
        """The time of a search: its share of what is left, less up to half of it for the proofs; None if it has no limit."""
        left = self._clock.left
        if math.isinf(left):
            return None
        proofs = min(left / 2, proof_seconds * len(set(order)))
        weights = [1.0 if place else _FIRST for place in range(number, len(order))]
        return min(left, max(_LEAST_SECONDS, (left - proofs) * weights[0] / sum(weights)))

    def _search(self, threshold: float | None, start: Policy | None, limit: float | None) -> Solution | None:
        if limit is not None and limit <= 0:
            self.status = Status.TIME_LIMIT
            return None
        options = replace(self._options, time_limit=limit)
        if start is not None:
            options = replace(options, start=start, starts=_STARTS, iterations=_ITERATIONS)
        solution = search(self._moved.at(threshold), options, make_ascent)
        if solution.status in (Status.TIME_LIMIT, Status.NOT_SEARCHED):
            self.status = Status.TIME_LIMIT
        return solution


def _cleaned(found: dict[int, FrontierPoint], thresholds: np.ndarray, is_last: np.ndarray) -> Iterator[FrontierPoint]:
    """The points in order; where a point of a stricter bound hides as much, its policy serves the freer one too."""
    best: FrontierPoint | None = None
    points: list[FrontierPoint] = []
    for index in sorted(found, reverse=True):
        own = found[index]
        if best is None or own.opacity.bits > best.opacity.bits:
            best = own
        price = math.inf if is_last[index] else own.price_bits if best is own else 0.0
        points.append(replace(best, threshold=float(thresholds[index]), price_bits=price))
    return reversed(points)
