"""The hash of a content made of texts, numbers, arrays, sparse tables, lists and mappings, the same on every machine."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse as sp


def content_hash(*content: object) -> str:
    """SHA-256 of a content, in hexadecimal.

    Every part is written with its kind and its sizes before it, so that no two contents are written alike. Numbers are 64-bit
    and little-endian; -0.0 is 0.0; sparse tables are in canonical form; the order of a mapping counts.
    """
    digest = hashlib.sha256()
    for part in _parts(content):
        digest.update(part)
    return digest.hexdigest()


def _parts(value: object) -> Iterator[bytes]:
    """The bytes of a content, a part at a time."""
    if value is None:
        yield b"-"
    elif isinstance(value, str):  # names come from anywhere; each has bytes of its own
        text = value.encode("utf-8", "surrogatepass")
        yield b"s" + _size(len(text)) + text
    elif isinstance(value, Mapping):
        yield b"m" + _size(len(value))
        for item in value.items():
            yield from _parts(item)
    elif sp.issparse(value):
        table = sp.csr_array(value, copy=True)
        table.sum_duplicates()  # sorts as well
        table.eliminate_zeros()
        yield b"t"
        yield from _parts([np.array(table.shape), table.indptr, table.indices, table.data])
    elif isinstance(value, Sequence):
        yield b"l" + _size(len(value))
        for item in value:
            yield from _parts(item)
    else:
        array = np.asarray(value)
        floats = array.dtype.kind == "f"
        numbers = (array + 0.0).astype("<f8") if floats else array.astype("<i8")
        yield (b"f" if floats else b"i") + b"".join(map(_size, (numbers.ndim, *numbers.shape)))
        yield numbers.tobytes()


def _size(number: int) -> bytes:
    return number.to_bytes(8, "little")
