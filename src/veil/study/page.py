"""The report of a study: one HTML file with its figures and tables, and the figures as SVG and PDF beside it."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..common.errors import InputError
from ..common.files import file_errors, write_whole
from ..report.style import number_text, save_figure
from .analysis import Effect, effects, is_seed, levels, usable
from .columns import SHOWN
from .figures import study_figures
from .table import Row, StudyResult

REPORT = "report.html"
FIGURES = "figures"
_MARKER = b'<meta name="generator" content="veil study">'
_MOST_ROWS = 2_000
_CAPTIONS = {
    "multiples": "One line for each value of a factor, a panel for each combination of the others: means over the seeds,"
    " with their 95% intervals if there are several.",
    "fronts": "Every feasible run. The line joins those that no other run of the panel exceeds in both bits and return.",
    "effects": "The mean difference that a value of a factor makes, everything else equal, with its 95% interval over the"
    " seeds if there are several.",
}


def write_study_report(result: StudyResult, quantity: str = "bits") -> list[Path]:
    """Write `report.html` and `figures/*.svg` and `*.pdf` to a study's folder; returns the paths.

    **Arguments:** `quantity`: the column that multiples and effects are of.

    **Raises:** `InputError` where there is no such column of numbers, no run is finished, matplotlib is missing, or the
    files cannot be written.
    """
    rows = list(result.rows())
    if quantity not in result.columns:
        raise InputError("quantity", [f"there is no column {quantity!r}, expected one of {', '.join(result.columns)}"])
    if not usable(rows, quantity):
        raise InputError(str(result.folder), [f"no finished feasible run has {quantity}: nothing to report"])
    written: list[Path] = []
    shown: list[tuple[str, Markup]] = []
    for name, figure in study_figures(rows, result.factors, quantity).items():
        for ending in ("svg", "pdf"):
            path = result.folder / FIGURES / f"{name}.{ending}"
            path.parent.mkdir(exist_ok=True)
            save_figure(figure, path)
            written.append(path)
        shown.append((_CAPTIONS[name], _inline(written[-2])))
    page = _page(result, rows, quantity, shown)
    with file_errors(result.folder, "the report cannot be written"):
        write_whole(result.folder / REPORT, page.encode("utf-8", "replace"), marker=_MARKER)
    return [result.folder / REPORT, *written]


def _page(result: StudyResult, rows: Sequence[Row], quantity: str, figures: list[tuple[str, Markup]]) -> str:
    environment = Environment(loader=PackageLoader("veil", "study/page"), autoescape=True, undefined=StrictUndefined)
    environment.filters["number"] = _cell
    found = usable(rows, quantity)
    return environment.get_template("study.html.jinja").render(
        title=result.name,
        css=Markup(files("veil.report").joinpath("page/page.css").read_text("utf-8")),
        counts=result.counts(),
        limited=result.limited(rows),
        factors=[(name, levels(rows, name)) for name in result.factors],
        seeds=[name for name in result.factors if is_seed(name)],
        figures=figures,
        effects=[_effect_row(one) for one in effects(found, result.factors, quantity)],
        quantity=quantity,
        columns=[*result.factors, *SHOWN, *result.derived_names],
        rows=rows[:_MOST_ROWS],
        left_out=max(0, len(rows) - _MOST_ROWS),
        failed=[(result.runs[str(row["key"])].label, row["reason"]) for row in rows if row["status"] == "FAILED"],
    )


def _effect_row(one: Effect) -> dict[str, Any]:
    interval = "" if one.change.count < 2 else f"{number_text(one.change.low)} to {number_text(one.change.high)}"
    return {
        "factor": one.factor,
        "level": one.level,
        "change": one.change.value,
        "interval": interval,
        "blocks": one.blocks,
    }


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number_text(value)
    return "" if value is None else str(value)


def _inline(path: Path) -> Markup:
    text = path.read_text("utf-8")
    return Markup(text[text.index("<svg") :])
