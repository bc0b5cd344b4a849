"""The figures: every number in them is the one that the library computes, and every state, mark and name is there."""

from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import veil
from tests.report.problems import hostile
from tests.seeds import looped
from veil.report import plot
from veil.report.behaviour import behave


def artists(figure: Figure, gid: str) -> list[Any]:
    return figure.findobj(lambda artist: (artist.get_gid() or "").startswith(gid))


def texts(figure: Figure) -> list[str]:
    found: list[Any] = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return [text.get_text() for text in found]


def test_arrows_are_the_probabilities(paper: veil.Problem, solved: veil.Solution):
    assert isinstance(solved.policy, veil.MarkovPolicy)
    figure = plot.policy(paper, solved.policy)
    visited = behave(paper, solved.policy).visits > 1e-12
    for action, way in enumerate([(0, -1), (0, 1), (-1, 0), (1, 0)]):
        chance = solved.policy.probabilities[:, action]
        drawn = artists(figure, f"arrows {action}")
        lengths = {}
        for quiver in drawn:
            for (x, y), u, v in zip(quiver.get_offsets(), quiver.U, quiver.V, strict=True):
                lengths[int(y) * 6 + int(x)] = float(u * way[0] + v * way[1])
        expected = {s: 0.42 * np.sqrt(p) for s, p in enumerate(chance) if p > 0.02}
        assert lengths == pytest.approx(expected)
        assert sum(len(quiver.U) for quiver in drawn) == len(expected)
        grey = [quiver for quiver in drawn if quiver.get_facecolor()[0][0] > 0.5]
        assert sum(len(quiver.U) for quiver in grey) == sum(1 for s in expected if not visited[s])
    stays = artists(figure, "stay 4")
    assert sum(len(dots.get_offsets()) for dots in stays) == int((solved.policy.probabilities[:, 4] > 0.02).sum())
    shown = texts(figure)
    assert [shown.count(sign) for sign in "S?G"] == [1, 3, 2]
    assert {"sensor b (0.9)", "sensor g (0.9)", "start", "goal", "secret"} <= set(shown)
    assert len(artists(figure, "sensor g")[0].get_paths()) == 4


def test_moves_of_a_graph_are_those_of_the_chain(courier: veil.Problem, timed: veil.TimedPolicy):
    for time in (None, 2):
        figure = plot.policy(courier, timed, time)
        moves = behave(courier, timed).moves(time).toarray()
        found = {tuple(map(int, one.get_gid().split()[1:])): one.get_linewidth() for one in artists(figure, "move ")}
        assert found == {(i, j): pytest.approx(0.4 + 1.8 * moves[i, j]) for i, j in np.argwhere(moves >= 0.02).tolist()}
        assert set(courier.model.states.all()) <= set(texts(figure))


def test_maps_show_the_occupancy(paper: veil.Problem, solved: veil.Solution):
    figure = plot.occupancy(paper, solved.policy)
    table = behave(paper, solved.policy).occupancy
    maps = artists(figure, "heat")
    assert len(maps) == 6
    for time, image in zip((0, 2, 4, 6, 8, 10), maps, strict=True):
        assert np.asarray(image.get_array()).ravel() == pytest.approx(table[time])
    assert [image.norm.vmax for image in maps] == pytest.approx([table[::2].max()] * 6)  # one scale for all


def test_a_graph_s_occupancy_is_a_table(courier: veil.Problem, timed: veil.TimedPolicy):
    figure = plot.occupancy(courier, timed)
    (image,) = artists(figure, "occupancy")
    table = behave(courier, timed).occupancy
    order = np.argsort(-table.sum(axis=0), kind="stable")
    assert np.asarray(image.get_array()) == pytest.approx(table[:, order].T)
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows == [courier.model.states[int(state)] for state in order]


def test_beliefs_are_the_filter_s(paper: veil.Problem, solved: veil.Solution):
    seen = ["0", "0", "g", "g", "0"]
    figure = plot.belief(paper, solved.policy, seen)
    observer = veil.ObserverFilter(paper, solved.policy)
    expected = np.array([observer.update(event) for event in seen])
    for value in (0, 1):
        (line,) = artists(figure, f"posterior {value}")
        assert line.get_ydata() == pytest.approx(expected[:, value])
    maps = artists(figure, "heat")
    assert np.asarray(maps[-1].get_array()).ravel() == pytest.approx(observer.belief)
    assert not artists(figure, "agent")  # where it truly is is not known from observations
    assert "2\ng" in texts(figure)


