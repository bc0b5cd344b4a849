"""What happens in the studio, told to every open page: the newest event under each key, so that no queue can grow."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LEAST_SECONDS = 0.05  # between two batches for one page: twenty a second, above what an eye follows
_BEAT_SECONDS = 2.0  # after which a quiet connection gets a comment, by which a closed one is noticed
_MOST_LISTENERS = 32  # open pages; a browser has six connections for each host


class Events:
    """Passes events on to the pages that listen."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._listeners: list[dict[tuple[str, str], str]] = []
        self._closed = False

    def publish(self, kind: str, data: dict[str, Any], key: str = "") -> None:
        """Tell every page; an event that was not sent yet is replaced by a later one of its kind and key."""
        text = f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False, allow_nan=False)}\n\n"
        with self._changed:
            for waiting in self._listeners:
                waiting.pop((kind, key), None)  # it is sent in the order of the newest
                waiting[kind, key] = text
            self._changed.notify_all()

    @contextmanager
    def listening(self) -> Iterator[Iterator[str]]:
        """The texts to send to one page, without end until `close`; raises `OverflowError` for too many pages."""
        waiting: dict[tuple[str, str], str] = {}
        with self._changed:
            if len(self._listeners) >= _MOST_LISTENERS:
                raise OverflowError
            self._listeners.append(waiting)
        try:
            yield self._texts(waiting)
        finally:
            with self._changed:
                self._listeners = [one for one in self._listeners if one is not waiting]

    def _texts(self, waiting: dict[tuple[str, str], str]) -> Iterator[str]:
        yield ": connected\n\n"
        while True:
            with self._changed:
                self._changed.wait_for(lambda: waiting or self._closed, _BEAT_SECONDS)
                if self._closed:
                    return
                text = "".join(waiting.values()) or ": \n\n"
                waiting.clear()
            yield text
            time.sleep(_LEAST_SECONDS)

    def close(self) -> None:
        """End every connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
