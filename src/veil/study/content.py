"""What a run of a study depends on beside its changes: the text of its scenario, and the files that it names."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..common.errors import InputError, ScenarioError
from ..formats.gallery import GALLERY, scenario_text
from ..formats.results.folder import POLICY
from ..formats.scenario.changes import read_change
from ..formats.scenario.files import named_files
from ..formats.scenario.text import Source, read_scenario_text
from ..problem.belief import UNIFORM

Files = tuple[tuple[str, str], ...]
"""Paths with the hash of each file's content."""
_MISSING = "missing"


def text_and_files(scenario: str) -> tuple[str, list[str]]:
    """The text of a scenario, `gallery:NAME` or a path, and the names of files that it contains.

    **Raises:** `InputError` where it cannot be read.
    """
    if scenario.startswith(GALLERY):
        return scenario_text(scenario.removeprefix(GALLERY)), []
    text = read_scenario_text(Path(scenario))
    try:
        return text, list(named_files(Source(scenario, text).data))
    except ScenarioError:
        return text, []  # the run itself tells what is wrong


def files_of_changes(changes: Sequence[str]) -> list[str]:
    """The names of files that changes `KEY=VALUE` contain."""
    found: list[str] = []
    for change in changes:
        try:
            place, value = read_change(change)
        except InputError:
            continue  # the run itself tells what is wrong
        found += named_files({place[-1]: value})
    return found


def hashed(scenario: str, names: Sequence[str]) -> Files:
    """The files of these names in the folder of a scenario; those that are not there are part of it as missing."""
    if scenario.startswith(GALLERY):
        return ()
    folder = os.path.dirname(os.path.abspath(scenario))
    paths = [os.path.join(folder, name) for name in dict.fromkeys(names)]
    return tuple((path, _hash(path)) for path in paths)


def hashed_policy(policy: str) -> Files:
    """The file of a policy, `uniform` or a path, which may be that of a result folder."""
    if policy == UNIFORM:
        return ()
    path = os.path.abspath(os.path.join(policy, POLICY) if os.path.isdir(policy) else policy)
    return ((path, _hash(path)),)


@contextmanager
def unchanged(files: Files) -> Iterator[None]:
    """Read these files in this context only if each is what was hashed, and stays so until the end.

    **Raises:** `InputError` where one is another.
    """
    before = [_signature(path) for path, _ in files]
    changed = [path for path, known in files if _hash(path) != known]
    if not changed:
        yield
        changed = [path for (path, _), old in zip(files, before, strict=True) if _signature(path) != old]
    if changed:
        remedy = "start the study again, or restore the file and pass --redo"
        raise InputError(", ".join(changed), [f"it changed since the study began: {remedy}"])


def _signature(path: str) -> tuple[int, ...] | None:
    """What changes with every write to a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _hash(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return _MISSING
