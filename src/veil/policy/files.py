"""Policy files: safetensors, which hold numbers only and run no code when they are opened."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from ..common.errors import PolicyFileError
from ..common.files import reason, write_whole
from .stored import FORMAT
from .stored import read_table as read_table
from .stored import unpacked as unpacked


def save_table(path: str | Path, kind: str, table: np.ndarray) -> None:
    """Write a table with its kind; the file appears complete or not at all."""
    # One entry: safetensors writes several in an order that changes from run to run.
    content = save({"probabilities": np.ascontiguousarray(table)}, metadata={"veil": f"{FORMAT} {kind}"})
    try:
        write_whole(path, content, marker=FORMAT.encode())
    except OSError as error:
        raise PolicyFileError(f"cannot write policy to {path}: {reason(error)}") from error


def packed(arrays: Sequence[np.ndarray]) -> tuple[list[list[object]], np.ndarray]:
    """The type and shape of each array, and the bytes of all of them as one table."""
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return [[array.dtype.str, *array.shape] for array in arrays], np.frombuffer(content, dtype=np.uint8)
