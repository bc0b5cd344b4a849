"""From the command to a running studio, and its orderly end."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Protocol

from ..common.errors import InputError
from .server import HOST, StudioServer
from .state import Studio, read_source


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
        studio.open(scenario)
        server = _bound(studio, port, lambda address: tell(address, first=False))
        studio.keep_port(server.port)
        tell(server.address, first=True)
        if opens:
            _open_browser(server.address)
        threading.Thread(target=_prepare, daemon=True).start()
        _until_ended(server)


def _bound(studio: Studio, port: int, told: Callable[[str], None]) -> StudioServer:
    for wanted in (port,) if port else (studio.port, 0):
        try:
            return StudioServer(studio, wanted, told)
        except OSError as error:
            if port:
                words = f"{HOST}:{port} cannot be used: {error.strerror or error}"
                raise InputError("--port", [words]) from None
    raise InputError("--port", [f"there is no free port on {HOST}"])


def _open_browser(address: str) -> None:
    """Without waiting: some browsers do not return."""
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _prepare() -> None:
    """Import what the panes need first, while the browser opens."""
    from .settings import choices

    choices()


def _until_ended(server: StudioServer) -> None:
    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        server.server_close()
        server.studio.runs.close()
