"""What a run reported: its newest numbers, how they moved, and the points of a frontier; few enough for a page."""

import math
from pathlib import Path
from typing import Any

from ..common.json_text import parse_json

_MOST_MOMENTS = 1_200  # as many as a chart has pixels; then every second one is dropped
_MOST_BYTES = 2**23  # of the events of a run that are read again, its newest
_NUMBERS = ("seconds", "bits", "expected_return", "proven_upper", "iteration", "of")


class Record:
    """The reports of one run.

    **Attributes:** `latest`, the newest numbers; `moments`, rows (seconds, bits, return, upper bound), None for what is not
    known; `points`, pairs (return, bits).
    """

    def __init__(self) -> None:
        self.latest: dict[str, Any] = {}
        self.moments: list[list[float | None]] = []
        self.points: list[list[float]] = []
        self._every, self._count = 1, 0
        self._before = 0.0  # seconds of the processes before this one

    def read(self, path: Path) -> None:
        """Take in the reports that a file keeps; lines that are damaged are left out."""
        try:
            with open(path, "rb") as file:
                file.seek(max(0, path.stat().st_size - _MOST_BYTES))
                for line in file:
                    self.take(line)
        except OSError:
            return

    def take(self, line: bytes) -> str:
        """Take in a line; returns why the run failed where it says so, else an empty text."""
        try:
            event = parse_json(line)
        except ValueError:
            return ""
        if not isinstance(event, dict):
            return ""
        found = {name: event[name] for name in _NUMBERS if _is_number(event.get(name))}
        kind = event.get("event")
        if kind == "begun":
            self._begin(resumed=event.get("resumed") is True)
        if kind == "failed":
            return str(event.get("message"))[:10_000]
        if kind == "point" and "bits" in found and "expected_return" in found:
            self.points.append([found["expected_return"], found["bits"]])
        elif kind == "progress":
            if (
                "proven_upper" in found
            ):  # what was proven stays proven: a later proof that begins anew says less at first
                found["proven_upper"] = min(found["proven_upper"], self.latest.get("proven_upper", math.inf))
            seconds = self._before + found.get("seconds", 0.0)
            self.latest |= {**found, "seconds": seconds, "phase": str(event.get("phase"))[:40]}
            self._add([self.latest.get(name) for name in _NUMBERS[:4]])
        return ""

    def _begin(self, *, resumed: bool) -> None:
        """Another process is at work: it goes on from a checkpoint, or from nothing."""
        if resumed:
            self._before = self.latest.get("seconds", 0.0)
        else:
            self.latest, self.moments, self.points, self._before = {}, [], [], 0.0
            self._every, self._count = 1, 0

    def _add(self, moment: list[float | None]) -> None:
        self._count += 1
        if self._count % self._every == 0:
            self.moments.append(moment)
        if len(self.moments) > _MOST_MOMENTS:
            self.moments = self.moments[::2]
            self._every *= 2


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
