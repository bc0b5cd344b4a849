"""Maps of map_server: its rule by an independent reading, coarse cells, zones and places, and every refusal."""

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.ndimage as ndimage
import yaml
from PIL import Image

import veil
from tests.formats.maps import rooms, write_map, write_pgm
from tests.seeds import looped
from veil.common.errors import InputError, ModelFileError, TooLargeError, VeilError
from veil.formats.registry import read_model


def free_by_the_rule(path: Path) -> np.ndarray:
    """Which pixels map_server publishes as 0, read with PyYAML and Pillow."""
    about = yaml.safe_load(path.read_text())
    image = Image.open(path.parent / about["image"])
    image = image.convert("RGBA") if image.mode == "LA" else image  # grey counts three times, as in ROS's image reader
    bands = [np.asarray(band, dtype=float) for band in image.split()]
    mode = about.get("mode", "trinary")
    alpha = bands[-1] if image.mode in ("RGBA", "LA") else None
    colours = bands if alpha is None or mode == "trinary" else bands[:-1]
    average = sum(colours) / len(colours)
    if mode == "raw":
        return np.rint(average) == 0
    occupied = average / 255 if about["negate"] else (255 - average) / 255
    free = occupied < about.get("free_thresh", 0.196)
    return free & (alpha == 255) if mode == "scale" and alpha is not None else free


def is_free(world: veil.GridWorld) -> np.ndarray:
    free = np.ones((world.rows, world.columns), dtype=bool)
    free[tuple(np.array(world.walls, dtype=int).reshape(-1, 2).T)] = False
    return free


def largest_part(free: np.ndarray) -> np.ndarray:
    parts, _ = ndimage.label(free)  # pyright: ignore[reportGeneralTypeIssues]
    return parts == np.bincount(parts.ravel())[1:].argmax() + 1


MAPS: list[dict[str, Any]] = [
    {},
    {"negate": 1},
    {"mode": "scale", "free_thresh": 0.1, "occupied_thresh": 0.9},
    {"mode": "raw", "negate": 1},
    {"free_thresh": 0.25, "origin": "\n- -1.5\n- 2\n- 0.5"},
    {"free_thresh": 0.0039216, "occupied_thresh": "0.5  # strict"},
    {"kind": "RGB"},
    {"kind": "RGBA"},
    {"kind": "RGBA", "opaque": 1.0},  # map_server counts an alpha of 255 as a fourth, white colour
    {"kind": "RGBA", "mode": "scale"},
    {"kind": "LA", "negate": "1 ", "free_thresh": 0.3, "occupied_thresh": 0.8},
]


@pytest.mark.parametrize("number", range(len(MAPS)))
def test_the_cells_of_a_map_are_free_where_map_server_says_so(number: int, tmp_path: Path):
    about = dict(MAPS[number])
    kind, opaque, pixels = about.pop("kind", None), about.pop("opaque", 0.9), rooms(number)
    if about.get("negate") and about.get("mode") != "raw":
        pixels = 255 - pixels
    if about.get("mode") == "raw":
        pixels = np.where(pixels == 254, 0, pixels)
    path = write_map(tmp_path, pixels, **about)
    if kind is not None:
        random = np.random.default_rng(number)
        parts = [np.clip(pixels + random.integers(-3, 4, pixels.shape), 0, 255) for _ in kind]
        if kind.endswith("A"):
            parts[-1] = np.where(random.random(pixels.shape) < opaque, 255, 128)
        bands = [Image.fromarray(part.astype(np.uint8)) for part in parts]
        Image.merge(kind, bands).save(tmp_path / "map.png")
        path.write_text(path.read_text().replace("map.pgm", "'map.png'"))
    expected = free_by_the_rule(path)
    assert 0.2 < expected.mean() < 0.95
    assert np.array_equal(is_free(veil.from_map(path)), largest_part(expected))


def test_plain_and_wide_images_mean_the_same(tmp_path: Path):
    pixels = rooms(3)
    path = write_map(tmp_path, pixels)
    world = veil.from_map(path)
    write_pgm(tmp_path / "map.pgm", pixels, plain=True)
    assert veil.from_map(path) == world
    head = f"P5 {pixels.shape[1]} {pixels.shape[0]} 65535\n".encode()
    (tmp_path / "map.pgm").write_bytes(head + (pixels * 257).astype(">u2").tobytes())
    assert veil.from_map(path) == world


