"""The yaml file of a map: a few keys with plain values, read strictly and without a library for all of YAML."""

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Literal

from ...common.errors import ModelFileError
from ...common.suggest import suggestion
from ..text import read_text, shown

_MOST_BYTES = 2**16
_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*:(?:\s+(.*))?$")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")
_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_MODES = ("trinary", "scale", "raw")

Value = tuple[str | list[str], int]  # as it is written, and the line


@dataclass(frozen=True)
class MapDescription:
    """What the yaml file of a map says.

    **Attributes:** `image`, as it is written; `resolution`, metres per pixel; `origin`, x and y of the lower left pixel's
    corner, and the yaw; `negate`: whether black is free; `occupied_thresh`, `free_thresh`; `mode`.
    """

    image: str
    resolution: float
    origin: tuple[float, float, float]
    negate: bool = False
    occupied_thresh: float = 0.65
    free_thresh: float = 0.196
    mode: Literal["trinary", "scale", "raw"] = "trinary"


def read_description(path: Path) -> MapDescription:
    """The description in a file; keys that map_server does not know are left alone.

    **Raises:** `ModelFileError` naming the line.
    """
    found = _Entries(path, _read_values(read_text(path, _MOST_BYTES, "is this the yaml file of a map?"), path))
    for key in ("image", "resolution", "origin"):
        if key not in found.values:
            near = suggestion(key, found.values) if found.values else "the file is empty"
            raise ModelFileError(path, f"it has no {key!r}, which the yaml file of a map needs: {near}")
    origin = found.values["origin"][0]
    if not isinstance(origin, list) or len(origin) != 3:
        raise found.error("origin", f"origin is {origin!r}, expected [x, y, yaw]")
    resolution = found.number("resolution")
    if not 0 < resolution <= 1e6:
        raise found.error("resolution", f"resolution is {resolution:g}, expected metres per pixel")
    mode = found.text("mode", "trinary")
    if mode not in _MODES:
        raise found.error("mode", f"mode is {mode!r}, expected one of {', '.join(_MODES)}")
    free, occupied = found.number("free_thresh", "0.196"), found.number("occupied_thresh", "0.65")
    if not 0 <= free <= occupied <= 1:
        words = f"free_thresh is {free:g} and occupied_thresh {occupied:g}"
        raise ModelFileError(path, f"{words}, expected 0 ≤ free_thresh ≤ occupied_thresh ≤ 1")
    negate = found.text("negate", "0").lower()
    if negate not in _TRUTH:
        raise found.error("negate", f"negate is {shown(negate)}, expected 0 or 1")
    x, y, yaw = (found.to_number(part, "origin") for part in origin)
    return MapDescription(found.text("image"), resolution, (x, y, yaw), _TRUTH[negate], occupied, free, mode)


@dataclass(frozen=True)
class _Entries:
    """The values of a file by key, as texts and numbers; its errors name their lines."""

    path: Path
    values: dict[str, Value]

    def error(self, key: str, message: str) -> ModelFileError:
        return ModelFileError(self.path, message, self.values[key][1] if key in self.values else None)

    def text(self, key: str, default: str = "") -> str:
        text = self.values[key][0] if key in self.values else default
        if not isinstance(text, str):
            raise self.error(key, f"{key} is {text!r}, expected one word or name")
        return text

    def number(self, key: str, default: str = "") -> float:
        return self.to_number(self.text(key, default), key)

    def to_number(self, text: str, key: str) -> float:
        value = float(text) if len(text) < 400 and _NUMBER.match(text) else float("nan")
        if not isfinite(value) or abs(value) > 1e9:
            raise self.error(key, f"{key}: {shown(text)} found, expected a number")
        return value


def _read_values(text: str, path: Path) -> dict[str, Value]:
    """The values of all keys at the top; other lines have to be comments, or parts of keys that are not ours."""
    found: dict[str, Value] = {}
    key: str | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = _without_comment(raw).rstrip()
        if not line or line in ("---", "...") or line.startswith("%"):
            continue
        matched = _KEY.match(line)
        if matched is not None:
            key = str(matched[1])
            if key in found:
                raise ModelFileError(path, f"the key {key!r} is there again, expected once", number)
            found[key] = _value(matched[2] or "", number, path)
            continue
        items = None if key is None else found[key][0]
        if isinstance(items, list) and line.lstrip().startswith("- "):
            items.append(_unquoted(line.lstrip()[2:].strip()))
        elif key is None or not line.startswith((" ", "\t")):
            raise ModelFileError(path, f"found {shown(line.strip())}, expected a line KEY: VALUE", number)
    return found


def _value(text: str, line: int, path: Path) -> Value:
    """A value: text, or a list `[a, b]`; nothing stands for a list that follows, one item a line."""
    text = text.strip()
    if not text:
        return [], line
    if text.startswith("["):
        if not text.endswith("]"):
            raise ModelFileError(path, f"found {shown(text)}, expected a list [a, b, c] on one line", line)
        return [_unquoted(part.strip()) for part in text[1:-1].split(",")], line
    return _unquoted(text), line


def _without_comment(line: str) -> str:
    """A line up to its comment: a `#` at its beginning or after a blank, outside of quotes."""
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and line[:place].rstrip()[-1:] in (":", "[", ",", "-"):
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1] in " \t"):
            return line[:place]
    return line


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
