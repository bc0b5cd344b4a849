"""`veil solve` and `veil frontier`: what is written, exit codes, interruption, and runs that are killed."""

import contextlib
import csv
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import veil as package
from tests.cli.commands import NO_PROOF, ONCE, QUICK, SCENARIO, veil
from veil.cli import shared
from veil.formats.results.folder import read_result


def test_a_result_has_everything(result: Path):
    assert {path.name for path in result.iterdir()} >= {"policy.safetensors", "history.csv", "certificate.json"}
    document = read_result(result).document
    problem = package.gallery.load("two-rooms")
    assert document.problem.name == "rooms"
    assert document.problem.fingerprint != problem.name
    answer = document.answer
    policy = package.load_policy(result / "policy.safetensors")
    from veil.formats.scenario.load import load

    rooms = load("rooms.toml")
    assert answer.expected_return == package.expected_return(rooms, policy)
    assert answer.opacity.bits == pytest.approx(package.opacity(rooms, policy, "exact").bits, abs=1e-12)
    assert answer.feasible
    assert document.certificate is not None
    with (result / "history.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["iteration"]) for row in rows] == read_result(result).history().iteration.tolist()
    assert [float(row["opacity_bits"]) for row in rows] == read_result(result).history().opacity_bits.tolist()


def test_text_and_json_tell_the_same(home: Path):
    text = veil("solve", "rooms.toml", *QUICK, *NO_PROOF)
    found = veil("solve", "rooms.toml", *QUICK, *NO_PROOF, "--json")
    assert text.code == found.code == found.json["exit_code"]
    assert found.json["folder"] == "rooms-result"
    assert f"{found.json['answer']['opacity']['bits']:.6f}" in text.out
    assert found.json["certificate"] is None
    assert found.json["certificate_note"] == "it was not asked for"
    written = json.loads((home / "rooms-result" / "result.json").read_text("utf-8"))
    assert written == {key: value for key, value in found.json.items() if key not in ("folder", "exit_code")}


def test_the_same_seed_gives_the_same_policy(home: Path):
    for folder in ("one", "two"):
        veil("solve", "rooms.toml", *QUICK, *NO_PROOF, "--seed", "3", "-o", folder)
    assert (home / "one/policy.safetensors").read_bytes() == (home / "two/policy.safetensors").read_bytes()


def test_solved_is_0():
    done = veil("solve", "gallery:two-rooms", "--set", "solve.starts=6", *NO_PROOF, "--json")
    assert done.code == shared.SOLVED, done.err
    assert done.json["answer"]["opacity"]["bits"] == pytest.approx(0.431037, abs=1e-5)
    assert done.json["answer"]["status"] == "CONVERGED"


def test_a_limit_is_4_with_the_best_so_far():
    done = veil("solve", "gallery:paper-last-state", *ONCE, *NO_PROOF, "-o", "out")
    assert done.code == shared.LIMIT
    assert read_result("out").document.answer.status == "ITERATION_LIMIT"
    assert read_result("out").document.answer.feasible


def test_out_of_reach_is_3_and_nothing_is_written(home: Path):
    text = (home / "rooms.toml").read_text("utf-8").replace("min_return = 0.5", "min_return = 7.0")
    (home / "rooms.toml").write_text(text, encoding="utf-8")
    done = veil("solve", "rooms.toml", "--json")
    assert done.code == shared.INFEASIBLE
    assert done.json["error"]["kind"] == "InfeasibleError"
    assert not (home / "rooms-result").exists()


def test_too_much_to_hide_is_3_and_the_best_is_written():
    done = veil("solve", "rooms.toml", *QUICK, "--set", "solve.min_opacity=0.999999", *NO_PROOF)
    assert done.code == shared.INFEASIBLE
    assert not read_result("rooms-result").document.answer.feasible


def test_the_scenario_decides_unless_told_otherwise(home: Path):
    path = home / "rooms.toml"
    path.write_text(path.read_text("utf-8") + '\n[solve]\nmemory = "timed"\nseed = 5\ncertificate = false\n', "utf-8")
    found = veil("solve", path, *QUICK, "--json").json
    assert found["answer"]["seed"] == 5
    assert found["answer"]["policy_class"] == "time-dependent policies"
    assert found["certificate"] is None
    assert veil("solve", path, *QUICK, "--seed", "6", "--json").json["answer"]["seed"] == 6


def test_a_result_is_replaced_and_other_files_stay(result: Path):
    (result / "notes.txt").write_text("mine")
    before = read_result(result).document
    done = veil("solve", "rooms.toml", *QUICK, "--seed", "9", *NO_PROOF)
    assert done.code in (0, 4)
    after = read_result(result).document
    assert after.answer.seed == 9 != before.answer.seed
    assert {path.name for path in result.iterdir()} == {*after.files, "result.json", "notes.txt"}


def test_checkpoint_and_resume(home: Path):
    done = veil("solve", "rooms.toml", *QUICK, *NO_PROOF, "--checkpoint", "run.safetensors")
    assert done.code in (0, 4)
    again = veil(
        "solve",
        "rooms.toml",
        *QUICK,
        "--set",
        "solve.certificate=false",
        "--checkpoint",
        "run.safetensors",
        "-o",
        "again",
    )
    assert again.code == done.code
    assert (home / "again/policy.safetensors").read_bytes() == (home / "rooms-result/policy.safetensors").read_bytes()
    other = veil("solve", "gallery:two-rooms", "--checkpoint", "run.safetensors")
    assert other.code == shared.BAD_INPUT
    assert "another run" in other.err


@pytest.mark.parametrize(
    ("signals", "options", "advice"),
    [
        ([signal.SIGINT, signal.SIGINT], [], b"run the same command with --start out"),
        pytest.param(
            [signal.SIGTERM],
            ["--checkpoint", "run.st"],
            b"to continue the search, run the same command again",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_interrupted_search_keeps_the_best(home: Path, signals: list[int], options: list[str], advice: bytes):
    master, slave = pty.openpty()
    words = [
        sys.executable,
        "-m",
        "veil",
        "solve",
        "gallery:paper-last-state",
        "-o",
        "out",
        "--set",
        "solve.starts=400",
        *options,
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(words, cwd=home, env=environment, stdout=subprocess.PIPE, stderr=slave)
    os.close(slave)
    seen = b""
    while b"bits" not in seen:  # the bar shows values: the search is under way
        seen += os.read(master, 4096)
    for number in signals:  # the second finds it stopping or writing, and is in nobody's way
        child.send_signal(number)
    out, _ = child.communicate(timeout=60)
    assert advice in b" ".join(os.read(master, 65536).split())
    os.close(master)
    assert child.returncode == shared.INTERRUPTED, out
    document = read_result(home / "out").document
    assert document.answer.status == "INTERRUPTED"
    assert document.answer.feasible
    assert document.certificate_note == "the search was interrupted"


def test_an_interrupted_proof_leaves_the_policy_and_claims_nothing_false(home: Path):
    options = ("--set", "solve.starts=1", "--set", "solve.iterations=1", "--proof-time-limit", "60", "-o", "out")
    words = [sys.executable, "-m", "veil", "solve", "gallery:later-last-state", *options]
    master, slave = pty.openpty()
    with subprocess.Popen(words, cwd=home, stdout=subprocess.DEVNULL, stderr=slave) as child:
        os.close(slave)
        seen = b""
        while b"proving" not in seen:  # on the progress line
            seen += os.read(master, 4096)
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal is closed at the end
            while os.read(master, 4096):
                pass
    os.close(master)
    assert child.returncode in (shared.LIMIT, shared.INTERRUPTED)
    found = read_result(home / "out")
    assert found.policy() is not None
    assert found.certificate is None or veil("verify", "out").code == 0  # what was proven until then holds


@pytest.mark.parametrize("seconds", [0.3, pytest.param(1.0, marks=pytest.mark.slow), 2.0])
def test_a_killed_run_leaves_nothing_half(home: Path, seconds: float):
    check_killed(home, seconds)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(40))
def test_a_run_killed_at_any_moment_leaves_nothing_half(home: Path, number: int):
    check_killed(home, 0.2 + number / 8)


def check_killed(home: Path, seconds: float) -> None:
    """Kill a short run after some time: its result is complete or absent."""
    words = ("solve", "rooms.toml", *QUICK, "-o", "out", "--proof-time-limit", "1")
    command = [sys.executable, "-m", "veil", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    time.sleep(seconds)
    child.kill()
    child.wait()
    if (home / "out").exists():
        found = read_result(home / "out")
        assert found.policy() is not None


def test_a_write_that_fails_leaves_the_old_result(result: Path):
    """A disk that is full after so many bytes of a file."""
    old, limits = read_result(result).document, resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in (0, 100, 1000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            done = veil("solve", "rooms.toml", *QUICK, *NO_PROOF, "--seed", "20")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert done.code == shared.BAD_INPUT, size
        assert read_result(result).document == old
        assert not [path for path in result.parent.iterdir() if path.name.startswith(".")]


def test_memories_in_words():
    for text, known in (
        ("states:1", {"kind": "states", "k": 1, "clock": True}),
        ("states:1-clock", {"kind": "states", "k": 1, "clock": False}),
        ("controller:2+clock", {"kind": "controller", "nodes": 2, "clock": True}),
    ):
        options = (*ONCE, *NO_PROOF, "--memory", text, "--force", "--json")
        assert veil("solve", "rooms.toml", *options).json["answer"]["settings"]["memory"] == known


def test_the_frontier_as_a_file(home: Path):
    done = veil("frontier", "rooms.toml", "--points", "3", *QUICK, "-o", "curve.csv")
    assert done.code == 0, done.err
    with (home / "curve.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert 1 < len(rows) <= 3
    returns = [float(row["expected_return"]) for row in rows]
    assert returns == sorted(returns)
    done = veil("frontier", "rooms.toml", "--points", "3", *QUICK, "-o", "curve.json", "--json")
    assert json.loads((home / "curve.json").read_text("utf-8"))["points"] == done.json["points"]


def test_the_game_leaves_out_what_a_scenario_says_about_a_search(home: Path):
    (home / "timed.toml").write_text(SCENARIO + '\n[solve]\nmemory = "timed"\nstarts = 2\n', encoding="utf-8")
    done = veil("solve", "timed.toml", "--method", "game", "--json")
    assert done.code == 0, done.err
    assert done.json["answer"]["method"] == "game"
    refused = veil("solve", "timed.toml", "--method", "game", "--memory", "timed")
    assert refused.code == shared.BAD_INPUT
    assert "memory: method='game'" in refused.err


def test_a_result_of_another_question_is_kept_without_force(home: Path, result: Path):
    before = (result / "result.json").read_bytes()
    for other in (
        ["--memory", "timed"],
        ["--set", "solve.goal=transparent"],
        ["--set", "horizon=1"],
        ["--method", "primal-dual"],
    ):
        done = veil("solve", "rooms.toml", *QUICK, *NO_PROOF, *other)
        assert done.code == 2
        assert "pass --force to replace it" in done.err
        assert (result / "result.json").read_bytes() == before
    assert veil("solve", "rooms.toml", *ONCE, *NO_PROOF, "--seed", "4").code in (0, 4)
    assert veil("solve", "rooms.toml", *QUICK, *NO_PROOF, "--memory", "timed", "--force").code in (0, 4)
    assert read_result(result).document.answer.settings["memory"] == "timed"


def test_a_search_starts_from_a_policy(home: Path, result: Path):
    done = veil("solve", "rooms.toml", "--set", "solve.iterations=0", *NO_PROOF, "--start", result, "-o", "new")
    assert done.code == 4
    assert read_result("new").document.answer.opacity.bits == pytest.approx(
        read_result(result).document.answer.opacity.bits, abs=1e-9
    )
    assert veil("solve", "rooms.toml", "--start", "nowhere.safetensors").code == 2


def test_a_poor_answer_says_so_in_every_output(home: Path):
    done = veil("solve", "rooms.toml", "--time-limit", "0", "--checkpoint", "run.st", "--report", "--json", "-o", "out")
    assert (done.code, done.json["answer"]["status"]) == (shared.NOT_SEARCHED, "NOT_SEARCHED")
    doubts = done.json["answer"]["doubts"]
    assert any("allow more time" in one for one in doubts)
    assert read_result("out").document.answer.doubts == doubts
    assert all(one in (home / "out/report.html").read_text("utf-8") for one in doubts)
    assert "to continue" not in done.err  # there is no checkpoint
    assert not (home / "run.st").exists()
