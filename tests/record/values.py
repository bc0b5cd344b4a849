"""Results as JSON holds them without loss, and what differs between two of them."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST_LISTED = 64  # entries of an array that are written out; of a larger one, its hash, sum, maximum and minimum
_COURSE = "course"  # how a search went: the same on the same machine only
_HASH = "sha256"


@dataclass(frozen=True)
class Digest:
    """A SHA-256, as 64 hexadecimal digits."""

    text: str

    @staticmethod
    def of(content: bytes) -> "Digest":
        """That of some bytes."""
        return Digest(hashlib.sha256(content).hexdigest())


def freeze(value: Any) -> Any:
    """A result as JSON: floats by `float.hex`, small arrays as lists of these, large ones by hash, sum, maximum, minimum."""
    if isinstance(value, Mapping):
        return {str(key): freeze(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [freeze(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return _freeze_array(value)
    if isinstance(value, Digest):
        return {_HASH: value.text}
    if isinstance(value, bytes):
        return {_HASH: Digest.of(value).text}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value.hex()
    raise TypeError(
        f"a case gave a {type(value).__name__}, expected numbers, arrays, bytes, lists and mappings of them"
    )


def _freeze_array(array: np.ndarray) -> dict[str, Any]:
    floats = np.ascontiguousarray(array, dtype="<f8")
    shape = list(array.shape)
    if floats.size <= _MOST_LISTED:
        return {"shape": shape, "values": [number.hex() for number in floats.ravel().tolist()]}
    # math.fsum, since NumPy's sum depends on the instructions that the processor has.
    ends = {"sum": math.fsum(floats.ravel().tolist()), "max": float(floats.max()), "min": float(floats.min())}
    hashed = hashlib.sha256(floats.tobytes()).hexdigest()
    return {"shape": shape, _HASH: hashed, **{name: end.hex() for name, end in ends.items()}}


def differences(frozen: Any, found: Any, tolerance: float | None, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each place where two frozen results differ, with both values.

    **Arguments:** `tolerance`: None to compare bit for bit; else the largest relative difference of numbers (absolute below
    1), and neither hashes are compared then nor how a search went.
    """
    if isinstance(frozen, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*frozen, *found)):
            if tolerance is not None and key in (_HASH, _COURSE):
                continue
            place = f"{where}.{key}" if where else key
            if key in frozen and key in found:
                yield from differences(frozen[key], found[key], tolerance, place)
            else:
                yield place, frozen.get(key, "absent"), found.get(key, "absent")
    elif isinstance(frozen, list) and isinstance(found, list) and len(frozen) == len(found):
        for number, (old, new) in enumerate(zip(frozen, found, strict=True)):
            yield from differences(old, new, tolerance, f"{where}[{number}]")
    elif not _same(frozen, found, tolerance):
        yield where, frozen, found


def _same(frozen: Any, found: Any, tolerance: float | None) -> bool:
    if type(frozen) is type(found) and frozen == found:
        return True
    if tolerance is None or not (isinstance(frozen, str) and isinstance(found, str)):
        return False
    old, new = float.fromhex(frozen), float.fromhex(found)
    if math.isnan(old) or math.isnan(new):
        return math.isnan(old) and math.isnan(new)
    return old == new or abs(old - new) <= tolerance * max(1.0, abs(old), abs(new))


def shown(value: Any) -> str:
    """A frozen value for people: a float with its decimal form beside the exact one."""
    if isinstance(value, str) and value.lstrip("-").startswith("0x") and len(value) < 40:
        return f"{float.fromhex(value)!r} ({value})"
    text = str(value)
    return text if len(text) <= 100 else text[:97] + "…"
