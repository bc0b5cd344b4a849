"""The server: who is let in, what is refused, what every answer carries, and what no request can break."""

import http.client
import json
import random
import socket

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


PIECES = (b"GET", b"PUT", b"POST", b"DELETE", b" ", b"/", b"/api/state", b"/api/scenario", b"/api/runs", b"/api/runs/1/stop",
          b"/api/events?", b"?token=", b"%00", b"%2e%2e/", b" HTTP/1.1", b" HTTP/9.9", b"\r\n", b"\n", b"\r\n\r\n", b"Host: ",
          b"Cookie: ", b"Origin: null", b"Content-Length: ", b"5", b"-1", b"99999999999", b"Transfer-Encoding: chunked",
          b"Content-Type: application/json", b"{", b'{"text": ', b'"', b"[" * 300, b"\x00", b"\xff\xfe", b"A" * 70_000,
          b"Expect: 100-continue", b"Range: bytes=0-1", b"Upgrade: h2c", b"Connection: keep-alive")  # fmt: skip


def send(server: StudioServer, content: bytes) -> bytes:
    """Everything that the server answers to some bytes, after which nothing more is sent."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        try:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65_536), b""))
        except TimeoutError:  # a server that neither answers nor closes
            raise
        except OSError:  # it closed the connection before it had read everything
            return b""


def fuzz(server: StudioServer, client: Client, count: int, seed: int) -> None:
    draw = random.Random(seed)
    known = "".join(f"{name}: {client.own[name]}\r\n" for name in ("Host", "Origin", "Cookie")).encode()
    for _ in range(count):
        noise = b"".join(draw.choices(PIECES, k=draw.randrange(1, 12)))
        begun = draw.choice(
            (
                b"GET /api/state HTTP/1.1\r\n",
                b"PUT /api/scenario HTTP/1.1\r\n",
                b"POST /api/runs/1/resume HTTP/1.1\r\n",
                b"",
            )
        )
        answer = send(server, begun + known + noise if begun and draw.random() < 0.7 else begun + noise)
        assert b"Traceback" not in answer
        if answer:
            status = int(answer.split(b" ", 2)[1])
            assert status in (100, 200, 400, 403, 404, 405, 409, 411, 413, 414, 415, 431, 501, 505), answer[:300]
    assert client("GET", "/api/state")["runs"] == []


def test_fuzzed_requests_do_not_break_the_server(
    server: StudioServer, client: Client, capsys: pytest.CaptureFixture[str]
):
    fuzz(server, client, 150, seed=0)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_many_fuzzed_requests_do_not_break_the_server(
    server: StudioServer, client: Client, capsys: pytest.CaptureFixture[str]
):
    for seed in range(1, 11):
        fuzz(server, client, 1000, seed)
    assert capsys.readouterr().err == ""


def test_values_of_every_kind_are_answered(client: Client):
    draw = random.Random(0)
    values = [None, True, -1, 1e308, "", "x" * 5000, "\x00", [], {}, [[]], {"a": {"b": None}}, "../..", "1; DROP"]
    for path in ("/api/scenario", "/api/runs", "/api/runs/1/stop", "/api/runs/x/resume", "/api/choices", "/api/state"):
        for _ in range(6):
            body = {name: draw.choice(values) for name in ("text", "settings", "id", "kind") if draw.random() < 0.7}
            body = (
                {"settings": {"kind": draw.choice(values), "memory": draw.choice(values)}}
                if draw.random() < 0.3
                else body
            )
            for method in ("GET", "POST", "PUT", "DELETE"):
                status, _, content = client.raw(method, path, json.dumps(body).encode())
                assert status in (200, 400, 404, 405, 413), content
                assert isinstance(json.loads(content), dict)
    for run in client("GET", "/api/state")["runs"]:
        client("DELETE", f"/api/runs/{run['id']}")


def test_connections_that_break_off_are_no_errors(
    server: StudioServer, client: Client, capsys: pytest.CaptureFixture[str]
):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/api/events", headers={name: client.own[name] for name in ("Host", "Cookie")})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.readline() == b": connected\n"
    answer.close()
    connection.close()
    server.studio.set_scenario("changed = 1")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as half:
        half.sendall(b"PUT /api/scenario HTTP/1.1\r\nContent-Length: 50\r\n\r\n{")
    assert client("GET", "/api/state")["scenario"] == "changed = 1"
    assert capsys.readouterr().err == ""