@pytest.mark.parametrize(("min_free", "max_occupied"), [(0.5, 0.0), (1.0, 0.0), (0.3, 0.2)])
def test_a_coarse_cell_is_free_by_the_shares_of_its_pixels(min_free: float, max_occupied: float, tmp_path: Path):
    pixels, size = rooms(5, 31, 43), 4
    path = write_map(tmp_path, pixels, origin=[1.0, -2.0, 0.0])
    world = veil.from_map(path, cell_size=0.2, min_free=min_free, max_occupied=max_occupied)
    expected = np.zeros((8, 11), dtype=bool)
    for row, column in np.ndindex(8, 11):  # counted from the lower left corner, as the robot's metres are
        low, left = (7 - row) * size, column * size
        block = np.flipud(pixels)[low : low + size, left : left + size]
        occupied = (255 - block) / 255
        expected[row, column] = (
            np.sum(occupied < 0.196) >= min_free * 16 and np.sum(occupied > 0.65) <= max_occupied * 16
        )
    assert np.array_equal(is_free(world), largest_part(expected))
    cell = world.cells[0]
    assert world.centre(cell) == pytest.approx((1.0 + (cell[1] + 0.5) * 0.2, -2.0 + (8 - cell[0] - 0.5) * 0.2))


def open_floor(folder: Path, **about: Any) -> Path:
    """6 m × 4 m of free floor at 0.1 m, with a wall from top to bottom at x = 4 that has a door at y < 1."""
    pixels = np.full((40, 60), 254)
    pixels[:30, 40:41] = 0
    return write_map(folder, pixels, resolution=0.1, **about)


def test_zones_goals_and_starts_are_where_they_are_given(tmp_path: Path):
    path = open_floor(tmp_path)
    zones = {"vault": [(0, 2), (2, 2), (2, 4), (0, 4)], "dock": [(4.9, 0), (6, 0), (6, 1.1)]}
    world = veil.from_map(
        path,
        cell_size=0.5,
        starts=[(0.7, 0.7)],
        goals={"dock": 0.5, (5.2, 3.7): 2.0},
        zones=zones,
        secrets="vault",
        slip=0,
    )
    assert dict(world.starts) == {world.cell(0.7, 0.7): 1.0}
    inside = [cell for cell in world.cells if world.centre(cell)[0] < 2 and world.centre(cell)[1] > 2]
    assert sorted(world.zones["vault"]) == sorted(world.secrets) == sorted(inside)
    corner = [c for c in world.cells if (p := world.centre(c))[0] > 5 and p[1] < p[0] - 4.9]
    assert {cell: reward for cell, reward in world.goals.items() if reward == 0.5} == dict.fromkeys(corner, 0.5)
    assert world.goals[world.cell(5.2, 3.7)] == 2.0
    assert world.problem(4, secret=["vault", "dock"]).secret_values == ("vault", "dock", "elsewhere")


def test_an_image_of_colours_gives_zones(tmp_path: Path):
    path = open_floor(tmp_path)
    paint = np.full((40, 60, 3), 255, dtype=np.uint8)
    paint[:20, :20] = (255, 0, 0)
    paint[35:, 50:] = (1, 2, 3)
    paint[0, 0] = (9, 8, 7)  # as the blur of a border leaves it
    Image.fromarray(paint).save(tmp_path / "zones.png")
    world = veil.from_map(path, cell_size=0.5, zones=tmp_path / "zones.png")
    polygon = veil.from_map(path, cell_size=0.5, zones={"red": [(0, 2), (2, 2), (2, 4), (0, 4)]})
    assert set(world.zones) == {"red", "#010203"}
    assert world.zones["red"] == polygon.zones["red"]
    named = veil.from_map(
        path, cell_size=0.5, zones={"vault": "red", "dock": "#010203"}, zone_image=tmp_path / "zones.png"
    )
    assert named.zones == {"vault": world.zones["red"], "dock": world.zones["#010203"]}


def test_cells_that_no_start_reaches_are_walls(tmp_path: Path):
    pixels = np.full((10, 10), 254)
    pixels[:, 6] = 0
    path = write_map(tmp_path, pixels, resolution=1.0)
    left, right = (veil.from_map(path, starts=[point]) for point in ((0.5, 0.5), (8.5, 0.5)))
    assert (left.num_states, right.num_states) == (60, 30)
    assert "30 free cells that no start reaches are walls" in read_model(path).notes
    with pytest.raises(
        InputError, match=r"goal \(8.5, 0.5\) is not free: the nearest free cell has its centre at \(5.5, 0.5\)"
    ):
        veil.from_map(path, starts=[(0.5, 0.5)], goals={(8.5, 0.5): 1.0})


