"""Sensors over the states of a grid: which readings can occur where, with what probability, as an observer."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from jaxtyping import Bool, Float, Int

from ...common.checks import SUM_TOLERANCE, Defects
from ...common.errors import TooLargeError
from ..observer import Observer
from .frame import Point
from .shapes import Cone, Disc, Shape

Cell = tuple[int, int]
Readings = Literal["independent", "single"]

SILENT = "0"
JOIN = "+"


@dataclass(frozen=True)
class Sensor:
    """A sensor that covers some cells: those that are listed, and those of a shape.

    **Arguments:** `name`, shown in the observations; `cells`, its range; `detection`, the probability that it reports
    when the agent is in range; `false_alarm`, the probability that it reports when the agent is not; `shape`, a further part of
    its range, which `Sensor.disc` and `Sensor.cone` make.
    """

    name: str
    cells: Iterable[Cell] = ()
    detection: float = 0.9
    false_alarm: float = 0.0
    shape: Shape | None = None

    def __post_init__(self) -> None:
        if isinstance(self.cells, Iterable) and not isinstance(self.cells, str):
            object.__setattr__(self, "cells", tuple(self.cells))  # a generator would be used up by the first reader

    @classmethod
    def disc(
        cls,
        centre: Point,
        radius: float,
        *,
        name: str | None = None,
        detection: float = 0.9,
        edge: float | None = None,
        false_alarm: float = 0.0,
        through_walls: bool = False,
    ) -> "Sensor":
        """A sensor that covers the cells within `radius` of `centre` that it can see.

        **Arguments:** `centre`, `radius`: in metres, `(x, y)`, on a map or a grid with a `Frame`; else `(row, column)`, cells.
        `name`: by default `disc` and the centre. `detection`: the probability of a report at the centre; `edge`: at the
        distance `radius`, linear between; by default the same. `through_walls`: whether it covers cells out of sight.
        `veil.problem.grid.shapes.Disc` says exactly which cells are in sight.
        """
        shape = Disc(_pair(centre), radius, edge, through_walls)
        return cls(name or _name("disc", centre), (), detection, false_alarm, shape)

    @classmethod
    def cone(
        cls,
        centre: Point,
        direction: float | str,
        angle: float,
        radius: float,
        *,
        name: str | None = None,
        detection: float = 0.9,
        edge: float | None = None,
        false_alarm: float = 0.0,
        through_walls: bool = False,
    ) -> "Sensor":
        """A camera: the part of a disc within `angle / 2` degrees of a direction.

        **Arguments:** as for `disc`, and `direction`, in degrees counterclockwise from east (the x axis), or `"north"`,
        `"south"`, `"west"` or `"east"`; `angle`, the opening angle in degrees.
        """
        shape = Cone(_pair(centre), radius, edge, through_walls, direction, angle)
        return cls(name or _name("cone", centre), (), detection, false_alarm, shape)


def _pair(centre: Point) -> Point:
    return cast(Point, tuple(centre)) if isinstance(centre, (list, np.ndarray)) else centre


def _name(kind: str, centre: object) -> str:
    """A name that tells the sensors of one kind apart."""
    try:
        x, y = cast(Point, centre)
        return f"{kind} {x:g},{y:g}"
    except (TypeError, ValueError):
        return kind  # which the world refuses, with the reason


def rates_of(sensors: Sequence[Sensor], covered: Bool[np.ndarray, "S sensors"]) -> Float[np.ndarray, "S sensors"]:
    """The probability that each sensor reports in each state, where its detection is the same in its whole range."""
    rates = np.array([(sensor.detection, sensor.false_alarm) for sensor in sensors]).reshape(-1, 2)
    return np.where(covered, rates[:, 0], rates[:, 1])


def sensor_observer(
    sensors: Sequence[Sensor],
    rates: Float[np.ndarray, "S sensors"],
    readings: Readings,
    sees_actions: bool = False,
    sees_initial: bool = True,
    *,
    most_readings: int = 2**20,
    most_emissions: int = 2**28,
) -> Observer:
    """The observer behind the sensors.

    **Arguments:** `rates`, `(S, sensors)`, the probability that a sensor reports in a state; `most_readings`, of combinations
    of readings in all cells that differ in their rates; `most_emissions`, of numbers in the dense table, 2 GiB by default; the
    rest as for `GridWorld`.

    Cost: the emissions are dense, `(S, O)`.

    **Raises:** `TooLargeError` beyond these limits, before the table is made.
    """
    chances, kind = _distinct_rows(rates)
    if readings == "independent":
        _check_readings(chances, most_readings)
    law_of = _independent_law if readings == "independent" else _single_law
    laws = [law_of(row) for row in chances.tolist()]
    alphabet = sorted({0}.union(*laws))
    if len(kind) * len(alphabet) > most_emissions:
        raise TooLargeError(
            f"emissions of {len(kind):,} states and {len(alphabet):,} observations have {len(kind) * len(alphabet):,}"
            f" numbers, expected at most {most_emissions:,}: use fewer sensors, or readings='single'"
        )
    place = {reading: number for number, reading in enumerate(alphabet)}
    table = np.zeros((len(laws), len(alphabet)))
    for row, law in zip(table, laws, strict=True):
        row[[place[reading] for reading in law]] = list(law.values())
    names = {r: JOIN.join(s.name for j, s in enumerate(sensors) if r >> j & 1) or SILENT for r in alphabet}
    # A reading whose rest cannot occur keeps its own name: nothing else would be shown by the other name, so muting
    # the sensor tells the observer the same either way.
    muted = {
        sensor.name: {names[r]: names[r ^ 1 << j] for r in alphabet if r >> j & 1 and r ^ 1 << j in names}
        for j, sensor in enumerate(sensors)
    }
    return Observer(table[kind], list(names.values()), sees_actions, sees_initial, silent=SILENT, sensors=muted)


def check_single(
    sensors: Sequence[Sensor],
    covered: Bool[np.ndarray, "S sensors"],
    rates: Float[np.ndarray, "S sensors"],
    place: Callable[[int], str],
    defects: Defects,
) -> None:
    """Note what `readings="single"` excludes: overlapping ranges, and states whose rates sum to more than 1.

    **Arguments:** `covered`, which states are in range of which sensor; `rates`, as for `sensor_observer`; `place`, the words
    for a state.
    """

    def overlap(state: int) -> str:
        first, second = (sensors[number].name for number in np.flatnonzero(covered[state])[:2])
        return (
            f"{place(int(state))} is in range of sensors {first!r} and {second!r}, expected one with readings='single':"
            " separate the ranges, or use readings='independent'"
        )

    defects.add_each(np.flatnonzero(covered.sum(axis=1) > 1), overlap)
    totals: dict[str, float] = {}
    for state, total in enumerate(rates.sum(axis=1).tolist()):
        number = next(iter(np.flatnonzero(covered[state]).tolist()), None)
        words = "a state in no range" if number is None else f"a state in range of sensor {sensors[number].name!r}"
        totals[words] = max(total, totals.get(words, 0.0))
    for words, total in totals.items():
        if total > 1 + SUM_TOLERANCE:
            defects.add(
                f"{words} has a report with probability {total:.12g} in all, expected at most 1 with"
                " readings='single': lower the rates, or use readings='independent'"
            )


def _distinct_rows(rates: Float[np.ndarray, "S sensors"]) -> tuple[np.ndarray, Int[np.ndarray, " S"]]:
    """The distinct rows, and for each row of `rates` its place among them."""
    code = np.zeros(len(rates), dtype=np.int64)
    for column in rates.T:  # renumbered after each sensor, so that any number of sensors fits an integer
        values, number = np.unique(column, return_inverse=True)
        code = np.unique(len(values) * code + number, return_inverse=True)[1]
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return rates[first], place


def _check_readings(chances: Float[np.ndarray, "kinds sensors"], most: int) -> None:
    undecided = ((chances > 0) & (chances < 1)).sum(axis=1)
    combinations = float((2.0**undecided).sum())
    if combinations > most:
        raise TooLargeError(
            f"the sensors have {combinations:,.0f} combinations of readings ({undecided.max()} of them may report or not in"
            f" one cell), expected at most {most:,}: use fewer false alarms, fewer overlaps, or readings='single'"
        )


def _independent_law(chances: Sequence[float]) -> dict[int, float]:
    """The probability of each set of reports that can occur; bit j of its key says that sensor j reports."""
    law = {0: 1.0}
    for sensor, chance in enumerate(chances):
        silent = {reading: value * (1 - chance) for reading, value in law.items() if chance < 1}
        reports = {reading | 1 << sensor: value * chance for reading, value in law.items() if chance > 0}
        law = silent | reports
    return law


def _single_law(chances: Sequence[float]) -> dict[int, float]:
    """The probability of each report, of which there is at most one; keys as for `_independent_law`."""
    reports = {1 << sensor: chance for sensor, chance in enumerate(chances) if chance > 0}
    rest = 1 - sum(reports.values())
    # Rates that fill 1 leave a rounding, which must not become an observation that can occur.
    return reports | ({0: rest} if rest > np.finfo(float).eps * len(chances) else {})
