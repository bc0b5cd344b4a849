"""The problem of a result folder as a scenario: `scenario.toml`, which reads back as the problem that was solved."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...common.errors import InputError, VeilError
from ...common.files import read_whole, reason, write_whole
from ...problem.fingerprint import fingerprint
from ...problem.problem import Problem
from ..gallery import GALLERY, scenario_text
from ..scenario.changes import read_change
from ..scenario.edit import edit
from ..scenario.files import MOST_MODEL_BYTES, named_files
from ..scenario.load import read_scenario
from ..scenario.models import MOST_STATES, MOST_TRANSITIONS
from ..scenario.text import Source, read_scenario_text
from ..scenario.toml import write_scenario

SCENARIO, ARRAYS = "scenario.toml", "model.npz"
MARKER = b"# The problem of this result"
_HEAD = MARKER.decode() + ", as it was solved.\n"


@dataclass(frozen=True)
class Origin:
    """Where a problem came from.

    **Attributes:** `scenario`: `gallery:NAME` or a path, None for a problem that was built in Python; `changes`: texts
    `KEY=VALUE` that replaced values of it; `text`: of the scenario as it was read, None to read it now.
    """

    scenario: str | None = None
    changes: Sequence[str] = ()
    text: str | None = None

    def read(self) -> str | None:
        """The text of the scenario; None if it cannot be read."""
        if self.text is not None or self.scenario is None:
            return self.text
        with suppress(VeilError):
            if self.scenario.startswith(GALLERY):
                return scenario_text(self.scenario.removeprefix(GALLERY))
            return read_scenario_text(Path(self.scenario))
        return None


def write_problem_text(folder: Path, problem: Problem, origin: Origin, taken: Sequence[str]) -> None:
    """Write `scenario.toml` and the files that it names, so that reading it gives this problem.

    It is the text of the scenario that the problem came from, with the changes applied, if that reads back as the problem from
    this folder alone; else a text written from the problem, with the model beside it as arrays if it is large. A problem that
    has no form in files is left out.

    **Arguments:** `taken`: names of other files of the folder.
    """
    digest = fingerprint(problem)
    writers: tuple[Callable[[], None], ...] = (
        lambda: _copy(folder, origin, taken),
        lambda: _write(folder, problem),
        lambda: _write(folder, problem, ARRAYS),
    )
    for write in writers:
        before = set(folder.iterdir())
        with suppress(VeilError):
            write()
            if fingerprint(read_problem_text(folder, problem.name)) == digest:
                return
        for path in set(folder.iterdir()) - before:
            path.unlink()


def read_problem_text(folder: Path, name: str) -> Problem:
    """The problem of `scenario.toml`; raises `InputError` if it cannot be read."""
    path = folder / SCENARIO
    try:
        text = read_whole(path, MOST_MODEL_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), [f"it cannot be read: {reason(error)}"]) from None
    return read_scenario(text, source=str(path), name=name, folder=folder).problem


def _copy(folder: Path, origin: Origin, taken: Sequence[str]) -> None:
    """The text that was read, and the files beside it that it names."""
    text = origin.read()
    if text is None:
        raise InputError("scenario", ["there is no text of it"])
    text = edit(text, [read_change(change) for change in origin.changes])
    for name in named_files(Source("scenario", text).data):
        if Path(name).name != name or name in (*taken, SCENARIO) or origin.scenario is None:
            raise InputError("scenario", [f"it names {name!r}, which has no place in the folder of a result"])
        source = Path(origin.scenario).parent / name
        if source.is_file() and source.stat().st_size <= MOST_MODEL_BYTES:
            shutil.copyfile(source, folder / name)
    _write_text(folder, text)


def _write(folder: Path, problem: Problem, arrays: str | None = None) -> None:
    """A text written from the problem; `arrays`: the file of its model."""
    size = sum(matrix.nnz for model in problem.models for matrix in model.matrices)
    if arrays is None and (size > MOST_TRANSITIONS or problem.num_states > MOST_STATES):
        raise InputError("scenario", ["the problem is too large for the text of a scenario"])
    if arrays is not None and len(problem.models) > 1:
        raise InputError("scenario", ["several models have no form as arrays"])
    write_scenario(folder / SCENARIO, problem, arrays=arrays)
    _write_text(folder, (folder / SCENARIO).read_text("utf-8"))


def _write_text(folder: Path, text: str) -> None:
    write_whole(folder / SCENARIO, (text if text.startswith(_HEAD) else _HEAD + text).encode())