def test_what_map_saver_wrote_as_unknown_is_noted_where_the_thresholds_make_it_free(tmp_path: Path):
    path = write_map(tmp_path, np.array([[205, 254]]), free_thresh=0.25)
    assert any("1 pixels have the grey 205" in note for note in read_model(path).notes)
    Image.new("RGBA", (2, 1), (205, 205, 205, 255)).save(tmp_path / "map.png")
    path.write_text(path.read_text().replace("map.pgm", "map.png").replace("0.25", "0.196"))
    assert any("an image without alpha makes them unknown" in note for note in read_model(path).notes)


BAD_YAML = [
    ("resolution: 1\norigin: [0, 0, 0]\n", "it has no 'image'"),
    ("image: map.pgm\norigin: [0, 0, 0]\nresolution: 0\n", "resolution is 0"),
    ("image: map.pgm\norigin: [0, 0]\nresolution: 1\n", r"line 2: origin is \['0', '0'\], expected \[x, y, yaw\]"),
    ("image: map.pgm\norigin: [0, 0, .nan]\nresolution: 1\n", "origin: '.nan' found, expected a number"),
    ("image: map.pgm\norigin: [0, 0, 0]\nresolution: 1e999\n", "resolution: '1e999' found"),
    ("image: map.pgm\norigin: [0, 0, 0]\nresolution: 1\nmode: tri\n", "line 4: mode is 'tri'"),
    (
        "image: map.pgm\norigin: [0, 0, 0]\nresolution: 1\nfree_thresh: 0.9\n",
        "free_thresh is 0.9 and occupied_thresh 0.65",
    ),
    ("image: map.pgm\nimage: map.pgm\n", "line 2: the key 'image' is there again"),
    ("image: map.pgm\norigin: [0, 0, 0]\nresolution: 1\nnegate: maybe\n", "negate is 'maybe', expected 0 or 1"),
    ("image: /etc\norigin: [0, 0, 0]\nresolution: 1\n", "/etc.*it is a folder"),
    ("a: &a [x]\n" * 3, "the key 'a' is there again"),
    ("{image: map.pgm}", "expected a line KEY: VALUE"),
    ("image: " + "x" * 70000, "more than 65,536 bytes"),
]


@looped(("text", "words"), BAD_YAML)
def test_a_bad_description_is_refused(text: str, words: str, tmp_path_factory: pytest.TempPathFactory):
    path = write_map(tmp_path_factory.mktemp("map"), rooms(1))
    path.write_text(text)
    with pytest.raises(ModelFileError, match=words):
        veil.from_map(path)


