"""Files that are complete or absent: written beside their place and moved there in one step."""

import os
import tempfile
from pathlib import Path


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file atomically: at every moment there is the old file, the new one, or none, never a part of one.

    **Raises:** `OSError`, and no partial file is left.
    """
    path = Path(path)
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp makes a file that nobody else can read
        os.replace(temporary, path)
    except BaseException:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise
