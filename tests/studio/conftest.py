"""A studio that is served from this process, requests to it, and a browser that has been let in."""

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from tests.browser import launched, window
from veil.studio.server import StudioServer
from veil.studio.state import Studio


class Client:
    """Sends requests as the page does, or otherwise."""

    def __init__(self, server: StudioServer):
        self.server = server
        self.own = {
            "Host": f"127.0.0.1:{server.port}",
            "Origin": f"http://127.0.0.1:{server.port}",
            "Authorization": f"Bearer {server.session}",
            "Content-Type": "application/json",
        }

    def raw(
        self, method: str, path: str, body: bytes | None = None, **headers: str | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and content of the answer; a header that is given as None is left out."""
        sent = {**self.own, **{name.replace("_", "-"): value for name, value in headers.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            if "Content-Length" not in sent:
                connection.putheader("Content-Length", str(len(body or b"")))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def __call__(self, method: str, path: str, body: object = None, status: int = 200) -> Any:
        """The JSON of the answer, which must have a status."""
        content = None if body is None else json.dumps(body).encode()
        found, _, answer = self.raw(method, path, content)
        assert found == status, answer
        return json.loads(answer)


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    made = Studio(tmp_path / "studio")
    made.open("gallery:two-rooms")
    yield made
    made.runs.close()


@pytest.fixture
def server(studio: Studio) -> Iterator[StudioServer]:
    with studio.working():
        made = StudioServer(studio)
        made.start()
        yield made
        made.close()


@pytest.fixture
def client(server: StudioServer) -> Client:
    return Client(server)


@pytest.fixture(scope="module")  # not for the session: while Playwright runs, no other test can start an event loop
def chromium() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def open_studio(chromium: Browser, server: StudioServer) -> Iterator[Callable[..., Page]]:
    """Opens the studio in a window of its own, by its link.

    Until the test ends, an error or warning in the console, or a request to another host, fails the test; a browser says there
    too that a request was refused, which is no fault where the test says so (`refused=True`).
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def allowed(address: str) -> bool:
        return urlsplit(address).netloc == f"127.0.0.1:{server.port}" or address == "data:,"

    def open_page(*, pane: str = "", width: int = 1280, dark: bool = False, refused: bool = False) -> Page:
        def complain(said: ConsoleMessage) -> None:
            if said.type in ("error", "warning") and not (
                refused and "the server responded with a status of 4" in said.text
            ):
                complaints.append(said.text)

        context = window(chromium, width, dark=dark)
        contexts.append(context)
        page = context.new_page()
        page.on("console", complain)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: None if allowed(asked.url) else complaints.append(asked.url))
        page.goto(server.address)
        page.wait_for_selector("body[data-ready=yes]")
        if pane:
            page.locator(f"#tab-{pane}").click()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
