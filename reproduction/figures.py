"""The figures of the reproduction, in the paper's arrangement, from the stored results alone."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from veil.report.style import BLUE, DARK, GREEN, GREY, NORMAL, ORANGE, PAGE, SMALL, VERMILION, dress, new_figure

from .grid_figure import draw_grid
from .layouts import RECONSTRUCTION
from .published import BASELINE_BELOW_BITS, LATER, PAPER, THRESHOLD, PaperResult
from .table import contests, drawings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Results = dict[str, Any]


def grid_figure(results: Results) -> "Figure":
    """The reconstruction of the paper's grid."""
    figure = new_figure(2.9, 2.9)
    draw_grid(figure.subplots(), RECONSTRUCTION)
    return figure


def convergence_figure(results: Results) -> "Figure":
    """Opacity and return over the iterations of the primal-dual method, one panel for each kind of opacity."""
    figure = new_figure(PAGE, 2.7)
    for axes, paper, letter in zip(figure.subplots(1, 2), PAPER, "ab", strict=True):
        found = results[f"convergence-{paper.key}"]
        steps = 1 + np.arange(len(found["curve"]["bits"]))
        at = [point["iteration"] for point in found["estimates"]]
        for name, colour, words in (("bits", BLUE, "opacity, bits"), ("return", VERMILION, "return")):
            axes.plot(steps, found["curve"][name], color=colour, linewidth=0.8, label=f"{words}, exact")
            drawn = [point[name] for point in found["estimates"]]
            axes.plot(at, drawn, "o", color=colour, markersize=2.4, markerfacecolor="white", markeredgewidth=0.6,
                      label="as 1,000 runs show it")  # fmt: skip
        _level(axes, paper.bits, f"paper\n{paper.bits:.3f}", BLUE, "bottom")
        _level(axes, THRESHOLD, f"threshold\n{THRESHOLD:g}", VERMILION, "top")
        axes.set_ylim(bottom=0)
        axes.set_xlim(0, len(steps))
        dress(axes, xlabel="iteration", title=f"({letter}) {_title(paper)}")
    handles, words = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, words, fontsize=SMALL, frameon=False, loc="outside upper center", ncols=4)
    return figure


def _title(paper: PaperResult) -> str:
    return {"last": "Last-state opacity", "initial": "Initial-state opacity"}[paper.key]


