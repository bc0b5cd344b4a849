"""What happens in the studio, told to every open page: the newest event under each key, so that no queue can grow."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

_LEAST_SECONDS = 0.05  # between two batches for one page: twenty a second, above what an eye follows
_MOST_LISTENERS = 32  # open pages


class _Listener:
    """One page: what it was not sent yet, and how to wake the task that sends it."""

    def __init__(self) -> None:
        self.waiting: dict[tuple[str, str], str] = {}
        self.changed, self._loop = asyncio.Event(), asyncio.get_running_loop()

    def wake(self) -> None:
        self._loop.call_soon_threadsafe(self.changed.set)


class Events:
    """Passes events on to the pages that listen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[_Listener] = []
        self._closed = False

    @property
    def is_full(self) -> bool:
        """Whether as many pages listen as there may be."""
        return len(self._listeners) >= _MOST_LISTENERS

    def publish(self, kind: str, data: dict[str, Any], key: str = "") -> None:
        """Tell every page; an event that was not sent yet is replaced by a later one of its kind and key."""
        text = f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n"
        with self._lock:
            for listener in self._listeners:
                listener.waiting.pop((kind, key), None)  # it is sent in the order of the newest
                listener.waiting[kind, key] = text
                listener.wake()

    async def texts(self) -> AsyncIterator[str]:
        """The texts to send to one page, without end until `close`."""
        listener = _Listener()
        with self._lock:
            self._listeners.append(listener)
        try:
            yield ": connected\n\n"
            while not self._closed:
                await listener.changed.wait()
                listener.changed.clear()
                with self._lock:
                    text = "".join(listener.waiting.values())
                    listener.waiting.clear()
                if text:
                    yield text
                    await asyncio.sleep(_LEAST_SECONDS)
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def close(self) -> None:
        """End every connection."""
        with self._lock:
            self._closed = True
            for listener in self._listeners:
                listener.wake()
