"""Model files that a scenario refers to: inside its folder, of a known kind, read by the importer of that kind."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ...common.errors import InputError, VeilError
from ...problem.model import Model
from ...problem.observer import Observer
from ..imported import Imported
from .schema import ModelFile
from .text import Notes, Path_, near, shown
from .worlds import World, lookup, note_defects

MOST_MODEL_BYTES = 2**28


def _read_pomdp(path: Path, table: ModelFile) -> Imported:
    from ..pomdp.files import load_pomdp

    return load_pomdp(path)


def _read_arrays(path: Path, table: ModelFile) -> Imported:
    from ..arrays import load_arrays

    return load_arrays(path)


def _read_drn(path: Path, table: ModelFile) -> Imported:
    from ..drn.reader import load_drn

    return load_drn(path, reward=table.reward_model)


def _read_prism(path: Path, table: ModelFile) -> Imported:
    from ..prism import load_prism

    return load_prism(path, constants=table.constants or None, reward=table.reward_model)


# The importers, each imported when a scenario first needs it: most need none, and one needs Storm.
READERS: dict[str, Callable[[Path, ModelFile], Imported]] = {
    ".pomdp": _read_pomdp,
    ".npz": _read_arrays,
    ".drn": _read_drn,
    ".prism": _read_prism,
    ".nm": _read_prism,
    ".pm": _read_prism,
}


def make_file(table: ModelFile, path: Path_, notes: Notes, folder: Path, allow_outside: bool) -> World | None:
    """The world of a `[file]`; None with every defect noted.

    **Arguments:** `folder`, the scenario's; `allow_outside`, whether the model file may lie elsewhere.
    """
    before = len(notes)
    found = _inside(table.path, (*path, "path"), notes, folder, allow_outside)
    if found is None:
        return None
    reader = READERS.get(found.suffix.lower())
    if reader is None:
        known = near(found.suffix, READERS)
        notes.add((*path, "path"), f"found the suffix {found.suffix!r}, expected one of {', '.join(READERS)}: {known}")
        return None
    _check_settings(table, reader, path, notes)
    if len(notes) > before:
        return None
    try:
        imported = reader(found, table)
    except VeilError as error:
        # A file's own error names it already.
        note_defects(error, (*path, "path"), notes, table.path if isinstance(error, InputError) else "")
        return None
    world = World(
        imported.model,
        _as_watcher(imported.observer),
        valuations=imported.valuations,
        labels=imported.labels,
    )
    return _changed(world, table, path, notes)


def _check_settings(table: ModelFile, reader: Callable[..., Imported], path: Path_, notes: Notes) -> None:
    """Note settings that the importer of this kind would not read."""
    if table.constants and reader is not _read_prism:
        notes.add((*path, "constants"), "found constants, which only PRISM programs have")
    if table.reward_model is not None and reader not in (_read_prism, _read_drn):
        notes.add((*path, "reward_model"), "found a reward model, which only PRISM programs and DRN files have")


def _inside(given: str, path: Path_, notes: Notes, folder: Path, allow_outside: bool) -> Path | None:
    """The file that is meant, every symbolic link followed; None with the defect noted."""
    try:
        home, target = Path(os.path.realpath(folder)), Path(os.path.realpath(folder / given))
        # What lies outside is not looked at, so that a scenario cannot ask which files there are.
        if not allow_outside and not target.is_relative_to(home):
            notes.add(path, f"{shown(given)} leaves the folder of the scenario, expected a file inside: copy it there")
            return None
        status = os.stat(target)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        notes.add(path, f"{shown(given)} cannot be read ({reason}), expected a model file")
        return None
    if not stat.S_ISREG(status.st_mode):
        notes.add(path, f"{shown(given)} is not a file, expected a model file")
        return None
    if status.st_size > MOST_MODEL_BYTES:
        notes.add(path, f"{shown(given)} has {status.st_size:,} bytes, expected at most {MOST_MODEL_BYTES:,}")
        return None
    return target


def _as_watcher(observer: Observer | None) -> Callable[[bool, bool], Observer] | None:
    """The file's observer, to which the scenario adds whether it sees actions and the start."""
    if observer is None:
        return None

    def watcher(sees_actions: bool, sees_initial: bool) -> Observer:
        names = observer.observations.all() if observer.observations.given else None
        seen = (sees_actions or observer.sees_actions, sees_initial and observer.sees_initial)
        return Observer(observer.emissions, names, *seen, silent=observer.silent, sensors=observer.sensors)

    return watcher


def _changed(world: World, table: ModelFile, path: Path_, notes: Notes) -> World | None:
    """The world with what the scenario says in place of what the file says."""
    if table.initial is None and table.rewards is None and table.terminal_rewards is None and table.discount is None:
        return world
    before, model = len(notes), world.model
    rewards, terminal, initial = model.rewards, model.terminal_rewards, model.initial
    if table.initial is not None:
        initial = np.zeros(model.num_states)
        for name, chance in table.initial.items():
            index = lookup(world.state_numbers, name, "state", (*path, "initial"), notes)
            if index is not None:
                initial[index] = chance
    if table.rewards is not None:
        rewards = np.zeros((model.num_states, model.num_actions))
        for number, paid in enumerate(table.rewards):
            where = (*path, "rewards", number)
            found = world.find(paid.states, (*where, "states"), notes)
            if paid.action is None:
                rewards[found] += paid.reward
            elif (action := lookup(world.action_numbers, paid.action, "action", (*where, "action"), notes)) is not None:
                rewards[found, action] += paid.reward
    if table.terminal_rewards is not None:
        terminal = np.zeros(model.num_states)
        for number, paid in enumerate(table.terminal_rewards):
            terminal[world.find(paid.states, (*path, "terminal_rewards", number, "states"), notes)] += paid.reward
    if len(notes) > before:
        return None
    try:
        world.model = Model(
            model.matrices,
            rewards,
            initial,
            model.discount if table.discount is None else table.discount,
            terminal,
            model.states.all() if model.states.given else None,
            model.actions.all() if model.actions.given else None,
            available=model.available,
        )
    except VeilError as error:
        note_defects(error, path, notes)
        return None
    return world
