"""Checkpoints of a search: all of its numbers in one safetensors file, so that it can be taken up again exactly."""

import contextlib
import glob
import hashlib
import json
import time as clock
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ..common.errors import CheckpointError
from ..common.files import check_ordinary, reason, write_whole
from ..common.json_text import parse_json

_FORMAT = "veil-checkpoint-2"
_MARKER = b"veil-checkpoint-"
# Temporary files of a process that was killed while it wrote are removed once they are this old: no file takes that long.
_STALE_SECONDS = 600.0


class Checkpoint:
    """Writes the state of a search periodically.

    **Arguments:** `path`; `identity`: what a run must have in common with the one that wrote the file: the problem's
    fingerprint and every setting that the result depends on; `every`: seconds between two files.

    **Attributes:** `plan`: the document of the plan that the search follows, None for what has none.

    **Raises:** `CheckpointError`, at once, where there is no such directory.
    """

    def __init__(self, path: str | Path, identity: dict[str, object], every: float):
        self.path, self.every = Path(path), every
        self._identity = identity
        self.plan: dict[str, object] | None = None
        self._last = clock.monotonic()
        if not self.path.parent.is_dir():
            raise CheckpointError(f"cannot write the checkpoint {path}: there is no directory {self.path.parent}")
        if self.path.exists() and (not self.path.is_file() or _MARKER not in self.path.read_bytes()):
            raise CheckpointError(f"{path} exists and is not a checkpoint: choose another name for the checkpoint")
        remove_stale(self.path)

    @property
    def is_due(self) -> bool:
        """Whether the last file is old enough."""
        return clock.monotonic() - self._last >= self.every

    def write(self, arrays: dict[str, np.ndarray], seconds: float) -> None:
        """Write the state; the old file stays until the new one is complete."""
        arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
        note = {"format": _FORMAT, "identity": self._identity, "seconds": seconds, "plan": self.plan}
        note["sum"] = _sum(note, arrays)
        content = save(
            arrays,
            metadata={"search": json.dumps(note, sort_keys=True)},
        )
        try:
            write_whole(self.path, content, marker=_MARKER)
        except OSError as error:
            raise CheckpointError(f"cannot write the checkpoint {self.path}: {reason(error)}") from error
        self._last = clock.monotonic()


def remove_stale(path: Path) -> None:
    """Remove what processes that were killed left beside a checkpoint; a file that is being written is never as old."""
    for found in path.parent.glob(f".{glob.escape(path.name)}.*"):
        with contextlib.suppress(OSError):  # another run may have removed it
            if clock.time() - found.stat().st_mtime > _STALE_SECONDS:
                found.unlink()


def _sum(note: dict[str, object], arrays: dict[str, np.ndarray]) -> str:
    """A hash of the note and of the arrays' names, types, shapes and contents, by which damage is noticed."""
    total = hashlib.sha256(json.dumps(note, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape};".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def read_checkpoint(
    path: str | Path, identity: dict[str, object]
) -> tuple[dict[str, np.ndarray], float, dict[str, Any] | None]:
    """The state in a checkpoint, the seconds that were spent on it, and the document of the plan that it follows.

    **Raises:** `CheckpointError` where there is no such file, it is damaged, or it comes from another problem or from
    other settings; the message names each that differs.
    """
    try:
        check_ordinary(path)
        with safe_open(path, framework="numpy") as file:
            note = parse_json((file.metadata() or {}).get("search", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint {path}: run without resume= to start again") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}") from None
    if not isinstance(note, dict) or note.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint of a search: its format is not {_FORMAT!r}")
    if note.pop("sum", None) != _sum(note, arrays):
        raise CheckpointError(f"{path} is damaged: its numbers are not the ones that were written")
    found = note.get("identity", {})
    wanted = json.loads(json.dumps(identity))
    differing = sorted(key for key in set(found) | set(wanted) if found.get(key) != wanted.get(key))
    if differing:
        details = "; ".join(f"{key}: {found.get(key)!r} there, {wanted.get(key)!r} here" for key in differing)
        raise CheckpointError(f"{path} is the checkpoint of another run ({details}): use the same problem and settings")
    return arrays, float(note.get("seconds", 0.0)), note.get("plan")
