"""Connections of the studio: a whole request has to arrive in time, and strangers give way to who was let in."""

import asyncio
import json
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_MOST = 64  # connections; a browser has six, and every tab but one only asks now and then


class StudioConnection(H11Protocol):
    """One connection; `config.timeout_keep_alive` is the time in seconds in which each request has to arrive.

    **Attributes:** `since`, when the last request began; `trusted`, whether it has shown the secret.
    """

    trusted, since = False, 0.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait for a request, in place of the stranger that has taken longest if there are too many."""
        super().connection_made(transport)
        self.app_state = {"connection": self}
        self._begin()
        if len(self.connections) > _MOST:
            strangers = [one for one in self.connections if isinstance(one, StudioConnection) and not one.trusted]
            min(strangers, key=lambda one: one.since).transport.abort()  # this one is among them

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request; once it is complete, the answer has all the time that it needs."""
        super().data_received(data)
        if self._is_answering():
            self._stop_clock()

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Whether the connection stays open: for the answer to a complete request."""
        if self._is_answering():
            self.cycle.keep_alive = False
            return True
        return False

    def on_response_complete(self) -> None:
        """Wait for the next request, whose sender is a stranger again."""
        self.trusted = False
        self._begin()
        super().on_response_complete()
        if self._is_answering():  # it had been sent already
            self._stop_clock()

    def send_400_response(self, msg: str) -> None:
        """Say in JSON what is wrong with a request that cannot be read."""
        error = sys.exception()
        status = 411 if "Content-Length" in str(error) else 400
        headers = [("content-type", "application/json; charset=utf-8"), ("connection", "close")]
        content = json.dumps({"error": f"{msg.rstrip('.')}: {error}"}).encode()
        events: list[Any] = [h11.Response(status_code=status, headers=headers), h11.Data(content), h11.EndOfMessage()]
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    def _begin(self) -> None:
        self._stop_clock()
        self.since = self.loop.time()
        self._late = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
