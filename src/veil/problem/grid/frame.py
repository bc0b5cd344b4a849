"""Where a grid lies in the world: the size of its cells in metres, and the pose of its lower left corner."""

from dataclasses import dataclass
from math import cos, isfinite, sin

from ...common.checks import Defects, is_number

Point = tuple[float, float]

_LARGEST = 1e9  # metres


@dataclass(frozen=True)
class Frame:
    """The coordinates of a grid, as in ROS's map files: x to the right, y up, in metres.

    **Arguments:** `cell_size`: the side of a cell, in metres; `origin`: x and y of the lower left corner of the grid; `yaw`: by
    how many radians the grid is turned counterclockwise about that corner.

    **Raises:** `InputError` listing every defect.
    """

    cell_size: float
    origin: Point = (0.0, 0.0)
    yaw: float = 0.0

    def __post_init__(self) -> None:
        defects = Defects("frame of a grid")
        if not is_number(self.cell_size) or not 0 < self.cell_size <= _LARGEST:
            defects.add(f"cell_size is {self.cell_size!r}, expected the side of a cell in metres, above 0", "cell_size")
        point = check_point(self.origin, "origin", defects.under("origin"))
        if not is_number(self.yaw) or not abs(self.yaw) <= _LARGEST:
            defects.add(f"yaw is {self.yaw!r}, expected an angle in radians", "yaw")
        defects.raise_if_any()
        assert point is not None
        object.__setattr__(self, "cell_size", float(self.cell_size))
        object.__setattr__(self, "origin", point)
        object.__setattr__(self, "yaw", float(self.yaw))

    def to_grid(self, x: float, y: float, rows: int) -> Point:
        """Metres as (down, right) from the upper left corner of a grid of so many rows, in cells."""
        across, up = x - self.origin[0], y - self.origin[1]
        right = (cos(self.yaw) * across + sin(self.yaw) * up) / self.cell_size
        high = (cos(self.yaw) * up - sin(self.yaw) * across) / self.cell_size
        return rows - high, right

    def to_metres(self, down: float, right: float, rows: int) -> Point:
        """The inverse of `to_grid`."""
        across, up = right * self.cell_size, (rows - down) * self.cell_size
        x = self.origin[0] + cos(self.yaw) * across - sin(self.yaw) * up
        return x, self.origin[1] + sin(self.yaw) * across + cos(self.yaw) * up


def check_point(value: object, what: str, defects: Defects) -> Point | None:
    """A pair of finite numbers; None with the defect noted."""
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(map(is_number, value)):
        first, second = float(value[0]), float(value[1])
        if isfinite(first) and isfinite(second) and max(abs(first), abs(second)) <= _LARGEST:
            return first, second
    defects.add(f"{what} is {value!r}, expected two numbers (x, y), at most {_LARGEST:g} in size")
    return None
