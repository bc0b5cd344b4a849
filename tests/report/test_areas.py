"""Areas of pictures: which sets of states are marked, how, and their borders."""

from typing import Any

import numpy as np
import pytest

import veil
from veil.report import plot
from veil.report.areas import find_areas, outline, value_colours
from veil.report.page_data import scene_data
from veil.report.scene import make_scene

DRAWING = """
    # # # # # # # # # # # #
    # # # # # # # # # # # #
    # a a a . . c . . b b b
    # a a a . S . . . b b b
    # a a a . . . h . b b G
    # # # # # # # # # # # #
    # # # # # # # # # # # #
    # # # # # # # # # # # #
"""


def floor(frame: veil.Frame | None = None) -> veil.Problem:
    """Two groups of nine cells or eight, a hazard of one cell, and walls around."""
    legend = {"a": "floor", "b": "floor", "h": "floor"}
    world = veil.GridWorld.from_ascii(DRAWING, sensors={"c": {}}, legend=legend, frame=frame)
    rows = [line.split() for line in DRAWING.strip().splitlines()]
    drawn: dict[str, list[str]] = {}
    for (row, column), sign in np.ndenumerate(np.array(rows)):
        drawn.setdefault(str(sign), []).append(f"r{row}c{column}")
    secret = veil.LastState(groups={"left": drawn["a"], "right": drawn["b"]})
    avoid = veil.Probability("F lava", max=0.1, labels={"lava": drawn["h"]})
    return world.problem(4, secret=secret).replace(constraints=[avoid])


def test_groups_hazards_and_goals_have_names_and_colours_of_their_own():
    problem = floor()
    scene = make_scene(problem)
    assert {(area.role, area.name) for area in scene.areas} == {
        ("secret", "secret: left"),
        ("secret", "secret: right"),
        ("avoid", "avoid: lava"),
        ("goal", "goal"),
    }
    sizes = {area.name: int(area.states.sum()) for area in scene.areas}
    assert sizes == {"secret: left": 9, "secret: right": 8, "avoid: lava": 1, "goal": 1}
    assert len({area.colour for area in scene.areas}) == 4
    values = value_colours(scene.areas, problem.secret_values)
    by_name = {area.name: area.colour for area in scene.areas}
    assert values[:2] == [by_name["secret: left"], by_name["secret: right"]]
    assert values[2] not in by_name.values()


@pytest.mark.parametrize(
    ("formula", "bounds", "role"),
    [("F x", {"max": 0.2}, "avoid"), ("F x", {"min": 0.2}, "visit"), ("G !x", {"min": 0.9}, "avoid")],
)
def test_what_a_formula_asks_of_its_states(formula: str, bounds: dict[str, Any], role: str):
    problem = floor().replace(constraints=[veil.Probability(formula, **bounds, labels={"x": ["r2c4"]})])
    nothing = np.zeros(problem.num_states, dtype=bool)
    found = [area for area in find_areas(problem, nothing, nothing) if area.role != "secret"]
    assert [(area.role, area.name) for area in found] == [(role, f"{role}: x")]


def test_walls_beyond_the_states_are_not_drawn():
    scene = make_scene(floor())
    assert scene.cells is not None
    assert (scene.cells.corner, scene.size, scene.cells.is_cropped) == ((1, 0), (12.0, 5.0), False)
    assert scene.part == ""


def test_the_border_of_an_area_encloses_its_cells_and_no_others():
    cells = np.array([(0, 0), (0, 1), (1, 1), (3, 3)])
    for inset in (0.0, 0.07):
        lines = outline(cells, inset)
        assert len(lines) == 8 + 4
        ends = np.round(lines.reshape(-1, 2), 6)
        _, count = np.unique(ends, axis=0, return_counts=True)
        assert (count == 2).all()  # closed lines
        for x, y in np.ndindex(5, 5):  # a ray to the right crosses the border an odd number of times from inside
            across, down = x + 0.5, y + 0.5
            crossed = [
                one for one in lines if one[0, 0] == one[1, 0] > across and min(one[:, 1]) < down < max(one[:, 1])
            ]
            assert (len(crossed) % 2 == 1) == ((y, x) in set(map(tuple, cells.tolist())))


def test_marks_do_not_cover_the_probability():
    """Over heat a large area has its border alone, a sign stands in the corner of its cell."""
    problem = floor()
    policy = veil.MarkovPolicy.uniform(problem)
    for figure in (plot.occupancy(problem, policy), plot.policy(problem, policy)):
        for axes in figure.axes:
            texts: list[Any] = [text for text in axes.texts if text.get_text() in ("S", "?", "G", "!")]
            for text in texts:
                x, y = text.get_position()
                assert abs(x % 1 - 0.5) > 0.2
                assert abs(y % 1 - 0.5) > 0.2
            assert [text.get_text() for text in texts].count("?") in (0, 8)
        borders = figure.findobj(lambda artist: (artist.get_gid() or "").startswith("area secret: left"))
        assert borders


def test_the_page_names_cells_with_their_metres_and_draws_areas():
    document: Any = scene_data(make_scene(floor(veil.Frame(0.5, (10.0, 20.0)))))
    scene = document["scene"]
    assert "r2c4 (12.25 m, 22.75 m)" in scene["names"]
    assert {(area["name"], area["sign"]) for area in scene["areas"]} == {
        ("secret: left", ""),
        ("secret: right", "?"),
        ("avoid: lava", "!"),
        ("goal", "G"),
    }
    left = next(area for area in scene["areas"] if area["name"] == "secret: left")
    assert len(left["lines"]) == 4 * 12
    assert "names" in scene
    assert all("m" not in name for name in scene_data(make_scene(floor()))["scene"]["names"])  # type: ignore[index]
