"""Checkpoints of a search: all of its numbers in one safetensors file, so that it can be taken up again exactly."""

import json
import time as clock
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..problem.errors import CheckpointError
from ..problem.files import write_whole

_FORMAT = "veil-checkpoint-1"


class Checkpoint:
    """Writes the state of a search now and then.

    **Arguments:** `path`; `identity`: what a run must have in common with the one that wrote the file: the problem's
    fingerprint and every setting that the result depends on; `every`: seconds between two files.
    """

    def __init__(self, path: str | Path, identity: dict[str, Any], every: float):
        self.path, self.every = Path(path), every
        self._identity = identity
        self._last = clock.monotonic()

    def offer(self, arrays: dict[str, np.ndarray], seconds: float) -> None:
        """Write the state if the last file is old enough."""
        if clock.monotonic() - self._last >= self.every:
            self.write(arrays, seconds)

    def write(self, arrays: dict[str, np.ndarray], seconds: float) -> None:
        """Write the state; the old file stays until the new one is complete."""
        note = {"format": _FORMAT, "identity": self._identity, "seconds": seconds}
        content = save(
            {name: np.ascontiguousarray(array) for name, array in arrays.items()},
            metadata={"veil": json.dumps(note, sort_keys=True)},
        )
        try:
            write_whole(self.path, content)
        except OSError as error:
            raise CheckpointError(f"cannot write the checkpoint {self.path}: {error.strerror}") from error
        self._last = clock.monotonic()


def read_checkpoint(path: str | Path, identity: dict[str, Any]) -> tuple[dict[str, np.ndarray], float]:
    """The state in a checkpoint and the seconds that were spent on it.

    **Raises:** `CheckpointError` where there is no such file, it is damaged, or it comes from another problem or from
    other settings; the message names each that differs.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            note = json.loads((file.metadata() or {}).get("veil", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint {path}: run without resume= to begin anew") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from None
    if not isinstance(note, dict) or note.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is no checkpoint of a search: its format is not {_FORMAT!r}")
    found = note.get("identity", {})
    wanted = json.loads(json.dumps(identity))
    differing = sorted(key for key in set(found) | set(wanted) if found.get(key) != wanted.get(key))
    if differing:
        details = "; ".join(f"{key}: {found.get(key)!r} there, {wanted.get(key)!r} here" for key in differing)
        raise CheckpointError(f"{path} is the checkpoint of another run ({details}): use the same problem and settings")
    return arrays, float(note.get("seconds", 0.0))
