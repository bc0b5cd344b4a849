"""Whether compiled loops serve a search on samples: where Numba is installed and the work is worth it."""

import functools
import importlib.util
from typing import Any

from ..hidden import Hidden

WORTH_SECONDS = 6.0
"""Of plain passes, by counted work, from which on a search uses the loops.

They halve the time of a pass. Numba is imported in 0.15 s and its cache is read in 0.2 s; the first time on a machine they are
compiled, in 3 s on cores that others use. So a search of this length loses nothing even then."""

_MOST_PLACES = 2**31  # entries of a table to draw from: the loops index with 32 bits


def serves(hidden: Hidden, seconds: float) -> bool:
    """Whether a search over a sparse chain uses the loops, if its plain passes are forecast to take so many seconds.

    Not where the table of events is too large to be kept as a dense array; everything else that passes can do the loops can do.
    """
    if seconds < WORTH_SECONDS or hidden.written is not None:
        return False
    if hidden.kernel.num_entries * hidden.kernel.num_actions >= _MOST_PLACES:
        return False
    return all(emitter.columns.dense is not None for emitter in hidden.emitters) and loops() is not None


@functools.cache
def loops() -> Any:
    """The module `loops`; None where Numba is not installed or does not go with the NumPy that is."""
    if importlib.util.find_spec("numba") is None:
        return None
    try:
        from . import loops as module
    except ImportError:
        return None
    return module