def _level(axes: "Axes", height: float, words: str, colour: str, side: str) -> None:
    """A level to compare with, named beside its right end, above or below it."""
    axes.axhline(height, color=colour, linewidth=0.8, linestyle=(0, (1, 1.5)))
    axes.annotate(words, (1.0, height), (3, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
                  fontsize=SMALL - 0.5, color=colour, va=side, linespacing=0.95)  # fmt: skip


def baseline_figure(results: Results) -> "Figure":
    """The comparison with the baseline: last-state opacity, initial-state opacity, value; ours as dashed lines."""
    figure = new_figure(PAGE, 2.5)
    panels = figure.subplots(1, 3)
    colours = {"last": BLUE, "initial": GREEN}
    for axes, paper, letter in zip(panels, PAPER, "ab", strict=False):
        colour, ours = colours[paper.key], results[f"planned-{paper.key}"]["at_threshold"]["bits"]
        _against_temperature(axes, results["baseline"][paper.key], "bits", colour, "entropy-regularised")
        axes.axhline(ours, color=colour, linestyle="--", linewidth=1.2, label=f"ours, {ours:.3f}")
        axes.axhline(paper.bits, color=GREY, linestyle=":", linewidth=1.0, label=f"paper, {paper.bits:.3f}")
        axes.set_ylim(0, 1.12 * max(ours, paper.bits))
        dress(axes, xlabel="τ", ylabel="bits", title=f"({letter}) {_title(paper)}")
    panels[0].axhline(
        BASELINE_BELOW_BITS, color=ORANGE, linewidth=0.8, linestyle=(0, (4, 2)), label="0.4, the paper's limit"
    )
    value = panels[2]
    # The dashes of one fall into the gaps of the other: both returns may be the threshold itself.
    for paper, words, offset in zip(PAPER, ("from the start cell", "from the corners"), (0, 4), strict=True):
        colour, ours = colours[paper.key], results[f"planned-{paper.key}"]["at_threshold"]["return"]
        _against_temperature(value, results["baseline"][paper.key], "return", colour, words)
        value.axhline(ours, color=colour, linestyle=(offset, (4, 4)), linewidth=1.2, label=f"ours, {ours:.3f}")
    value.set_ylim(bottom=0)
    dress(value, xlabel="τ", ylabel="return", title="(c) Value of the policy")
    for axes, height in zip(panels, (0.63, 0.66, 0.81), strict=True):
        axes.legend(fontsize=SMALL - 0.5, frameon=False, loc="center right", bbox_to_anchor=(1.0, height))
    return figure


def _against_temperature(axes: "Axes", points: list[dict[str, float]], name: str, colour: str, words: str) -> None:
    axes.plot([point["temperature"] for point in points], [point[name] for point in points], "o-", color=colour,
              markersize=3, linewidth=1.0, label=words)  # fmt: skip
    axes.set_xticks([0.02, 0.04, 0.06, 0.08, 0.1])


def later_figure(results: Results) -> "Figure":
    """The later grid: published policy, ours in growing classes, and the proven bound, at the same return."""
    figure = new_figure(PAGE, 2.6)
    axes = figure.subplots()
    runs = [run for run in LATER if run.key in results]
    kinds: tuple[tuple[str, str, str, Callable[[Any, Any], float]], ...] = (
        ("published", "s", GREY, lambda run, found: run.bits),
        ("ours, stationary", "o", BLUE, lambda run, found: found["markov"]["bits"]),
        ("ours, time-dependent", "^", GREEN, lambda run, found: found["timed"]["bits"]),
        ("ours, history", "D", ORANGE, lambda run, found: found["history_bits"]),
    )
    for place, run in enumerate(runs):
        found = results[run.key]
        axes.plot(
            [place, place], [run.bits, found["upper"]], color="0.85", linewidth=5, zorder=1, solid_capstyle="butt"
        )
        axes.plot([place - 0.22, place + 0.22], [found["upper"]] * 2, color=VERMILION, linewidth=1.6, zorder=2,
                  label="proven upper bound, all policies" if place == 0 else None)  # fmt: skip
    for words, marker, colour, value in kinds:
        heights = [value(run, results[run.key]) for run in runs]
        axes.plot(range(len(runs)), heights, marker, color=colour, markersize=5, label=words, zorder=3)
    axes.set_xticks(range(len(runs)), [f"{run.words}\nreturn {run.expected_return:g}" for run in runs])
    axes.set_xlim(-0.5, len(runs) - 0.5)
    axes.set_ylim(0, 1.12 * max(results[run.key]["upper"] for run in runs))
    dress(axes, ylabel="opacity, bits")
    axes.legend(fontsize=SMALL, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def layouts_figure(results: Results) -> "Figure":
    """The comparison on every layout: ours at the threshold above the range of the baseline."""
    figure = new_figure(PAGE, 2.9)
    listed = contests(results)
    for axes, paper, letter in zip(figure.subplots(1, 2), PAPER, "ab", strict=True):
        for place, (_, found) in enumerate(listed):
            one, first = found[paper.key], place == 0
            every = [point["bits"] for point in one["baseline"]]
            meeting = [point["bits"] for point in one["baseline"] if point["return"] >= THRESHOLD]
            axes.plot([place] * 2, [min(every), max(every)], color=ORANGE, linewidth=4, solid_capstyle="butt",
                      label="baseline, all τ" if first else None)  # fmt: skip
            axes.plot([place], [max(meeting, default=np.nan)], "_", color=DARK, markersize=7,
                      label="baseline, best that meets 0.3" if first else None)  # fmt: skip
            axes.plot([place], [one["ours"][0]["bits"]], "o", color=BLUE, markersize=4,
                      label="ours at return ≥ 0.3" if first else None)  # fmt: skip
        axes.axhline(paper.bits, color=GREY, linewidth=1.0, linestyle=":", label=f"paper, {paper.bits:.3f}")
        axes.set_xticks(range(len(listed)), ["R", *(title for title, _ in listed[1:])])
        axes.set_ylim(0, 1.42 * max(paper.bits, *(found[paper.key]["ours"][0]["bits"] for _, found in listed)))
        dress(axes, xlabel="layout (R: the reconstruction)", ylabel="bits", title=f"({letter}) {_title(paper)}")
        axes.legend(fontsize=SMALL - 0.5, frameon=False, ncols=2, loc="upper center")
    return figure


def layout_grids_figure(results: Results) -> "Figure":
    """The other layouts, drawn."""
    listed = drawings(results)
    columns = min(6, len(listed))
    rows = -(-len(listed) // columns)
    figure = new_figure(PAGE, 0.25 + rows * PAGE / 6)
    panels = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for axes in panels[len(listed) :]:
        axes.set_axis_off()
    for axes, (title, layout) in zip(panels, listed, strict=False):
        draw_grid(axes, layout, small=True)
        axes.set_title(title, fontsize=NORMAL, pad=2)
    return figure


FIGURES: dict[str, tuple[Callable[[Results], "Figure"], str]] = {
    "grid": (grid_figure, "The reconstruction of the paper's grid"),
    "convergence": (convergence_figure, "Opacity and return over the iterations of the primal-dual method"),
    "baseline": (baseline_figure, "Both opacities and the value of the baseline over τ, with ours as dashed lines"),
    "layouts": (layouts_figure, "Ours and the baseline on the reconstruction and on the other layouts"),
    "layout-grids": (layout_grids_figure, "The other layouts"),
    "later": (later_figure, "Published policies of the later grid, ours at the same return, and the proven bound"),
}
