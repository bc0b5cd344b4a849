"""The server of the studio: on this machine only, for browsers that were let in, and for its own page alone."""

import hmac
import io
import json
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from ..common.errors import VeilError
from ..report.assets import figures_script
from .routes import Refused, find, text_of
from .state import Studio

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HOST = "127.0.0.1"
MOST_BYTES = 2**23  # of the body of a request: a model file that is opened, or a scenario
_MOST_CONNECTIONS = 64
_SECONDS = 20.0  # in which a whole request has to arrive
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class StudioServer(ThreadingHTTPServer):
    """Serves one studio; `address` is the link that lets one browser in.

    A browser that was let in gets the secret `session`, which its page sends with every request. It is another one at each
    start, and nothing on disk holds it.

    **Arguments:** `studio`; `port`: 0 for a free one; `told`: called with a new link after one was used; `seconds`: in which
    a request has to arrive.

    **Raises:** `OSError` where the port is taken.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(
        self,
        studio: Studio,
        port: int = 0,
        told: Callable[[str], None] = lambda address: None,
        *,
        seconds: float = _SECONDS,
    ):
        self.studio, self.seconds, self._told = studio, seconds, told
        self.session = secrets.token_urlsafe(32)
        self._token, self._lock = secrets.token_urlsafe(32), threading.Lock()
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._strangers: dict[socket.socket, None] = {}  # connections that have not shown the secret, the oldest first
        super().__init__((HOST, port), _Handler)
        self.port = int(self.server_address[1])
        self.hosts = {f"{HOST}:{self.port}", f"localhost:{self.port}"}

    def server_bind(self) -> None:
        """Bind without asking a name server who we are, as the base class does."""
        TCPServer.server_bind(self)

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

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; where too many are busy, in place of the stranger that has taken longest."""
        if not self._places.acquire(blocking=False):
            self._end_a_stranger()
            if not self._places.acquire(timeout=1.0):
                self.shutdown_request(request)
                return
        super().process_request(request, client_address)

    def begin_request(self, connection: socket.socket) -> None:
        """Note that a connection is a stranger's until its next request has shown the secret."""
        with self._lock:
            self._strangers.pop(connection, None)
            self._strangers[connection] = None

    def end_stranger(self, connection: socket.socket) -> None:
        """Note that a connection has shown the secret, or has ended."""
        with self._lock:
            self._strangers.pop(connection, None)

    def _end_a_stranger(self) -> None:
        with self._lock:
            found = next(iter(self._strangers), None)
            if found is not None:
                del self._strangers[found]
                with suppress(OSError):
                    found.shutdown(socket.SHUT_RDWR)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.end_stranger(request)
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that break off; one line of anything else."""
        error = sys.exception()
        if not isinstance(error, (OSError, TimeoutError)):
            print(f"veil: a request failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)

    def server_close(self) -> None:
        """Close the port and the connections that wait for events."""
        self.studio.events.close()
        super().server_close()


class _Arriving(io.RawIOBase):
    """The bytes of a connection; each request has to be complete by a deadline, however slowly they come."""

    def __init__(self, connection: socket.socket, seconds: float):
        self._connection, self._seconds = connection, seconds
        self.begin()

    def begin(self) -> None:
        """Another request begins."""
        self._deadline = time.monotonic() + self._seconds

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read what there is; raises `TimeoutError` where the request is late."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(self._seconds)


class _Handler(BaseHTTPRequestHandler):
    server: StudioServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "veil", ""

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self.connection.settimeout(self.server.seconds)
        self._arriving = _Arriving(self.connection, self.server.seconds)
        self.rfile = io.BufferedReader(self._arriving)

    def handle_one_request(self) -> None:
        self._arriving.begin()
        self.server.begin_request(self.connection)
        super().handle_one_request()

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_DELETE = do_GET

    def _answer(self) -> None:
        """Check, route and answer one request; whatever happens, the answer is JSON or a page."""
        try:
            if self.request_version == "HTTP/0.9":  # answers to it would have no head
                self.request_version = "HTTP/1.1"
                raise Refused(505, "the request names no version of HTTP")
            parts = urlsplit(self.path)
            self._check_origin()
            query = dict(parse_qsl(parts.query, max_num_fields=32))
            if not parts.path.startswith("/api/"):
                self._send_file(parts.path)  # the same for everybody: parts of the package
                return
            if (self.command, parts.path) == ("POST", "/api/enter"):
                self._let_in()
                return
            self._check_session()
            if self.command == "GET" and parts.path == "/api/events":
                self._stream()
            else:
                self._call(parts.path, query)
        except Refused as refused:
            self._refuse(refused.status, str(refused), **refused.further)
        except VeilError as error:
            self._refuse(400, str(error), defects=list(getattr(error, "defects", ())))
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        except OSError as error:
            self._refuse(507, f"the studio's folder cannot be written: {error.strerror or error}")
        except Exception as error:  # a defect of veil's: the page says so, and the server goes on
            print(f"veil: {self.command} {self.path}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self._refuse(500, f"veil failed at this: {type(error).__name__}: {error}")

    def _check_origin(self) -> None:
        """Refuse requests by another name of this machine, and those that another site's page sends."""
        if self.headers.get_all("Host") is None or self.headers.get_all("Host") != [self.headers.get("Host")]:
            raise Refused(400, "there is no Host header, or more than one")
        host = self.headers.get("Host", "")
        if host not in self.server.hosts:
            raise Refused(403, f"the host is {host[:80]!r}, expected {HOST}:{self.server.port}")
        origin = self.headers.get("Origin")
        if origin is None and self.command != "GET":
            raise Refused(403, "there is no Origin header, which a change needs")
        if origin is not None and origin != f"http://{host}":
            raise Refused(403, f"the origin is {origin[:80]!r}, expected http://{host}")
        site = self.headers.get("Sec-Fetch-Site", "same-origin")
        opens = self.command == "GET" and urlsplit(self.path).path == "/"
        if site not in ("same-origin", "none") and not opens:
            raise Refused(403, "another site's page sent this request")

    def _let_in(self) -> None:
        """Exchange the token of a link, once, for the secret of this server."""
        if not self.server.lets_in(text_of(self._body(), "token")):
            raise Refused(403, "this link was used already: open the newest link that veil studio printed")
        self._send_json(200, {"session": self.server.session})

    def _check_session(self) -> None:
        """A header, not a cookie: browsers send cookies to every port of this machine, and so to other users' servers."""
        kind, _, value = self.headers.get("Authorization", "").partition(" ")
        if kind != "Bearer" or not hmac.compare_digest(value.encode(), self.server.session.encode()):
            raise Refused(403, "this page has not been let in: open the newest link that veil studio printed")
        self.server.end_stranger(self.connection)

    def _call(self, path: str, query: dict[str, str]) -> None:
        body = self._body()
        answer, parts = find(self.command, path)
        self._send_json(200, answer({**query, **body, **parts}, self.server.studio))

    def _body(self) -> dict[str, Any]:
        """The JSON object that came with the request, `{}` for none."""
        from ..common.text import parse_json

        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit() and len(length) < 12):
            raise Refused(411, "the length of the body is not given, expected a Content-Length")
        if int(length) > MOST_BYTES:
            raise Refused(413, f"the body has {int(length):,} bytes, expected at most {MOST_BYTES:,}")
        content = self.rfile.read(int(length))
        if len(content) < int(length):
            raise ConnectionResetError
        if not content:
            return {}
        if self.headers.get_content_type() != "application/json":
            raise Refused(415, f"the body is {self.headers.get_content_type()}, expected application/json")
        try:
            found = parse_json(content)
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise Refused(400, f"the body is {type(found).__name__}, expected a JSON object")
        return found

    def _stream(self) -> None:
        """Send events until the page or the server is closed."""
        self.close_connection = True
        try:
            with self.server.studio.events.listening() as texts:
                self._head(200, "text/event-stream; charset=utf-8", {"Connection": "close"})
                for text in texts:
                    self.wfile.write(text.encode())
                    self.wfile.flush()
        except OverflowError:
            raise Refused(503, "too many pages are open: close some") from None

    def _send_file(self, path: str) -> None:
        if self.command != "GET":
            raise Refused(405, f"the method is {self.command}, expected GET")
        name = "studio/index.html" if path == "/" else path.removeprefix("/")
        found = _assets().get(name)
        if found is None:
            raise Refused(404, "there is nothing at this address")
        self._send(200, *found)

    def _send_json(self, status: int, document: dict[str, Any]) -> None:
        from ..formats.documents import plain

        self._send(status, "application/json", json.dumps(plain(document), allow_nan=False).encode())

    def _refuse(self, status: int, message: str, **further: Any) -> None:
        if status != 404:
            self.close_connection = True  # what is left of the request is not read
        try:
            self._send_json(status, {"error": message, **further})
        except OSError:
            self.close_connection = True

    def _send(self, status: int, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
        closing = {"Connection": "close"} if self.close_connection else {}
        self._head(status, f"{kind}; charset=utf-8", {"Content-Length": str(len(content)), **closing, **(more or {})})
        self.wfile.write(content)

    def _head(self, status: int, kind: str, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **_HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong with a request line or header, as JSON."""
        self.close_connection = True
        if getattr(self, "command", None) is None:
            self.command = ""
        self.request_version = "HTTP/1.1"
        self._send_json(code, {"error": message or "the request cannot be read"})

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: their addresses hold tokens."""


@cache
def _assets() -> dict[str, tuple[str, bytes]]:
    """The files of the page by address, those of the report's page among them; its figures as one function."""
    found: dict[str, tuple[str, bytes]] = {}
    for room in ("studio", "report"):
        for entry in files(f"veil.{room}").joinpath("page").iterdir():
            kind = _KINDS.get(entry.name.rpartition(".")[2])
            if kind is not None:
                found[f"{room}/{entry.name}"] = (kind, entry.read_bytes())
    found["report/figures.js"] = (_KINDS["js"], figures_script().encode())
    return found
