"""Drawings of grids in ASCII: which cells hold what, with the line and column of every defect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from ...common.checks import Defects
from .sensors import Cell, Sensor

SIGNS = {".": "floor", "#": "wall", "S": "start", "G": "goal", "?": "secret", "X": "absorbing"}
_WORDS = tuple(SIGNS.values())
_SETTINGS = {field.name for field in fields(Sensor)} - {"cells", "shape"}


@dataclass(frozen=True)
class Drawing:
    """A drawing that was read: its size, the cells of each word of `SIGNS`, the sensors with their ranges, and the cells in
    which each character is drawn.
    """

    rows: int
    columns: int
    places: Mapping[str, list[Cell]]
    sensors: list[Sensor]
    signs: Mapping[str, list[Cell]]


def read_drawing(
    drawing: object,
    sensors: Mapping[str, Mapping[str, str | float] | Sensor],
    legend: Mapping[str, str | Sequence[str]],
    defects: Defects,
) -> Drawing:
    """What a drawing holds.

    **Arguments:** as for `GridWorld.from_ascii`; every defect is noted in `defects`.
    """
    ranged = _read_sensors(sensors, defects)
    meaning = _read_legend(legend, ranged, defects)
    places: dict[str, list[Cell]] = {key: [] for key in (*_WORDS, *ranged)}
    signs: dict[str, list[Cell]] = {}
    tokens = read_tokens(drawing, defects)
    for row, line in enumerate(tokens):
        for column, token in enumerate(line):
            _place(token, row, column, meaning, places, defects)
            for sign in dict.fromkeys(token):
                signs.setdefault(sign, []).append((row, column))
    drawn = [replace(sensor, cells=(*sensor.cells, *places.pop(sign))) for sign, sensor in ranged.items()]
    return Drawing(len(tokens), len(tokens[0]) if tokens else 0, places, drawn, signs)


def read_tokens(drawing: object, defects: Defects) -> list[list[str]]:
    """The cells of a drawing, each with its characters; every defect of form is noted, with its row."""
    if not isinstance(drawing, str) or not drawing.strip():
        defects.add(f"the drawing is {drawing!r}, expected a string with one line a row")
        return []
    lines = [line.strip() for line in drawing.strip().splitlines()]
    spaced = any(len(line.split()) > 1 for line in lines)
    tokens = [line.split() if spaced else list(line) for line in lines]
    for number, line in enumerate(tokens, 1):
        if len(line) != len(tokens[0]):
            defects.add(
                f"line {number} has {len(line)} cells, expected {len(tokens[0])} as line 1 has:"
                f" {'spaces separate cells' if spaced else 'each character is a cell'}",
                number - 1,
            )
    return tokens


def _place(
    token: str,
    row: int,
    column: int,
    meaning: Mapping[str, Sequence[str]],
    places: Mapping[str, list[Cell]],
    defects: Defects,
) -> None:
    where = f"line {row + 1}, column {column + 1}"
    found: dict[str, None] = {}
    for character in token:
        if character in meaning:
            found.update(dict.fromkeys(meaning[character]))
        else:
            known = " ".join(meaning)
            defects.add(
                f"{where}: {character!r} has no meaning, expected one of {known}: describe it in sensors or legend",
                row,
                column,
            )
    if "wall" in found and len(found) > 1:
        others = ", ".join(repr(key) for key in found if key != "wall")
        defects.add(f"{where}: {token!r} is a wall and also {others}, expected a wall to stand alone", row, column)
    for key in found:
        places[key].append((row, column))


def _read_sensors(given: object, defects: Defects) -> dict[str, Sensor]:
    if not isinstance(given, Mapping):
        defects.add(f"sensors are {given!r}, expected a mapping from a character to the settings of a sensor")
        return {}
    sensors = {}
    for sign, settings in given.items():
        if not _good_sign(sign, "sensor", defects):
            continue
        if isinstance(settings, Sensor):
            sensors[sign] = settings
        elif not isinstance(settings, Mapping) or not set(settings) <= _SETTINGS:
            defects.add(
                f"sensor {sign!r} has the settings {settings!r}, expected a mapping with the keys"
                f" {', '.join(sorted(_SETTINGS))}, or a Sensor"
            )
        else:
            sensors[sign] = Sensor(**({"name": sign, "cells": ()} | dict(settings)))
    return sensors


def _read_legend(given: object, sensors: Mapping[str, Sensor], defects: Defects) -> dict[str, tuple[str, ...]]:
    meaning: dict[str, tuple[str, ...]] = {sign: (word,) for sign, word in SIGNS.items()}
    meaning.update((sign, (sign,)) for sign in sensors)
    if not isinstance(given, Mapping):
        defects.add(f"legend is {given!r}, expected a mapping from a character to its meaning")
        return meaning
    for sign, roles in given.items():
        if not _good_sign(sign, "legend", defects):
            continue
        if sign in sensors:
            defects.add(f"legend {sign!r} is the character of a sensor too, expected another character")
            continue
        listed = (roles,) if isinstance(roles, str) else tuple(roles)
        for role in listed:
            if role not in _WORDS and role not in sensors:
                known = ", ".join((*_WORDS, *sensors))
                defects.add(f"legend {sign!r} means {role!r}, expected a word or a sensor among {known}")
        meaning[sign] = tuple(role for role in listed if role in _WORDS or role in sensors)
    return meaning


def _good_sign(sign: object, what: str, defects: Defects) -> bool:
    if not isinstance(sign, str) or len(sign) != 1 or sign.isspace():
        defects.add(f"{what} {sign!r}: expected one character that is not a blank")
        return False
    if sign in SIGNS:
        defects.add(f"{what} {sign!r}: the character means {SIGNS[sign]!r} in every drawing, expected another one")
        return False
    return True
