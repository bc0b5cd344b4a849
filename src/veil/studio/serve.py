"""From the command to a running studio, and its orderly end."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Protocol

from ..common.errors import InputError
from ..common.files import file_errors, reason
from .own import open_own
from .server import HOST, StudioServer
from .state import Studio, read_source

_OPENER = "open.html"


class Tell(Protocol):
    """What is called with each link."""

    def __call__(self, address: str, *, first: bool) -> None: ...  # noqa: D102


def serve(folder: Path, scenario: str | None, *, port: int, opens: bool, tell: Tell) -> None:
    """Serve the studio in a folder until Ctrl-C or SIGTERM.

    **Arguments:** `scenario`: a file or `gallery:NAME`; None for what the folder has, or a new one. `port`: 0 for the one that
    the folder had last, so that open pages find it again, or a free one. `opens`: whether a browser is opened.

    **Raises:** `InputError` where folder, scenario or port cannot be used.
    """
    if scenario is not None:
        read_source(scenario)  # before a folder is made for it
    studio = Studio(folder)
    with studio.working():
        page = studio.folder / _OPENER

        def told(address: str) -> None:
            page.unlink(missing_ok=True)  # its link was used
            tell(address, first=False)

        with file_errors(folder, "it cannot be written"):
            studio.open(scenario)
            server = _bound(studio, port, told)
            studio.keep_port(server.port)
        tell(server.address, first=True)
        try:
            if opens:
                _open_browser(server.address, page)
            threading.Thread(target=_prepare, daemon=True).start()
            _until_ended(server)
        finally:
            page.unlink(missing_ok=True)


def _bound(studio: Studio, port: int, told: Callable[[str], None]) -> StudioServer:
    for wanted in (port,) if port else (studio.port, 0):
        try:
            return StudioServer(studio, wanted, told)
        except OSError as error:
            words = f"{HOST}:{wanted} cannot be used: {reason(error)}"
            if port:
                raise InputError("--port", [f"{words}; omit --port for a free one"]) from None
            if wanted:
                note = "pages that are still open cannot find this server"
                print(f"veil: {words}; the studio takes another port, and {note}", file=sys.stderr, flush=True)
    raise InputError("--port", [f"there is no free port on {HOST}"])


def _open_browser(address: str, page: Path) -> None:
    """Open a file that leads to the address, without waiting, since some browsers do not return.

    Everybody on this machine can read the command line of a browser, and nobody else can read the file.
    """
    import webbrowser
    from html import escape

    page.unlink(missing_ok=True)
    with open_own(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600) as file:
        link = escape(address)
        begin = '<!doctype html><meta charset="utf-8"><title>veil studio</title>'
        lead = f'<meta http-equiv="refresh" content="0; url={link}"><p><a href="{link}">Open the studio</a></p>'
        file.write((begin + lead).encode())
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()


def _prepare() -> None:
    """Import what the panes need first, while the browser opens."""
    from .settings import choices

    choices()


def _until_ended(server: StudioServer) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        server.start()
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        server.close()
        server.studio.runs.close()
