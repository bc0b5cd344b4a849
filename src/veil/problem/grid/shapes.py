"""Shapes that sensors cover: discs and cones, with line of sight past walls and detection that falls with distance."""

from dataclasses import dataclass
from math import cos, pi, radians, sin

import numpy as np
from jaxtyping import Bool, Float, Int

from ...common.checks import Defects, is_number
from .frame import Frame, Point, check_point

_UNITS = 512  # of a cell, in which positions are whole numbers, so that lines are compared exactly
_SLACK = 1e-9  # of a cell: a distance may be this much larger than the radius
_FARTHEST = 2**20  # cells from the grid
COMPASS = {"east": 0.0, "north": 90.0, "west": 180.0, "south": 270.0}


@dataclass(frozen=True)
class Disc:
    """All cells whose centres are at most `radius` from `centre` and in sight of it.

    **Arguments:**

    - `centre`, `radius`: in metres, `(x, y)`, if the grid has a `Frame`; else `(row, column)` in cells, where whole numbers are
      the centres of cells.
    - `edge`: the probability of a report at the distance `radius`; between, it changes linearly from the sensor's `detection`
      at the centre. None: `detection` everywhere.
    - `through_walls`: whether walls are ignored, as for radio.

    A cell is in sight if the line from `centre` to its centre passes through no wall, and through no corner at which two
    walls touch. The cell that holds `centre` does not block, so that a camera may hang on a wall. Positions are rounded to
    1/512 of a cell.
    """

    centre: Point
    radius: float
    edge: float | None = None
    through_walls: bool = False

    def check(self, defects: Defects) -> None:
        """Note every defect of the arguments."""
        check_point(self.centre, "centre", defects.under("centre"))
        if not is_number(self.radius) or not 0 <= self.radius < np.inf:
            defects.add(f"radius is {self.radius!r}, expected a number, 0 or more", "radius")
        if self.edge is not None and (not is_number(self.edge) or not 0 <= self.edge <= 1):
            defects.add(f"edge is {self.edge!r}, expected a number from 0 to 1", "edge")

    def cover(
        self, free: Bool[np.ndarray, "rows columns"], frame: Frame | None, detection: float
    ) -> tuple[Int[np.ndarray, "k 2"], Float[np.ndarray, " k"]]:
        """The cells that it covers, and the probability of a report in each."""
        (down, right), scale = _placed(self.centre, frame, len(free))
        if max(abs(down), abs(right)) > _FARTHEST:
            return np.zeros((0, 2), dtype=int), np.zeros(0)
        radius = self.radius / scale
        cells = _near(free, down, right, radius)
        steps = cells + 0.5 - (down, right)
        distance = np.hypot(*steps.T)
        kept = (distance <= radius + _SLACK) & self._faces(steps, distance, frame)
        cells, distance = cells[kept], distance[kept]
        if not self.through_walls and len(cells):
            seen = in_sight(~free, (down, right), cells)
            cells, distance = cells[seen], distance[seen]
        edge = detection if self.edge is None else self.edge
        share = np.minimum(distance / radius, 1.0) if radius > 0 else np.zeros(len(distance))
        return cells, detection + (edge - detection) * share

    def _faces(self, steps: np.ndarray, distance: np.ndarray, frame: Frame | None) -> Bool[np.ndarray, " k"]:
        return np.ones(len(steps), dtype=bool)


@dataclass(frozen=True)
class Cone(Disc):
    """The part of a disc that lies within `angle / 2` degrees of a direction, to either side.

    **Arguments:** as for `Disc`, and `direction`: where it looks, in degrees counterclockwise from east (the x axis), or
    `"east"`, `"north"`, `"west"` or `"south"`; `angle`: the opening angle, in degrees.
    """

    direction: float | str = 0.0
    angle: float = 90.0

    def check(self, defects: Defects) -> None:
        """Note every defect of the arguments."""
        super().check(defects)
        if self.direction not in COMPASS and (not is_number(self.direction) or not np.isfinite(self.direction)):
            expected = "degrees counterclockwise from east, or one of " + ", ".join(COMPASS)
            defects.add(f"direction is {self.direction!r}, expected {expected}", "direction")
        if not is_number(self.angle) or not 0 < self.angle <= 360:
            defects.add(f"angle is {self.angle!r}, expected degrees above 0, at most 360", "angle")

    def _faces(self, steps: np.ndarray, distance: np.ndarray, frame: Frame | None) -> Bool[np.ndarray, " k"]:
        given = COMPASS[self.direction] if isinstance(self.direction, str) else self.direction
        way = radians(given % 360) - (0.0 if frame is None else frame.yaw)
        ahead, aside = steps @ (-sin(way), cos(way)), np.abs(steps @ (cos(way), sin(way)))
        half = radians(self.angle) / 2
        return (np.arctan2(aside, ahead) <= min(half, pi) + _SLACK) | (distance <= _SLACK)