def test_a_drawn_run_shows_the_truth(paper: veil.Problem, courier: veil.Problem, timed: veil.TimedPolicy):
    policy = veil.MarkovPolicy.uniform(paper)
    figure = plot.belief(paper, policy, seed=1)
    assert len(artists(figure, "agent")) == 4
    assert len({text for text in texts(figure) if "(true)" in text}) == 1
    assert plot.belief(paper, policy, seed=1).axes[0].lines[0].get_ydata() == pytest.approx(
        figure.axes[0].lines[0].get_ydata()
    )
    graph = plot.belief(courier, timed)
    (image,) = artists(graph, "belief")
    assert np.asarray(image.get_array()).sum(axis=0) == pytest.approx(1)


def test_convergence_is_the_history(solved: veil.Solution):
    figure = plot.convergence(solved)
    (bits,), (earned,) = artists(figure, "bits"), artists(figure, "return")
    assert bits.get_ydata() == pytest.approx(solved.history.opacity_bits)
    assert earned.get_ydata() == pytest.approx(solved.history.expected_return)
    (level,) = artists(figure, "level")
    assert set(level.get_ydata()) == {0.3}
    assert not artists(plot.convergence(solved.history), "level")
    with pytest.raises(veil.InputError, match="expected a Solution or its history"):
        plot.convergence(3)  # type: ignore[arg-type]


def test_the_frontier_with_the_chosen_point(solved: veil.Solution):
    curve = [(0.1, 1.0), (0.3, 0.9), (0.45, 0.1)]
    figure = plot.frontier(curve, solved)
    (line,), (point,) = artists(figure, "frontier"), artists(figure, "chosen")
    assert line.get_xydata().tolist() == [list(pair) for pair in curve]
    assert point.get_xydata()[0] == pytest.approx([solved.expected_return, solved.opacity.bits])
    problem = veil.gallery.load("two-rooms")
    swept = veil.frontier(problem, 3, starts=2, iterations=15)
    (line,) = artists(plot.frontier(swept, (0.75, 0.4)), "frontier")
    assert line.get_xdata() == pytest.approx(swept.returns)
    for wrong, what in (([], "no points"), ("curve", "expected what veil.frontier returns")):
        with pytest.raises(veil.InputError, match=what):
            plot.frontier(wrong)  # type: ignore[arg-type]
    with pytest.raises(veil.InputError, match="expected a Solution or a pair"):
        plot.frontier(curve, 7)  # type: ignore[arg-type]


def test_proven_bounds_are_steps_only_where_proven():
    curve = [(0.1, 1.0), (0.3, 0.9), (0.45, 0.1)]
    assert not artists(plot.frontier(curve, bounds=[(0.1, np.inf), (0.2, np.inf)]), "bounds")
    figure = plot.frontier(curve, bounds=[(0.1, 1.0), (0.2, np.inf), (0.4, 0.5)])
    (line,) = artists(figure, "bounds")
    assert line.get_drawstyle() == "steps-post"  # a bound holds for stricter thresholds, not for freer ones
    assert line.get_linestyle() == "--"
    assert line.get_ydata().tolist() == pytest.approx([1.0, np.nan, 0.5], nan_ok=True)
    assert "proven upper bound" in texts(figure)
    swept = veil.frontier(veil.gallery.load("two-rooms"), 3, starts=2, iterations=15, proof_seconds=20)
    (line,) = artists(plot.frontier(swept), "bounds")
    assert line.get_xydata().tolist() == [[point.threshold, point.upper_bits] for point in swept.points]


@looped("name", ["paper-last-state", "courier-depots", "badge-doors"])
def test_the_observer_s_table(name: str):
    problem = veil.gallery.load(name)
    figure = plot.observer(problem)
    (image,) = artists(figure, "emissions")
    rows = np.unique(problem.observer.emissions.reshape(-1, problem.observer.num_observations), axis=0)
    shown = np.asarray(image.get_array())
    assert sorted(map(tuple, shown)) == sorted(map(tuple, rows))
    assert set(problem.observer.observations.all()) <= set(texts(figure))


def test_names_that_mean_harm_are_only_drawn(tmp_path: Any):
    problem = hostile()
    policy = veil.MarkovPolicy.uniform(problem)
    figures = [
        plot.policy(problem, policy),
        plot.occupancy(problem, policy),
        plot.belief(problem, policy),
        plot.observer(problem),
    ]
    for number, figure in enumerate(figures):
        plot.save(figure, tmp_path / f"{number}.svg")
        assert "<script>" not in (tmp_path / f"{number}.svg").read_text("utf-8")
