"""Runs: the library's numbers, stop and resume, failures, what a restart finds, and no process that is left behind."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import veil
from tests.studio.conftest import Client
from tests.studio.processes import ENDLESS, ended, processes_of, searching, until
from veil.studio.folders import asked
from veil.studio.runs import Run
from veil.studio.state import Studio


def start(studio: Studio, **settings: Any) -> Run:
    return studio.runs.start(studio.scenario, studio.name, studio.base, settings)


@pytest.mark.slow  # test_plan.py compares the numbers on the page
def test_a_run_finds_what_the_library_finds(client: Client, studio: Studio):
    settings = {"starts": 2, "iterations": 12, "min_return": 0.8}
    name = client("POST", "/api/runs", {"settings": settings})["id"]
    ended(studio.runs.get(name))
    found = client("GET", f"/api/runs/{name}")
    problem = veil.gallery.load("two-rooms", min_return=0.8)
    known = veil.solve(problem, starts=2, iterations=12)
    assert known.certificate is not None
    assert (found["state"], found["status"]) == ("done", known.status.name)
    assert (found["bits"], found["expected_return"], found["threshold"]) == (
        known.opacity.bits,
        known.expected_return,
        0.8,
    )
    assert (found["proven_lower"], found["proven_upper"]) == (known.certificate.lower, known.certificate.upper)
    assert found["moments"]
    assert all(before[0] <= after[0] for before, after in zip(found["moments"], found["moments"][1:], strict=False))
    result = studio.runs.get(name).result
    assert veil.load_policy(result / "policy.safetensors").digest() == known.policy.digest()
    assert [run["id"] for run in client("GET", "/api/state")["runs"]] == [name]


@pytest.mark.slow  # test_plan.py stops and resumes one in the browser
def test_stop_resume_restart_and_remove(client: Client, studio: Studio):
    run = searching(start(studio, **ENDLESS))
    client("POST", f"/api/runs/{run.id}/resume", {}, 409)
    assert client("POST", f"/api/runs/{run.id}/stop", {})["state"] in ("stopping", "stopped")
    ended(run)
    stopped = client("GET", f"/api/runs/{run.id}")
    assert (stopped["state"], stopped["status"], stopped["continues"]) == ("stopped", "INTERRUPTED", True)
    assert client("POST", f"/api/runs/{run.id}/resume", {})["state"] == "running"
    before = run.record.latest["iteration"]
    until(lambda: run.record.latest["iteration"] > before, "the search to go on")
    assert run.record.latest["seconds"] > stopped["moments"][-1][0]
    studio.runs.close()
    assert processes_of(run.folder) == []

    again = Studio(studio.folder)
    found = again.runs.get(run.id).summary()
    assert (found["state"], found["resumable"]) == ("stopped", True)
    assert found["bits"] == run.summary()["bits"]
    again.runs.remove(run.id)
    assert not run.folder.exists()
    assert Studio(studio.folder).runs.summaries() == []


@pytest.mark.slow
def test_a_frontier_grows_to_what_the_library_finds(studio: Studio):
    run = ended(start(studio, kind="frontier", points=3, starts=2, iterations=12))
    curve = veil.frontier(veil.gallery.load("two-rooms"), points=3, starts=2, iterations=12)
    assert run.summary()["points"] == [list(pair) for pair in zip(curve.returns, curve.bits, strict=True)]
    assert len(run.record.points) >= 3  # while it searched
    assert run.record.points[0][1] == curve.bits[0]


WRONG_SETTINGS: list[tuple[dict[str, object], str]] = [
    ({"method": "magic"}, "magic"),
    ({"method": "ascent", "gap": 0.1}, "gap"),
    ({"no_such": 1}, "no setting 'no_such'"),
    ({"starts": [1]}, "starts is"),
    ({"starts": 0}, "starts"),
    ({"time_limit": float("1e400")}, "time_limit is"),
    ({"memory": {"states": 1}}, "memory is"),
    ({"memory": "elephants:1"}, "expected markov, timed, history, observations:NUMBER"),
    ({"kind": "dream"}, "kind is 'dream'"),
    ({"kind": "frontier", "points": 1}, "points"),
    ({"kind": "frontier", "points": True}, "points is True"),
    ({"min_return": 'x"\nhorizon = 3'}, "min_return"),
    ({"horizon": -1}, "horizon"),
]


def test_a_run_without_time_says_that_its_answer_is_poor(studio: Studio):
    run = start(studio, time_limit=0.0)
    ended(run)
    assert run.summary()["status"] == "NOT_SEARCHED"
    assert "allow more time" in run.summary()["doubts"]


def test_wrong_settings_are_told_and_begin_nothing(client: Client):
    for settings, words in WRONG_SETTINGS:
        answer = client("POST", "/api/runs", {"settings": settings}, 400)
        assert words in answer["error"], settings
    assert client("GET", "/api/state")["runs"] == []


@pytest.mark.parametrize(
    ("scenario", "settings"), [(None, {}), ("gallery:two-rooms", {"min_return": "80%"})], ids=["as drawn", "as asked"]
)
def test_a_run_with_a_share_of_the_return_ends_and_outlives_the_server(
    client: Client, studio: Studio, scenario: str | None, settings: dict[str, str]
):
    """A new grid asks for 70% of the way to the largest return."""
    if scenario is None:
        client("POST", "/api/open", {"gallery": ""})
    few = {"starts": 1, "iterations": 2, "certificate": False, "time_limit": 60}
    name = client("POST", "/api/runs", {"settings": few | settings})["id"]
    ended(studio.runs.get(name))
    found = client("GET", f"/api/runs/{name}")
    assert (found["state"], found["error"]) == ("done", "")
    assert isinstance(found["threshold"], float)
    assert [run["state"] for run in Studio(studio.folder).runs.summaries()] == ["done"]
    for policy in (name, "uniform"):
        facts = client("GET", f"/api/runs/{policy}/look")["facts"]
        assert isinstance(facts["threshold"], float | None), policy


def test_the_form_offers_the_memories_that_a_number_describes(client: Client):
    assert list(client("GET", "/api/choices")["memories"]) == ["observations", "states", "controller", "mixture"]
    text = veil.gallery.scenario_text("two-rooms")
    document = asked(text, "rooms", None, {"memory": "states:2-clock"})
    assert document.changes == ['solve.memory="states:2-clock"']


def test_another_method_does_without_what_it_does_not_have():
    text = veil.gallery.scenario_text("delivery-order")  # its memory is time-dependent
    document = asked(text, "order", None, {"method": "game", "gap": 0.1})
    assert document.changes == ["solve.memory=", 'solve.method="game"', "solve.gap=0.1"]
    assert asked(text, "order", None, {"method": "primal-dual"}).changes == ['solve.method="primal-dual"']


def test_a_scenario_with_defects_begins_nothing(client: Client, studio: Studio):
    client("PUT", "/api/scenario", {"text": "horizon = -3"})
    assert len(client("POST", "/api/runs", {"settings": {}}, 400)["defects"]) > 1
    client("POST", "/api/runs", {"settings": []}, 400)
    client("POST", "/api/runs/7/stop", {}, 404)
    client("DELETE", "/api/runs/none", None, 404)


@pytest.mark.slow
def test_a_run_that_fails_says_why(studio: Studio):
    run = ended(start(studio, min_return=1.5))
    found = run.summary()
    assert found["state"] == "failed"
    assert "1.5" in found["error"]
    assert Studio(studio.folder).runs.get(run.id).summary()["error"] == found["error"]


@pytest.mark.slow
def test_a_process_that_is_killed_is_told(studio: Studio):
    run = searching(start(studio, **ENDLESS))
    assert run.process is not None
    run.process.kill()
    assert ended(run).summary()["state"] == "stopped"
    assert run.summary()["resumable"]


def test_damaged_runs_are_left_out(studio: Studio, capsys: pytest.CaptureFixture[str]):
    for name, content in (("1", "{}"), ("2", "[" * 5000), ("3", None)):
        (studio.folder / "runs" / name).mkdir(parents=True)
        if content is not None:
            (studio.folder / "runs" / name / "run.json").write_text(content, encoding="utf-8")
    assert Studio(studio.folder).runs.summaries() == []
    assert capsys.readouterr().err.count("a run is left out") == 3


def test_runs_that_are_started_and_stopped_at_once_leave_no_process(studio: Studio):
    runs = [start(studio, **ENDLESS) for _ in range(3)]
    until(lambda: len(processes_of(studio.folder)) == 3, "three processes")
    studio.runs.stop(runs[0].id)
    studio.runs.remove(runs[1].id)
    ended(runs[0])
    studio.runs.close()
    assert processes_of(studio.folder) == []
    assert [run["state"] for run in studio.runs.summaries()] == ["stopped", "stopped"]


@pytest.mark.slow
def test_fifty_runs_leave_no_process(studio: Studio):
    for number in range(50):
        run = start(studio, **ENDLESS)
        if number % 3:
            searching(run)
        if number % 3 == 1:
            studio.runs.stop(run.id)
            ended(run)
        else:
            studio.runs.remove(run.id)
    assert processes_of(studio.folder) == []
    assert all(run["state"] == "stopped" for run in studio.runs.summaries())


@pytest.mark.slow  # the same closed pipe stops the runs above
def test_a_server_that_is_killed_leaves_no_process_and_loses_nothing(tmp_path: Path):
    folder = tmp_path / "studio"
    command = [
        sys.executable,
        "-m",
        "veil",
        "studio",
        "gallery:two-rooms",
        "--no-browser",
        "--json",
        "--folder",
        folder,
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    assert server.stdout is not None
    told = "".join(iter(server.stdout.readline, "}\n")) + "}"
    address = json.loads(told)["address"]
    origin, token = address.split("/#token=")

    def send(path: str, body: object, **headers: str) -> Any:
        sent = {"Origin": origin, "Content-Type": "application/json", **headers}
        request = urllib.request.Request(f"{origin}{path}", data=json.dumps(body).encode(), headers=sent)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    session = send("/api/enter", {"token": token})["session"]
    name = send("/api/runs", {"settings": ENDLESS}, Authorization=f"Bearer {session}")["id"]
    events = folder / "runs" / name / "events.jsonl"
    until(lambda: events.is_file() and b"progress" in events.read_bytes(), "the run to search")
    until(lambda: len(processes_of(folder / "runs")) == 1, "its process")
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server.stdout.close()
    until(lambda: processes_of(folder / "runs") == [], "the run to end with its server")
    found = Studio(folder).runs.get(name).summary()
    assert (found["state"], found["resumable"]) == ("stopped", True)
    assert found["status"] == "INTERRUPTED"  # it saved its best
