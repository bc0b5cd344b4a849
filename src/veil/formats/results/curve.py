"""The document of a frontier: its points, with what was asked."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic.json_schema import JsonSchemaValue

from ...common.files import write_whole
from ...problem.problem import Problem
from ...tradeoffs.frontier import Frontier
from ...tradeoffs.moved_bound import RETURN
from ..documents import Part, json_text, published
from .document import Number, OpacityPart, ProblemPart, encoded, problem_document

FORMAT = "veil-frontier-1"


class PointPart(Part):
    """A point of a frontier."""

    threshold: Number = Field(description="The bound of the constraint.")
    expected_return: Number = Field(description="The return of the policy.")
    opacity_bits: Number = Field(description="What the policy hides.")
    price_bits: Number = Field(description="The bits that one more unit of the bound costs.")
    value: Number = Field(None, description="The bounded quantity.")
    upper_bits: Number = Field(description='Proven upper bound over all policies; "inf" if none was proven.')
    opacity: OpacityPart = Field(description="How the bits were computed.")


class FrontierDocument(Part):
    """A frontier, as `veil frontier -o curve.json` writes it."""

    format: Literal["veil-frontier-1"] = Field(description="The form of this document.")
    problem: ProblemPart = Field(description="Which problem it is about.")
    policy_class: str = Field(description="The class of policies, in words.")
    along: str = Field(description="The constraint whose bound is moved: `return`, a reward, or `P(formula)`.")
    relation: str = Field(description="`≥` or `≤`.")
    status: str = Field(description="How the search ended, as in a result.")
    seconds: Number = Field(description="How long it took.")
    points_wanted: int = Field(description="How many points were asked for.")
    points: list[PointPart] = Field(description="The points that were found.")
    doubts: list[str] = Field([], description="Why points may be far from the best, and what would help.")


def frontier_schema() -> JsonSchemaValue:
    """The JSON schema (draft 2020-12) of a frontier."""
    return published(FORMAT, FrontierDocument.model_json_schema())


_POINT = ("threshold", "expected_return", "opacity_bits", "price_bits")


def curve_marker(path: Path) -> str:
    """What every file of a curve contains, by the extension."""
    return ",".join(_POINT) if path.suffix == ".csv" else FORMAT


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
    about: dict[str, object] = {
        "format": FORMAT,
        "problem": problem_document(problem, scenario, changes),
        "points_wanted": wanted,
    }
    points = [encoded(point, "policy") | {"opacity_bits": point.opacity.bits} for point in curve.points]
    return about | encoded(curve, "points") | {"points": points}


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
