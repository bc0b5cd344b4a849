"""What the studio keeps on disk: the scenario on the page and its runs, which outlive the page and the server."""

import hashlib
import os
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..common.errors import InputError
from ..common.files import file_errors, locked, write_whole
from ..common.json_files import read_json
from .events import Events
from .own import check_own
from .routes import Refused, Request, text_of
from .runs import Runs

FORMAT = "veil-studio-1"
_STATE, _RUNS = "studio.json", "runs"
_MOST_BYTES = 2**23
MOST_CHARACTERS = 2**20  # of a scenario, as in its file


class Source(NamedTuple):
    """A scenario that was opened: where it lies, its text, the name of the problem, the folder of its model files."""

    path: str
    text: str
    name: str
    base: Path | None


def read_source(scenario: str) -> Source:
    """The text of a scenario, a file or `gallery:NAME`; raises `InputError` where it cannot be read as text."""
    from ..formats.gallery import GALLERY, scenario_text

    if scenario.startswith(GALLERY):
        name = scenario.removeprefix(GALLERY)
        return Source(scenario, scenario_text(name), name, None)
    from ..formats.scenario.text import read_scenario_text

    path = Path(os.path.abspath(scenario))
    return Source(str(path), read_scenario_text(path), path.stem[:200], path.parent)


class Studio:
    """One studio: its folder, the scenario that is worked on, its runs and events.

    **Arguments:** `folder`: made where it does not exist.

    **Attributes:** `scenario`, the TOML text; `name`, of the problem unless the text gives one; `base`, the folder in which
    the scenario's model files lie, None for none; `runs`; `port`, of the last server, 0 for none; `edition`, which counts
    the changes of the scenario, across restarts too; `lock`, held by who reads and changes several of these.

    **Raises:** `InputError` where the folder cannot be used, holds something else, or leads elsewhere.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(os.path.abspath(folder))
        self.lock = threading.RLock()
        self.events = Events()
        self.scenario, self.name = "", "scenario"
        self.base: Path | None = None
        self.port = 0
        self.edition = 0
        self._source: dict[str, str] = {}
        with file_errors(self.folder, "it cannot be used"):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_own(self.folder)
            if not (self.folder / _STATE).exists() and any(self.folder.iterdir()):
                raise InputError(str(self.folder), ["it is not a studio's folder: choose another one"])
            self._read()
            self.runs = Runs(self.folder / _RUNS, self.events)

    def _read(self) -> None:
        path = self.folder / _STATE
        if not path.exists():
            return
        try:
            found = read_json(path, _MOST_BYTES)
            if not isinstance(found, dict) or found.get("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
            base, source = found["base"], found["source"]
            self.scenario, self.name = str(found["scenario"]), str(found["name"])
            self.base = None if base is None else Path(str(base))
            self._source = {str(key): str(value) for key, value in source.items()}
            self.port = int(found["port"]) if 0 <= int(found["port"]) < 2**16 else 0
            self.edition = int(found["edition"])
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            words = f"it is not the state of a studio ({error}): remove it, or choose another folder"
            raise InputError(str(path), [words]) from None

    def open(self, scenario: str | None) -> None:
        """Take up a scenario, a file or `gallery:NAME`; without one, go on with that of the folder or begin a new one.

        One that this folder already has is kept as it was left on the page, unless the file has changed since.

        **Raises:** `InputError` where it cannot be read as text; what is wrong with its content appears on the page.
        """
        if scenario is None:
            if not self.scenario:
                from ..formats.gallery import starter

                self.set_scenario(starter("grid"), name="scenario")
            return
        found = read_source(scenario)
        known = {"path": found.path, "hash": hashlib.sha256(found.text.encode()).hexdigest()}
        if known != self._source:
            self._source = known
            self.set_scenario(found.text, name=found.name, base=found.base)

    def set_scenario(self, text: str, *, name: str | None = None, base: Path | None = None) -> None:
        """Put another scenario on the page, and keep it; without a name it is the same one, edited.

        **Raises:** `Refused` where it is too long; `OSError` where it cannot be kept, and the old one stays.
        """
        if len(text) > MOST_CHARACTERS:
            raise Refused(413, f"the scenario has {len(text):,} characters, expected at most {MOST_CHARACTERS:,}")
        with self.lock:
            before = self.scenario, self.name, self.base
            self.scenario = text
            if name is not None:
                self.name, self.base = name, base
            self.edition += 1
            try:
                self._write()
            except BaseException:
                self.scenario, self.name, self.base = before
                self.edition -= 1
                raise
            self.events.publish("scenario", self.known())

    @property
    def title(self) -> str:
        """The name that the text gives the problem; that of the file if it gives none, or cannot be read."""
        try:
            given = tomllib.loads(self.scenario).get("name")
        except (tomllib.TOMLDecodeError, RecursionError):
            given = None
        return given[:200] if isinstance(given, str) and given else self.name

    def known(self) -> dict[str, Any]:
        """What a page shows of the scenario."""
        return {"scenario": self.scenario, "name": self.title, "edition": self.edition}

    def keep_port(self, port: int) -> None:
        """Note the port, so that open pages find the next server."""
        with self.lock:
            self.port = port
            self._write()

    def _write(self) -> None:
        document = {
            "format": FORMAT,
            "name": self.name,
            "port": self.port,
            "edition": self.edition,
            "base": None if self.base is None else str(self.base),
            "source": self._source,
            "scenario": self.scenario,
        }
        from ..formats.documents import json_text

        content = json_text(document).encode()
        write_whole(self.folder / _STATE, content, marker=b"veil-studio-")

    @contextmanager
    def working(self) -> Iterator[None]:
        """Keep other servers out of the folder; raises `InputError` where one is at work."""
        if not (self.folder / _STATE).exists():
            self._write()
        try:
            with locked(self.folder, wait=False):
                yield
        except BlockingIOError:
            words = "another veil studio is open in this folder: use its page, or choose another with --folder"
            raise InputError(str(self.folder), [words]) from None


def show(request: Request, studio: Studio) -> dict[str, Any]:
    """Everything that a page needs to begin."""
    with studio.lock:
        known = studio.known()
    return {**known, "folder": str(studio.folder), "runs": studio.runs.summaries()}


def put_scenario(request: Request, studio: Studio) -> dict[str, Any]:
    """Keep the text that is edited; its defects are no reason not to.

    `edition` is the one that was edited, `over` the text that the same page sent last, if it has no answer to that yet. If
    the scenario has changed since, nothing is replaced, and the page asks.
    """
    text, edition = text_of(request, "text"), request.get("edition")
    with studio.lock:
        own = studio.scenario in (text, request.get("over"))
        if edition is not None and edition != studio.edition and not own:
            raise Refused(409, "the scenario was changed elsewhere meanwhile", **studio.known())
        studio.set_scenario(text)
        return {"name": studio.title, "edition": studio.edition}
