"""Memory that two processes share: the arrays of their messages are copied through it, and not through a pipe."""

import mmap
import os
import pickle
import tempfile
from collections.abc import Sequence
from typing import Any

Written = list[int] | list[bytes]
"""Where arrays are: their sizes, one after the other in a region; or themselves, on a system that shares no memory."""


class Region:
    """A file without a name that two processes map; nobody else can open it.

    **Arguments:** `handle`: that of the file, which the other process made; None if files are not inherited.
    """

    def __init__(self, handle: int | None):
        self.handle, self._map = handle, None

    @classmethod
    def new(cls) -> "Region":
        """An empty one, whose handle a process inherits that is told to."""
        if os.name != "posix":
            return cls(None)
        if hasattr(os, "memfd_create"):
            return cls(os.memfd_create("veil"))
        with tempfile.TemporaryFile() as file:
            return cls(os.dup(file.fileno()))

    def write(self, arrays: Sequence[pickle.PickleBuffer]) -> Written:
        """Copy arrays into the region, over those before."""
        views = [array.raw() for array in arrays]
        if self.handle is None:
            return [bytes(view) for view in views]
        total, end = sum(view.nbytes for view in views), 0
        if total:
            room = self._room(total)
            for view in views:
                begin, end = end, end + view.nbytes
                room[begin:end] = view
        return [view.nbytes for view in views]

    def read(self, written: Written) -> list[Any]:
        """Copies of what the other process has written."""
        found, end = list[Any](), 0
        for one in written:
            if isinstance(one, int):
                begin, end = end, end + one
                found.append(bytearray(self._room(end)[begin:end] if one else b""))
            else:
                found.append(bytearray(one))
        return found

    def _room(self, size: int) -> memoryview:
        """The region, with so many bytes at least."""
        assert self.handle is not None
        if self._map is None or len(self._map) < size:
            if os.fstat(self.handle).st_size < size:
                os.ftruncate(self.handle, size)
            self._map = mmap.mmap(self.handle, 0)
        return memoryview(self._map)

    def clear(self) -> None:
        """Give the memory back; what was written has been read."""
        self._map = None
        if self.handle is not None:
            os.ftruncate(self.handle, 0)

    def close(self) -> None:
        """Forget the memory."""
        if self.handle is not None:
            os.close(self.handle)
        self.handle, self._map = None, None
