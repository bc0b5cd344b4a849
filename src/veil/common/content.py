"""The hash of a content that is a kind and arrays, the same on every machine."""

import hashlib
from collections.abc import Sequence

import numpy as np


def content_hash(kind: str, arrays: Sequence[np.ndarray]) -> str:
    """SHA-256 of a policy's content, in hexadecimal, the same on every machine: numbers as 64 bits, -0.0 as 0.0."""
    digest = hashlib.sha256(f"veil policy, form 1: {kind}; {len(arrays)} arrays".encode())
    for array in arrays:
        numbers = (array + 0.0).astype("<f8") if array.dtype.kind == "f" else array.astype("<i8")
        digest.update(f"{numbers.dtype.str}{numbers.shape};".encode() + np.ascontiguousarray(numbers).tobytes())
    return digest.hexdigest()
