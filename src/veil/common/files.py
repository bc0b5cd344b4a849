"""Files that are complete or absent: written beside their place and moved there in one step; and read within limits."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import InputError

_PART = 2**20  # bytes read at a time: one call would allocate the limit, not the size of the file
LARGEST_FILE = 2**32
"""Bytes of a file of a result folder, far above what fits the memory of a solve."""


def reason(error: Exception) -> str:
    """Why a file cannot be read or written."""
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def file_errors(path: object, message: str) -> Iterator[None]:
    """Raise `InputError` about a path, with a message and the reason, if a file cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise InputError(str(path), [f"{message}: {reason(error)}"]) from None


def check_replaceable(path: str | Path, marker: bytes = b"") -> None:
    """Raise `OSError` where a path is taken by what may not be replaced: no ordinary file, or one without the marker."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it exists and is not an ordinary file")
    if path.exists() and path.stat().st_size and marker not in read_whole(path):
        raise OSError(errno.EEXIST, "it exists, and veil did not write it as a file of this kind: choose another name")


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


def write_whole(path: str | Path, content: bytes, *, marker: bytes = b"") -> None:
    """Write a file atomically: at every moment there is the old file, the new one, or none, never a part of one.

    The permissions of a new file are those that the umask leaves. `marker`: bytes that every file of this kind contains; a
    file without them was not written by veil and is not replaced.

    **Raises:** `OSError` where it cannot be written or the place is taken by something else than an ordinary file (a device,
    a pipe, a folder); no partial file is left.
    """
    path = Path(os.path.realpath(path))  # the file that a link points to is replaced, the link stays
    assert marker in content
    check_replaceable(path, marker)
    temporary = path.parent / f".{path.name[:200]}.{secrets.token_hex(8)}"
    try:
        # Created with the permissions that the user's umask leaves.
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def locked(folder: str | Path, *, wait: bool = True) -> Iterator[None]:
    """Keep others out of a folder; where the system has no such locks, nothing is done.

    **Raises:** `BlockingIOError` with `wait=False`, where another process is at work there.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)
