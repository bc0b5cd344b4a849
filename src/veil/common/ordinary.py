"""Files that are read whole: ordinary ones, within a limit of their size."""

import errno
import os
import stat
from pathlib import Path

_PART = 2**20  # bytes read at a time: one call would allocate the limit, not the size of the file
LARGEST_FILE = 2**32
"""Bytes of a file of a result folder, far above what fits the memory of a solve."""


def reason(error: Exception) -> str:
    """Why a file cannot be read or written."""
    return getattr(error, "strerror", None) or str(error)


def read_whole(path: str | Path, most_bytes: int = LARGEST_FILE) -> bytes:
    """The content of an ordinary file, or of one that a link points to.

    A folder that comes from someone else may hold pipes, devices and files of any size: those are refused, without waiting for
    a pipe and without reading more than the limit.

    **Raises:** `OSError` where it cannot be read, is not an ordinary file, or has more bytes than `most_bytes`.
    """
    check_ordinary(path, most_bytes)
    waits_for_nobody = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, waits_for_nobody), "rb") as file:
        _check_status(os.fstat(file.fileno()), path, most_bytes)  # it may be another one by now
        parts, left = [], most_bytes + 1
        while part := file.read(min(left, _PART)):
            parts.append(part)
            left -= len(part)
    if left <= 0:
        raise _too_large(path, most_bytes)
    return b"".join(parts)


def check_ordinary(path: str | Path, most_bytes: int = LARGEST_FILE) -> None:
    """Raise `OSError` as `read_whole` does, for a file that another library opens."""
    _check_status(os.stat(path), path, most_bytes)


def _check_status(found: os.stat_result, path: str | Path, most_bytes: int) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
    if found.st_size > most_bytes:
        raise _too_large(path, most_bytes)


def _too_large(path: str | Path, most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"it has more than {most_bytes:,} bytes", str(path))