Shape = Disc | Cone


def _placed(centre: Point, frame: Frame | None, rows: int) -> tuple[Point, float]:
    """A point as (down, right) in cells from the upper left corner, and the length of a cell."""
    if frame is None:
        return (centre[0] + 0.5, centre[1] + 0.5), 1.0
    return frame.to_grid(*centre, rows), frame.cell_size


def _near(free: Bool[np.ndarray, "rows columns"], down: float, right: float, radius: float) -> Int[np.ndarray, "k 2"]:
    """The free cells of the square about a point."""
    reach = min(radius, float(2 * _FARTHEST)) + 1
    low = [max(0, int(np.floor(at - reach))) for at in (down, right)]
    high = [max(0, int(np.ceil(at + reach))) for at in (down, right)]
    return np.argwhere(free[low[0] : high[0], low[1] : high[1]]) + low


def in_sight(
    walls: Bool[np.ndarray, "rows columns"], point: Point, cells: Int[np.ndarray, "k 2"]
) -> Bool[np.ndarray, " k"]:
    """Which cells are in sight of a point: see `Disc`; outside the grid nothing blocks.

    **Arguments:** `point`: (down, right) in cells from the upper left corner, where cell (r, c) fills [r, r+1) × [c, c+1).

    Cost: `O(k · n)` for lines over at most n cells; all numbers are whole, so that nothing is rounded after the point is.
    """
    start = np.rint(np.array(point) * _UNITS).astype(np.int64)
    grid = np.pad(walls, 1)  # the ring stands for all that is outside
    own = start // _UNITS
    if np.all(start % _UNITS) and np.all((own >= 0) & (own < walls.shape)):
        grid[own[0] + 1, own[1] + 1] = False
    ends = cells.astype(np.int64) * _UNITS + _UNITS // 2
    flat = np.abs(ends - start)
    seen = np.ones(len(cells), dtype=bool)
    across = flat[:, 1] >= flat[:, 0]
    seen[across] = _clear(grid, start, ends[across])
    seen[~across] = _clear(grid.T, start[::-1], ends[~across, ::-1])
    return seen


def _clear(grid: np.ndarray, start: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Whether each line is clear, none of them steeper than 45°: column by column, in the direction of growing columns."""
    clear = np.ones(len(ends), dtype=bool)
    if not len(ends):
        return clear
    begin, end = np.broadcast_to(start, ends.shape).copy(), ends.copy()
    swap = begin[:, 1] > end[:, 1]
    begin[swap], end[swap] = end[swap], begin[swap]
    rise, run = (end - begin).T
    low = np.maximum(begin[:, 1] // _UNITS, -1)
    high = np.minimum(-(-end[:, 1] // _UNITS), grid.shape[1] - 1)
    for column in range(int(low.min()), int(high.max())):
        here = (column >= low) & (column < high) & clear & (run > 0)
        if here.any():
            clear[here] &= _column_clear(grid, begin[here], end[here], rise[here], run[here], column)
    return clear


def _column_clear(
    grid: np.ndarray, begin: np.ndarray, end: np.ndarray, rise: np.ndarray, run: np.ndarray, column: int
) -> np.ndarray:
    """Whether the part of each line within one column is clear. Heights are exact: whole numbers over `run`."""
    left = np.maximum(begin[:, 1], column * _UNITS)
    right = np.minimum(end[:, 1], (column + 1) * _UNITS)
    first = begin[:, 0] * run + rise * (left - begin[:, 1])
    last = begin[:, 0] * run + rise * (right - begin[:, 1])
    unit = _UNITS * run
    low, high = np.minimum(first, last), np.maximum(first, last)
    top, bottom = low // unit, -(-high // unit) - 1  # the rows whose interior it meets
    level = low == high
    edge = level & (low % unit == 0)  # along the edge between two rows: blocked where both are walls
    top, bottom = np.where(edge, top - 1, top), np.where(level, np.where(edge, low // unit, top), bottom)
    upper, lower = _wall(grid, top, column), _wall(grid, bottom, column)
    clear = ~np.where(edge, upper & lower, upper | lower)
    # The corner at the right end of the column, if the line passes through it.
    corner = (right == (column + 1) * _UNITS) & (right < end[:, 1]) & (right > begin[:, 1]) & (last % unit == 0)
    below = last // unit
    pairs = _wall(grid, below - 1, column) & _wall(grid, below, column + 1)
    pairs |= _wall(grid, below, column) & _wall(grid, below - 1, column + 1)
    return clear & ~(corner & pairs)


def _wall(grid: np.ndarray, row: np.ndarray, column: int) -> np.ndarray:
    """Whether there is a wall, in a grid with a ring around it."""
    inside = np.clip(row + 1, 0, grid.shape[0] - 1)
    return grid[inside, min(max(column + 1, 0), grid.shape[1] - 1)]
