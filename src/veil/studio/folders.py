"""The folder of a run: what was asked, the scenario as it was then, events, checkpoint and result."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from ..common.errors import InputError
from ..common.files import reason, write_whole
from ..common.json_files import read_json
from ..formats.documents import Part, json_text, refuse_document

if TYPE_CHECKING:
    from ..formats.scenario.load import Scenario

RUN, SCENARIO, EVENTS, RESULT, CURVE = "run.json", "scenario.toml", "events.jsonl", "result", "curve.json"
CHECKPOINT = "checkpoint.safetensors"
FORMAT = "veil-studio-run-1"
_MOST_BYTES = 2**22


class RunDocument(Part):
    """What was asked of a run, and why it failed, where it did."""

    format: Literal["veil-studio-run-1"] = FORMAT
    kind: Literal["solve", "frontier"]
    name: str = Field(max_length=300)
    base: str | None
    changes: list[str]
    points: int = Field(20, ge=2, le=200)
    settings: dict[str, Any]
    created: float
    error: str = ""

    def opened(self, folder: Path) -> "Scenario":
        """The scenario of the run, with its changes; raises `InputError`."""
        text = (folder / SCENARIO).read_text("utf-8")
        return open_text(text, self.name, None if self.base is None else Path(self.base), self.changes)

    def write(self, folder: Path) -> None:
        """Write the document."""
        write_whole(folder / RUN, json_text(self.model_dump(mode="json")).encode(), marker=b"veil-studio-run-")


def open_text(text: str, name: str, base: Path | None, changes: Sequence[str] = ()) -> "Scenario":
    """The scenario of a text on the page; raises `ScenarioError`."""
    from ..formats.scenario.load import read_scenario

    return read_scenario(text, source=name, name=name, folder=base, changes=changes)


def asked(text: str, name: str, base: Path | None, settings: Mapping[str, Any]) -> RunDocument:
    """What is asked of a new run; raises `InputError` listing what is wrong with the scenario or the settings."""
    from .settings import read_changes, without_unused

    changes, kind, points = read_changes(settings)
    changes = [*without_unused(text, settings), *changes]
    known = {"kind": kind, "name": name, "changes": changes, "points": points, "settings": dict(settings)}
    try:
        document = RunDocument(**known, base=None if base is None else str(base), created=time.time())
    except ValidationError as error:
        refuse_document("settings", error)
    open_text(text, name, base, changes)
    return document


def read_run(folder: Path) -> RunDocument:
    """What was asked of the run in a folder; raises `InputError` where that cannot be read."""
    path = folder / RUN
    try:
        return RunDocument.model_validate(read_json(path, _MOST_BYTES))
    except ValidationError as error:
        refuse_document(str(path), error)
    except (OSError, ValueError) as error:
        raise InputError(str(path), [f"it cannot be read: {reason(error)}"]) from None
