"""Pieces of a run: each result is written whole as it is ready, so that a run that was killed goes on where it was."""

import json
import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from veil.common.errors import InputError
from veil.common.files import write_whole
from veil.formats.documents import plain

FORM = "veil-reproduction-1"
TIMES = "wall-times.json"
PIECES = "pieces"


@dataclass(frozen=True)
class Settings:
    """What a run depends on: `quick` for a short one with fewer starts, iterations and layouts; `seed` of every draw."""

    quick: bool = False
    seed: int = 0


class Times:
    """Wall times of one piece by the name of what was done; kept apart from results, which have the same bytes each time."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Measure what is done inside."""
        begin = clock.perf_counter()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + clock.perf_counter() - begin


class Store:
    """The folder of a run.

    **Arguments:** `folder`; `settings`: pieces made with others, or by another version, are made again.
    """

    def __init__(self, folder: Path, settings: Settings):
        self.folder, self.settings = folder, settings
        self._head = {"form": FORM, "veil": version("veil"), **asdict(settings)}

    def prepare(self) -> None:
        """Make the folder; raises `InputError` where that cannot be."""
        try:
            (self.folder / PIECES).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(str(self.folder), [f"the folder cannot be made: {error.strerror or error}"]) from None

    def read(self, name: str) -> Any | None:
        """The result of a piece, None where there is none of these settings that can be read."""
        try:
            document = json.loads(self._path(name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(document, dict) or "result" not in document:
            return None
        head = {key: value for key, value in document.items() if key != "result"}
        return document["result"] if head == self._head | {"piece": name} else None

    def write(self, name: str, result: Any, times: Times) -> Any:
        """Keep a piece and how long it took; returns the result as it is read, so that no table depends on a resume."""
        document = self._head | {"piece": name, "result": plain(result)}
        every = self.times() | {name: {what: round(value, 2) for what, value in times.seconds.items()}}
        self._write(self.folder / TIMES, every)
        self._write(self._path(name), document)
        return self.read(name)

    def times(self) -> dict[str, dict[str, float]]:
        """Seconds of each piece, by what was done."""
        try:
            found = json.loads((self.folder / TIMES).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _path(self, name: str) -> Path:
        return self.folder / PIECES / f"{name}.json"

    @staticmethod
    def _write(path: Path, document: Any) -> None:
        text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
        try:
            write_whole(path, (text + "\n").encode())
        except OSError as error:
            raise InputError(str(path), [f"it cannot be written: {error.strerror or error}"]) from None
