"""The figures of a study: small multiples, Pareto fronts, effects of the factors; as SVG and PDF."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..formats.gallery import GALLERY
from ..report.style import GREY, PAGE, PALETTE, SMALL, dress, new_figure, words
from .analysis import Effect, effects, front, is_seed, levels, means, number_of, usable
from .table import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_PANELS, _MOST_LINES = 24, 7
_ACROSS = 4


def study_figures(rows: Sequence[Row], factors: Sequence[str], quantity: str = "bits") -> "dict[str, Figure]":
    """The figures by name: `multiples`, `fronts` and `effects`, each where the table has what it needs."""
    found = usable(rows, quantity)
    if not found:
        return {}
    varied = [name for name in factors if len(levels(found, name)) > 1 and not is_seed(name)]
    drawn = {
        "multiples": _multiples(found, factors, varied, quantity),
        "fronts": _fronts(found, varied),
        "effects": _effects(effects(found, factors, quantity), quantity),
    }
    return {name: figure for name, figure in drawn.items() if figure is not None}


def axis_of(rows: Sequence[Row], varied: Sequence[str]) -> str | None:
    """The factor along the horizontal axis: the one with the most values that are numbers."""
    numeric = [name for name in varied if all(number_of(level) is not None for level in levels(rows, name))]
    return max(numeric, key=lambda name: len(levels(rows, name)), default=None)


def _multiples(rows: Sequence[Row], factors: Sequence[str], varied: Sequence[str], quantity: str) -> "Figure | None":
    """The quantity over one factor, a line for each value of another, a panel for each combination of the rest."""
    across = axis_of(rows, varied)
    if across is None:
        return None
    rest = [name for name in varied if name != across]
    series = max((name for name in rest if name != "scenario"), key=lambda name: len(levels(rows, name)), default=None)
    panel_factors = [name for name in rest if name != series]
    panels = _panels(rows, panel_factors)
    lines = levels(rows, series)[:_MOST_LINES] if series else [None]
    figure, grid = _panel_grid(len(panels))
    for axes, (title, own) in zip(grid, panels, strict=False):
        for number, line in enumerate(lines):
            chosen = [row for row in own if series is None or row[series] == line]
            _line(axes, chosen, across, quantity, PALETTE[number], "" if series is None else words(line))
        dress(axes, title=title)
    _outer_labels(grid, words(across), quantity)
    if series is not None:
        _legend(figure, grid[0], words(series))
    return figure


def _line(axes: "Axes", rows: Sequence[Row], across: str, quantity: str, colour: str, label: str) -> None:
    found = sorted((number_of(key[0]) or 0.0, mean) for key, mean in means(rows, [across], quantity).items())
    if not found:
        return
    x, y = [place for place, _ in found], [mean.value for _, mean in found]
    axes.plot(x, y, "o-", color=colour, markersize=2.5, linewidth=1.2, label=label)
    axes.fill_between(x, [m.low for _, m in found], [m.high for _, m in found], color=colour, alpha=0.2, linewidth=0)


def _fronts(rows: Sequence[Row], varied: Sequence[str]) -> "Figure | None":
    """Return against bits for each scenario, with the front of the runs that no other exceeds in both."""
    found = [row for row in rows if isinstance(row.get("expected_return"), (int, float))]
    panels = _panels(found, ["scenario"] if "scenario" in varied else [])
    if len(found) < 2:
        return None
    series = next((name for name in varied if name != "scenario" and len(levels(found, name)) <= _MOST_LINES
                   and any(number_of(level) is None for level in levels(found, name))), None)  # fmt: skip
    figure, grid = _panel_grid(len(panels))
    for axes, (title, own) in zip(grid, panels, strict=False):
        edge = front((float(row["expected_return"]), float(row["bits"])) for row in own)
        axes.plot(*zip(*edge, strict=True), color=GREY, linewidth=0.9, drawstyle="steps-pre", zorder=1)
        for number, level in enumerate(levels(found, series) if series else [None]):
            mine = [row for row in own if series is None or row[series] == level]
            place = [row["expected_return"] for row in mine], [row["bits"] for row in mine]
            axes.scatter(*place, s=7, color=PALETTE[number % len(PALETTE)], label=words(level), zorder=2)
        dress(axes, title=title)
    _outer_labels(grid, "expected return", "bits")
    if series is not None:
        _legend(figure, grid[0], words(series))
    return figure


def _effects(found: Sequence[Effect], quantity: str) -> "Figure | None":
    """Each value of each factor with its effect and interval."""
    shown = [one for one in found if not (one.factor == "scenario" and len(found) > 60)]
    if not shown:
        return None
    figure = new_figure(PAGE, 0.6 + 0.19 * len(shown))
    axes = figure.subplots()
    factors = list(dict.fromkeys(one.factor for one in shown))
    for place, one in enumerate(shown):
        colour = PALETTE[factors.index(one.factor) % len(PALETTE)]
        axes.plot([one.change.low, one.change.high], [place, place], color=colour, linewidth=1.2)
        axes.plot([one.change.value], [place], "o", color=colour, markersize=3.5)
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    axes.set_yticks(range(len(shown)), [_effect_name(one) for one in shown])
    axes.invert_yaxis()
    dress(axes, xlabel=f"change of {quantity} against the mean over the factor's values, all else equal")
    return figure


def _effect_name(one: Effect) -> str:
    return f"{words(one.factor, 18)}: {words(str(one.level).removeprefix(GALLERY), 26)}"


def _panels(rows: Sequence[Row], factors: Sequence[str]) -> list[tuple[str, list[Row]]]:
    """The rows for each combination of factors, with its name; at most as many as fit a page."""
    found: dict[str, tuple[str, list[Row]]] = {}
    for row in rows:
        key = repr([row[name] for name in factors])
        title = ", ".join(words(str(row[name]).removeprefix(GALLERY), 20) for name in factors)
        found.setdefault(key, (title, []))[1].append(row)
    return list(found.values())[:_MOST_PANELS]


def _panel_grid(number: int) -> "tuple[Figure, list[Axes]]":
    across = min(_ACROSS, number)
    down = math.ceil(number / across)
    figure = new_figure(PAGE, 0.9 + 1.65 * down)
    grid: list[Any] = list(figure.subplots(down, across, squeeze=False, sharey=True).flat)
    for axes in grid[number:]:
        axes.set_visible(False)
    return figure, grid


def _legend(figure: "Figure", axes: "Axes", title: str) -> None:
    """The lines of a panel explained above all panels, where they cover none."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside upper center",
        ncols=min(4, len(labels)),
        fontsize=SMALL,
        frameon=False,
        title=title,
        title_fontsize=SMALL,
    )


def _outer_labels(grid: "Sequence[Axes]", xlabel: str, ylabel: str) -> None:
    figure = grid[0].figure
    figure.supxlabel(xlabel, fontsize=8)  # pyright: ignore[reportAttributeAccessIssue]
    figure.supylabel(ylabel, fontsize=8)  # pyright: ignore[reportAttributeAccessIssue]
