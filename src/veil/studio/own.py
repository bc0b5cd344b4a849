"""Files of a studio's folder: the folder may come from elsewhere, and must lead nowhere else."""

import os
import stat
from pathlib import Path
from typing import IO

from ..common.errors import InputError


def check_own(folder: Path) -> None:
    """Refuse a folder that is another user's or has links in it: what is written there would go elsewhere.

    **Raises:** `InputError` naming the entry.
    """
    _check(folder, os.stat(folder))
    for place, folders, files in os.walk(folder, followlinks=False):
        for name in (*folders, *files):
            path = Path(place, name)
            try:
                _check(path, os.lstat(path))
            except FileNotFoundError:
                continue  # a run has just ended


def _check(path: Path, found: os.stat_result) -> None:
    is_file, is_folder = stat.S_ISREG(found.st_mode), stat.S_ISDIR(found.st_mode)
    if not (is_file or is_folder):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "neither a file nor a folder"
        raise InputError(
            str(path), [f"it is {kind}, which veil studio did not make: remove it, or choose another folder"]
        )
    if is_file and found.st_nlink > 1:
        words = "it is one file with another (a hard link), which would be changed with it: copy it, or choose another folder"
        raise InputError(str(path), [words])
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    if user not in (0, found.st_uid):
        raise InputError(str(path), ["it belongs to another user: choose another folder"])
    if is_folder and found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise InputError(
            str(path), ["every user can write to it: remove that right (chmod o-w), or choose another folder"]
        )


def open_own(path: Path, flags: int, mode: int = 0o666) -> IO[bytes]:
    """Open a file of the folder for writing, never through a link.

    **Raises:** `OSError` where it is a link.
    """
    handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), mode)
    return open(handle, "ab" if flags & os.O_APPEND else "wb")
