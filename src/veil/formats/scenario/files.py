"""Model files that a scenario refers to: inside its folder, of a known kind, read by the importer of that kind."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...common.checks import Defects
from ...common.errors import InputError, VeilError
from ...common.files import reason
from ...common.suggest import suggestion
from ..imported import changed_model
from ..registry import find_format, read_model
from .models import ScenarioModel, paid_states
from .schema import ModelFile
from .text import shown

MOST_MODEL_BYTES = 2**28
_NAMES_A_FILE = ("path", "policy", "walker")  # keys, in any table, whose text may name a file in the scenario's folder


def read_file(table: ModelFile, folder: Path, allow_outside: bool, defects: Defects) -> ScenarioModel | None:
    """The model of a `[file]`; None with every defect noted.

    **Arguments:** `folder`, the scenario's; `allow_outside`, whether the model file may lie elsewhere.
    """
    before = len(defects)
    found = inside(table.path, folder, allow_outside, defects.under("path"))
    if found is None:
        return None
    own = {"constants": table.constants or None, "reward_model": table.reward_model}
    options = {name: value for name, value in own.items() if value is not None}
    try:
        known = find_format("read_model", found)
        for name in options:
            if name not in known.options:
                defects.add(f"found {name}, which is not an option of {known.description}", name)
        for name in table.options:
            if name in ("constants", "reward_model"):
                defects.add(f"found {name}, which is a key of [file] itself", "options", name)
            elif name not in known.options:
                hint = suggestion(name, known.options)
                defects.add(f"found {name}, which is not an option of {known.description}: {hint}", "options", name)
        if len(defects) > before:
            return None
        home = None if allow_outside else Path(os.path.realpath(folder))
        imported = read_model(found, options | table.options, folder=home)
    except VeilError as error:
        _note(error, table.path, defects)
        return None
    return _changed(ScenarioModel(imported), table, defects)


def _note(error: VeilError, path: str, defects: Defects) -> None:
    if not isinstance(error, InputError):
        defects.add(str(error), "path")  # names the file already
        return
    for defect in error.defects:
        defects.add(f"{path}: {defect}", "path")


def named_files(value: Any, key: str = "") -> Iterator[str]:
    """The texts in the tables of a scenario that may name a file in its folder."""
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from named_files(entry, name)
    elif isinstance(value, list):
        for entry in value:
            yield from named_files(entry, key)
    elif isinstance(value, str) and key in _NAMES_A_FILE and 0 < len(value) <= 1000 and "\0" not in value:
        yield value


def inside(given: str, folder: Path, allow_outside: bool, defects: Defects) -> Path | None:
    """The file that is meant, every symbolic link followed; None with the defect noted."""
    try:
        home, target = Path(os.path.realpath(folder)), Path(os.path.realpath(folder / given))
        # What is outside is not looked at, so that a scenario cannot find out which files exist.
        if not allow_outside and not target.is_relative_to(home):
            defects.add(f"{shown(given)} leaves the folder of the scenario, expected a file inside: copy it there")
            return None
        status = os.stat(target)
    except (OSError, ValueError) as error:
        defects.add(f"{shown(given)} cannot be read ({reason(error)}), expected a model file")
        return None
    if not stat.S_ISREG(status.st_mode):
        defects.add(f"{shown(given)} is not a file, expected a model file")
        return None
    if status.st_size > MOST_MODEL_BYTES:
        defects.add(f"{shown(given)} has {status.st_size:,} bytes, expected at most {MOST_MODEL_BYTES:,}")
        return None
    return target


def _changed(found: ScenarioModel, table: ModelFile, defects: Defects) -> ScenarioModel | None:
    """The model with what the scenario says in place of what the file says."""
    if table.initial is None and not table.rewards and table.discount is None:
        return found
    before, model = len(defects), found.model
    paid, ends = paid_states(table.rewards, found, defects.under("rewards"))
    if len(defects) > before:
        return None
    try:
        made = changed_model(
            model,
            rewards=None if all(one.last for one in table.rewards) else paid,
            initial=table.initial,
            discount=table.discount,
            terminal_rewards=ends if any(one.last for one in table.rewards) else None,
        )
    except VeilError as error:
        defects.take(error)
        return None
    return ScenarioModel(replace(found.imported, model=made))
