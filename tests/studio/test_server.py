"""The server: who is let in, what is refused, what every answer carries, and what no request can break."""

import json

import pytest

from tests.studio.conftest import Client
from veil.studio.server import MOST_BYTES, StudioServer


def test_the_page_and_every_file_of_it(client: Client):
    status, headers, content = client.raw("GET", "/")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert b"http://" not in content
    assert b"https://" not in content
    for name in ("/studio/studio.js", "/studio/studio.css", "/studio/plan.js", "/report/page.css"):
        assert client.raw("GET", name)[0] == 200, name
    for name in ("/studio/../server.py", "/studio/%2e%2e/server.py", "/studio/", "//etc/passwd", "/studio/none.js"):
        assert client.raw("GET", name)[0] == 404, name


def test_a_link_lets_one_browser_in_once(server: StudioServer, client: Client):
    path = server.address.partition(str(server.port))[2]
    status, headers, _ = client.raw("GET", path, Cookie=None, Origin=None)
    assert status == 200
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.raw("GET", "/api/state", Cookie=cookie.partition(";")[0])[0] == 200
    assert client.raw("GET", path, Cookie=None, Origin=None)[0] == 403
    assert server.address.partition(str(server.port))[2] != path


@pytest.mark.parametrize(
    "headers",
    [
        {"Cookie": None},
        {"Cookie": "veil-studio=x"},
        {"Cookie": "é=ü"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
@pytest.mark.parametrize("asked", ["GET /api/state", "GET /studio/studio.js", "PUT /api/scenario", "GET /api/events"])
def test_others_are_refused(client: Client, headers: dict[str, str | None], asked: str):
    method, path = asked.split()
    status, _, content = client.raw(method, path, b'{"text": ""}' if method == "PUT" else None, **headers)
    assert status == 403
    assert set(json.loads(content)) == {"error"}


def test_a_change_needs_an_origin(client: Client):
    assert client.raw("PUT", "/api/scenario", b'{"text": ""}', Origin=None)[0] == 403
    assert client.raw("GET", "/api/state", Host=None)[0] == 400


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {"Content_Length": str(MOST_BYTES + 1)}, 413),
        (b"", {"Content_Length": "-1"}, 411),
        (b"", {"Content_Length": "9" * 5000}, 411),
        (b"", {"Transfer_Encoding": "chunked"}, 411),
        (b"{", {}, 400),
        (b"[1]", {}, 400),
        (b'"x"', {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b'{"text": ' + b"[" * 5000 + b"]" * 5000 + b"}", {}, 400),
        (b'{"text": 3}', {}, 400),
        (b"{}", {}, 400),
        (b'{"text": "\\ud800"}', {}, 400),
        (b'{"text": "x"}', {"Content_Type": "text/plain"}, 415),
        (b'{"text": "' + b"x" * (2**20 + 1) + b'"}', {}, 413),
    ],
    ids=range(15),
)
def test_wrong_bodies_are_refused(client: Client, body: bytes, headers: dict[str, str], status: int):
    found, _, content = client.raw("PUT", "/api/scenario", body, **headers)
    assert found == status
    assert json.loads(content)["error"]
    assert "Traceback" not in content.decode()
    assert client("GET", "/api/state")["name"] == "two-rooms"


def test_other_methods_and_addresses_are_refused(client: Client):
    assert client("POST", "/api/state", {}, 405)["error"] == "the method is POST, expected GET"
    assert client("GET", "/api/nothing", None, 404)["error"]
    assert client.raw("DELETE", "/")[0] == 405
    assert client.raw("BREW", "/")[0] == 501
