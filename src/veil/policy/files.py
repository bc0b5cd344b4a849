"""Policy files: safetensors, which hold numbers only and run no code when they are opened."""

import os
import tempfile
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..problem.errors import PolicyFileError

_FORMAT = "veil-policy-1"


def save_table(path: str | Path, kind: str, table: np.ndarray) -> None:
    """Write a table with its kind; the file appears complete or not at all."""
    path = Path(path)
    content = save({"probabilities": np.ascontiguousarray(table)}, metadata={"format": _FORMAT, "kind": kind})
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise PolicyFileError(f"cannot write policy to {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_table(path: str | Path) -> tuple[str, np.ndarray]:
    """The kind (`"markov"` or `"timed"`) and the table of a policy file; raises `PolicyFileError` on anything else."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT or "probabilities" not in file.keys():  # noqa: SIM118
                raise PolicyFileError(
                    f"{path} is a safetensors file but not a policy of veil: its format is"
                    f" {metadata.get('format')!r}, expected {_FORMAT!r}"
                )
            return metadata.get("kind", ""), file.get_tensor("probabilities")
    except FileNotFoundError:
        raise PolicyFileError(f"there is no policy file {path}") from None
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        if isinstance(error, PolicyFileError):
            raise
        raise PolicyFileError(f"{path} cannot be read as a policy: {error}; write one with policy.save(path)") from None
