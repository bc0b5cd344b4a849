"""JSON files within a limit of their size."""

import errno
from pathlib import Path
from typing import Any

from .json_text import parse_json
from .ordinary import read_whole


def read_json(path: Path, most_bytes: int) -> Any:
    """The value that a JSON file of at most so many bytes holds.

    **Raises:** `OSError` where it cannot be read; `ValueError` as `parse_json`, or where it is larger or no ordinary file.
    """
    try:
        content = read_whole(path, most_bytes)
    except OSError as error:
        if error.errno in (errno.EFBIG, errno.EINVAL):  # what is there is no such file
            raise ValueError(error.strerror) from None
        raise
    return parse_json(content)
