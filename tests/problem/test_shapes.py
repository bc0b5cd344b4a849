"""Discs and cones on grids: the cells in sight against exact geometry of every line, rates by distance, frames, refusals."""

import itertools
from fractions import Fraction
from math import atan2, degrees, hypot

import numpy as np
import pytest

import veil
from tests.seeds import blocks
from veil.common.errors import InputError
from veil.problem.grid.shapes import in_sight

Point = tuple[Fraction, Fraction]


def crosses_inside(start: Point, end: Point, low: Point, high: Point) -> bool:
    """Whether a segment meets the interior of a rectangle: the parameters at which it is inside, axis by axis."""
    begin, until = Fraction(0), Fraction(1)
    for a, b, bottom, top in zip(start, end, low, high, strict=True):
        if a == b:
            if not bottom < a < top:
                return False
            continue
        first, second = sorted(((bottom - a) / (b - a), (top - a) / (b - a)))
        begin, until = max(begin, first), min(until, second)
    return begin < until


def seen_by_geometry(walls: np.ndarray, start: Point, cell: tuple[int, int]) -> bool:
    """The definition, in fractions: no wall is crossed, no edge between two walls run along, no touching corner passed."""
    rows, columns = walls.shape
    end = (Fraction(2 * cell[0] + 1, 2), Fraction(2 * cell[1] + 1, 2))
    own = next((c for c in np.ndindex(*walls.shape) if all(i < p < i + 1 for i, p in zip(c, start, strict=True))), None)
    is_wall = {c for c in np.ndindex(*walls.shape) if walls[c] and c != own}
    for row, column in is_wall:
        low = (Fraction(row), Fraction(column))
        for height, width in ((1, 1), (2, 1), (1, 2)):  # a wall, and two side by side, whose common edge is inside
            parts = {(row + i, column + j) for i in range(height) for j in range(width)}
            if parts <= is_wall and crosses_inside(start, end, low, (low[0] + height, low[1] + width)):
                return False
    for row, column in itertools.product(range(rows + 1), range(columns + 1)):
        across = (end[0] - start[0]) * (column - start[1]) == (end[1] - start[1]) * (row - start[0])
        within = (row - start[0]) * (row - end[0]) + (column - start[1]) * (column - end[1]) < 0
        if across and within:
            one = {(row - 1, column - 1), (row, column)} <= is_wall
            two = {(row - 1, column), (row, column - 1)} <= is_wall
            if one or two:
                return False
    return True


@pytest.mark.parametrize("block", blocks(20, 400))
def test_the_cells_in_sight_are_those_of_exact_geometry(block: range):
    for seed in block:
        random = np.random.default_rng(seed)
        shape = random.integers(1, 8, 2).tolist()
        walls = random.random(shape) < random.uniform(0.05, 0.5)
        unit = 2 if seed % 2 else 512  # on corners, edges and centres, where lines meet corners; or anywhere
        down, right = (Fraction(int(random.integers(-unit, (n + 1) * unit + 1)), unit) for n in shape)
        cells = np.argwhere(~walls)
        found = in_sight(walls, (float(down), float(right)), cells)
        expected = [seen_by_geometry(walls, (down, right), (row, column)) for row, column in cells.tolist()]
        assert found.tolist() == expected, f"seed {seed}"


def test_a_wall_hides_what_lies_behind_it_and_a_doorway_shows_it():
    drawing = """
        S . # .
        . . . .
        . . # .
    """
    from_left = {"c": veil.Sensor.disc((1, 0), 9)}
    world = veil.GridWorld.from_ascii(drawing, sensors=from_left)
    assert set(np.flatnonzero(world.covered[:, 0])) == {
        world.cells.index(c) for c in world.cells if c[1] < 3 or c[0] == 1
    }
    through = veil.GridWorld.from_ascii(drawing, sensors={"c": veil.Sensor.disc((1, 0), 9, through_walls=True)})
    assert through.covered.all()
    diagonal = veil.GridWorld.from_ascii("S#\n#.", sensors={"c": veil.Sensor.disc((0, 0), 9)})
    assert [diagonal.cells[s] for s in np.flatnonzero(diagonal.covered[:, 0])] == [(0, 0)]


