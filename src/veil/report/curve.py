"""A frontier as points for a picture, from the object or from a file that `veil frontier` wrote."""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from ..common.errors import InputError
from ..common.files import read_whole, reason
from ..common.json_text import parse_json
from ..common.settings import Given
from ..formats.documents import refuse_document
from ..formats.results.curve import FrontierDocument
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
_NO_CURVE = "it is not a curve that veil frontier -o wrote"
_QUICK = 2_000  # states times sequences: a curve takes about a second
_QUICK_SETTINGS: Given = {"points": 6, "starts": 6, "iterations": 60}


def sweep(
    problem: Problem,
    solution: Solution,
    points: int | None = None,
    *,
    progress: bool | None = False,
    time_limit: float | None = None,
) -> Frontier | None:
    """The frontier of the class that a solution is from, for its picture; None for a history policy.

    **Arguments:** `points`: how many; None: six, by few starts and iterations, if that takes about a second, otherwise no curve
    is computed. `progress`, `time_limit`: as for `veil.frontier`.
    """
    policy = solution.policy
    if policy.memory == "history" or solution.goal != "opaque":
        return None
    work = problem.num_states * solution.opacity.num_sequences
    if points is None and (solution.opacity.method != "exact" or work > _QUICK):
        return None
    amount: Given = _QUICK_SETTINGS if points is None else {"points": points}
    chosen: Given = {"memory": policy.memory, "seed": solution.seed, "objective": solution.objective, **amount}
    return frontier(problem, **chosen, time_limit=time_limit, progress=progress)


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
    curve = _of_csv(path, text) if path.suffix == ".csv" else _of_json(path, text, problem)
    if not curve.points or not all(math.isfinite(number) for point in curve.points for number in point):
        raise InputError(str(path), ["it has no points, or points that are not finite numbers"])
    if any(math.isnan(upper) or not math.isfinite(threshold) for threshold, upper in curve.bounds):
        raise InputError(str(path), ["it has an upper bound or a threshold that is not a number"])
    return curve


def _of_csv(path: Path, text: str) -> Curve:
    try:
        rows = list(csv.DictReader(io.StringIO(text)))[:_MOST_POINTS]
        _check_along(path, RETURN if not rows or "value" not in rows[0] else "value")
        points = [(float(row["expected_return"]), float(row["opacity_bits"])) for row in rows]
        bounds = [(float(row["threshold"]), float(row["upper_bits"])) for row in rows if "upper_bits" in row]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(str(path), [f"{_NO_CURVE}: {error!r}"]) from None
    return Curve(points, "", bounds)


def _of_json(path: Path, text: str, problem: Problem) -> Curve:
    try:
        found = FrontierDocument.model_validate(parse_json(text))
    except ValidationError as error:
        refuse_document(str(path), error, f"{_NO_CURVE}: ")
    except ValueError as error:
        raise InputError(str(path), [f"{_NO_CURVE}: {error}"]) from None
    if found.problem.fingerprint != _threshold_free(problem, found.problem.fingerprint):
        raise InputError(str(path), [f"the curve is about another problem than {problem.name!r}"])
    _check_along(path, found.along)
    points = found.points[:_MOST_POINTS]
    return Curve(
        [(_number(one.expected_return), _number(one.opacity_bits)) for one in points],
        found.policy_class,
        [(_number(one.threshold), _number(one.upper_bits)) for one in points],
    )


def _number(entry: float | str | None) -> float:
    """A number of a document, in which infinities are text and NaN is null."""
    return math.nan if entry is None else float(entry)


def _check_along(path: Path, along: str) -> None:
    if along != RETURN:
        raise InputError(str(path), ["the curve is along another constraint, and the report shows that of the return"])


def _threshold_free(problem: Problem, wanted: str) -> str:
    """The fingerprint of the problem; a curve does not depend on the threshold, so one without it is as good."""
    own = fingerprint(problem)
    return own if own == wanted else fingerprint(problem.replace(min_return=None))
