"""`veil report` and `veil solve --report`: the page, the figures, the curve, and what is refused."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import each
from tests.cli.commands import NO_PROOF, QUICK, veil
from tests.proof.plain import second
from veil import load_result, opacity, verify


def test_the_page_of_a_result(result: Path):
    done = veil("report", result, "--set", "report.runs=3", "--set", "report.sequences=4")
    assert done.code == 0, done.err
    assert done.out == f"wrote {result / 'report.html'}\n"
    text = (result / "report.html").read_text("utf-8")
    assert "<h1><bdi>rooms</bdi></h1>" in text
    assert "Proven upper bound over all policies" in text
    assert '"points":[[' in text  # so small a curve is made without being asked for
    before = (result / "report.html").read_bytes()
    assert veil("report", result, "--set", "report.runs=3", "--set", "report.sequences=4").code == 0
    assert (result / "report.html").read_bytes() == before


def test_the_page_of_a_policy_without_a_search(home: Path, result: Path):
    done = veil("report", "rooms.toml", "uniform", "--set", "horizon=3", "--json")
    assert done.code == 0, done.err
    assert done.json == {"report": "rooms-report.html", "files": ["rooms-report.html"]}
    text = (home / "rooms-report.html").read_text("utf-8")
    assert "Recommendations" in text
    assert "Simulated attack" in text
    assert "Convergence of the search" not in text
    assert (
        veil(
            "report", "rooms.toml", result, "-o", "mine.html", "--figures", "figures", "--set", "report.format=svg"
        ).code
        == 0
    )
    assert (home / "figures" / "convergence.svg").exists()  # it is a result of this scenario
    assert (home / "figures" / "policy.svg").exists()
    for arguments in (["rooms.toml"], ["gallery:two-rooms"]):
        refused = veil("report", *arguments)
        assert refused.code == 2
    assert "name a policy too, such as veil report rooms.toml uniform" in veil("report", "rooms.toml").err


@pytest.mark.slow
def test_figures_for_papers(result: Path, home: Path):
    assert veil("report", result, "-o", "page.html", "--figures", "two/deep").code == 0
    done = veil("report", result, "-o", "page.html", "--figures", "one", "--set", "report.format=svg", "--json")
    assert done.code == 0, done.err
    names = ("policy", "occupancy", "belief", "observer", "convergence", "frontier")
    assert {path.name for path in (home / "one").iterdir()} == {f"{name}.svg" for name in names}
    assert {path.name for path in (home / "two/deep").iterdir()} == {f"{name}.pdf" for name in names}
    assert done.json["report"] == "page.html"
    assert len(done.json["files"]) == 7
    assert not (result / "report.html").exists()


def test_a_curve_from_a_file(result: Path, home: Path):
    assert veil("frontier", "rooms.toml", "--points", "3", *QUICK, "-o", "curve.json", "-q").code == 0
    assert veil("report", result, "--frontier", "curve.json").code == 0
    points = json.loads((home / "curve.json").read_text())["points"]
    text = (result / "report.html").read_text("utf-8")
    assert f"{len(points)} points" in text
    (home / "curve.json").rename(result / "frontier.json")
    (result / "report.html").unlink()
    assert veil("report", result).code == 0
    assert (result / "report.html").read_text("utf-8") == text


def test_solve_writes_it_as_well(home: Path):
    done = veil("solve", "rooms.toml", *QUICK, *NO_PROOF, "--report")
    assert "report: rooms-result/report.html" in done.out
    page = home / "rooms-result/report.html"
    assert "There is no certificate: it was not asked for." in page.read_text("utf-8")
    veil("solve", "rooms.toml", *QUICK, *NO_PROOF, "--seed", "5")
    assert not page.exists()  # it spoke of another policy


def test_what_is_refused(result: Path):
    cases = [
        (("report", "nowhere"), "no result can be read"),
        (("report", "rooms-result", "--frontier", "nowhere.json"), "cannot be read"),
        (("report", "rooms-result", "--frontier", "rooms.toml"), "not a curve"),
        (("report", "rooms-result", "--frontier", "1"), "expected 2 to 1,000"),
        (("report", "gallery:badge-doors", "rooms-result"), "expected"),
        (("report", "gone.toml", "rooms-result"), "gone.toml"),
        (("report", "rooms-result", "-o", "nowhere/page.html"), "cannot be written"),
        (
            ("report", "rooms-result", "-o", "page.html", "--figures", "rooms.toml", "--set", "report.format=png"),
            "the folder cannot be made",
        ),
    ]

    def check(case: tuple[tuple[str, ...], str]) -> None:
        done = veil(*case[0])
        assert done.code == 2
        assert case[1] in done.err
        assert "Traceback" not in done.err

    each({" ".join(arguments): (arguments, said) for arguments, said in cases}, check)


def test_a_folder_that_was_copied_alone_is_complete(
    result: Path, home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    """On another path, without the scenario: both verifiers, the report, conversion, comparison and Python read it."""
    away = tmp_path_factory.mktemp("away")
    shutil.copytree(result, away / "copied")
    (home / "rooms.toml").unlink()
    monkeypatch.chdir(away)
    assert "is not there" in veil("verify", "copied").out
    assert second.main(["copied"])[1] == 0
    assert veil("report", "copied").code == 0
    assert veil("convert", "copied", "policy.csv").code == 0
    assert veil("measure", "copied/scenario.toml", "copied").code == 0
    assert veil("solve", "copied/scenario.toml", "--start", "copied", *NO_PROOF, *QUICK).code in (0, 4)
    loaded = load_result("copied")
    assert loaded.problem is not None
    assert loaded.certificate is not None
    document = json.loads(Path("copied/result.json").read_text("utf-8"))
    assert opacity(loaded.problem, loaded.policy).bits == document["answer"]["opacity"]["bits"]
    verify(loaded.certificate, loaded.problem, loaded.policy)
    loaded.save("again")
    assert json.loads(Path("again/result.json").read_text("utf-8"))["answer"] == document["answer"]


PIPES = """
import os, shutil, sys
from pathlib import Path
from tests.cli.commands import NO_PROOF, QUICK, veil
for name in sys.argv[1:]:
    for kind in ("pipe", "device"):
        shutil.rmtree("spoilt", ignore_errors=True)
        shutil.copytree("rooms-result", "spoilt")
        place = Path("spoilt") / name
        place.unlink(missing_ok=True)
        os.mkfifo(place) if kind == "pipe" else place.symlink_to("/dev/zero")
        for command in (["report", "spoilt"], ["measure", "rooms.toml", "spoilt"], ["verify", "spoilt"],
                        ["solve", "rooms.toml", "-o", "spoilt", *QUICK, *NO_PROOF]):
            done = veil(*command)
            print(name, kind, command[0], done.code, "Traceback" in done.err, flush=True)
