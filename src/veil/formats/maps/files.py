"""`veil.from_map`: a map of ROS's map_server as a grid world whose cells are free, with zones, goals and starts in metres."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil, sqrt
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.ndimage as ndimage
from jaxtyping import Bool

from ...common.checks import Defects, is_number
from ...common.errors import InputError, TooLargeError
from ...problem.grid.frame import Frame, check_point
from ...problem.grid.sensors import Cell, Readings, Sensor
from ...problem.grid.world import GridWorld
from ...problem.secrets.last_state import LastState
from ..imported import Imported
from ..scenario.models import grid_model
from .description import MapDescription, read_description
from .images import MapImage, check_inside, read_image
from .occupancy import free_cells, looks_unknown, occupancy
from .zones import Place, Sizes, Zone, read_places, read_rewards, read_zones, zone_masks

MOST_CELLS = 50_000  # as many as a scenario's grid may have


@dataclass(frozen=True, eq=False)
class _Map:
    """A map made into cells: which are free, where they lie, and what there is to say about it."""

    free: Bool[np.ndarray, "R C"]
    sizes: Sizes
    frame: Frame
    notes: tuple[str, ...]


def from_map(
    path: str | Path,
    *,
    cell_size: float | None = None,
    starts: Iterable[Place] | Mapping[Place, float] | Place | None = None,
    goals: Mapping[Place, float] | None = None,
    goals_pay_last: bool = False,
    secrets: Iterable[Place] | Place = (),
    absorbing: Iterable[Place] | Place = (),
    zones: Mapping[str, Zone] | str | Path | None = None,
    zone_image: str | Path | None = None,
    sensors: Iterable[Sensor] = (),
    readings: Readings = "independent",
    min_free: float = 0.5,
    max_occupied: float = 0.0,
    slip: float = 0.1,
    stay: bool = True,
    discount: float = 1.0,
) -> GridWorld:
    """The grid world of a map of ROS's map_server: a `.yaml` file and its image.

    A pixel is free as map_server has it (`occupancy`): by `negate`, the two thresholds and the `mode` of the file; unknown is
    not free. A cell is a square of pixels, counted from the lower left corner. Free cells from which no start can be reached
    become walls.

    **Arguments:**

    - `path`: the `.yaml` file; `.pgm` images need no further library, others need `veil[maps]`.
    - `cell_size`: the side of a cell in metres, rounded to whole pixels; by default one pixel.
    - `starts`: points `(x, y)` in metres or names of zones, equally likely; or a mapping to probabilities. By default every
      free cell of the largest connected part.
    - `goals`: a mapping from points or zones to rewards for each decision there; `secrets`, `absorbing`: points or zones.
    - `zones`: a mapping from names to polygons, lists of points in metres, or to colours of `zone_image`; or an image alone. A
      cell lies in a polygon if its centre does, in a colour if half of its pixels have it. Colours have names (`red`, `green`,
      `blue`, `yellow`, `magenta`, `cyan`, `orange`, `purple`) or `#rrggbb`; grey means nothing.
    - `sensors`: with centres and radii in metres.
    - `min_free`, `max_occupied`: a cell is free if at least this share of its pixels is free, and at most that one occupied.
    - `slip`, `stay`, `readings`, `goals_pay_last`, `discount`: as for `GridWorld`.

    The methods `cell(x, y)`, `state_at(x, y)` and `centre(cell)` of the world convert between metres and cells.

    Cost: linear in the pixels, at most 2^24, and in the cells, at most 50,000.

    **Raises:** `ModelFileError` if a file cannot be read; `InputError` listing every defect; `TooLargeError` if there are too
    many cells; `MissingExtraError`.
    """
    given = {name: value for name, value in locals().items() if name != "path"}
    return _read_world(Path(path), None, **given)[0]


def read_map(path: Path, *, folder: Path | None = None, **options: object) -> Imported:
    """The model of a map, with options as texts: see the format's own list, and `from_map`.

    **Arguments:** `folder`: where its images must lie, and to which paths among the options are relative; None: anywhere, and
    the working folder.
    """
    place = folder or Path()
    readers: dict[str, Callable[[str], object]] = {
        "starts": lambda text: read_places(text, "starts") or None,
        "goals": read_rewards,
        "secrets": lambda text: read_places(text, "secrets"),
        "absorbing": lambda text: read_places(text, "absorbing"),
        "zones": lambda text: read_zones(text, place),
        "zone_image": place.joinpath,
    }
    readers |= {name: lambda text, name=name: _to_truth(text, name) for name in ("stay", "goals_pay_last")}
    given: dict[str, Any] = {
        name: readers[name](str(value)) if name in readers else _to_number(str(value), name)
        for name, value in options.items()
    }
    world, notes = _read_world(path, folder, **given)
    secret = LastState([world.state(*cell) for cell in world.secrets]) if world.secrets else None
    return replace(grid_model(world), source=path.name, kind="map", notes=notes, secret=secret)


def _read_world(
    path: Path,
    folder: Path | None,
    *,
    cell_size: float | None = None,
    min_free: float = 0.5,
    max_occupied: float = 0.0,
    starts: object = None,
    goals: Mapping[Place, float] | None = None,
    secrets: object = (),
    absorbing: object = (),
    zones: Mapping[str, Zone] | str | Path | None = None,
    zone_image: str | Path | None = None,
    **rest: Any,
) -> tuple[GridWorld, tuple[str, ...]]:
    """The world of a map and notes on it; arguments as for `from_map`, and the folder in which its images must lie."""
    defects = Defects(str(path))
    found = _read_cells(path, folder, cell_size, min_free, max_occupied, defects)
    for image in (zones, zone_image):
        if isinstance(image, (str, Path)):
            check_inside(Path(image), folder)
    masks = zone_masks(zones or {}, zone_image, found.sizes, found.frame, defects.under("zones"))
    begin = _chances(starts, found, masks, defects.under("starts"))
    reached = _connected(found, begin, defects)
    notes = reached.notes
    if begin is None:
        cells = _listed(reached.free)
        begin = dict.fromkeys(cells, 1 / len(cells))
        notes = (*notes, f"no start is given: each of {len(cells):,} cells is equally likely")
    paid = _rewards({} if goals is None else goals, reached, masks, defects.under("goals"))
    secret = _all_cells(secrets, reached, masks, "secret", defects.under("secrets"))
    ends = _all_cells(absorbing, reached, masks, "absorbing cell", defects.under("absorbing"))
    defects.raise_if_any()
    world = GridWorld(
        *reached.free.shape,
        walls=_listed(~reached.free),
        starts=begin,
        goals=paid,
        secrets=secret,
        absorbing=ends,
        zones={name: _listed(cells & reached.free) for name, cells in masks.items()},
        frame=found.frame,
        **rest,
    )
    return world, notes


def _read_cells(
    path: Path, folder: Path | None, size: float | None, min_free: float, max_occupied: float, defects: Defects
) -> _Map:
    about = read_description(path)
    for name, share in (("min_free", min_free), ("max_occupied", max_occupied)):
        if not is_number(share) or not 0 <= share <= 1:
            defects.add(f"{name} is {share!r}, expected a share from 0 to 1", name)
    if size is not None and (not is_number(size) or not about.resolution / 2 <= size <= 1e9):
        defects.add(
            f"cell_size is {size!r}, expected metres, at least the resolution {about.resolution:g}", "cell_size"
        )
    defects.raise_if_any()
    factor = 1 if size is None else max(1, round(size / about.resolution))
    check_inside(path.parent / about.image, folder)
    image = read_image(path.parent / about.image)
    values = occupancy(image, about)
    rows, columns = (-(-pixels // factor) for pixels in values.shape)
    if rows * columns > MOST_CELLS:
        enough = about.resolution * ceil(sqrt(values.size / (MOST_CELLS * 0.98)))
        raise TooLargeError(
            f"{path}: the map has {rows:,} × {columns:,} cells of {factor * about.resolution:g} m, expected at most"
            f" {MOST_CELLS:,} cells: give cell_size, such as cell_size={enough:g}"
        )
    free = free_cells(values, factor, min_free, max_occupied)
    if not free.any():
        raise InputError(str(path), [_nothing_free(values, about, factor)])
    frame = Frame(factor * about.resolution, about.origin[:2], about.origin[2])
    return _Map(free, Sizes(values.shape, factor, free.shape), frame, _notes(values, about, image, factor, size))


def _nothing_free(values: np.ndarray, about: MapDescription, factor: int) -> str:
    shares = ", ".join(
        f"{100 * np.mean(values == value):.0f}% {name}" for value, name in ((0, "free"), (100, "occupied"))
    )
    if not (values == 0).any():
        remedy = "look at negate, free_thresh and mode in the file"
    else:
        remedy = "make cell_size smaller, min_free smaller or max_occupied larger"
    return f"no cell of {factor * about.resolution:g} m is free; of the pixels {shares}: {remedy}"


def _notes(values: np.ndarray, about: MapDescription, image: MapImage, factor: int, size: object) -> tuple[str, ...]:
    height, width = values.shape
    notes = [f"{width} × {height} pixels of {about.resolution:g} m; a cell has {factor} × {factor} of them"]
    if is_number(size) and abs(factor * about.resolution - size) > 1e-9 * size:
        notes.append(f"cells have {factor * about.resolution:g} m instead of {size:g} m, a whole number of pixels")
    unknown, remedy = looks_unknown(values, image, about)
    if unknown:
        words = "pixels have the grey 205, which map_saver writes for unknown, and are free by map_server's rule"
        notes.append(f"{unknown:,} {words}: {remedy} makes them unknown")
    return tuple(notes)


def _connected(found: _Map, starts: Mapping[Cell, float] | None, defects: Defects) -> _Map:
    """The map with the free cells that can be reached from a start alone, or those of the largest part."""
    if defects:
        return found
    parts = np.asarray(ndimage.label(found.free)[0])  # pyright: ignore[reportIndexIssue]
    kept = [parts[cell] for cell in starts] if starts else [np.bincount(parts.ravel())[1:].argmax() + 1]
    free = np.isin(parts, kept) & found.free
    lost = int(found.free.sum() - free.sum())
    more = (f"{lost:,} free cells that no start reaches are walls",) if lost else ()
    return replace(found, free=free, notes=(*found.notes, *more))


def _rewards(given: object, found: _Map, masks: Mapping[str, np.ndarray], defects: Defects) -> dict[Cell, float]:
    if not isinstance(given, Mapping):
        defects.add(f"goals are {given!r}, expected a mapping from points or zones to rewards")
        return {}
    goals: dict[Cell, float] = {}
    for place, reward in given.items():
        for cell in _cells_of(place, found, masks, "goal", defects):
            goals[cell] = cast(float, reward)  # which the world checks
    return goals


def _all_cells(given: object, found: _Map, masks: Mapping[str, np.ndarray], what: str, defects: Defects) -> list[Cell]:
    return [cell for place in _places(given) for cell in _cells_of(place, found, masks, what, defects)]


def _chances(given: object, found: _Map, masks: Mapping[str, np.ndarray], defects: Defects) -> dict[Cell, float] | None:
    if given is None:
        return None
    weighted = given if isinstance(given, Mapping) else dict.fromkeys(_places(given), None)
    if not weighted:
        defects.add("there is no start, expected points (x, y) or zones; leave starts out for all cells")
    total: dict[Cell, float] = {}
    for place, weight in weighted.items():
        cells = _cells_of(place, found, masks, "start", defects)
        if weight is not None and not is_number(weight):
            defects.add(f"start {place!r} has the probability {weight!r}, expected a number")
            continue
        for cell in cells:
            total[cell] = total.get(cell, 0.0) + (1.0 if weight is None else weight / len(cells))
    if not isinstance(given, Mapping):
        total = dict.fromkeys(total, 1 / max(len(total), 1))
    return total


def _places(given: object) -> list[Place]:
    """One place or several; a point is a pair of numbers."""
    if isinstance(given, str) or (isinstance(given, (tuple, list)) and len(given) == 2 and all(map(is_number, given))):
        return [cast(Place, given)]
    return [cast(Place, tuple(one) if isinstance(one, list) else one) for one in cast(Iterable[object], given)]


def _cells_of(place: object, found: _Map, masks: Mapping[str, np.ndarray], what: str, defects: Defects) -> list[Cell]:
    """The free cells of a place; a point in a wall, off the map, or a zone that is not known is noted."""
    if isinstance(place, str):
        if place not in masks:
            known = ", ".join(masks) or "there are none"
            defects.add(f"{what} {place!r} is no zone ({known}) and no point x,y")
            return []
        cells = _listed(masks[place] & found.free)
        if not cells:
            defects.add(f"{what} {place!r} holds no free cell that a start reaches")
        return cells
    point = check_point(place, what, defects)
    if point is None:
        return []
    rows, columns = found.free.shape
    down, right = found.frame.to_grid(*point, rows)
    row, column = int(np.floor(down)), int(np.floor(right))
    if 0 <= row < rows and 0 <= column < columns and found.free[row, column]:
        return [(row, column)]
    free = np.argwhere(found.free)
    near = free[((free + 0.5 - (down, right)) ** 2).sum(axis=1).argmin()]
    x, y = found.frame.to_metres(near[0] + 0.5, near[1] + 0.5, rows)
    where = "is not free" if 0 <= row < rows and 0 <= column < columns else "is off the map"
    defects.add(
        f"{what} ({point[0]:g}, {point[1]:g}) {where}: the nearest free cell has its centre at ({x:.6g}, {y:.6g})"
    )
    return []


def _listed(cells: Bool[np.ndarray, "R C"]) -> list[Cell]:
    return [(row, column) for row, column in np.argwhere(cells).tolist()]


def _to_number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(name, [f"found {text[:40]!r}, expected a number"]) from None


def _to_truth(text: str, name: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InputError(name, [f"found {text[:40]!r}, expected true or false"])
    return text.lower() == "true"
