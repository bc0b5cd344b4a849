"""`veil.plot`: figures of the public objects, for papers and screens; each function returns a matplotlib figure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..common.checks import Defects, is_number
from ..common.errors import InputError
from ..common.rounding import upper_text
from ..engine.filter import Observation
from ..planning.solution import History, Solution
from ..policy.policy import Policy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..tradeoffs.frontier import Frontier
from ..tradeoffs.moved_bound import RETURN
from .areas import value_colours
from .behaviour import behave
from .cells import find_cells
from .curve import Points
from .draw import darker, draw_legend, draw_policy, draw_scene, legend_below
from .observing import ObservedRun, event_text, observe, sample_run
from .scene import Scene, make_scene
from .style import (
    BLUE,
    COLUMN,
    DARK,
    GREY,
    NORMAL,
    PAGE,
    PURPLE,
    SMALL,
    VERMILION,
    dress,
    new_figure,
    number_text,
    save_figure,
    words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, FigureBase

_PANELS = 6
_MOST_ROWS, _MOST_COLUMNS = 30, 24
_MOST_LABELLED = 16
save = save_figure


def policy(problem: Problem, policy: Policy, time: int | None = None) -> "Figure":
    """The policy: arrows by probability on a grid, transitions by probability on a graph.

    **Arguments:** `policy`: any that fits the problem; memory other than the time is averaged over. `time`: the decision
    to show, 0 … T-1; None: the average over all decisions.

    A graph of more than forty states shows the forty most visited ones.

    **Raises:** `InputError` if the policy does not fit, the time does not exist, or matplotlib is not installed.
    """
    behaviour = behave(problem, policy)
    _check_time(problem, time)
    scene = make_scene(problem, behaviour.visits)
    figure = _scene_figure(scene)
    axes = figure.subplots()
    draw_scene(axes, scene)
    draw_policy(axes, scene, behaviour, time)
    draw_legend(axes, scene)
    when = "" if time is None else f", decision {time}"
    axes.set_title(words(problem.name) + when, fontsize=NORMAL, loc="left")
    return figure


def occupancy(problem: Problem, policy: Policy) -> "Figure":
    """The probability of each state over time: six maps of a grid, or a table of states over time for a graph.

    A graph of more than thirty states shows the thirty most visited ones.

    **Raises:** `InputError` as for `policy`.
    """
    behaviour = behave(problem, policy)
    if find_cells(problem) is not None:
        return _maps(
            make_scene(problem, behaviour.visits), behaviour.occupancy, _some_times(problem.horizon), "P(state)", BLUE
        )
    table = behaviour.occupancy
    order = _top_states(table)
    figure = new_figure(COLUMN, 0.9 + 0.16 * len(order))
    axes = figure.subplots()
    picture = axes.imshow(table[:, order].T, aspect="auto", cmap=_shades(BLUE), vmin=0, gid="occupancy")
    _heat_ticks(axes, [problem.model.states[int(s)] for s in order], "time")
    bar = figure.colorbar(picture, ax=axes, pad=0.02)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    axes.set_title("P(state) over time" + _left_out(problem.num_states, len(order)), fontsize=NORMAL, loc="left")
    return figure


def belief(
    problem: Problem, policy: Policy, observations: Sequence[Observation] | None = None, *, seed: int = 0
) -> "Figure":
    """The observer's posterior over the secret and belief about the state along a run.

    **Arguments:** `observations`: a list of what `ObserverFilter.update` takes; None: a run is drawn with `seed`, and
    the true states are marked.

    **Raises:** `ImpossibleObservationError`, `InputError` as `ObserverFilter.update`; `InputError` as for `policy`.
    """
    behaviour = behave(problem, policy)
    if observations is None:
        run = sample_run(behaviour, seed)
    else:
        run = observe(behaviour, observations)
    times = _some_times(len(run.posterior) - 1, 4)
    cells = find_cells(problem, behaviour.visits)
    order = _top_states(run.belief)
    below = 0.5 + (0.15 * len(order) if cells is None else PAGE / 4.6 * cells.rows / cells.columns)
    figure = new_figure(PAGE, 2.1 + below)
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.1, below)).ravel()
    scene = make_scene(problem, behaviour.visits)
    _posterior_lines(upper.subplots(), scene, run)
    if cells is None:
        _belief_table(lower, problem, run, order)
    else:
        _belief_maps(lower, scene, run, times)
    return figure


def convergence(solution: Solution | History) -> "Figure":
    """The search: hidden bits and return over the iterations.

    **Arguments:** `solution`: a `Solution`, with its threshold and proven bound, or its `history` alone.
    """
    history = solution.history if isinstance(solution, Solution) else solution
    if not isinstance(history, History):
        raise InputError("convergence", [f"found a {type(solution).__name__}, expected a Solution or its history"])
    figure = new_figure(COLUMN, 3.2)
    bits, earned = figure.subplots(2, 1, sharex=True)
    bits.plot(history.iteration, history.opacity_bits, color=BLUE, linewidth=1.2, gid="bits")
    earned.plot(history.iteration, history.expected_return, color=BLUE, linewidth=1.2, gid="return")
    dress(bits, ylabel="hidden bits, H(Z|Y)")
    dress(earned, xlabel="iteration", ylabel="expected return")
    if isinstance(solution, Solution):
        if solution.threshold is not None:
            _level(earned, solution.threshold, f"threshold {number_text(solution.threshold)}", VERMILION)
        if (
            solution.certificate is not None
            and solution.goal == "opaque"
            and solution.hide == OWN
            and not solution.task
        ):
            upper = solution.certificate.upper
            _level(bits, upper, f"proven upper bound {upper_text(upper)}", VERMILION)
    return figure


def frontier(
    frontier: Frontier | Points, chosen: Solution | tuple[float, float] | None = None, bounds: Points | None = None
) -> "Figure":
    """The most hidden bits found for each return, or for each value of the quantity that the curve is along.

    **Arguments:** `frontier`: what `veil.frontier` returns, or pairs (return, bits); `chosen`: a `Solution` to mark on it,
    or a pair (return, bits); `bounds`: pairs (threshold, proven upper bound), inf if nothing was proven; None: those of
    the frontier.

    Each bound is drawn up to the threshold of the next point, since it holds for all policies that return at least as much;
    the line is interrupted if nothing was proven.
    """
    returns, kept_bits = _curve(frontier)
    along = frontier.along if isinstance(frontier, Frontier) else RETURN
    if not len(returns):
        raise InputError("frontier", ["it has no points: give veil.frontier more time"])
    figure = new_figure(COLUMN, 2.6)
    axes = figure.subplots()
    axes.plot(returns, kept_bits, "o-", color=BLUE, linewidth=1.2, markersize=3.2, gid="frontier",
              label="best found")  # fmt: skip
    _draw_bounds(axes, _bounds(frontier) if bounds is None else _pairs(bounds))
    dress(axes, xlabel="expected return" if along == RETURN else along, ylabel="hidden bits, H(Z|Y)")
    if chosen is not None:
        earned, kept = _point(chosen, along)
        axes.plot([earned], [kept], marker="D", color=VERMILION, markersize=5.5, linestyle="", gid="chosen", zorder=4)
        beyond = earned > (returns.min() + returns.max()) / 2
        axes.annotate(f"{kept:.4f} bits at {number_text(earned)}", (earned, kept), (-6 if beyond else 6, -12),
                      textcoords="offset points", fontsize=SMALL, ha="right" if beyond else "left")  # fmt: skip
    axes.set_ylim(bottom=0)
    return figure


def observer(problem: Problem) -> "Figure":
    """The observer: the ranges of its sensors, and the emission probabilities.

    States with the same emissions share a row; at most thirty rows and 24 observations are shown.
    """
    scene = make_scene(problem)
    rows, table = _emission_kinds(problem)
    figure = new_figure(PAGE, max(2.6, min(6.0, 0.9 + 0.2 * len(rows))))
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    draw_scene(left, scene)
    draw_legend(left, scene)
    columns = min(table.shape[1], _MOST_COLUMNS)
    right.imshow(table[:, :columns], aspect="auto", cmap=_shades(GREY), vmin=0, vmax=1, gid="emissions")
    for (row, column), chance in np.ndenumerate(table[:, :columns]):
        if chance >= 0.005 and table[:, :columns].size <= 240:
            right.text(column, row, f"{chance:.2g}", fontsize=SMALL - 1, ha="center", va="center",
                       color="white" if chance > 0.6 else DARK)  # fmt: skip
    _heat_ticks(right, rows, "", columns=[problem.observer.observations[o] for o in range(columns)])
    title = "P(observation | state)" if not problem.observer.on_actions else "P(observation | action, next state)"
    right.set_title(title + _left_out(problem.observer.num_observations, columns), fontsize=NORMAL, loc="left")
    return figure


def _scene_figure(scene: Scene) -> "Figure":
    width, height = scene.size
    if not scene.is_grid:
        width, height = width + 0.5, height + 0.35
    entries = len(scene.ranges) + 3
    wide = COLUMN if (len(scene.shown) <= 400 and scene.is_grid) or len(scene.shown) <= 12 else PAGE
    return new_figure(wide, min(8.0, wide * height / width + 0.35 + 0.17 * -(-entries // 3)))


def _check_time(problem: Problem, time: int | None) -> None:
    defects = Defects("plot")
    if time is not None and not (is_number(time) and time == int(time) and 0 <= time < problem.horizon):
        defects.add(f"time is {time!r}, expected a decision from 0 to {problem.horizon - 1}, or None")
    defects.raise_if_any()


def _some_times(horizon: int, count: int = _PANELS) -> list[int]:
    """Times from the first to the last, evenly."""
    return sorted({round(i * horizon / max(1, count - 1)) for i in range(count)})


def _maps(scene: Scene, values: np.ndarray, times: list[int], what: str, colour: str) -> "Figure":
    """A map for each time, on one scale."""
    width, height = scene.size
    across = min(3, len(times))
    down = -(-len(times) // across)
    figure = new_figure(PAGE, down * (PAGE / 3.4 * height / width + 0.25) + 0.5)
    panels = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    top = float(values[times].max())
    for axes, time in zip(panels, times, strict=False):
        draw_scene(axes, scene, heat=values[time], top=top, heat_colour=colour, ranges=False)
        axes.set_title(f"t = {time}", fontsize=SMALL)
    for axes in panels[len(times) :]:
        axes.set_axis_off()
    _colour_bar(figure, list(panels), top, what, colour)
    legend_below(figure, scene)
    return figure


def _colour_bar(figure: "FigureBase", panels: "list[Axes]", top: float, what: str, colour: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import PowerNorm

    bar = figure.colorbar(ScalarMappable(PowerNorm(0.5, 0, top), _shades(colour)), ax=panels, shrink=0.8, pad=0.02)
    bar.set_label(what, fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.outline.set_visible(False)


def _shades(colour: str) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("veil", ["#FFFFFF", colour, darker(colour)])


def _heat_ticks(axes: "Axes", rows: list[str], xlabel: str, *, columns: list[str] | None = None) -> None:
    axes.spines[:].set_visible(False)
    axes.set_yticks(range(len(rows)), [words(row, 36) for row in rows], fontsize=SMALL)
    axes.tick_params(labelsize=SMALL, length=0)
    axes.set_xlabel(xlabel, fontsize=NORMAL)
    if columns is None:
        axes.locator_params(axis="x", integer=True)
    else:
        tilt = 45 if max((len(name) for name in columns), default=0) > 3 else 0
        axes.set_xticks(range(len(columns)), [words(name) for name in columns], fontsize=SMALL, rotation=tilt,
                        ha="right" if tilt else "center")  # fmt: skip


def _left_out(all_: int, shown: int) -> str:
    return f" ({shown} of {all_:,})" if shown < all_ else ""


def _posterior_lines(axes: "Axes", scene: Scene, run: ObservedRun) -> None:
    problem = scene.problem
    names, times = problem.secret_values, np.arange(len(run.posterior))
    for value, colour in zip(range(len(names))[:7], value_colours(scene.areas, names), strict=False):
        true = run.secret == value
        axes.plot(times, run.posterior[:, value], "o-", color=colour, linewidth=2.0 if true else 1.1, markersize=3,
                  label=words(names[value]) + (" (true)" if true else ""), gid=f"posterior {value}")  # fmt: skip
    split = problem.secret_table.time
    if 0 < split < problem.horizon:
        axes.axvline(split, color=GREY, linewidth=0.8, linestyle=":")
    dress(axes, ylabel="posterior probability")
    axes.set_ylim(-0.03, 1.03)
    step = -(-len(times) // _MOST_LABELLED)
    labels = [f"{time}\n{words(event_text(event), 9)}" for time, event in zip(times, run.observations, strict=True)]
    axes.set_xticks(times[::step], labels[::step], fontsize=SMALL)
    axes.set_xlabel("time and observation", fontsize=NORMAL)
    axes.legend(fontsize=SMALL, frameon=False, loc="upper left", ncols=4)


def _top_states(table: np.ndarray) -> np.ndarray:
    """The states with the largest totals over time, at most thirty, none with total zero."""
    total = table.sum(axis=0)
    order = np.lexsort((np.arange(len(total)), -total))[:_MOST_ROWS]
    return order[total[order] > 0]


def _belief_maps(figure: "FigureBase", scene: Scene, run: ObservedRun, times: list[int]) -> None:
    panels = np.atleast_1d(figure.subplots(1, len(times))).ravel()
    top = float(run.belief[times].max())
    for axes, time in zip(panels, times, strict=True):
        draw_scene(axes, scene, heat=run.belief[time], top=top, heat_colour=PURPLE, ranges=False)
        if run.states is not None:
            spot = scene.spots[run.states[time]]
            _draw_agent(axes, [tuple(scene.places[spot].tolist())] if spot >= 0 else [])
        axes.set_title(f"t = {time}", fontsize=SMALL)
    figure.suptitle(_where(run), fontsize=NORMAL, x=0.01, ha="left")
    _colour_bar(figure, list(panels), top, "P(state)", PURPLE)
    legend_below(figure, scene)


def _belief_table(figure: "FigureBase", problem: Problem, run: ObservedRun, order: np.ndarray) -> None:
    axes = figure.subplots()
    top = float(run.belief[:, order].max())
    axes.imshow(run.belief[:, order].T, aspect="auto", cmap=_shades(PURPLE), vmin=0, vmax=top, gid="belief")
    row = {int(state): number for number, state in enumerate(order)}
    if run.states is not None:
        truth = [(time, row[int(s)]) for time, s in enumerate(run.states) if int(s) in row]
        _draw_agent(axes, truth)
    _heat_ticks(axes, [problem.model.states[int(s)] for s in order], "time")
    axes.set_title(_where(run) + _left_out(problem.num_states, len(order)), fontsize=NORMAL, loc="left")
    _colour_bar(figure, [axes], top, "P(state)", PURPLE)


def _draw_agent(axes: "Axes", places: Sequence[tuple[float, float]]) -> None:
    across, down = np.array(places, dtype=float).reshape(-1, 2).T
    axes.plot(
        across,
        down,
        linestyle="",
        marker="o",
        markersize=4.5,
        color="white",
        markeredgecolor=DARK,
        gid="agent",
        zorder=7,
    )


def _where(run: ObservedRun) -> str:
    return "Observer's belief about the state" + ("" if run.states is None else " (dot: true state)")


def _level(axes: "Axes", value: float, text: str, colour: str) -> None:
    axes.axhline(value, color=colour, linewidth=0.9, linestyle="--", gid="level")
    axes.annotate(text, (1.0, value), (-2, 2), xycoords=("axes fraction", "data"), textcoords="offset points",
                  fontsize=SMALL, color=colour, ha="right", va="bottom")  # fmt: skip


def _draw_bounds(axes: "Axes", bounds: np.ndarray) -> None:
    """The proven upper bounds as steps, with the legend that tells them from the curve."""
    upper = np.where(np.isfinite(bounds[:, 1]), bounds[:, 1], np.nan)
    if np.isnan(upper).all():
        return
    axes.plot(bounds[:, 0], upper, "o--", color=VERMILION, linewidth=1.0, markersize=2.4, drawstyle="steps-post",
              gid="bounds", label="proven upper bound")  # fmt: skip
    axes.legend(fontsize=SMALL, frameon=False, loc="lower left")


def _bounds(frontier: Frontier | Points) -> np.ndarray:
    if not isinstance(frontier, Frontier):
        return np.zeros((0, 2))
    return np.array([(point.threshold, point.upper_bits) for point in frontier.points])


def _curve(frontier: Frontier | Points) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(frontier, Frontier):
        return frontier.values, frontier.bits
    table = _pairs(frontier)
    return table[:, 0], table[:, 1]


def _pairs(given: Points) -> np.ndarray:
    try:
        return np.array(given, dtype=float).reshape(-1, 2)
    except (TypeError, ValueError):
        raise InputError("frontier", [f"found a {type(given).__name__}, expected what veil.frontier returns"]) from None


def _point(chosen: Solution | tuple[float, float], along: str) -> tuple[float, float]:
    if isinstance(chosen, Solution):
        known = {one.name: one.value for one in chosen.constraints} | {RETURN: chosen.expected_return}
        if along not in known:
            raise InputError("frontier", [f"the solution has no value of {along!r}: give a pair ({along}, bits)"])
        return float(known[along]), float(chosen.opacity.bits)
    try:
        earned, kept = map(float, chosen)
    except (TypeError, ValueError):
        raise InputError("frontier", [f"chosen is {chosen!r}, expected a Solution or a pair (return, bits)"]) from None
    return earned, kept


def _emission_kinds(problem: Problem) -> tuple[list[str], np.ndarray]:
    """The different rows of the emissions, each with the states that share it."""
    observer, states = problem.observer, problem.model.states
    flat = observer.emissions.reshape(-1, observer.num_observations)
    distinct, first, count = np.unique(flat, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)[:_MOST_ROWS]
    names = []
    for row in order:
        action, state = divmod(int(first[row]), problem.num_states)
        name = states[state] if not observer.on_actions else f"{problem.model.actions[action]} → {states[state]}"
        names.append(name if count[row] == 1 else f"{name} and {count[row] - 1} more")
    return names, distinct[order]