os.mkfifo("policy.safetensors")
print("policy.safetensors pipe alone", veil("measure", "rooms.toml", "policy.safetensors").code, False)
"""


def test_pipes_and_devices_in_a_folder_are_neither_waited_for_nor_read(result: Path, home: Path):
    """Folders come from others. Every command ends, with a code that it has for what is wrong."""
    names = (
        "policy.safetensors",
        "history.csv",
        "certificate.json",
        "problem.bin",
        "result.json",
        "frontier.json",
        "scenario.toml",
    )
    command = [sys.executable, "-c", PIPES, *names]
    path = f"{Path(__file__).parents[2]}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 7 * 2 * 4 + 1
    assert not [line for line in lines if line[-2] not in ("0", "2", "4", "5") or line[-1] != "False"]
    needed = {line[0] for line in lines if line[2] == "report" and line[-2] != "0"}
    assert {"policy.safetensors", "history.csv", "certificate.json", "result.json", "scenario.toml"} <= needed


def test_a_time_limit_leaves_out_what_does_not_fit(home: Path):
    """What fits in little time depends on the machine; there is never half a page, and a refusal writes nothing."""
    page, kept = home / "page.html", list[int]()
    for problem, seconds in (("gallery:paper-false-alarms", "0"), ("gallery:two-rooms", "100")):
        page.unlink(missing_ok=True)
        done = veil("report", problem, "uniform", "--time-limit", seconds, "-q", "-o", page)
        if done.code:  # not even the first sequences fit
            assert (done.code, "time limit" in done.err, page.exists()) == (2, True, False)
            kept.append(0)
        else:
            text = page.read_text("utf-8")
            assert text.rstrip().endswith("</html>")
            kept.append(1 + ("Simulated attack" in text))
    assert kept[0] < 2  # 2,000 attacks in no time
    assert kept[1] == 2
    done = veil(
        "measure", "gallery:paper-false-alarms", "--attack", "--time-limit", "0.01", "--set", "attack.episodes=1000000"
    )
    assert done.code == 2
    assert "time limit" in done.err
