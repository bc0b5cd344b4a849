"""Files that are complete or absent: written beside their place and moved there in one step."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import InputError
from .ordinary import LARGEST_FILE as LARGEST_FILE
from .ordinary import check_ordinary as check_ordinary
from .ordinary import read_whole as read_whole
from .ordinary import reason as reason


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
