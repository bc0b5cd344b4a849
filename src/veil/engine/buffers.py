"""Memory that is used again: arrays of one pass serve the next, and the C library keeps the pages of small ones."""

from bisect import bisect_left
from functools import cache
from threading import Lock

import numpy as np

from ..common.memo import memo
from .hidden import Hidden

_MOST_KEPT = 2**28  # numbers kept for the next pass over a chain: 2 GiB
_LARGEST_FROM_HEAP = 31 * 2**20  # bytes; glibc serves allocations of up to 32 MiB from its heap once it has seen one


class Buffers:
    """Arrays of passes over one hidden chain, which a pass takes and gives back.

    A fresh array of many MiB comes as untouched pages, and touching them first costs as much as the arithmetic on them. An
    array that is not given back is freed as any other. Threads may share the buffers.
    """

    def __init__(self):
        self._free: list[np.ndarray] = []  # by size
        self._sizes: list[int] = []
        self._kept = 0  # numbers in them
        self._lock = Lock()

    @staticmethod
    def of(hidden: Hidden) -> "Buffers":
        """The buffers of a chain; they are freed with it."""
        return memo(hidden, Buffers, Buffers)

    def take(self, rows: int, columns: int) -> np.ndarray:
        """An array `(rows, columns)` with arbitrary contents."""
        size = rows * columns
        with self._lock:
            place = bisect_left(self._sizes, size)
            if place < len(self._sizes) and self._sizes[place] <= 2 * size:
                flat = self._free.pop(place)
                self._kept -= self._sizes.pop(place)
            else:
                flat = np.empty(size)
        return flat[:size].reshape(rows, columns)

    def give(self, *arrays: np.ndarray | None) -> None:
        """Give arrays back that nothing refers to any more."""
        with self._lock:
            for array in arrays:
                owner = array if array is None or array.base is None else array.base
                if owner is None or not owner.flags.c_contiguous:
                    continue
                if owner.size + self._kept <= _MOST_KEPT:
                    self._kept += owner.size
                    place = bisect_left(self._sizes, owner.size)
                    self._sizes.insert(place, owner.size)
                    self._free.insert(place, owner.reshape(-1))


@cache
def keep_pages() -> None:
    """Let the C library keep the pages of freed arrays for the next ones: one large array, allocated and freed, untouched.

    glibc raises its thresholds when it sees that (`man mallopt`, M_MMAP_THRESHOLD); other libraries do not care. A gradient
    over 2,000 sequences then takes 10 ms instead of 15, since it touches no fresh page.
    """
    np.empty(_LARGEST_FROM_HEAP, dtype=np.uint8)
