"""What all documents of players are made of: rules tabulated over as few columns as determine them, and packed tables."""

import base64
import zlib
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

COLUMNS = ("memory", "state", "action", "entered", "reading", "held")
MOST_STEPS = 2**22  # steps of a memory that are tabulated
_MOST_LISTED = 2_000  # numbers of a table that are written one by one

Document = dict[str, Any]


def tabulated(columns: dict[str, np.ndarray], value: np.ndarray, names: tuple[str, ...]) -> Document:
    """The values as a table of as few columns as determine them."""
    for count in range(len(names) + 1):
        for chosen in combinations(names, count):
            keys = (
                np.stack([columns[name] for name in chosen], axis=1) if chosen else np.zeros((len(value), 0), dtype=int)
            )
            kinds, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
            if np.array_equal(value[first][kind.ravel()], value):
                texts = (" ".join(map(str, key)) for key in kinds.tolist())
                return {"by": list(chosen), "table": dict(zip(texts, value[first].tolist(), strict=True))}
    raise AssertionError("all columns together determine the value")


def packed_table(table: Float[np.ndarray, "T C A"]) -> Document:
    """A table as JSON holds it: listed where it is short, else the little-endian bytes, compressed, in base64."""
    shape = list(table.shape)
    if table.size <= _MOST_LISTED:
        return {"shape": shape, "values": table.ravel().tolist()}
    content = zlib.compress(np.ascontiguousarray(table, dtype="<f8").tobytes(), 9)
    return {"shape": shape, "packed": base64.b64encode(content).decode("ascii")}
