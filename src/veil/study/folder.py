"""The folder of a study: a manifest, one result folder for each finished run, the reasons of failed ones, events."""

import json
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..common.errors import InputError
from ..common.files import file_errors, locked, reason, write_whole
from ..common.json_files import read_json
from ..common.json_text import parse_json
from ..formats.documents import json_text
from ..formats.results.folder import DOCUMENT
from .definition import Run, Study

FORMAT = "veil-study-1"
MANIFEST = "study.json"
EVENTS = "events.jsonl"
_RUNS, _FAILED, _CHECKPOINTS = "runs", "failed", "checkpoints"
_DEFINITION = tuple(one.name for one in fields(Study) if one.name not in ("name", "folder"))
_MOST_BYTES = 2**26
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.[0-9a-f]{16}")  # what `write_result` names a folder before it is whole
_CHECKPOINT = re.compile(r"\.?[0-9a-f]{16}\.safetensors(\.[0-9a-f]{16})?")


class StudyFolder:
    """Where a study's runs and what is known of them are kept.

    A run is finished where its result folder has its document, which is written last; it has failed where the reason is
    kept. Both are decided by the run's key, a hash of everything it depends on, so a run whose settings changed is another.
    """

    def __init__(self, path: str | Path):
        self.path = Path(os.path.abspath(path))

    def result(self, key: str) -> Path:
        """The result folder of a run."""
        return self.path / _RUNS / key

    def checkpoint(self, key: str) -> Path:
        """The checkpoint of a run that is under way."""
        return self.path / _CHECKPOINTS / f"{key}.safetensors"

    def is_done(self, key: str) -> bool:
        """Whether a run is finished."""
        return (self.result(key) / DOCUMENT).is_file()

    def failure(self, key: str) -> dict[str, Any] | None:
        """Why a run failed; None where it did not."""
        try:
            found = parse_json((self.path / _FAILED / f"{key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def note_failure(self, key: str, reason: str, attempts: int) -> None:
        """Keep why a run failed."""
        document = {"format": "veil-study-failure-1", "reason": reason, "attempts": attempts}
        (self.path / _FAILED).mkdir(exist_ok=True)
        write_whole(self.path / _FAILED / f"{key}.json", json_text(document).encode(), marker=b"veil-study-failure-")

    def forget_failure(self, key: str) -> None:
        """Drop the reason, so that the run is begun again."""
        (self.path / _FAILED / f"{key}.json").unlink(missing_ok=True)

    def leftovers(self, runs: Mapping[str, Run]) -> list[str]:
        """Keys of finished runs that are not part of the study any more."""
        folder = self.path / _RUNS
        names = sorted(entry.name for entry in os.scandir(folder)) if folder.is_dir() else []
        return [name for name in names if name not in runs and not name.startswith(".") and self.is_done(name)]

    def tidy(self) -> None:
        """Remove what killed workers left: folders that were being written, checkpoints of finished runs."""
        for entry in os.scandir(self.path / _RUNS):
            if _UNFINISHED.fullmatch(entry.name):
                shutil.rmtree(entry.path, ignore_errors=True)
        for entry in os.scandir(self.path / _CHECKPOINTS):
            if _CHECKPOINT.fullmatch(entry.name) and self.is_done(entry.name.strip(".").partition(".")[0]):
                os.unlink(entry.path)

    def make(self) -> None:
        """Make the folder where there is none.

        **Raises:** `InputError` where that cannot be.
        """
        with file_errors(self.path, "the study cannot be written"):
            self.path.mkdir(parents=True, exist_ok=True)

    def prepare(self, study: Study) -> None:
        """Write the manifest; only the driver that holds the lock may.

        **Raises:** `InputError` where that cannot be, or the folder holds something else.
        """
        with file_errors(self.path, "the study cannot be written"):
            if any(self.path.iterdir()) and not (self.path / MANIFEST).is_file():
                raise InputError(str(self.path), ["it is not a study's folder: choose another one"])
            for name in (_RUNS, _CHECKPOINTS):
                (self.path / name).mkdir(parents=True, exist_ok=True)
            content = json_text(manifest(study)).encode()
            write_whole(self.path / MANIFEST, content, marker=b"veil-study-")

    def manifest(self) -> dict[str, Any]:
        """The manifest of the study that was run here last; raises `InputError` where there is none."""
        path = self.path / MANIFEST
        try:
            found = read_json(path, _MOST_BYTES)
            if not isinstance(found, dict) or found.get("format") != FORMAT:
                raise ValueError(f"its format is not {FORMAT}")
        except OSError as error:
            raise InputError(str(path), [f"no study can be read: {reason(error)}"]) from None
        except ValueError as error:
            raise InputError(str(path), [f"it is not the manifest of a study: {error}"]) from None
        return found

    def event(self, kind: str, **facts: object) -> dict[str, object]:
        """Append a line to the events, and return it."""
        found = {"time": round(time.time(), 3), "event": kind, **facts}
        line = json.dumps(found, ensure_ascii=False, allow_nan=False) + "\n"
        with open(self.path / EVENTS, "a", encoding="utf-8") as file:
            file.write(line)
        return found

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other drivers out; raises `InputError` where one is at work."""
        with ExitStack() as held:
            try:
                held.enter_context(locked(self.path, wait=False))
            except BlockingIOError:
                raise InputError(
                    str(self.path), ["another veil study is at work in this folder: wait for it"]
                ) from None
            yield


def manifest(study: Study) -> dict[str, Any]:
    """What was asked and with which versions, as a document; the runs themselves follow from it."""
    import numpy
    import scipy

    return {
        "format": FORMAT,
        "name": study.name,
        "runs": len(study.runs),
        "versions": {
            "veil": version("veil"),
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
        },
        "platform": platform.platform(),
        "definition": {name: getattr(study, name) for name in _DEFINITION},
        "factors": list(study.runs[0].factors),
        "keys": {
            run.key: {"scenario": run.scenario, "changes": run.changes, "factors": run.factors} for run in study.runs
        },
    }
