"""What goes wrong while a study runs: files that are edited, Ctrl-C, a second driver, workers that are killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.study.cluster import ROOT

SET = {"solve.iterations": 2, "solve.starts": 2, "solve.certificate": False}
ENDLESS = "solve.method = 'primal-dual'\nsolve.iterations = 1000000000\nsolve.step = 1e-6\n"


def seeds(scenario: str, number: int, folder: Path, **changes: Any) -> veil.Study:
    return veil.Study([scenario], vary={"solve.seed": range(number)}, set=SET | changes, folder=folder)


def test_a_scenario_edited_while_the_study_runs_changes_no_result(tmp_path: Path):
    file, folder = tmp_path / "rooms.toml", tmp_path / "study"
    text = veil.gallery.scenario_text("two-rooms")
    file.write_text(text)
    asked = seeds("rooms.toml", 3, tmp_path)

    def edit(event: dict[str, object]) -> None:
        if event["event"] == "done":
            file.write_text(text.replace("horizon = 1", "horizon = 2"))

    found = list(asked.run(folder, workers=1, tell=edit).rows())
    file.write_text(text)
    assert [row["bits"] for row in found] == [
        row["bits"] for row in seeds("rooms.toml", 3, tmp_path).run(tmp_path / "again", workers=1).rows()
    ]
    assert len({row["horizon"] for row in found}) == 1


def write_model(path: Path, stay: float) -> None:
    """Two states, of which the agent leaves the first with probability 1 − stay."""
    moves = np.array([[[stay, 1 - stay]], [[0.0, 1.0]]])
    np.savez(path, transitions=moves, initial=np.array([1.0, 0.0]), rewards=np.zeros((2, 1)), emissions=np.ones((2, 1)))


MODEL = 'horizon = 2\n[file]\npath = "model.npz"\n[secret]\nkind = "last_state"\nstates = ["s1"]\n'


def test_a_model_file_edited_while_the_study_runs_is_never_mistaken_for_the_old_one(tmp_path: Path):
    model = tmp_path / "model.npz"
    (tmp_path / "two.toml").write_text(MODEL)
    write_model(model, 0.5)
    asked = seeds("two.toml", 3, tmp_path)

    def edit(event: dict[str, object]) -> None:
        if event["event"] == "done":
            write_model(model, 0.9)

    rows = list(asked.run(tmp_path / "study", workers=1, tell=edit).rows())
    assert [row["status"] == "FAILED" for row in rows] == [False, True, True], rows
    assert "changed since the study began" in rows[1]["reason"]
    write_model(model, 0.5)
    rows = list(seeds("two.toml", 3, tmp_path).run(tmp_path / "study", workers=1, retry_failed=True).rows())
    assert len({row["bits"] for row in rows}) == 1


def test_a_key_follows_every_file_that_a_scenario_names(tmp_path: Path):
    """Models, and the policy that an observer assumes."""
    text = veil.gallery.scenario_text("two-rooms") + '\n[[pairs]]\nname = "p"\n[pairs.belief]\npolicy = "own.json"\n'
    (tmp_path / "s.toml").write_text(text)
    keys = set()
    for content in ("", "one", "two"):
        if content:
            (tmp_path / "own.json").write_text(content)
        keys.add(seeds("s.toml", 1, tmp_path).runs[0].key)
    assert len(keys) == 3


def test_a_second_driver_is_refused_and_changes_nothing(tmp_path: Path):
    folder = tmp_path / "study"
    other = seeds("gallery:badge-doors", 2, tmp_path)
    refused: list[str] = []

    def begin_another(event: dict[str, object]) -> None:
        if event["event"] == "done" and not refused:
            before = (folder / "study.json").read_bytes()
            with pytest.raises(veil.InputError, match="another veil study is at work") as error:
                other.run(folder, workers=1)
            refused.append(str(error.value))
            assert (folder / "study.json").read_bytes() == before

    result = seeds("gallery:two-rooms", 2, tmp_path).run(folder, workers=1, tell=begin_another)
    assert refused
    assert result.counts() == {"done": 2, "failed": 0, "to_do": 0}
    assert veil.StudyResult(folder).counts() == {"done": 2, "failed": 0, "to_do": 0}


def test_an_interrupted_run_is_still_to_do(tmp_path: Path):
    """Of two runs the second would never end."""
    endless = {"solve.method": "primal-dual", "solve.iterations": 10**9, "solve.step": 1e-6}
    asked = veil.Study(["gallery:two-rooms"], cases={"short": SET, "endless": endless | {"solve.certificate": False}})

    def interrupt(event: dict[str, object]) -> None:
        if event["event"] == "done" and event["left"] == 1:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        asked.run(tmp_path / "study", workers=1, tell=interrupt)
    assert veil.StudyResult(tmp_path / "study").counts() == {"done": 1, "failed": 0, "to_do": 1}
    assert "INTERRUPTED" not in (tmp_path / "study" / "table.csv").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_ended_study_is_in_order_and_the_interrupted_run_is_still_to_do(tmp_path: Path, workers: str, number: int):
    """Of two runs the second never ends."""
    (tmp_path / "study.toml").write_text(
        f"scenarios = ['gallery:two-rooms']\n[[cases]]\nname = 'short'\n[[cases]]\nname = 'endless'\n[cases.set]\n{ENDLESS}"
        "[set]\nsolve.iterations = 2\nsolve.certificate = false\n"
    )
    command = [sys.executable, "-m", "veil", "study", "study.toml", "-o", "study", "--workers", workers, "-q"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    events = tmp_path / "study" / "events.jsonl"
    deadline = time.monotonic() + 120
    while not (
        events.is_file() and '"done"' in events.read_text() and list((tmp_path / "study").glob("checkpoints/*"))
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, number)  # as a terminal does
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "the same command continues" in told
    assert veil.StudyResult(tmp_path / "study").counts() == {"done": 1, "failed": 0, "to_do": 1}
    assert "INTERRUPTED" not in (tmp_path / "study" / "table.csv").read_text()
    forecast = [*command, "--dry-run", "--json"]
    counted = subprocess.run(forecast, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert json.loads(counted.stdout)["to_do"] == 1


def test_a_killed_worker_costs_no_other_run_an_attempt(tmp_path: Path):
    """With one attempt for each run, and one worker whose first run kills it, all others are done."""
    cases = {
        "deadly": {"horizon": 8, "solve.iterations": 10**9, "solve.starts": 5000},
        "as it is": {},
        "as well": {"horizon": 2},
    }
    asked = veil.Study(["gallery:two-rooms"], cases=cases, set=SET, attempts=1, limit=4.0)
    result = asked.run(tmp_path / "study", workers=1)
    assert [row["status"] == "FAILED" for row in result.rows()] == [True, False, False]
