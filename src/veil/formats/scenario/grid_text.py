"""A grid world as the text of a scenario: drawn, with its zones, goals and sensors as people would write them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...common.errors import TooLargeError
from ...problem.grid.drawing import SIGNS
from ...problem.grid.sensors import Cell, Sensor
from ...problem.grid.shapes import Cone
from ...problem.grid.world import GridWorld
from .edit import Change, edit
from .text import MOST_BYTES
from .toml import Row, table_lines, text_of, value_of

_SIGNS = "ABCDEFHIJKLMNOPQRTUVWYZabcdefghijklmnopqrstuvwxyz0123456789"
_DEFAULTS = {"slip": 0.1, "stay": True, "goals_pay_last": False, "readings": "independent", "discount": 1.0}


@dataclass
class _Drawing:
    """The characters of each cell, and what those beyond `SIGNS` mean."""

    cells: list[list[str]]
    legend: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])

    def put(self, cells: Iterable[Cell], sign: str) -> None:
        for row, column in cells:
            self.cells[row][column] += sign

    def new_sign(self, wanted: str) -> str:
        """A character that means nothing yet, of a name if possible."""
        taken = {*SIGNS, *self.legend}
        letters = [letter for letter in wanted.upper() + wanted.lower() if letter in _SIGNS]
        later = map(chr, range(0x2460, 0x3000))
        return next(sign for sign in (*letters, *_SIGNS, *later) if sign not in taken)


def grid_scenario(
    world: GridWorld,
    name: str,
    horizon: int,
    secret: Mapping[str, object],
    changes: Sequence[Change] = (),
    story: Sequence[str] = (),
) -> str:
    """The text of a scenario in a grid world.

    **Arguments:** `secret`: the table `[secret]`; `changes`: keys of the scenario and values in place of those written;
    `story`: lines of a comment above it.

    **Raises:** `TooLargeError` beyond the size of a scenario's file.
    """
    drawing = _Drawing([[""] * world.columns for _ in range(world.rows)])
    settings: dict[str, object] = {
        key: getattr(world, key) for key, usual in _DEFAULTS.items() if getattr(world, key) != usual
    }
    drawing.put(world.walls, "#")
    _draw_starts(drawing, world)
    settings |= _draw_goals(drawing, world)
    drawing.put(world.secrets, "?")
    drawing.put(world.absorbing, "X")
    for zone, cells in world.zones.items():
        sign = drawing.new_sign(zone)
        drawing.legend[sign] = {"is": "floor", "zone": zone}
        drawing.put((cell for cell in cells if "#" not in drawing.cells[cell[0]][cell[1]]), sign)
    if world.frame is not None:
        settings |= {"cell_size": world.frame.cell_size, "origin": list(world.frame.origin)}
        settings |= {"yaw": world.frame.yaw} if world.frame.yaw else {}
    lines = [f"# {line}".rstrip() for line in story] + [f"name = {text_of(name)}", f"horizon = {horizon}", "", "[grid]"]
    lines += ['drawing = """', *_rows(drawing.cells), '"""', *table_lines(settings)]
    if drawing.legend:
        lines += ["", "[grid.legend]"]
        lines += [f"{text_of(sign)} = {value_of(meaning)}" for sign, meaning in drawing.legend.items()]
    for sensor in world.sensors:
        lines += table_lines(_sensor(sensor), f"grid.sensors.{text_of(_key(sensor))}")
    lines += table_lines({key: _inline(value) for key, value in secret.items()}, "secret")
    text = edit("\n".join([*lines, ""]), changes)
    if len(text.encode()) > MOST_BYTES:
        words = f"its text would have {len(text.encode()):,} bytes, expected at most {MOST_BYTES:,}: use larger cells"
        raise TooLargeError(f"scenario {name}: {words}")
    return text


def _inline(value: object) -> object:
    return Row({key: _inline(one) for key, one in value.items()}) if isinstance(value, Mapping) else value


def _rows(cells: list[list[str]]) -> list[str]:
    """The lines of the drawing, its columns in line."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    return [
        " ".join((token or ".").ljust(width) for token, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _draw_starts(drawing: _Drawing, world: GridWorld) -> None:
    weights = sorted(set(world.starts.values()), reverse=True)
    for number, weight in enumerate(weights):
        sign = "S" if number == 0 and len(weights) == 1 else drawing.new_sign("s")
        if sign != "S":
            drawing.legend[sign] = {"is": "start", "weight": weight}
        drawing.put((cell for cell, given in world.starts.items() if given == weight), sign)


def _draw_goals(drawing: _Drawing, world: GridWorld) -> dict[str, object]:
    """The goals as `G` where they pay what most pay, else by a character for each reward."""
    rewards = list(world.goals.values())
    if not rewards:
        return {}
    usual = max(dict.fromkeys(rewards), key=rewards.count)
    for reward in dict.fromkeys(rewards):
        sign = "G" if reward == usual else drawing.new_sign("g")
        if sign != "G":
            drawing.legend[sign] = {"is": "goal", "reward": reward}
        drawing.put((cell for cell, given in world.goals.items() if given == reward), sign)
    return {"goal_reward": usual} if usual != 1.0 else {}


def _key(sensor: Sensor) -> str:
    """The key of a sensor: its name, unless that is one character, which would have to be drawn."""
    return sensor.name if len(sensor.name) > 1 else f"sensor {sensor.name}"


def _sensor(sensor: Sensor) -> dict[str, object]:
    shape = sensor.shape
    table: dict[str, object] = {"name": sensor.name} if len(sensor.name) == 1 else {}
    table |= {"detection": sensor.detection} | ({"false_alarm": sensor.false_alarm} if sensor.false_alarm else {})
    table |= {"cells": [list(cell) for cell in sensor.cells]} if sensor.cells or shape is None else {}
    if shape is None:
        return table
    about = {name: value for name, value in vars(shape).items() if value is not None and value is not False}
    return table | {"cone" if isinstance(shape, Cone) else "disc": about}
