"""What a policy file holds: the kind of a policy, and its table, from safetensors, which run no code when they are opened."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from ..common.ordinary import check_ordinary, reason
from ..common.verdicts import PolicyFileError

FORMAT = "veil-policy-1"
_NUMBERS = ("F64", "F32", "F16", "I64", "I32", "U8")
_TYPE = re.compile(r"[<>|]?[if][1248]")


def unpacked(described: Sequence[Sequence[Any]], table: np.ndarray) -> list[np.ndarray]:
    """The arrays that `packed` wrote; raises `ValueError` if the two do not belong together."""
    arrays: list[np.ndarray] = []
    begin, content = 0, table.tobytes()
    for name, *shape in described:
        # Compared before NumPy sees it, which knows many more names, and warns of some.
        if not _TYPE.fullmatch(name) or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"an array of {name!r} with shape {shape}")
        dtype = np.dtype(name)
        count = math.prod(shape) * dtype.itemsize
        arrays.append(np.frombuffer(content[begin : begin + count], dtype=dtype).reshape(shape))
        begin += count
    if begin != len(content):
        raise ValueError(f"{len(content)} bytes in {len(arrays)} arrays")
    return arrays


def read_table(path: str | Path) -> tuple[str, np.ndarray]:
    """The kind of a policy file and its table.

    The kind is `"markov"`, `"timed"`, `"memory"` and what is remembered, or `"history"` and what its arrays are.

    **Raises:** `PolicyFileError` on anything else.
    """
    try:
        check_ordinary(path)
        with safe_open(path, framework="numpy") as file:
            found = (file.metadata() or {}).get("veil", "")
            form, _, kind = found.partition(" ")
            if form != FORMAT or "probabilities" not in file.keys():  # noqa: SIM118
                raise PolicyFileError(
                    f"{path} is a safetensors file but not a policy of veil: its format is {found!r}, expected {FORMAT!r}"
                )
            if (numbers := file.get_slice("probabilities").get_dtype()) not in _NUMBERS:  # others need more than NumPy
                raise PolicyFileError(f"{path} holds numbers of type {numbers}, expected one of {', '.join(_NUMBERS)}")
            return kind, file.get_tensor("probabilities")
    except FileNotFoundError:
        raise PolicyFileError(f"there is no policy file {path}") from None
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, PolicyFileError):
            raise
        raise PolicyFileError(
            f"{path} cannot be read as a policy: {reason(error)}; write one with policy.save(path)"
        ) from None
