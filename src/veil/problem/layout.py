"""Where the states lie in a picture: the cells of a grid, for drawing only; no number depends on it."""

from dataclasses import dataclass

from ..common.checks import Defects
from .grid.frame import Frame
from .grid.sensors import Cell


@dataclass(frozen=True)
class Layout:
    """A grid of `rows × columns` with a distinct cell for each state; a cell without a state is a wall.

    **Arguments:** `rows`, `columns`; `cells`: `(row, column)` of each state, in the order of the states, row 0 at the top;
    `frame`: where the grid lies in metres, if that is known.
    """

    rows: int
    columns: int
    cells: tuple[Cell, ...]
    frame: Frame | None = None

    def check(self, num_states: int, defects: Defects) -> None:
        """Note every way in which the cells do not fit the states."""
        if len(self.cells) != num_states:
            defects.add(f"the layout has {len(self.cells)} cells, expected one for each of the {num_states} states")
        if len(set(self.cells)) != len(self.cells):
            defects.add("two states share a cell of the layout, expected distinct cells")
        outside = [cell for cell in self.cells if not (0 <= cell[0] < self.rows and 0 <= cell[1] < self.columns)]
        if outside:
            defects.add(f"cell {outside[0]} of the layout is outside the grid of {self.rows} × {self.columns}")
