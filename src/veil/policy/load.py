"""Opening a saved policy as the class it was."""

from pathlib import Path

import numpy as np

from ..common.errors import InputError, PolicyFileError
from .features import features_from
from .files import read_table
from .history import history_from
from .markov import MarkovPolicy, TimedPolicy
from .memory import MemoryPolicy, memory_from_text
from .policy import Policy

_KINDS = ("features", "history", "markov", "memory", "timed")


def load_policy(path: str | Path) -> Policy:
    """The policy in a file written by `policy.save(path)`.

    **Raises:** `PolicyFileError` where the file is missing, damaged or no policy; `InputError` where its rows are not
    distributions. Both name the file.
    """
    found, table = read_table(path)
    try:
        return _make(found, table, path)
    except InputError as error:
        raise InputError(f"{path}: {error.subject}", error.defects) from None


def _make(found: str, table: np.ndarray, path: str | Path) -> Policy:
    kind, _, rest = found.partition(" ")
    if kind == "memory":
        return MemoryPolicy(memory_from_text(rest, path), table)
    if kind == "features":
        return features_from(rest, table, path)
    if kind == "history":
        return history_from(rest, table, path)
    if found not in _KINDS:
        raise PolicyFileError(f"{path} holds a policy of unknown kind {found!r}, expected one of {sorted(_KINDS)}")
    return MarkovPolicy(table) if kind == "markov" else TimedPolicy(table)
