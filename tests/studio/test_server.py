"""The server: who is let in, what is refused, what every answer carries, and what no request can break."""

import http.client
import json
import os
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.studio.conftest import Client
from tests.studio.processes import until
from veil.studio.app import MOST_BYTES
from veil.studio.server import StudioServer
from veil.studio.state import Studio


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
    token = server.address.partition("#token=")[2]
    for wrong in ("", "x" * len(token)):
        assert client.raw("POST", "/api/enter", json.dumps({"token": wrong}).encode(), Authorization=None)[0] == 403
    status, headers, content = client.raw(
        "POST", "/api/enter", json.dumps({"token": token}).encode(), Authorization=None
    )
    assert status == 200
    assert "set-cookie" not in headers  # which a browser would send to every port of this machine
    session = json.loads(content)["session"]
    assert client.raw("GET", "/api/state", Authorization=f"Bearer {session}")[0] == 200
    assert client.raw("POST", "/api/enter", json.dumps({"token": token}).encode(), Authorization=None)[0] == 403
    assert token not in server.address


def test_what_an_earlier_server_gave_is_worth_nothing(studio: Studio, server: StudioServer, client: Client):
    """Whoever takes its port hears the secret of an open page; the next server has another, and the folder holds none."""
    again = StudioServer(studio)
    again.start()
    try:
        later = Client(again)
        assert later.raw("GET", "/api/state", Authorization=client.own["Authorization"])[0] == 403
        assert later.raw("GET", "/api/state")[0] == 200
    finally:
        again.close()
    assert all(server.session.encode() not in path.read_bytes() for path in studio.folder.rglob("*") if path.is_file())


OTHERS: list[dict[str, str | None]] = [
    {"Authorization": None},
    {"Authorization": "Bearer x"},
    {"Authorization": "Basic é"},
    {"Host": "evil.example"},
    {"Host": "127.0.0.1"},
    {"Host": "127.0.0.1:1"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
]


def test_others_are_refused(client: Client):
    for headers in OTHERS:
        for asked in ("GET /api/state", "PUT /api/scenario", "GET /api/events", "POST /api/open"):
            method, path = asked.split()
            status, _, content = client.raw(method, path, None if method == "GET" else b'{"text": ""}', **headers)
            assert (status, set(json.loads(content))) == (403, {"error"}), (headers, asked)
        if "Authorization" not in headers:
            assert client.raw("GET", "/studio/studio.js", None, **headers)[0] == 403, headers


def test_a_change_needs_an_origin(client: Client):
    assert client.raw("PUT", "/api/scenario", b'{"text": ""}', Origin=None)[0] == 403
    assert client.raw("GET", "/api/state", Host=None)[0] == 400


WRONG_BODIES: list[tuple[bytes, dict[str, str], int]] = [
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
]


def test_wrong_bodies_are_refused(client: Client):
    for number, (body, headers, status) in enumerate(WRONG_BODIES):
        found, _, content = client.raw("PUT", "/api/scenario", body, **headers)
        assert found == status, number
        assert json.loads(content)["error"], number
        assert "Traceback" not in content.decode(), number
    assert client("GET", "/api/state")["name"] == "two-rooms"


def test_other_methods_and_addresses_are_refused(client: Client):
    assert client("POST", "/api/state", {}, 405)["error"] == "the method is POST, expected GET"
    assert client("GET", "/api/nothing", None, 404)["error"]
    assert client.raw("DELETE", "/")[0] == 405
    assert client.raw("BREW", "/")[0] == 501


PIECES = (b"GET", b"PUT", b"POST", b"DELETE", b" ", b"/", b"/api/state", b"/api/scenario", b"/api/runs", b"/api/runs/1/stop",
          b"/api/events?", b"?token=", b"%00", b"%2e%2e/", b" HTTP/1.1", b" HTTP/9.9", b"\r\n", b"\n", b"\r\n\r\n", b"Host: ",
          b"Authorization: Bearer ", b"Origin: null", b"Content-Length: ", b"5", b"-1", b"99999999999",
          b"Transfer-Encoding: chunked", b"Content-Type: application/json", b"{",
          b'{"text": ', b'"', b"[" * 300, b"\x00", b"\xff\xfe", b"A" * 70_000,
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
    known = "".join(f"{name}: {client.own[name]}\r\n" for name in ("Host", "Origin", "Authorization")).encode()
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
    connection.request("GET", "/api/events", headers={name: client.own[name] for name in ("Host", "Authorization")})
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


def test_slow_strangers_do_not_lock_the_owner_out(server: StudioServer, client: Client):
    """More connections than the server has threads, none of which ever completes a request."""
    with ExitStack() as closing:
        for _ in range(80):
            stranger = closing.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=20))
            stranger.sendall(b"GET /api/state HTTP/1.1\r\nHost: ")
        for _ in range(5):
            assert client("GET", "/api/state")["name"] == "two-rooms"


def test_a_request_that_drips_in_is_ended(studio: Studio):
    """Each byte comes in time, and the request does not."""
    server = StudioServer(studio, seconds=1)
    server.start()
    try:
        seconds = seconds_of_a_drip(server.port)
    finally:
        server.close()
    assert seconds < 15


def seconds_of_a_drip(port: int) -> float:
    """How long a server listens to a request that never ends."""
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger, suppress(OSError):
        stranger.sendall(b"GET /api/state HTTP/1.1\r\n")
        while time.monotonic() - begin < 20:
            stranger.sendall(b"X-Header: 1\r\n")
            time.sleep(0.2)
    return time.monotonic() - begin


def studio_command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "veil", "studio", "gallery:two-rooms", "--folder", str(folder), *options]


def test_a_taken_port_is_told_and_another_one_is_taken(tmp_path: Path):
    folder = tmp_path / "studio"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        asked = subprocess.run(
            studio_command(folder, "--no-browser", "--port", str(port)), capture_output=True, text=True, timeout=120
        )
        assert asked.returncode == 2, asked.stderr
        assert "omit --port" in asked.stderr
        remembered = Studio(folder)
        remembered.open("gallery:two-rooms")
        remembered.keep_port(port)
        process = subprocess.Popen(studio_command(folder, "--no-browser"), stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        told = [process.stderr.readline(), process.stderr.readline()]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert f":{port} cannot be used" in told[0]
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", told[1])
    assert found is not None, told
    assert int(found[1]) != port


def test_no_token_is_on_the_command_line_of_the_browser(tmp_path: Path):
    """Every user of a machine can read the command lines of all processes."""
    folder, record = tmp_path / "studio", tmp_path / "arguments"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {record}.new\nmv {record}.new {record}\n')
    browser.chmod(0o700)
    environment = os.environ | {"BROWSER": str(browser)}
    process = subprocess.Popen(studio_command(folder), stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stderr is not None
        token = re.search(r"token=(\S+)", process.stderr.readline())
        assert token is not None
        until(record.exists, "the browser to be opened")
        opened = record.read_text().strip()
        assert token[1] not in opened
        page = Path(opened.removeprefix("file://"))
        assert f"#token={token[1]}" in page.read_text()
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert not page.exists()


def test_a_missing_extra_is_named(tmp_path: Path):
    program = "import sys; sys.modules['uvicorn'] = None; from veil.__main__ import main; main()"
    command = [sys.executable, "-c", program, *studio_command(tmp_path / "studio", "--no-browser")[3:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "pip install 'veil[studio]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "studio").exists()
