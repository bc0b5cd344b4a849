"""The server of the studio: on this machine only, for the browsers that were let in."""

import hmac
import logging
import secrets
import socket
import threading
from collections.abc import Callable

from ..common.errors import MissingExtraError
from .state import Studio

try:
    import uvicorn

    from .app import make_app
    from .connections import StudioConnection
except ImportError as error:
    raise MissingExtraError("the studio needs Starlette and uvicorn: pip install 'veil[studio]'") from error

HOST = "127.0.0.1"
_SECONDS = 20  # in which a whole request has to arrive
_END_SECONDS = 5.0  # that answers in progress have when the server ends


class StudioServer:
    """Serves one studio; `address` is the link that lets one browser in.

    A browser that was let in gets the secret `session`, which its page sends with every request. It is another one at each
    start, and nothing on disk holds it.

    **Arguments:** `studio`; `port`: 0 for a free one; `told`: called with a new link after one was used; `seconds`: in which
    a request has to arrive.

    **Raises:** `OSError` if the port is taken.
    """

    def __init__(
        self,
        studio: Studio,
        port: int = 0,
        told: Callable[[str], None] = lambda address: None,
        *,
        seconds: int = _SECONDS,
    ):
        self.studio, self._told = studio, told
        self.session = secrets.token_urlsafe(32)
        self._token, self._lock = secrets.token_urlsafe(32), threading.Lock()
        self._socket = socket.create_server((HOST, port), backlog=64)
        self.port = int(self._socket.getsockname()[1])
        self.hosts = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        # Requests are not logged: their addresses hold folders of the user.
        config = uvicorn.Config(
            make_app(self), http=StudioConnection, ws="none", loop="asyncio", lifespan="off", server_header=False,
            log_config=None, log_level=logging.CRITICAL, access_log=False, timeout_keep_alive=seconds,
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    @property
    def address(self) -> str:
        """The newest link, which lets one browser in, once."""
        return f"http://{HOST}:{self.port}/#token={self._token}"

    def lets_in(self, token: str) -> bool:
        """Whether a token is the one of the newest link, which is then used up."""
        with self._lock:
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                return False
            self._token = secrets.token_urlsafe(32)
        self._told(self.address)
        return True

    def start(self) -> None:
        """Answer requests in a thread."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until the server has ended."""
        self._thread.join()

    def close(self) -> None:
        """End the server, its port and the connections that wait for events."""
        self.studio.events.close()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)
        self._socket.close()