def png(columns: int, rows: int) -> bytes:
    """A PNG that announces a size, with almost no content."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


BAD_IMAGES = [
    ("map.pgm", b"", "it begins with b''"),
    ("map.pgm", b"P6 2 2 255\n" + b"0" * 12, "expected P5 or P2"),
    ("map.pgm", b"P5 3 3 255\n1234", r"it has 4 pixels, expected 3 × 3 = 9"),
    ("map.pgm", b"P5 99999 99999 255\n", "99,999 × 99,999 pixels"),
    ("map.pgm", b"P5 2 2 0\n1234", "its largest value is 0"),
    ("map.pgm", b"P5 1 2 100\n\xff\xff", "a pixel has the value 255, expected at most 100"),
    ("map.pgm", b"P2 2 1 255\n1 -3", "found b'-3', expected whole numbers"),
    ("map.pgm", b"P2 2000 2000 255\n1", "save it as P5"),
    ("map.png", b"no image", "it cannot be read as an image"),
    ("map.png", png(9000, 9000), "9,000 × 9,000 pixels"),
    ("map.png", png(60000, 60000), "decompression bomb"),
    ("map.png", png(500, 500), "it cannot be read as an image"),
    ("map.png", b"%PDF-1.4", "it cannot be read as an image"),
]


@looped(("name", "content", "words"), BAD_IMAGES)
def test_a_bad_image_is_refused(name: str, content: bytes, words: str, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("map")
    path = write_map(folder, rooms(1))
    path.write_text(path.read_text().replace("map.pgm", name))
    (folder / name).write_bytes(content)
    with pytest.raises(ModelFileError, match=words):
        veil.from_map(path)


@pytest.mark.parametrize("block", [range(150), pytest.param(range(150, 1500), marks=pytest.mark.slow)])
def test_damaged_files_give_an_error_of_ours_or_a_world(block: range, tmp_path: Path):
    path = write_map(tmp_path, rooms(2, 8, 9))
    Image.fromarray(rooms(2, 8, 9).astype(np.uint8)).save(tmp_path / "map.png")
    files = {name: (tmp_path / name).read_bytes() for name in ("map.yaml", "map.pgm", "map.png")}
    read = 0
    for seed in block:
        random = np.random.default_rng(seed)
        for name, content in files.items():
            given = bytearray(content)
            if name == ("map.yaml", "map.pgm", "map.png")[seed % 3]:
                for _ in range(random.integers(1, 4)):
                    given[random.integers(len(given))] = random.integers(256)
                given = given[: random.integers(1, len(given) + 1)] if random.random() < 0.3 else given
            if name == "map.yaml" and seed % 3 == 2:
                given = given.replace(b"map.pgm", b"map.png")
            (tmp_path / name).write_bytes(bytes(given))
        try:
            veil.from_map(path)
            read += 1
        except VeilError:
            pass
    assert 0 < read < len(block)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cell_size": -1}, "cell_size is -1"),
        ({"min_free": 2}, "min_free is 2, expected a share"),
        ({"starts": [(9, 9)]}, r"start \(9, 9\) is off the map"),
        ({"starts": "dock"}, r"start 'dock' is no zone \(there are none\)"),
        ({"starts": []}, "there is no start"),
        ({"goals": [(1, 1)]}, "expected a mapping from points or zones to rewards"),
        ({"zones": {"a": [(0, 0), (1, 1)]}}, "a polygon of three points"),
        ({"zones": {"a": [(0, 0), (1, "x"), (1, 1)]}}, "corner is"),
        ({"zones": {"a": [(8, 8), (9, 8), (9, 9)]}}, "zone 'a' holds the centre of no cell"),
        ({"zones": {"a": "red"}}, "none: give zone_image"),
        ({"zones": "other.png"}, "other.png: the file does not exist"),
        ({"sensors": [veil.Sensor.disc((50, 50), 1)]}, "covers no free cell"),
    ],
)
def test_places_that_make_no_sense_are_refused(arguments: dict[str, Any], words: str, tmp_path: Path):
    given: dict[str, Any] = {"cell_size": 0.5} | arguments
    with pytest.raises(VeilError, match=words):
        veil.from_map(open_floor(tmp_path), **given)


def test_too_many_cells_name_a_size_that_fits(tmp_path: Path):
    path = write_map(tmp_path, np.full((300, 400), 254))
    with pytest.raises(TooLargeError) as caught:
        veil.from_map(path)
    size = float(re.findall(r"cell_size=([\d.]+)", str(caught.value))[0])
    assert veil.from_map(path, cell_size=size).num_states > 10_000


def test_a_scenario_reads_no_image_outside_its_folder(tmp_path: Path):
    inner = tmp_path / "inner"
    inner.mkdir()
    write_map(tmp_path, np.full((4, 5), 254), resolution=1.0)
    scenario = inner / "s.toml"
    scenario.write_text(
        'horizon = 2\n[file]\npath = "map.yaml"\noptions = { starts = "0.5,0.5" }\n'
        '[secret]\nkind = "last_state"\nstates = { where = "x>2" }\n'
    )
    (inner / "map.yaml").write_text((tmp_path / "map.yaml").read_text().replace("map.pgm", "../map.pgm"))
    assert veil.load(scenario, allow_outside=True).num_states == 20
    with pytest.raises(InputError, match="leaves the folder of the scenario"):
        veil.load(scenario)
    (inner / "map.yaml").write_text((tmp_path / "map.yaml").read_text())
    (inner / "map.pgm").symlink_to(tmp_path / "map.pgm")
    with pytest.raises(InputError, match="leaves the folder of the scenario"):
        veil.load(scenario)
    (inner / "map.pgm").unlink()
    (inner / "map.pgm").write_bytes((tmp_path / "map.pgm").read_bytes())
    assert veil.load(scenario).layout == veil.from_map(tmp_path / "map.yaml").layout
