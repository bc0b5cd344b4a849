"""Layouts for freshly seeded worlds: rooms with doors, distances over the free cells, ranges of cameras."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path

import veil

Cell = tuple[int, int]
T = TypeVar("T")
DRAWS = 200  # of layouts, until one has what a problem asks for
PACE = 1.25  # decisions for a cell of way at slip 0.1: four of five moves go ahead


def horizon_of(size: int) -> int:
    """60 decisions at 800 states, 25 at 100 and 165 at 10,000: fewer than the way across, as in the problems asked for."""
    return max(12, round(60 * (size / 800) ** 0.4))


@dataclass(frozen=True)
class Layout:
    """A grid of cells with walls, and its rooms; `doors` are pairs of rooms with the cell between them."""

    rows: int
    columns: int
    walls: frozenset[Cell]
    rooms: tuple[tuple[Cell, ...], ...]
    doors: tuple[tuple[int, int, Cell], ...]

    @cached_property
    def cells(self) -> list[Cell]:
        """The free cells, row by row."""
        return [cell for cell in product(range(self.rows), range(self.columns)) if cell not in self.walls]

    @cached_property
    def number(self) -> dict[Cell, int]:
        """The place of each free cell in `cells`."""
        return {cell: place for place, cell in enumerate(self.cells)}

    @property
    def typical(self) -> int:
        """The side of a typical room."""
        return int(np.sqrt(len(self.cells) / len(self.rooms)))

    @cached_property
    def _graph(self) -> sp.csr_array:
        ends = [(a, b) for (r, c), a in self.number.items() for near in ((r + 1, c), (r, c + 1))
                if (b := self.number.get(near)) is not None]  # fmt: skip
        rows, columns = np.array(ends).T
        return sp.csr_array((np.ones(len(ends)), (rows, columns)), shape=(len(self.cells),) * 2)

    def distances(self, cell: Cell) -> np.ndarray:
        """The moves from a cell to each free cell, infinite where there is no way."""
        return shortest_path(self._graph, directed=False, unweighted=True, indices=self.number[cell])

    def nearest(self, distances: np.ndarray, cells: Iterable[Cell]) -> float:
        """The least of the distances to some cells."""
        return float(min(distances[self.number[cell]] for cell in cells))

    def beside(self, room: int) -> list[int]:
        """The rooms that share a door with a room."""
        return sorted({b if a == room else a for a, b, _ in self.doors if room in (a, b)})

    def inside(self, cells: Iterable[Cell]) -> list[Cell]:
        """Those cells that are on the grid and free, once each, in order."""
        return sorted({cell for cell in cells if cell in self.number})

    def states(self, cells: Iterable[Cell]) -> list[str]:
        """The names of the cells' states in a `veil.GridWorld`."""
        return [f"r{row}c{column}" for row, column in cells]


def draw_rooms(generator: np.random.Generator, size: int, room: tuple[float, float], extra: float) -> Layout:
    """Rooms in rows and columns with about `size` free cells.

    **Arguments:** `room`: the least and most cells from one wall to the next; `extra`: the chance of a door that is not needed
    to reach every room.
    """
    pitch = min(float(generator.uniform(*room)), np.sqrt(size) / 2.4)
    area, stretch = size / (1 - 1 / pitch) ** 2, float(generator.uniform(0.75, 1.35))
    rows, columns = round(np.sqrt(area * stretch)) - 1, round(np.sqrt(area / stretch)) - 1
    across, along = (_cuts(generator, length, pitch) for length in (rows, columns))
    blocks = list(product(pairwise(across), pairwise(along)))
    rooms = tuple(
        tuple(product(range(top + 1, bottom), range(left + 1, right))) for (top, bottom), (left, right) in blocks
    )
    walls = {(r, c) for r, c in product(range(rows), range(columns)) if r in across or c in along}
    doors = _draw_doors(generator, blocks, (len(across) - 1, len(along) - 1), extra)
    return Layout(rows, columns, frozenset(walls - {cell for _, _, cell in doors}), rooms, tuple(doors))


def _cuts(generator: np.random.Generator, length: int, pitch: float) -> list[int]:
    """The rows or columns of walls, with those just outside of the grid at both ends."""
    parts = max(2, round((length + 1) / pitch))
    even = np.linspace(-1, length, parts + 1)
    jitter = generator.integers(-1, 2, size=parts + 1) * (even[1] - even[0] > 4)
    jitter[[0, -1]] = 0
    return np.round(even + jitter).astype(int).tolist()


def _draw_doors(
    generator: np.random.Generator, blocks: Sequence[Any], shape: tuple[int, int], extra: float
) -> list[tuple[int, int, Cell]]:
    down, across = shape
    places = np.arange(down * across).reshape(shape)
    pairs = [*zip(places[:, :-1].ravel(), places[:, 1:].ravel(), strict=True),
             *zip(places[:-1].ravel(), places[1:].ravel(), strict=True)]  # fmt: skip
    joined, result = np.arange(len(blocks)), []
    for number in generator.permutation(len(pairs)):
        one, two = (int(place) for place in pairs[number])
        if joined[one] == joined[two] and generator.random() >= extra:
            continue
        joined[joined == joined[two]] = joined[one]
        (top, bottom), (left, right) = blocks[one]
        if two == one + 1 and across > 1:
            cell = (int(generator.integers(top + 1, bottom)), right)
        else:
            cell = (bottom, int(generator.integers(left + 1, right)))
        result.append((one, two, cell))
    return result


def half_of(generator: np.random.Generator, room: Sequence[Cell]) -> list[Cell]:
    """The half of a room on one of its four sides; in a room one cell wide, along its length."""
    axis, low = int(generator.integers(2)), bool(generator.integers(2))
    axis = axis if len({cell[axis] for cell in room}) > 1 else 1 - axis
    lines = sorted({cell[axis] for cell in room})
    middle = lines[0] + len(lines) / 2
    return [cell for cell in room if (cell[axis] < middle) == low]


def box(centre: Cell, height: int, width: int) -> list[Cell]:
    """The cells of a rectangle around a cell; some may lie off the grid."""
    (row, column), half_height, half_width = centre, height // 2, width // 2
    return list(
        product(
            range(row - half_height, row - half_height + height),
            range(column - half_width, column - half_width + width),
        )
    )


def pick(generator: np.random.Generator, items: Sequence[T]) -> T:
    """One of several items."""
    return items[int(generator.integers(len(items)))]


def draw_ranges(generator: np.random.Generator, plan: Layout, spared: list[list[Cell]], count: int) -> list[list[Cell]]:
    """Rectangles of cells, none of which covers more than half of any of the sets to spare."""
    typical = plan.typical
    result: list[list[Cell]] = []
    while len(result) < count:
        height, width = (int(length) for length in generator.integers(max(2, typical // 2), typical + 3, size=2))
        covered = plan.inside(box(pick(generator, plan.cells), height, width))
        if all(2 * len(set(covered) & set(cells)) <= len(cells) for cells in spared):
            result.append(covered)
    return result


def cameras(
    generator: np.random.Generator, ranges: Sequence[Iterable[Cell]], *, false_alarm: float = 0.0
) -> list[veil.Sensor]:
    """A camera for each range, each with a detection rate from 0.8 to 0.9."""
    rates = generator.uniform(0.8, 0.9, size=len(ranges)).round(3)
    return [
        veil.Sensor(f"camera{number}", list(cells), float(rate), false_alarm)
        for number, (cells, rate) in enumerate(zip(ranges, rates, strict=True))
    ]
