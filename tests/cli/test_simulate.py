"""`veil simulate`, `veil measure --attack`: what the observer sees, live."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import veil as package
from tests.cli.commands import Done, veil
from veil.cli import shared

OBSERVE = ("simulate", "gallery:two-rooms", "uniform", "--observed", "-")


def steps(done: Done) -> list[dict]:
    """The documents of `veil simulate --observed - --json`, one on each line."""
    return [json.loads(line) for line in done.out.splitlines()]


def test_posteriors_are_those_of_the_filter():
    problem = package.gallery.load("two-rooms")
    watcher = package.ObserverFilter(problem, package.MarkovPolicy.uniform(problem))
    done = veil(*OBSERVE, "--json", stdin="0\nbeep\n")
    assert done.code == 0
    assert list(steps(done)[0]["posterior"]) == list(problem.secret_values)
    for step, seen in zip(steps(done), ("0", "beep"), strict=True):
        assert list(step["posterior"].values()) == watcher.update(seen).tolist()
        assert step["time"] == watcher.time


def test_it_answers_at_once():
    """A line in, a line out, before the input ends."""
    command = [sys.executable, "-m", "veil", *OBSERVE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline().split() == ["time", "observation", "elsewhere", "secret"]
        for seen, expected in (("0", "0.500000"), ("beep", "1.000000")):
            child.stdin.write(f"{seen}\n")
            child.stdin.flush()
            assert child.stdout.readline().split()[-1] == expected
        child.stdin.close()
        assert child.wait(timeout=30) == 0


def test_ctrl_c_ends_it():
    command = [sys.executable, "-m", "veil", *OBSERVE, "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("0\n")
        child.stdin.flush()
        first = child.stdout.readline()
        child.stdin.write("beep\n")
        child.stdin.flush()
        second = child.stdout.readline()
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
        assert child.wait(timeout=30) == shared.INTERRUPTED
    assert [json.loads(line)["time"] for line in (first, second)] == [0, 1]
    assert rest == ""


def test_an_impossible_observation_changes_nothing():
    done = veil(*OBSERVE, "--json", stdin="beep\n0\n0\n")
    found = steps(done)
    assert done.code == 0
    assert found[0]["impossible"]
    assert found[0]["time"] is None
    assert [step["posterior"]["secret"] for step in found] == pytest.approx([0.5, 0.5, 0.2])
    text = veil(*OBSERVE, stdin="beep\n")
    assert "line 1: observation 'beep' at time 0 is impossible" in text.err
    assert "(refused)" in text.out


def test_what_is_not_understood_is_code_2_and_the_rest_goes_on():
    done = veil(*OBSERVE, "--json", stdin="boop\n0\n")
    assert done.code == shared.BAD_INPUT
    assert "unknown observation 'boop'" in steps(done)[0]["error"]
    assert steps(done)[1]["time"] == 0


def test_beyond_the_horizon_and_a_new_run():
    done = veil(*OBSERVE, "--json", stdin="0\nbeep\n0\n\n0\n")
    assert "an empty line starts a new one" in steps(done)[2]["error"]
    assert steps(done)[3]["new_run"]
    assert [step["time"] for step in steps(done)] == [0, 1, 1, None, 0]
    assert "(new run)" in veil(*OBSERVE, stdin="0\n\n0\n").out


def test_actions_come_with_observations(home: Path):
    text = (home / "rooms.toml").read_text("utf-8")
    (home / "rooms.toml").write_text(
        text.replace("[observer.sensors", "[observer]\nsees_actions = true\n[observer.sensors")
    )
    done = veil(
        "simulate",
        "rooms.toml",
        "uniform",
        "--observed",
        "-",
        "--json",
        stdin="0\nwalk,camera\nwait\tcamera\n\n0\ncamera\nfly,camera\n",
    )
    found = steps(done)
    assert [step["time"] for step in found] == [0, 1, 2, None, 0, 0, 0]
    assert "expected (action, observation)" in found[5]["error"]
    assert "unknown action 'fly'" in found[6]["error"]


def test_what_is_simulated_can_be_observed(result: Path):
    seen = veil("simulate", "rooms.toml", result, "--runs", "3", "--observations", "--seed", "4").out
    Path("seen.txt").write_text(seen, encoding="utf-8")
    done = veil("simulate", "rooms.toml", result, "--observed", "seen.txt", "--json")
    assert done.code == 0
    assert not [step for step in steps(done) if "error" in step]
    assert len(steps(done)) == 3 * 3 + 2


def test_runs_as_a_table(home: Path):
    found = veil("simulate", "rooms.toml", "uniform", "--runs", "2", "--json").json["runs"]
    assert veil("simulate", "rooms.toml", "uniform", "--runs", "2", "-o", "runs.csv").code == 0
    with (home / "runs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["state"] for row in rows] == [state for run in found for state in run["states"]]
    assert [row["secret"] for row in rows] == [run["secret"] for run in found for _ in run["states"]]
    for run in found:
        assert len(run["states"]) == len(run["actions"]) + 1 == len(run["observations"]) == 3
        assert (run["secret"] == "secret") == (run["states"][-1] == "vault")


def test_an_attack_stands_beside_theory():
    found = veil("measure", "gallery:two-rooms", "--attack", "--set", "attack.episodes=100", "--json").json["attack"]
    assert found["accuracy"]["exact"] == pytest.approx(0.875)
    assert found["opacity"]["bits"] == pytest.approx(0.451205, abs=1e-6)


def test_an_infinite_surprise_is_written_as_text(home: Path):
    problem = package.gallery.load("two-rooms")
    package.MarkovPolicy.deterministic(problem, ["stay", "stay"]).save(home / "stay.safetensors")
    done = veil(
        "measure",
        "gallery:two-rooms",
        "--attack",
        "--set",
        "attack.episodes=50",
        "--set",
        "attack.believes=stay.safetensors",
        "--json",
    )
    assert done.code == 0, done.err
    assert done.json["attack"]["cross_entropy_bits"] == "inf"
