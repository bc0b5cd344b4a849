"""The grid of a scenario as cells that can be painted: the characters in each, what they mean, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..common.checks import Defects
from ..formats.scenario.edit import Change
from ..formats.scenario.forms import validated
from ..formats.scenario.schema import MOST_CELLS, Grid
from ..problem.grid.drawing import SIGNS, read_tokens
from ..report.page_data import tints
from .shapes import shape_documents

_FREE = "123456789ABCDEFHIJKLMNOPQRTUVWYZ"  # characters for goals and starts that are given by their cells
_LISTS = ("rows", "columns", "walls", "starts", "goals", "secrets", "absorbing")


def grid_document(data: Mapping[str, object]) -> dict[str, Any] | None:
    """The grid of parsed tables, also of tables with defects; None where there is none that can be drawn.

    **Returns:** `rows`, `columns`; `cells`, a list of rows of texts, each the characters in a cell, empty where a line of the
    drawing is too short; `signs`, every character with `sign`, `roles` (words of a drawing, characters of sensors), `reward`,
    `weight`, `zone`, and of sensors `name`, `detection`, `false_alarm` and `colour`; `shapes`, those of `shape_documents`.
    """
    found = _Cells.of(data)
    if found is None:
        return None
    columns = max(map(len, found.rows))
    return {
        "kind": "grid",
        "rows": len(found.rows),
        "columns": columns,
        "cells": [[*row, *[""] * (columns - len(row))] for row in found.rows],
        "signs": found.signs(),
        "shapes": found.shapes(),
    }


def painted(data: Mapping[str, object], cells: Sequence[Sequence[str]]) -> list[Change]:
    """The changes of a scenario's tables after which its drawing shows these cells; lists of cells become characters in it."""
    found = _Cells.of(data)
    changes: list[Change] = [(("grid", "drawing"), drawing_text(cells))]
    grid = data.get("grid")
    if found is None or found.grid is None or not isinstance(grid, dict):
        return changes
    changes += [(("grid", "legend", sign), meaning) for sign, meaning in found.added.items()]
    changes += [(("grid", key), None) for key in _LISTS if key in grid]
    ranged = [sign for sign, sensor in found.grid.sensors.items() if sensor.cells and len(sign) == 1]
    return changes + [(("grid", "sensors", sign, "cells"), None) for sign in ranged]


def drawing_text(cells: Sequence[Sequence[str]]) -> str:
    """The drawing of cells, with columns in line."""
    widths = [max(len(row[column]) for row in cells) for column in range(min(map(len, cells)))]
    lines = (" ".join((token or ".").ljust(width) for token, width in zip(row, widths, strict=True)) for row in cells)
    return "".join(f"  {line.rstrip()}\n" for line in lines)


