"""The requests of the studio as a Starlette application: who may send them, what they hold, and how they are answered."""

import hmac
import json
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.metadata import EntryPoint
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..common.errors import VeilError
from ..common.files import reason
from .routes import ROUTES, Refused, text_of

if TYPE_CHECKING:
    from .server import StudioServer

MOST_BYTES = 2**23  # of the body of a request: a model file that is opened, or a scenario
_METHODS = ("GET", "POST", "PUT", "DELETE")
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
_ENTER = "/api/enter"
_NOTHING = "there is nothing at this address"


def make_app(server: "StudioServer") -> Starlette:
    """The application of a server; whatever happens, an answer is JSON or a file of the page."""
    answers: dict[str, dict[str, str]] = defaultdict(dict)
    for (method, path), function in ROUTES.items():
        answers[path][method] = function
    routes = [Route(path, _answering(server, functions), methods=[*functions]) for path, functions in answers.items()]
    routes += [
        Route(_ENTER, _entering(server), methods=["POST"]),
        Route("/api/events", _telling(server), methods=["GET"]),
        *(Route(path, _send_file, methods=["GET"]) for path in ("/", "/studio/{name}", "/report/{name}")),
    ]
    told = {Refused: _say_refused, VeilError: _say_wrong, OSError: _say_full, HTTPException: _say_unknown}
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, server=server)],
        exception_handlers={**told, ClientDisconnect: _say_refused},
    )


class _Guard:
    """Answers only requests of this server's own page, and beyond its files only those of a page that was let in."""

    def __init__(self, app: ASGIApp, server: "StudioServer"):
        self._app, self._server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            self._check_origin(request)
            if request.url.path.startswith("/api/") and request.url.path != _ENTER:
                self._check_session(request)
        except Refused as refused:
            await _say_refused(request, refused)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check_origin(self, request: Request) -> None:
        """Refuse requests by another name of this machine, and those that another site's page sends."""
        if request.method not in _METHODS:
            raise Refused(501, f"the method is {request.method[:40]!r}, expected one of {', '.join(_METHODS)}")
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self._server.hosts:
            raise Refused(403, f"the host is {host[:80]!r}, expected 127.0.0.1:{self._server.port}")
        if origin is None and request.method != "GET":
            raise Refused(403, "there is no Origin header, which a change needs")
        if origin is not None and origin != f"http://{host}":
            raise Refused(403, f"the origin is {origin[:80]!r}, expected http://{host}")
        site = request.headers.get("sec-fetch-site", "same-origin")
        opens = request.method == "GET" and request.url.path == "/"
        if site not in ("same-origin", "none") and not opens:
            raise Refused(403, "another site's page sent this request")

    def _check_session(self, request: Request) -> None:
        """A header, not a cookie: browsers send cookies to every port of this machine, and so to other users' servers."""
        kind, _, value = request.headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or not hmac.compare_digest(value.encode(), self._server.session.encode()):
            raise Refused(403, "this page has no access: open the newest link that veil studio printed")
        request.state.connection.trusted = True


Answering = Callable[[Request], Awaitable[Response]]


def _answering(server: "StudioServer", functions: dict[str, str]) -> Answering:
    """Answers by the functions of the table of requests, in a thread: one that takes long delays no other."""

    def answered(function: str, given: dict[str, Any]) -> Response:
        try:
            return _json(200, EntryPoint("", function, "").load()(given, server.studio))
        except (Refused, VeilError, OSError):
            raise
        except Exception as error:  # a defect of veil's: the page says so, and the server goes on
            print(f"veil: {function}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            raise Refused(500, f"internal error: {type(error).__name__}: {error}") from error

    async def answer(request: Request) -> Response:
        given = {**request.query_params, **await _body(request), **request.path_params}
        return await run_in_threadpool(answered, functions[request.method], given)

    return answer


def _entering(server: "StudioServer") -> Answering:
    async def answer(request: Request) -> Response:
        """Exchange the token of a link, once, for the secret of this server."""
        if not server.lets_in(text_of(await _body(request), "token")):
            raise Refused(403, "this link was used already: open the newest link that veil studio printed")
        return _json(200, {"session": server.session})

    return answer


def _telling(server: "StudioServer") -> Answering:
    async def answer(request: Request) -> Response:
        """Send events until the page or the server is closed."""
        if server.studio.events.is_full:
            raise Refused(503, "too many pages are open: close some")
        headers = {**_HEADERS, "Content-Type": "text/event-stream; charset=utf-8", "Connection": "close"}
        return StreamingResponse(server.studio.events.texts(), headers=headers)

    return answer


async def _send_file(request: Request) -> Response:
    """A file of the page, which is the same for everybody."""
    name = request.url.path.removeprefix("/") or "studio/index.html"
    if name not in _assets():
        raise Refused(404, _NOTHING)
    kind, content = _assets()[name]
    return _response(200, kind, content)


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object that came with a request, `{}` for none."""
    from ..common.json_text import parse_json

    length = request.headers.get("content-length", "0")
    if "transfer-encoding" in request.headers or not (length.isascii() and length.isdigit() and len(length) < 12):
        raise Refused(411, "the length of the body is not given, expected a Content-Length")
    if int(length) > MOST_BYTES:
        raise Refused(413, f"the body has {int(length):,} bytes, expected at most {MOST_BYTES:,}")
    content = await request.body()
    if not content:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, f"the body is {kind[:80] or 'of no type'}, expected application/json")
    try:
        found = parse_json(content)
    except ValueError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refused(400, f"the body is {type(found).__name__}, expected a JSON object")
    return found


def _json(status: int, document: dict[str, Any]) -> Response:
    from ..formats.documents import plain

    return _response(status, "application/json", json.dumps(plain(document), allow_nan=False).encode())


def _response(status: int, kind: str, content: bytes) -> Response:
    # After a refusal what is left of the request is not read.
    closing = {"Connection": "close"} if status >= 400 and status != 404 else {}
    return Response(content, status, {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8", **closing})


def _say_refused(request: Request, error: Exception) -> Response:
    if isinstance(error, Refused):
        return _json(error.status, {"error": str(error), **error.further})
    return _json(400, {"error": "the request broke off"})  # which nobody reads


def _say_wrong(request: Request, error: Exception) -> Response:
    return _json(400, {"error": str(error), "defects": list(getattr(error, "defects", ()))})


def _say_full(request: Request, error: Exception) -> Response:
    return _json(507, {"error": f"the studio's folder cannot be written: {reason(error)}"})


def _say_unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code != 405:
        return _json(error.status_code, {"error": _NOTHING})
    known = [method for method in (error.headers or {}).get("Allow", "").split(", ") if method != "HEAD"]
    return _json(405, {"error": f"the method is {request.method}, expected {' or '.join(sorted(known))}"})


@cache
def _assets() -> dict[str, tuple[str, bytes]]:
    """The files of the page by address, those of the report's page among them."""
    found: dict[str, tuple[str, bytes]] = {}
    for room in ("studio", "report"):
        for entry in files(f"veil.{room}").joinpath("page").iterdir():
            kind = _KINDS.get(entry.name.rpartition(".")[2])
            if kind is not None:
                found[f"{room}/{entry.name}"] = (kind, entry.read_bytes())
    return found
