"""The plain arrays of a policy, read from its file."""

import json
from pathlib import Path

import numpy as np

from ..common.json_text import parse_json
from ..common.verdicts import CertificateError, CertificateFileError, PolicyFileError
from ..policy.stored import read_table, unpacked
from .agent import Agent


def read_agent(path: str | Path) -> Agent:
    """The policy in a file.

    **Raises:** `CertificateFileError` where there is none or it cannot be read; `CertificateError` where it is no policy, or
    one whose table only the package can compute.
    """
    try:
        kind, table = read_table(path)
    except PolicyFileError as error:
        missing = isinstance(error.__context__, OSError) and not isinstance(error.__context__, ValueError)
        raise (CertificateFileError if missing else CertificateError)(str(error)) from None
    word, _, rest = kind.partition(" ")
    if word in ("markov", "timed") and not rest:
        return Agent(word, [table if word == "timed" else table[None]])
    if word == "memory":
        timed = '"clock":true' in rest
        return Agent(f"{'timed' if timed else 'markov'}, memory {rest}", [table if timed else table[None]])
    if word == "history":
        return _read_history(rest, table)
    raise CertificateFileError(f"{path} is a policy of the kind {word!r}, which is checked with its scenario only")


def _read_history(head: str, packed: np.ndarray) -> Agent:
    """A history policy: what its arrays are, and their bytes one after the other."""
    try:
        said = parse_json(head)
        arrays = unpacked(said["arrays"], packed)
        kind = f"history, executable {said['executable'] is True}, told at {said['told_at']}"
        return Agent(kind + (f", sees {json.dumps(said['sees'])}" if "sees" in said else ""), arrays)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, CertificateError):
            raise
        raise CertificateError(f"policy: its file cannot be read as a history policy ({error})") from None
