"""A real browser for tests: headless Chromium, driven over its DevTools protocol with the standard library alone."""

import base64
import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
          "--disable-extensions", "--disable-background-networking", "--disable-component-update", "--disable-sync",
          "--no-default-browser-check", "--remote-debugging-port=0", "--remote-allow-origins=*",
          "--hide-scrollbars")  # fmt: skip


class _Socket:
    """Just enough of a WebSocket: text messages, masked as a client must."""

    def __init__(self, address: str):
        host, _, path = address.removeprefix("ws://").partition("/")
        name, _, port = host.partition(":")
        self._stream = socket.create_connection((name, int(port)), timeout=60)
        key = base64.b64encode(os.urandom(16)).decode()
        self._stream.sendall(
            f"GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self._read(1)
        assert b" 101 " in answer.split(b"\r\n")[0], answer

    def send(self, text: str) -> None:
        payload, mask = text.encode(), os.urandom(4)
        size = len(payload)
        head = struct.pack("!BB", 0x81, 0x80 | size) if size < 126 else (
            struct.pack("!BBH", 0x81, 0xFE, size) if size < 65536 else struct.pack("!BBQ", 0x81, 0xFF, size))  # fmt: skip
        self._stream.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)))

    def receive(self) -> str:
        message = b""
        while True:
            first, second = self._read(2)
            size = second & 0x7F
            if size >= 126:
                size = int.from_bytes(self._read(2 if size == 126 else 8), "big")
            payload = self._read(size)
            if first & 0x0F in (0, 1, 2):  # not a ping or a pong
                message += payload
                if first & 0x80:
                    return message.decode()

    def close(self) -> None:
        self._stream.close()

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            part = self._stream.recv(size - len(found))
            assert part, "the browser hung up"
            found += part
        return found


class Page:
    """One page: what it logs, what it asks the network for, and what a script finds in it.

    **Attributes:** `complaints`, everything the console shows as an error or warning, and uncaught exceptions; `requests`,
    the addresses of all requests.
    """

    def __init__(self, address: str):
        self._socket, self._number = _Socket(address), 0
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": arguments}))
        while True:
            message = json.loads(self._socket.receive())
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._note(message)

    def open(self, path: Path, *, width: int = 1280, dark: bool = False) -> float:
        """Open a file; returns the seconds until it was loaded and drawn."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])  # fmt: skip
        self._events.clear()
        begin = time.monotonic()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._note(json.loads(self._socket.receive()))
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return time.monotonic() - begin

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def shot(self, path: Path) -> None:
        """A picture of the whole page."""
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        found = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        self._socket.close()

    def _note(self, message: dict[str, Any]) -> None:
        self._events.append(message)
        method, given = message["method"], message["params"]
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(given["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(given["args"]))
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(json.dumps(given["entry"]))


@contextlib.contextmanager
def browser() -> Iterator[Page]:
    """An empty page in a browser of its own."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = subprocess.Popen(
            [CHROMIUM, *_FLAGS, f"--user-data-dir={home}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"HOME": home},
        )  # fmt: skip
        try:
            page = Page(_address(Path(home) / "DevToolsActivePort", process))
            try:
                yield page
            finally:
                page.close()
        finally:
            process.terminate()
            process.wait(timeout=20)


def _address(place: Path, process: subprocess.Popen) -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, "the browser did not start"
        if place.exists() and "\n" in (text := place.read_text()):
            with urllib.request.urlopen(f"http://127.0.0.1:{text.split()[0]}/json", timeout=20) as answer:
                pages = [one for one in json.load(answer) if one["type"] == "page"]
            if pages:
                return pages[0]["webSocketDebuggerUrl"]
        time.sleep(0.05)
    raise AssertionError("the browser did not open its port")
