"""Discs and cones of a scenario's sensors on the board: their places in cells, what they cover, and changes of them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool

from ..common.checks import Defects, is_number
from ..formats.scenario.edit import Change
from ..formats.scenario.forms import validated
from ..formats.scenario.models import read_frame, read_shape
from ..formats.scenario.schema import DrawnSensor, Grid
from ..problem.grid.frame import Frame
from ..problem.grid.shapes import COMPASS, Cone
from ..report.page_data import tints
from .routes import Refused

_KINDS = ("disc", "cone")
_DIGITS = 4  # of places and lengths that are written into a scenario


def shape_documents(grid: Grid, free: Bool[np.ndarray, "rows columns"]) -> list[dict[str, Any]]:
    """Each disc and cone of a grid.

    **Returns:** `key`, of its sensor; `kind`; `name`, `colour`, `detection`, `false_alarm`; `given`, its table; `centre`,
    (down, right) from the upper left corner, and `radius`, both in cells; of cones `direction`, counterclockwise from
    right, and `angle`, in degrees; `cells`, those that it covers, each `[row, column, rate in percent]`.
    """
    frame = read_frame(grid, Defects("frame"))
    names = [one.name or key for key, one in grid.sensors.items()]
    found = []
    for (key, sensor), name, tint in zip(grid.sensors.items(), names, tints(names), strict=True):
        about = {
            "key": key,
            "name": name,
            "colour": tint,
            "detection": sensor.detection,
            "false_alarm": sensor.false_alarm,
        }
        placed = _placed(sensor, frame, free)
        if placed is not None:
            found.append(about | placed)
    return found


def _placed(sensor: DrawnSensor, frame: Frame | None, free: Bool[np.ndarray, "rows columns"]) -> dict[str, Any] | None:
    defects, given = Defects("shape"), sensor.cone or sensor.disc
    shape = read_shape(sensor, defects)
    if shape is None or given is None or defects:
        return None
    cells, rates = shape.cover(free, frame, sensor.detection)
    centre = shape.centre[0] + 0.5, shape.centre[1] + 0.5
    if frame is not None:
        centre = frame.to_grid(*shape.centre, len(free))
    document: dict[str, Any] = {
        "kind": "cone" if isinstance(shape, Cone) else "disc",
        "given": given.model_dump(mode="json"),
        "centre": [float(at) for at in centre],
        "radius": shape.radius / (1.0 if frame is None else frame.cell_size),
        "cells": np.column_stack([cells, np.round(100 * rates).astype(int)]).tolist(),
    }
    if isinstance(shape, Cone):
        way = COMPASS[shape.direction] if isinstance(shape.direction, str) else shape.direction
        turned = 0.0 if frame is None else math.degrees(frame.yaw)
        document |= {"direction": (way - turned) % 360, "angle": shape.angle}
    return document


def shape_changes(data: Mapping[str, Any], shape: object) -> list[Change]:
    """The changes that put a disc or a cone where the board has it: `key`, `kind`, `centre`, `radius`, `direction`, in cells.

    **Raises:** `Refused` if it is no such shape, or there is no grid to put it on.
    """
    raw = data.get("grid")
    grid = validated(Grid, raw, Defects("grid")) if isinstance(raw, dict) else None
    if grid is None:
        raise Refused(400, "the grid has defects, or there is none: correct them first")
    if not isinstance(shape, dict) or shape.get("kind") not in _KINDS or not _is_key(shape.get("key")):
        raise Refused(400, "a shape is no object with a key and the kind disc or cone")
    parts: list[Any] = [shape.get("centre"), shape.get("radius"), shape.get("direction", 0)]
    centre, radius, direction = parts
    if not isinstance(centre, list) or len(centre) != 2 or not all(map(is_number, (*centre, radius, direction))):
        raise Refused(400, "a shape has no centre of two numbers, or its radius or direction is no number")
    frame, place = read_frame(grid, Defects("frame")), (centre[0] - 0.5, centre[1] - 0.5)
    length, turned = 1.0, 0.0
    if frame is not None:
        place, length = frame.to_metres(centre[0], centre[1], _rows(grid)), frame.cell_size
        turned = math.degrees(frame.yaw)
    at = ("grid", "sensors", shape["key"], shape["kind"])
    changes: list[Change] = [((*at, "centre"), [_plain(one) for one in place])]
    changes.append(((*at, "radius"), _plain(float(radius) * length)))
    if shape["kind"] == "cone":
        changes.append(((*at, "direction"), _plain((float(direction) + turned) % 360)))
    return changes


def _rows(grid: Grid) -> int:
    return grid.rows or len((grid.drawing or "").strip().splitlines())


def _is_key(given: object) -> bool:
    return isinstance(given, str) and given != ""


def _plain(value: float) -> float:
    """A number with few digits, a whole one without a point."""
    rounded = round(float(value), _DIGITS)
    return int(rounded) if rounded.is_integer() else rounded
