"""The pane Draw without a page: defects with their places, drawings there and back, changes, and files that are opened."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.maps import write_map
from veil.common.errors import InputError, VeilError
from veil.formats.gallery import names, scenario_text, starter
from veil.formats.scenario.load import read_scenario
from veil.problem.fingerprint import fingerprint
from veil.studio import drawing
from veil.studio.drawing import checked
from veil.studio.routes import Refused
from veil.studio.state import Studio

DATA = Path(__file__).parent.parent / "formats" / "data"
TIGER = (DATA / "tiger.pomdp").read_text()
LISTS = """
horizon = 3

[grid]
rows = 3
columns = 4
walls = [[1, 1]]
starts = [{ cell = [0, 0] }, { cell = [2, 0], weight = 2.0 }]
goals = [{ cell = [0, 3], reward = 0.5 }, { cell = [2, 3], reward = 1.0 }]
secrets = [[2, 3]]

[grid.sensors.c]
cells = [[1, 1], [1, 2]]
"""


def test_every_problem_of_the_gallery_is_drawn():
    for name in names():
        found = checked(scenario_text(name), name, None)
        assert found["defects"] == [], name
        assert found["drawing"]["kind"] == ("grid" if "\n[grid]" in scenario_text(name) else "scene"), name


def test_painting_what_is_there_changes_no_problem(studio: Studio):
    for text in (LISTS, starter("grid"), *map(scenario_text, ("office-patrol", "delivery-order"))):
        cells = checked(text, "x", None)["drawing"]["cells"]
        painted = drawing.change({"text": text, "cells": cells}, studio)
        assert painted["defects"] == [], text
        assert painted["drawing"]["cells"] == cells, text
        assert fingerprint(read_scenario(painted["text"]).problem) == fingerprint(read_scenario(text).problem), text


def test_lists_of_cells_become_characters(studio: Studio):
    cells = checked(LISTS, "x", None)["drawing"]["cells"]
    assert cells == [["S", ".", ".", "2"], [".", "#", "c", "."], ["1", ".", ".", "?G"]]
    text = drawing.change({"text": LISTS, "cells": cells}, studio)["text"]
    assert "  S . . 2\n  . # c .\n  1 . . ?G\n" in text
    assert "walls" not in text
    assert "cells" not in text


def defect(text: str) -> dict[str, Any]:
    found = checked(text, "x", None)["defects"]
    assert len(found) == 1
    return found[0]


def test_a_defect_of_a_cell_has_its_line_and_cell():
    text = starter("grid").replace("  .   #   c   .", "  .   #   q   .")
    found = defect(text)
    assert text.splitlines()[found["line"] - 1].split()[2] == "q"
    assert found["cell"] == [1, 2]
    assert "'q' has no meaning" in found["message"]


def test_a_line_that_is_too_short_is_drawn_with_a_hole():
    found = checked(starter("grid").replace("  .   #   c   .", "  .   #   c"), "x", None)
    assert found["drawing"]["cells"][1] == [".", "#", "c", ""]
    assert found["defects"][0]["cell"] == [1, 0]


def test_a_defect_of_a_key_has_its_line():
    for old, new, line, words in (
        ("slip = 0.1 ", "slip = 0.9 ", "slip = 0.9", "at most 0.5"),
        ('kind = "last_state"', 'kind = "last"', 'kind = "last"', "last_state"),
        ("horizon = 6", "horizon = 6 6", "horizon = 6 6", "not TOML"),
    ):
        text = starter("grid").replace(old, new)
        found = defect(text)
        assert text.splitlines()[found["line"] - 1].startswith(line), new
        assert words in found["message"], new


def test_a_defect_that_names_a_cell_is_there():
    text = LISTS.replace("secrets = [[2, 3]]", "secrets = [[1, 1]]")
    found = defect(text)
    assert found["cell"] == [1, 1]
    assert text.splitlines()[found["line"] - 1].startswith(("secrets", "[grid"))


def test_sensors_are_added_set_and_removed(studio: Studio):
    added = drawing.change(
        {"text": starter("grid"), "changes": [{"at": ["grid", "sensors", "x"], "value": {"detection": 0.5}}]}, studio
    )
    assert next(one for one in added["drawing"]["signs"] if one["sign"] == "x")["detection"] == 0.5
    cells = [[token.replace("c", "") or "." for token in row] for row in added["drawing"]["cells"]]
    gone = drawing.change(
        {"text": added["text"], "changes": [{"at": ["grid", "sensors", "c"], "value": None}], "cells": cells}, studio
    )
    assert gone["defects"] == []
    assert "north camera" not in gone["text"]


WRONG_CHANGES: list[dict[str, object]] = [
    {"changes": 3},
    {"changes": [{"at": "horizon", "value": 3}]},
    {"changes": [{"at": [], "value": 3}]},
    {"changes": [{"at": [3], "value": 3}]},
    {"changes": [{"at": ["x"], "value": [None]}]},
    {"changes": [{"at": ["x"], "value": [[[[[[1]]]]]]}]},
    {"cells": []},
    {"cells": [["S"], ["S", "."]]},
    {"cells": [["S G"]]},
    {"cells": [[3]]},
    {"text": 3},
    {"text": "\ud800"},
]


def test_wrong_requests_are_refused(studio: Studio):
    for request in WRONG_CHANGES:
        with pytest.raises((Refused, VeilError)):
            drawing.change(request, studio)


def test_the_gallery_and_files_are_opened(studio: Studio, tmp_path: Path):
    assert [one["name"] for one in drawing.show_gallery({}, studio)["problems"]] == list(names())
    assert drawing.open_another({"gallery": "office-patrol"}, studio)["text"] == studio.scenario
    assert studio.name == "office-patrol"
    path = tmp_path / "mine.toml"
    path.write_text(LISTS)
    assert drawing.open_another({"path": str(path)}, studio)["name"] == "mine"
    assert studio.base == tmp_path
    with pytest.raises(InputError, match="unknown problem"):
        drawing.open_another({"gallery": "office"}, studio)
    with pytest.raises(VeilError, match="extension"):
        drawing.open_another({"name": "x.exe", "text": "x"}, studio)


def test_options_of_a_model_file(studio: Studio):
    corridor = {"name": "corridor.drn", "text": (DATA / "corridor.drn").read_text(), "secret": "index=0"}
    with pytest.raises(VeilError, match="reward_model"):
        drawing.open_another(corridor, studio)
    with pytest.raises(VeilError, match="NAME=VALUE"):
        drawing.open_another(corridor | {"options": "gold"}, studio)
    opened = drawing.open_another(corridor | {"options": "reward_model=gold"}, studio)
    assert opened["facts"]["states"] == 4


def test_a_model_file_needs_a_secret(studio: Studio):
    before = studio.scenario
    asked = drawing.open_another({"name": "tiger.pomdp", "text": TIGER}, studio)
    assert asked["needs"] == "secret"
    assert any(line.startswith("state: ") for line in asked["variables"])
    assert studio.scenario == before
    opened = drawing.open_another({"name": "tiger.pomdp", "text": TIGER, "secret": "index=0", "horizon": 2}, studio)
    assert opened["drawing"]["kind"] == "scene"
    assert read_scenario(studio.scenario).problem.horizon == 2
    with pytest.raises(VeilError, match=r"^tiger.pomdp"):  # no word of the folder in which it was read
        drawing.open_another({"name": "tiger.pomdp", "text": "states: \x00", "secret": "index=0"}, studio)


NOT_OPENED: list[dict[str, object]] = [
    {"path": "a\0b.toml"},
    {"path": ""},
    {"path": "/nowhere/at/all.toml"},
    {"path": "/dev/null.pomdp"},
    {"name": "../../x\0.pomdp", "text": "x"},
    {"name": "x.pomdp", "text": 3},
    {"name": "x.pomdp", "text": TIGER, "secret": 3},
    {"name": "x.pomdp", "text": TIGER, "secret": "index=0", "horizon": "soon"},
    {"name": "x.pomdp", "text": TIGER, "secret": "import os"},
    {"gallery": ["two-rooms"]},
]


def test_what_cannot_be_opened_is_refused_and_leaves_the_scenario(studio: Studio):
    before = studio.scenario
    for request in NOT_OPENED:
        with pytest.raises((Refused, VeilError)):
            drawing.open_another(request, studio)
        assert studio.scenario == before, request


def test_a_text_beyond_the_limit_of_a_file_is_refused(studio: Studio):
    with pytest.raises(Refused, match="characters"):
        drawing.check({"text": "#" * (2**20 + 1)}, studio)


FRAMED = """
horizon = 3
[grid]
drawing = '''
S . # .
. . . G
'''
cell_size = 0.5
[grid.sensors.lobby]
disc = { centre = [0.25, 0.75], radius = 2, edge = 0.1 }
detection = 0.9
[secret]
kind = "last_state"
states = "r1c3"
"""


def test_what_discs_and_cones_cover_is_shown_and_survives_painting(studio: Studio):
    found = checked(FRAMED, "framed", None)
    assert found["defects"] == []
    (shape,) = found["drawing"]["shapes"]
    assert shape["name"] == "lobby"
    assert [cell[:2] for cell in shape["cells"]] == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [1, 3]]
    assert shape["cells"][0] == [0, 0, 90]
    assert all(len(one["sign"]) == 1 for one in found["drawing"]["signs"])
    cells = [row[:] for row in found["drawing"]["cells"]]
    cells[1][1] = "#"
    painted = drawing.change({"text": FRAMED, "changes": [], "cells": cells}, studio)
    assert painted["defects"] == []
    assert "lobby" in painted["text"]
    behind = [cell[:2] for cell in painted["drawing"]["shapes"][0]["cells"]]
    assert behind == [[0, 0], [0, 1], [1, 0]]  # the new wall touches the other one at a corner


def test_a_map_is_opened_as_a_drawing(studio: Studio, tmp_path: Path):
    path = write_map(tmp_path, np.full((20, 30), 254), resolution=0.5)
    opened = drawing.open_another({"path": str(path), "options": "cell_size=1", "secret": "x>10 & y>5"}, studio)
    assert opened["defects"] == []
    assert (opened["drawing"]["rows"], opened["drawing"]["columns"]) == (10, 15)
    assert opened["facts"]["horizon"] == 10


def test_a_shape_is_put_where_the_board_has_it(studio: Studio):
    """A disc in metres and a cone in cells are moved there and back, and the text says what the board shows."""
    for size in ("", "cell_size = 0.5\norigin = [0.1, -0.2]\nyaw = 0.1\n"):
        text = FRAMED.replace("cell_size = 0.5\n", size)
        key = {"at": ["grid", "sensors", "eye"], "value": {"detection": 0.8}}
        moved = {"key": "eye", "kind": "cone", "centre": [0.5, 3.5], "radius": 2.5, "direction": 200.0}
        found = drawing.change({"text": text, "changes": [key], "shape": moved}, studio)
        assert found["defects"] == []
        shape = next(one for one in found["drawing"]["shapes"] if one["key"] == "eye")
        for name in ("centre", "radius", "direction"):
            assert shape[name] == pytest.approx(moved[name], abs=1e-3), (size, name)
        grid = read_scenario(found["text"]).problem.layout
        assert grid is not None
        again = drawing.change({"text": found["text"], "shape": shape}, studio)
        assert again["text"] == found["text"]


WRONG_SHAPES: list[object] = [
    3,
    {},
    {"key": "eye", "kind": "square", "centre": [0, 0], "radius": 1},
    {"key": "eye", "kind": "disc", "centre": [0], "radius": 1},
    {"key": "eye", "kind": "disc", "centre": [0, "x"], "radius": 1},
    {"key": "", "kind": "disc", "centre": [0, 0], "radius": 1},
    {"key": "eye", "kind": "cone", "centre": [0, 0], "radius": 1, "direction": "up"},
]


def test_wrong_shapes_are_refused(studio: Studio):
    for shape in WRONG_SHAPES:
        with pytest.raises(Refused):
            drawing.change({"text": FRAMED, "shape": shape}, studio)
    with pytest.raises(Refused, match="grid"):
        drawing.change(
            {"text": "horizon = 3\n", "shape": {"key": "a", "kind": "disc", "centre": [0, 0], "radius": 1}}, studio
        )
