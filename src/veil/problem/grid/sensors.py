"""Sensors over the states of a grid: which readings can occur where, with what probability, as an observer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from ...common.checks import SUM_TOLERANCE, Defects
from ...common.errors import TooLargeError
from ..observer import Observer

Cell = tuple[int, int]
Readings = Literal["independent", "single"]

SILENT = "0"
JOIN = "+"
_MOST_UNDECIDED = 16  # sensors that may report or not in one cell: 2^16 combinations of readings
_MOST_EMISSIONS = 2**28  # numbers in the dense emissions: 2 GiB


@dataclass(frozen=True)
class Sensor:
    """A sensor that covers some cells.

    **Arguments:** `name`, shown in the observations; `cells`, its range; `detection`, the probability that it reports
    when the agent is in range; `false_alarm`, the probability that it reports when the agent is not.
    """

    name: str
    cells: Iterable[Cell]
    detection: float = 0.9
    false_alarm: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.cells, Iterable) and not isinstance(self.cells, str):
            object.__setattr__(self, "cells", tuple(self.cells))  # a generator would be used up by the first reader


def sensor_observer(
    sensors: Sequence[Sensor],
    covered: Bool[np.ndarray, "S sensors"],
    readings: Readings,
    sees_actions: bool = False,
    sees_initial: bool = True,
) -> Observer:
    """The observer behind the sensors.

    **Arguments:** `covered`, `(S, sensors)`, which states are in range of which sensor; the rest as for `GridWorld`.

    Cost: the emissions are dense, `(S, O)`.

    **Raises:** `TooLargeError` where the combinations of readings are more than a table can hold.
    """
    kinds, kind = _distinct_rows(covered)
    rates = np.array([(sensor.detection, sensor.false_alarm) for sensor in sensors]).reshape(-1, 2)
    chances = np.where(kinds, rates[:, 0], rates[:, 1])
    if readings == "independent":
        _check_undecided(chances)
    law_of = _independent_law if readings == "independent" else _single_law
    laws = [law_of(row) for row in chances.tolist()]
    alphabet = sorted({0}.union(*laws))
    if len(kind) * len(alphabet) > _MOST_EMISSIONS:
        raise TooLargeError(
            f"emissions of {len(kind)} states and {len(alphabet)} observations would take"
            f" {len(kind) * len(alphabet) * 8 / 2**30:.1f} GiB: use fewer sensors, or readings='single'"
        )
    table = np.array([[law.get(reading, 0.0) for reading in alphabet] for law in laws])
    names = {r: JOIN.join(s.name for j, s in enumerate(sensors) if r >> j & 1) or SILENT for r in alphabet}
    # A reading whose rest cannot occur keeps its own name: nothing else would be shown by the other name, so muting
    # the sensor tells the observer the same either way.
    muted = {
        sensor.name: {names[r]: names[r ^ 1 << j] for r in alphabet if r >> j & 1 and r ^ 1 << j in names}
        for j, sensor in enumerate(sensors)
    }
    return Observer(table[kind], list(names.values()), sees_actions, sees_initial, silent=SILENT, sensors=muted)


def check_single(sensors: Sequence[Sensor], cells: Iterable[Cell], defects: Defects) -> None:
    """Note every reason why at most one sensor a step cannot be: overlaps, and cells whose rates exceed 1 in all."""
    owner: dict[Cell, int] = {}
    for number, sensor in enumerate(sensors):
        for cell in sensor.cells:
            if cell in owner:
                defects.add(
                    f"cell {cell} is in range of sensors {sensors[owner[cell]].name!r} and {sensor.name!r},"
                    " expected one with readings='single': separate the ranges, or use readings='independent'"
                )
            owner[cell] = number
    alarms = sum(sensor.false_alarm for sensor in sensors)
    for number in dict.fromkeys(map(owner.get, cells)):
        sensor = None if number is None else sensors[number]
        total = alarms if sensor is None else alarms - sensor.false_alarm + sensor.detection
        if total > 1 + SUM_TOLERANCE:
            place = "a cell in no range" if sensor is None else f"a cell in range of sensor {sensor.name!r}"
            defects.add(
                f"{place} has a report with probability {total:.12g} in all, expected at most 1 with"
                " readings='single': lower the rates, or use readings='independent'"
            )


def _distinct_rows(covered: Bool[np.ndarray, "S sensors"]) -> tuple[np.ndarray, Int[np.ndarray, " S"]]:
    """The distinct rows, and for each row of `covered` its place among them."""
    code = np.zeros(len(covered), dtype=np.int64)
    for column in covered.T:  # renumbered after each sensor, so that any number of sensors fits an integer
        code = np.unique(2 * code + column, return_inverse=True)[1]
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return covered[first], place


def _check_undecided(chances: Float[np.ndarray, "kinds sensors"]) -> None:
    undecided = int(((chances > 0) & (chances < 1)).sum(axis=1).max(initial=0))
    if undecided > _MOST_UNDECIDED:
        raise TooLargeError(
            f"{undecided} sensors may report or not in one cell, which gives 2^{undecided} combinations of readings,"
            f" expected at most 2^{_MOST_UNDECIDED}: use fewer false alarms, fewer overlaps, or readings='single'"
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
