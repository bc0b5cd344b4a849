"""Zones of a map: polygons in metres, and colours of an image; and the texts in which the command line gives places."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from jaxtyping import Bool

from ...common.checks import Defects
from ...common.errors import InputError
from ...problem.grid.frame import Frame, Point, check_point
from .images import read_colours
from .occupancy import block_sums

Zone = str | Sequence[Point]  # a colour of the image, or a polygon
Place = Point | str  # a point in metres, or a zone

_NAMED = {"red": "ff0000", "green": "00ff00", "blue": "0000ff", "yellow": "ffff00", "magenta": "ff00ff", "cyan": "00ffff",
          "orange": "ffa500", "purple": "800080"}  # fmt: skip
_NAMES = {int(code, 16): name for name, code in _NAMED.items()}
_HEX = re.compile(r"#[0-9a-fA-F]{6}$")
_MOST_COLOURS = 64
_MOST_CORNERS = 10_000
_POINT = re.compile(r"[^\s,=]+,[^\s,=]+$")


@dataclass(frozen=True, eq=False)
class Sizes:
    """The size of a map in pixels and in cells: `pixels`, `(rows, columns)`; `factor`, pixels to a side of a cell; `cells`."""

    pixels: tuple[int, int]
    factor: int
    cells: tuple[int, int]


def zone_masks(
    zones: Mapping[str, Zone] | str | Path, image: str | Path | None, sizes: Sizes, frame: Frame, defects: Defects
) -> dict[str, Bool[np.ndarray, "R C"]]:
    """The cells of each zone; every defect is noted.

    A cell lies in a polygon if its centre does, and in a colour if at least half of its pixels have that colour.
    """
    if isinstance(zones, (str, Path)):
        zones, image = {}, zones
    if not isinstance(zones, Mapping):
        defects.add(f"zones are {zones!r}, expected a mapping from names to polygons or colours, or an image")
        return {}
    painted = {} if image is None else _painted(Path(image), sizes, defects)
    names: dict[int, str] = {}
    found: dict[str, np.ndarray] = {}
    for name, zone in zones.items():
        part = defects.under(name)
        if isinstance(zone, str):
            code = _colour(zone)
            if code is None or code not in painted:
                known = ", ".join(_colour_name(one) for one in painted) or "none: give zone_image"
                part.add(f"zone {name!r}: there is no colour {zone!r}, expected one of the image: {known}")
            else:
                names[code] = name
                found[name] = painted[code]
        else:
            found[name] = _polygon(zone, name, sizes, frame, part)
    for code, cells in painted.items():
        if code not in names:
            found[_colour_name(code)] = cells
    for name, cells in found.items():
        if not cells.any() and not defects:
            defects.add(f"zone {name!r} holds the centre of no cell: make it larger, or the cells smaller")
    return found


def _polygon(corners: object, name: str, sizes: Sizes, frame: Frame, defects: Defects) -> np.ndarray:
    """The cells whose centres lie in a polygon, by the even-odd rule."""
    inside = np.zeros(sizes.cells, dtype=bool)
    if not isinstance(corners, (Sequence, np.ndarray)) or not 3 <= len(corners) <= _MOST_CORNERS:
        defects.add(
            f"zone {name!r} is {str(corners)[:80]}, expected a colour, or a polygon of three points (x, y) or more"
        )
        return inside
    listed = corners.tolist() if isinstance(corners, np.ndarray) else corners
    points = [check_point(corner, f"zone {name!r}: corner", defects) for corner in listed]
    if None in points:
        return inside
    placed = np.array([frame.to_grid(*cast(Point, point), sizes.cells[0]) for point in points])
    down, right = np.arange(sizes.cells[0])[:, None] + 0.5, np.arange(sizes.cells[1])[None] + 0.5
    for (y0, x0), (y1, x1) in zip(placed, np.roll(placed, -1, axis=0), strict=True):
        if y0 == y1:
            continue
        crossed = (y0 <= down) != (y1 <= down)
        inside ^= crossed & (right < x0 + (down - y0) * (x1 - x0) / (y1 - y0))
    return inside


def _painted(path: Path, sizes: Sizes, defects: Defects) -> dict[int, np.ndarray]:
    """The cells of each colour of an image that is no grey."""
    pixels = read_colours(path)
    if pixels.shape[:2] != sizes.pixels:
        size, wanted = (f"{shape[1]} × {shape[0]}" for shape in (pixels.shape, sizes.pixels))
        defects.add(f"{path}: the image has {size} pixels, expected the size of the map, {wanted}")
        return {}
    red, green, blue, opaque = (pixels[..., part].astype(np.int32) for part in range(4))
    grey = ((red == green) & (green == blue)) | (opaque == 0)
    codes = np.where(grey, -1, red << 16 | green << 8 | blue)
    colours, count = np.unique(codes[~grey], return_counts=True)
    chosen = colours[np.argsort(-count, kind="stable")][:_MOST_COLOURS]
    area = sizes.factor**2
    found = {int(code): 2 * block_sums(codes == code, sizes.factor) >= area for code in np.sort(chosen)}
    return {code: cells for code, cells in found.items() if cells.any()}  # the rest blurs borders


def _colour(text: str) -> int | None:
    if _HEX.match(text):
        return int(text[1:], 16)
    return int(_NAMED[text], 16) if text in _NAMED else None


def _colour_name(code: int) -> str:
    return _NAMES.get(code, f"#{code:06x}")


def read_zones(text: str, folder: Path) -> Mapping[str, Zone] | Path:
    """Zones as the command line gives them: the path of an image, or `vault: 1,1 4,1 4,3; lab: red`."""
    if ":" not in text or (folder / text).is_file():
        return folder / text
    zones: dict[str, Zone] = {}
    for part in text.split(";"):
        name, colon, rest = (piece.strip() for piece in part.partition(":"))
        if not (name and colon and rest):
            raise InputError("zones", [f"found {part.strip()!r}, expected NAME: x,y x,y x,y … or NAME: COLOUR"])
        words = rest.split()
        zones[name] = rest if len(words) == 1 and "," not in rest else [read_point(word, "zones") for word in words]
    return zones


def read_places(text: str, what: str) -> list[Place]:
    """Places as the command line gives them: points `x,y`, or zones, separated by blanks."""
    return [read_point(word, what) if _POINT.match(word) else word for word in text.split()]


def read_rewards(text: str) -> dict[Place, float]:
    """Places with rewards, `12,8=0.5 dock`; 1 by default."""
    found: dict[Place, float] = {}
    for word in text.split():
        place, equals, reward = word.partition("=")
        try:
            amount = float(reward) if equals else 1.0
        except ValueError:
            raise InputError("goals", [f"found {word!r}, expected PLACE=REWARD, such as 12,8=0.5"]) from None
        found[read_places(place, "goals")[0] if place else ""] = amount
    return found


def read_point(text: str, what: str) -> Point:
    """A point `x,y`."""
    try:
        x, y = map(float, text.split(","))
    except ValueError:
        raise InputError(what, [f"found {text[:40]!r}, expected a point x,y in metres, such as 3.5,2"]) from None
    return x, y
