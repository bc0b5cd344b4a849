"""The document of a frontier: its points, with what was asked."""

from collections.abc import Sequence
from pathlib import Path

from ...common.files import write_whole
from ...problem.problem import Problem
from ...tradeoffs.frontier import Frontier
from ...tradeoffs.moved_bound import RETURN
from ..documents import json_text
from .document import encoded, problem_document

FORMAT = "veil-frontier-1"
_POINT = ("threshold", "expected_return", "opacity_bits", "price_bits")


def curve_names(curve: Frontier) -> tuple[str, ...]:
    """The columns of a table of points; the bounded quantity has one of its own where it is not the return."""
    return (*_POINT, *([] if curve.along == RETURN else ["value"]), "upper_bits")


def curve_rows(curve: Frontier) -> list[list[float]]:
    """A row for each point, with those columns."""
    return [
        [point.threshold, point.expected_return, point.opacity.bits, point.price_bits]
        + ([point.value] if curve.along != RETURN else [])
        + [point.upper_bits]
        for point in curve.points
    ]


def curve_document(
    problem: Problem, curve: Frontier, wanted: int, *, scenario: str | None, changes: Sequence[str]
) -> dict[str, object]:
    """A `Frontier` as a JSON document; `wanted`: the number of points that were asked for."""
    points = [
        {**dict(zip(curve_names(curve), row, strict=True)), "opacity": encoded(point.opacity)}
        for point, row in zip(curve.points, curve_rows(curve), strict=True)
    ]
    return {
        "format": FORMAT,
        "problem": problem_document(problem, scenario, changes),
        "policy_class": curve.policy_class,
        "along": curve.along,
        "relation": curve.relation,
        "status": curve.status.name,
        "seconds": curve.seconds,
        "points_wanted": wanted,
        "points": points,
    }


def write_curve(
    path: Path,
    problem: Problem,
    curve: Frontier,
    wanted: int | None = None,
    *,
    scenario: str | None = None,
    changes: Sequence[str] = (),
) -> Path:
    """Write a frontier as a JSON document, complete or not at all; raises `OSError` where it cannot be written."""
    count = len(curve.points) if wanted is None else wanted
    document = curve_document(problem, curve, count, scenario=scenario, changes=changes)
    write_whole(path, json_text(document).encode(), marker=FORMAT.encode())
    return path
