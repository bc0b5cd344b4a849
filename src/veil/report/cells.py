"""The grid that a problem is drawn on: its own, or the one that the names of its states tell; cropped where it is large."""

import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..problem.problem import Problem

MOST_CELLS = 40_000  # of a picture that a browser draws in under a second; of a larger grid the visited part is shown
_LEAST_FULL = 0.2  # the share of a grid's cells that states must hold: names that fill less do not speak of a grid

# How the states of grids are named: by veil and for Gymnasium (r3c4), and by variables, where y points up.
_ROW_COLUMN = (re.compile(r"r(\d{1,4})c(\d{1,4})(?!\w)"), re.compile(r"\brow=(\d{1,4})\b.*?\bcol(?:umn)?=(\d{1,4})\b"))
_X_Y = re.compile(r"\bx=(\d{1,4})\b.*?\by=(\d{1,4})\b")


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows and columns of a picture, and the cell of each state in it.

    **Attributes:** `rows`, `columns` of the picture; `of`, `(S, 2)`, row and column of each state, counted from the
    picture's corner, also of those outside it; `corner`, its row and column in the whole grid; `whole`, the size of that.
    """

    rows: int
    columns: int
    of: Int[np.ndarray, "S 2"]
    corner: tuple[int, int]
    whole: tuple[int, int]

    @property
    def inside(self) -> np.ndarray:
        """Which states lie in the picture."""
        return np.all((self.of >= 0) & (self.of < (self.rows, self.columns)), axis=1)

    @property
    def is_cropped(self) -> bool:
        """Whether the picture is a part of the grid that leaves states out."""
        return not self.inside.all()


def find_cells(problem: Problem, importance: Float[np.ndarray, " S"] | None = None) -> Cells | None:
    """The picture of a grid; None where the problem has none.

    Several states may share a cell, as those of Gymnasium's Taxi do.

    **Arguments:** `importance`: how often each state is visited, by which a large grid is cropped; None: all alike.
    """
    if problem.layout is not None:
        cells, whole = (
            np.array(problem.layout.cells, dtype=int).reshape(-1, 2),
            (problem.layout.rows, problem.layout.columns),
        )
    else:
        found = _named(problem.model.states.all())
        if found is None:
            return None
        cells, whole = found, (int(found[:, 0].max()) + 1, int(found[:, 1].max()) + 1)
    low, high = _free(cells, whole)
    if np.prod(high - low) <= MOST_CELLS:
        return _shown(low, high, cells, whole)
    low, high = _window(cells, np.ones(len(cells)) if importance is None else importance, whole)
    return _shown(low, high, cells, whole)


def _shown(low: np.ndarray, high: np.ndarray, cells: np.ndarray, whole: tuple[int, int]) -> Cells:
    """The picture between two corners."""
    rows, columns = (high - low).tolist()
    return Cells(rows, columns, cells - low, (int(low[0]), int(low[1])), whole)


def _named(names: tuple[str, ...]) -> Int[np.ndarray, "S 2"] | None:
    """Row and column of each state, by its name; None where the names do not all tell them."""
    for pattern in (*_ROW_COLUMN, _X_Y):
        if not pattern.search(names[0]):
            continue
        found = [pattern.search(name) for name in names]
        pairs = np.array([[int(one[1]), int(one[2])] for one in found if one is not None])
        if len(pairs) < len(names):
            continue
        if pattern is _X_Y:
            pairs = np.column_stack([pairs[:, 1].max() - pairs[:, 1], pairs[:, 0]])
        cells = pairs - pairs.min(axis=0)
        distinct, area = len(np.unique(cells, axis=0)), int(np.prod(cells.max(axis=0) + 1))
        return cells if distinct > 1 and distinct >= _LEAST_FULL * area else None
    return None


def _free(cells: np.ndarray, whole: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The corners of the part that has states, with a cell around it: what lies beyond is all wall."""
    return np.maximum(cells.min(axis=0) - 1, 0), np.minimum(cells.max(axis=0) + 2, whole)


def _window(cells: np.ndarray, weight: np.ndarray, whole: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The corners of what is visited, with a cell around it; of too much, a square about its middle."""
    visited = cells[weight > 1e-12] if np.any(weight > 1e-12) else cells
    low = np.maximum(visited.min(axis=0) - 1, 0)
    high = np.minimum(visited.max(axis=0) + 2, whole)
    if np.prod(high - low) <= MOST_CELLS:
        return low, high
    side = int(np.sqrt(MOST_CELLS))
    middle = np.rint(np.average(cells, axis=0, weights=np.maximum(weight, 1e-300))).astype(int)
    low = np.clip(middle - side // 2, 0, np.maximum(np.array(whole) - side, 0))
    return low, np.minimum(low + side, whole)