class _Cells:
    """The characters in each cell: those drawn, and those that stand for lists of cells.

    **Attributes:** `grid`, the checked table, None where its form has defects; `added`, meanings of characters that the legend
    does not have yet.
    """

    def __init__(self, raw: Mapping[str, Any], grid: Grid | None, rows: list[list[str]]):
        self._raw, self.grid, self.rows = raw, grid, rows
        self.added: dict[str, dict[str, object]] = {}
        if grid is not None:
            self._take_lists(grid)

    @classmethod
    def of(cls, data: Mapping[str, object]) -> "_Cells | None":
        raw = data.get("grid")
        if not isinstance(raw, dict):
            return None
        grid, drawing = validated(Grid, raw, Defects("grid")), raw.get("drawing")
        if isinstance(drawing, str) and drawing.strip() and len(drawing) <= 4 * MOST_CELLS:
            rows = read_tokens(drawing, Defects("drawing"))
        elif grid is not None and grid.rows and grid.columns and grid.rows * grid.columns <= MOST_CELLS:
            rows = [["."] * grid.columns for _ in range(grid.rows)]
        else:
            return None
        if len(rows) * max(map(len, rows)) > MOST_CELLS:
            return None
        return cls(raw, grid, [list(row) for row in rows])

    def signs(self) -> list[dict[str, Any]]:
        """Every character and its meaning, in the order in which tools are offered."""
        reward = self.grid.goal_reward if self.grid is not None else None
        found = [_sign(sign, [word], reward=reward if word == "goal" else None) for sign, word in SIGNS.items()]
        sensors, shaped = self._sensors(), self._shaped()
        for (sign, about), tint in zip(
            sensors.items(), tints([str(one["name"]) for one in sensors.values()]), strict=True
        ):
            if len(sign) > 1 or sign in shaped:
                continue  # a name, or a disc or a cone, which are not painted
            found.append(_sign(sign, [sign], colour=tint, **about))
        for sign, meaning in ({} if self.grid is None else self.grid.legend).items():
            found.append(
                _sign(
                    sign, list(meaning.roles), reward=meaning.reward, weight=meaning.weight, zone=meaning.zone or None
                )
            )
        for sign, added in self.added.items():
            found.append(_sign(sign, [str(added["is"])], reward=added.get("reward"), weight=added.get("weight")))
        return found

    def shapes(self) -> list[dict[str, Any]]:
        """The discs and cones, with what they cover by the walls as they are painted; none while the grid has defects."""
        if self.grid is None or len({len(row) for row in self.rows}) != 1:
            return []
        walls = {sign for sign, meaning in self.grid.legend.items() if "wall" in meaning.roles} | {"#"}
        return shape_documents(self.grid, np.array([[not walls & set(token) for token in row] for row in self.rows]))

    def _shaped(self) -> set[str]:
        """The keys of sensors that are a disc or a cone and nothing else."""
        if self.grid is None:
            return set()
        drawn = {sign for row in self.rows for token in row for sign in token}
        given = self.grid.sensors.items()
        return {key for key, one in given if (one.disc or one.cone) and not one.cells and key not in drawn}

    def _sensors(self) -> dict[str, dict[str, object]]:
        if self.grid is None:
            raw = self._raw.get("sensors")
            return {sign: {"name": sign} for sign in (raw if isinstance(raw, dict) else ())}
        return {
            sign: {"name": one.name or sign, "detection": one.detection, "false_alarm": one.false_alarm}
            for sign, one in self.grid.sensors.items()
        }

    def _take_lists(self, grid: Grid) -> None:
        for cell in grid.walls:
            self._put(cell, "#")
        for cell in grid.secrets:
            self._put(cell, "?")
        for cell in grid.absorbing:
            self._put(cell, "X")
        for start in grid.starts:
            self._put(start.cell, "S" if start.weight == 1 else self._meaning("start", "weight", start.weight))
        for goal in grid.goals:
            same = goal.reward == grid.goal_reward
            self._put(goal.cell, "G" if same else self._meaning("goal", "reward", goal.reward))
        for sign, sensor in grid.sensors.items():
            for cell in sensor.cells if len(sign) == 1 else ():
                if self._at(cell) != "#":  # no state, where a range makes no difference
                    self._put(cell, sign)

    def _meaning(self, role: str, key: str, value: float) -> str:
        """A character that means a role with this reward or weight: one of the legend, or a new one."""
        assert self.grid is not None
        for sign, meaning in self.grid.legend.items():
            if meaning.roles == (role,) and getattr(meaning, key) == value:
                return sign
        for sign, added in self.added.items():
            if added == {"is": role, key: value}:
                return sign
        taken = {*SIGNS, *self.grid.sensors, *self.grid.legend, *self.added}
        sign = next((sign for sign in _FREE if sign not in taken), "") or _unused(taken)
        self.added[sign] = {"is": role, key: value}
        return sign

    def _at(self, cell: tuple[int, int]) -> str | None:
        row, column = cell
        return self.rows[row][column] if row < len(self.rows) and column < len(self.rows[row]) else None

    def _put(self, cell: tuple[int, int], sign: str) -> None:
        there = self._at(cell)
        if there is None or sign in there:
            return
        alone = sign == "#" or there in (".", "#")
        self.rows[cell[0]][cell[1]] = sign if alone else there + sign


def _sign(sign: str, roles: list[str], **about: object) -> dict[str, Any]:
    return {"sign": sign, "roles": roles} | {key: value for key, value in about.items() if value is not None}


def _unused(taken: set[str]) -> str:
    """A character beyond those that a keyboard has."""
    return next(sign for sign in map(chr, range(0x2460, 0x3000)) if sign not in taken)