@pytest.mark.parametrize(("direction", "angle"), [("north", 90), (200.0, 30), ("west", 359.0), (45, 360), (-30.0, 60)])
def test_a_cone_is_the_cells_by_distance_and_bearing(direction: float | str, angle: float):
    centre, radius, edge = (4.25, 5.5), 4.1, 0.2
    sensor = veil.Sensor.cone(centre, direction, angle, radius, detection=0.8, edge=edge, false_alarm=0.05)
    world = veil.GridWorld(10, 12, starts=(0, 0), sensors=[sensor])
    ways = {"north": 90, "west": 180}
    facing = ways.get(direction, 0) if isinstance(direction, str) else direction
    for state, (row, column) in enumerate(world.cells):
        distance = hypot(row - centre[0], column - centre[1])
        turn = (degrees(atan2(centre[0] - row, column - centre[1])) - facing + 180) % 360 - 180
        inside = distance <= radius and abs(turn) <= angle / 2 + 1e-9
        assert world.covered[state, 0] == inside
        expected = 0.8 + (edge - 0.8) * distance / radius if inside else 0.05
        assert world.rates[state, 0] == pytest.approx(expected, abs=1e-12)
    report = world.observer().emissions[:, world.observer().observations.find(sensor.name)]
    assert report == pytest.approx(world.rates[:, 0], abs=1e-12)


@pytest.mark.parametrize("yaw", [0.0, 0.7, -2.0])
def test_metres_and_cells_are_inverse_and_a_disc_is_the_same_in_both(yaw: float):
    frame = veil.Frame(0.25, (-3.0, 7.5), yaw)
    plain = veil.GridWorld(7, 9, walls=[(3, 4), (2, 6)], starts=(0, 0), sensors=[veil.Sensor.disc((3, 2), 4, edge=0.1)])
    world = veil.GridWorld(7, 9, walls=[(3, 4), (2, 6)], starts=(0, 0), frame=frame)
    for cell in world.cells:
        assert world.cell(*world.centre(cell)) == cell
        assert world.state_at(*world.centre(world.state(*cell))) == world.state(*cell)
    x, y = world.centre((6, 0))
    assert hypot(x + 3.0, y - 7.5) == pytest.approx(0.125 * 2**0.5)  # the lower left cell lies at the origin
    north = 90 + yaw * 180 / np.pi
    sensors = [
        veil.Sensor.disc(world.centre((3, 2)), 1.0, edge=0.1),
        veil.Sensor.cone(world.centre((5, 4)), north, 80, 1.0),
    ]
    turned = veil.GridWorld(7, 9, walls=[(3, 4), (2, 6)], starts=(0, 0), sensors=sensors, frame=frame)
    up = veil.GridWorld(7, 9, walls=[(3, 4), (2, 6)], starts=(0, 0), sensors=[veil.Sensor.cone((5, 4), "north", 80, 4)])
    assert turned.rates[:, 0] == pytest.approx(plain.rates[:, 0], abs=1e-6)
    assert np.array_equal(turned.covered[:, 1], up.covered[:, 0])


def test_worlds_with_shapes_are_equal_by_content_and_keep_it_in_pictures():
    def make() -> veil.GridWorld:
        sensors = [veil.Sensor.disc((0.6, 0.6), 1.0, name="door")]
        return veil.GridWorld(3, 4, starts=(2, 0), sensors=sensors, zones={"dock": [(0, 0)]}, frame=veil.Frame(0.4))

    assert make() == make()
    problem = make().problem(3, secret="dock")
    assert problem.layout is not None
    assert problem.layout.frame == veil.Frame(0.4)
    assert problem.secret == veil.LastState(["r0c0"])
    assert make().problem(3, secret=["dock"]).secret_values == ("dock", "elsewhere")


@pytest.mark.parametrize(
    ("sensor", "words"),
    [
        (veil.Sensor.disc((1, float("nan")), 2), "centre is"),
        (veil.Sensor.disc((1, 1), -1), "radius is -1"),
        (veil.Sensor.disc((1, 1), 2, edge=1.5), "edge is 1.5"),
        (veil.Sensor.cone((1, 1), "up", 90, 2), "direction is 'up'"),
        (veil.Sensor.cone((1, 1), 0, 0, 2), "angle is 0"),
        (veil.Sensor.disc((100, 1), 2), "covers no free cell"),
        (veil.Sensor.disc((1e300, 1), 2), "centre is"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(sensor: veil.Sensor, words: str):
    with pytest.raises(InputError, match=words):
        veil.GridWorld(3, 3, starts=(0, 0), sensors=[sensor])


def test_points_off_the_grid_and_in_walls_name_the_remedy():
    world = veil.GridWorld(2, 3, walls=[(0, 0)], starts=(1, 0), frame=veil.Frame(1.0))
    with pytest.raises(InputError, match=r"nearest free cell has its centre at \(1.5, 1.5\)|\(0.5, 0.5\)"):
        world.state_at(0.5, 1.5)
    with pytest.raises(InputError, match="lies off the grid"):
        world.cell(-1, 0)
    with pytest.raises(InputError, match="give frame="):
        veil.GridWorld(2, 2, starts=(0, 0)).cell(0, 0)
    with pytest.raises(InputError, match="unknown zone"):
        world.states_in("dock")
