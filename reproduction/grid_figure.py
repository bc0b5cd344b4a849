"""A layout of the paper's grid as a drawing: sensor ranges in colour, goals as flags, secrets as question marks."""

from typing import TYPE_CHECKING

from veil.report.style import BLUE, DARK, GREEN, GREY, ORANGE, VERMILION

from .layouts import LETTERS, PaperGrid
from .published import CORNERS, GRID

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = dict(zip(LETTERS, (BLUE, VERMILION, ORANGE, GREEN), strict=True))


def draw_grid(axes: "Axes", layout: PaperGrid, *, small: bool = False) -> None:
    """Draw a layout: b, r, y, g ranges, flags for goals, "?" for secrets, a disc for the start, dots for the corners."""
    scale = 0.42 if small else 1.0
    for letter, cells in zip(LETTERS, layout.ranges, strict=True):
        for row, column in cells:
            _square(axes, row, column, _COLOURS[letter])
            axes.text(column - 0.42, row - 0.24, letter, fontsize=7 * scale, color=_COLOURS[letter])
    for edge in range(GRID + 1):
        axes.plot([edge - 0.5] * 2, [-0.5, GRID - 0.5], color=GREY, linewidth=0.6 * scale)
        axes.plot([-0.5, GRID - 0.5], [edge - 0.5] * 2, color=GREY, linewidth=0.6 * scale)
    for row, column in layout.goals:
        axes.plot([column - 0.12] * 2, [row + 0.3, row - 0.3], color=DARK, linewidth=1.4 * scale)
        axes.fill([column - 0.12, column + 0.28, column - 0.12], [row - 0.3, row - 0.15, row], color=DARK, linewidth=0)
    for row, column in layout.secrets:
        axes.text(column, row + 0.02, "?", ha="center", va="center", fontsize=14 * scale, weight="bold", color=DARK)
    axes.plot(layout.start[1], layout.start[0], "o", color=DARK, markersize=9 * scale)
    for row, column in CORNERS:
        axes.plot(column + 0.32, row + 0.32, "o", color=DARK, markersize=2.5 * scale)
    axes.set_xlim(-0.55, GRID - 0.45)
    axes.set_ylim(GRID - 0.45, -0.55)
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=7)
    axes.xaxis.tick_top()
    axes.set_xticks([] if small else range(GRID))
    axes.set_yticks([] if small else range(GRID))


def _square(axes: "Axes", row: int, column: int, colour: str) -> None:
    left, right, top, bottom = column - 0.5, column + 0.5, row - 0.5, row + 0.5
    axes.fill([left, right, right, left], [top, top, bottom, bottom], color=colour, alpha=0.28, linewidth=0)
