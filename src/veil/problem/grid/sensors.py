"""Sensors over the states of a grid: which readings can occur where, with what probability, as an observer."""

from collections.abc import Callable, Iterable, Sequence
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
    *,
    most_readings: int = 2**20,
    most_emissions: int = 2**28,
) -> Observer:
    """The observer behind the sensors.

    **Arguments:** `covered`, `(S, sensors)`, which states are in range of which sensor; `most_readings`, of combinations of
    readings in all cells that differ in their sensors; `most_emissions`, of numbers in the dense table, 2 GiB by default; the
    rest as for `GridWorld`.

    Cost: the emissions are dense, `(S, O)`.

    **Raises:** `TooLargeError` beyond these limits, before the table is made.
    """
    kinds, kind = _distinct_rows(covered)
    rates = np.array([(sensor.detection, sensor.false_alarm) for sensor in sensors]).reshape(-1, 2)
    chances = np.where(kinds, rates[:, 0], rates[:, 1])
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
    sensors: Sequence[Sensor], covered: Bool[np.ndarray, "S sensors"], place: Callable[[int], str], defects: Defects
) -> None:
    """Note what `readings="single"` excludes: overlapping ranges, and states whose rates sum to more than 1.

    **Arguments:** `covered`, as for `sensor_observer`; `place`, the words for a state.
    """

    def overlap(state: int) -> str:
        first, second = (sensors[number].name for number in np.flatnonzero(covered[state])[:2])
        return (
            f"{place(int(state))} is in range of sensors {first!r} and {second!r}, expected one with readings='single':"
            " separate the ranges, or use readings='independent'"
        )

    defects.add_each(np.flatnonzero(covered.sum(axis=1) > 1), overlap)
    alarms = sum(sensor.false_alarm for sensor in sensors)
    totals = {"a state in no range": alarms} if not covered.any(axis=1).all() else {}
    for sensor in (sensors[number] for number in np.flatnonzero(covered.any(axis=0)).tolist()):
        totals[f"a state in range of sensor {sensor.name!r}"] = alarms - sensor.false_alarm + sensor.detection
    for words, total in totals.items():
        if total > 1 + SUM_TOLERANCE:
            defects.add(
                f"{words} has a report with probability {total:.12g} in all, expected at most 1 with"
                " readings='single': lower the rates, or use readings='independent'"
            )


def _distinct_rows(covered: Bool[np.ndarray, "S sensors"]) -> tuple[np.ndarray, Int[np.ndarray, " S"]]:
    """The distinct rows, and for each row of `covered` its place among them."""
    code = np.zeros(len(covered), dtype=np.int64)
    for column in covered.T:  # renumbered after each sensor, so that any number of sensors fits an integer
        code = np.unique(2 * code + column, return_inverse=True)[1]
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    return covered[first], place


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
