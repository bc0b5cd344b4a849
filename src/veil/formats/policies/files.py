"""Opening a saved policy: by the extension of the file, in any format that holds policies."""

from pathlib import Path

from ...common.errors import PolicyFileError
from ...policy import load
from ...policy.policy import Policy
from ...problem.problem import Problem
from ..registry import can, find_format, suffixes


def load_policy(path: str | Path, problem: Problem | None = None) -> Policy:
    """The policy in a file: safetensors, as `policy.save(path)` writes, or text, as `veil convert` writes (JSON, CSV).

    **Arguments:** `problem`: if it is given, the rows and actions of a text are found in it by their names, in any
    order, and a CSV file may be written by hand: lines `time,row,action,probability`.

    The extension decides the format; a file with any other extension is read as safetensors. Numbers are read to the last
    bit.

    **Raises:** `PolicyFileError` if the file is missing, damaged or not a policy, with the line; `InputError` if its
    rows are missing, unknown or not distributions. Both name the file.
    """
    if can("read_policy", path):
        read = find_format("read_policy", path).read_policy
        assert read is not None
        return read(Path(path), problem)
    try:
        return load.load_policy(path)
    except PolicyFileError as error:
        known = ", ".join(suffixes("read_policy"))
        raise PolicyFileError(f"{error} (expected one of the extensions {known})") from None


def read_safetensors(path: Path, problem: Problem | None) -> Policy:
    """The policy that `policy.save` wrote; the problem is not needed."""
    return load.load_policy(path)


def write_safetensors(path: Path, problem: Problem, policy: Policy) -> None:
    """`policy.save`; the problem is not needed."""
    policy.save(path)
