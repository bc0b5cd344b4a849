"""Opening a saved policy as the class it was."""

from pathlib import Path

from ..problem.errors import PolicyFileError
from .files import read_table
from .markov import MarkovPolicy
from .timed import TimedPolicy

_KINDS = {"markov": MarkovPolicy, "timed": TimedPolicy}


def load_policy(path: str | Path) -> MarkovPolicy | TimedPolicy:
    """The policy in a file written by `policy.save(path)`.

    **Raises:** `PolicyFileError` where the file is missing, damaged or no policy; `InputError` where its rows are not
    distributions.
    """
    kind, table = read_table(path)
    if kind not in _KINDS:
        raise PolicyFileError(f"{path} holds a policy of unknown kind {kind!r}, expected one of {sorted(_KINDS)}")
    return _KINDS[kind](table)
