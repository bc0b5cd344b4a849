"""A frontier as points for a picture, from the object or from a file that `veil frontier` wrote."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..common.errors import InputError
from ..common.files import read_whole, reason
from ..common.settings import Given
from ..common.text import parse_json
from ..formats.results.curve import FORMAT as CURVE
from ..planning.solution import Solution
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from ..tradeoffs.frontier import Frontier, frontier
from ..tradeoffs.moved_bound import RETURN

Points = Sequence[tuple[float, float]]


class Curve(NamedTuple):
    """A frontier for a picture.

    `points` are pairs (return, bits); `policy_class` is in words, empty where a file does not say; `bounds` are pairs
    (threshold, proven upper bound in bits), one for each point, with inf where nothing was proven.
    """

    points: Points
    policy_class: str = ""
    bounds: Points = ()


_MOST_BYTES, _MOST_POINTS = 2**26, 10_000
_QUICK = 2_000  # states times sequences: a curve takes about a second
_QUICK_SETTINGS: Given = {"points": 6, "starts": 6, "iterations": 60}


def sweep(
    problem: Problem,
    solution: Solution,
    points: int | None = None,
    *,
    starts: int | None = None,
    iterations: int | None = None,
    progress: bool | None = False,
    time_limit: float | None = None,
) -> Frontier | None:
    """The frontier of the class that a solution is from, for its picture; None for a history policy.

    **Arguments:** `points`: how many; None: six where that takes about a second, otherwise no curve is computed.
    `starts`, `iterations`, `progress`, `time_limit`: as for `veil.frontier`, by default few starts and iterations where the
    points are not given.
    """
    policy = solution.policy
    if policy.memory == "history" or solution.goal != "opaque":
        return None
    chosen: Given = {"memory": policy.memory, "seed": solution.seed, "objective": solution.objective}
    chosen |= {} if time_limit is None else {"time_limit": time_limit}
    asked: Given = {"points": points, "starts": starts, "iterations": iterations}
    asked = {name: value for name, value in asked.items() if value is not None}
    if points is not None:
        return frontier(problem, **{**chosen, **asked}, progress=progress)
    work = problem.num_states * solution.opacity.num_sequences
    if solution.opacity.method != "exact" or work > _QUICK:
        return None
    return frontier(problem, **{**chosen, **_QUICK_SETTINGS, **asked}, progress=progress)


def read_curve(problem: Problem, given: Frontier | str | Path) -> Curve:
    """The curve of an object or of a file; a file without proven bounds has none.

    **Raises:** `InputError` where the file cannot be read, is not a curve, is about another problem, or is along another
    constraint than that on the return.
    """
    if isinstance(given, Frontier):
        if given.along != RETURN:
            raise InputError(
                "frontier", [f"the curve is along {given.along!r}, and the report shows that of the return"]
            )
        return Curve(
            [(one.expected_return, one.opacity.bits) for one in given.points],
            given.policy_class,
            [(one.threshold, one.upper_bits) for one in given.points],
        )
    path = Path(given)
    try:
        text = read_whole(path, _MOST_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), [f"it cannot be read: {reason(error)}"]) from None
    try:
        rows, policy_class = _of_csv(text) if path.suffix == ".csv" else _of_json(path, text, problem)
        if rows and "value" in rows[0]:
            raise InputError(
                str(path), ["the curve is along another constraint, and the report shows that of the return"]
            )
        points = [(float(row["expected_return"]), float(row["opacity_bits"])) for row in rows[:_MOST_POINTS]]
        bounds = [
            (float(row["threshold"]), float(row["upper_bits"])) for row in rows[:_MOST_POINTS] if "upper_bits" in row
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), [f"it is not a curve that veil frontier -o wrote: {error!r}"]) from None
    if not points or not all(math.isfinite(number) for point in points for number in point):
        raise InputError(str(path), ["it has no points, or points that are not finite numbers"])
    if any(math.isnan(upper) or not math.isfinite(threshold) for threshold, upper in bounds):
        raise InputError(str(path), ["it has an upper bound or a threshold that is not a number"])
    return Curve(points, policy_class, bounds)


def _of_csv(text: str) -> tuple[list[dict[str, str]], str]:
    return list(csv.DictReader(io.StringIO(text))), ""


def _of_json(path: Path, text: str, problem: Problem) -> tuple[list[dict[str, str]], str]:
    document = parse_json(text)
    if document.get("format") != CURVE:
        raise KeyError("format")
    if document["problem"]["fingerprint"] != _threshold_free(problem, document["problem"]["fingerprint"]):
        raise InputError(str(path), [f"the curve is about another problem than {problem.name!r}"])
    return document["points"], str(document["policy_class"])


def _threshold_free(problem: Problem, wanted: str) -> str:
    """The fingerprint of the problem; a curve does not depend on the threshold, so one without it is as good."""
    own = fingerprint(problem)
    return own if own == wanted else fingerprint(problem.replace(min_return=None))
