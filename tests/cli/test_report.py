"""`veil report` and `veil solve --report`: the page, the figures, the curve, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import QUICK, SCENARIO, veil
from veil.cli.report import remove_stale


def test_the_page_of_a_result(result: Path):
    done = veil("report", result, "--runs", "3", "--sequences", "4")
    assert done.code == 0, done.err
    assert done.out == f"wrote {result / 'report.html'}\n"
    text = (result / "report.html").read_text("utf-8")
    assert "<h1><bdi>rooms</bdi></h1>" in text
    assert "Proven upper bound over all policies" in text
    assert '"points":[[' in text  # so small a curve is made without being asked for
    before = (result / "report.html").read_bytes()
    assert veil("report", result, "--runs", "3", "--sequences", "4").code == 0
    assert (result / "report.html").read_bytes() == before


def test_the_page_of_a_policy_without_a_search(home: Path, result: Path):
    done = veil("report", "rooms.toml", "uniform", "--set", "horizon=3", "--json")
    assert done.code == 0, done.err
    assert done.json == {"report": "rooms-report.html", "files": ["rooms-report.html"]}
    text = (home / "rooms-report.html").read_text("utf-8")
    assert "Recommendations" in text
    assert "Simulated attack" in text
    assert "Convergence of the search" not in text
    assert veil("report", "rooms.toml", result, "-o", "mine.html", "--svg", "figures").code == 0
    assert not (home / "figures" / "convergence.svg").exists()
    assert (home / "figures" / "policy.svg").exists()
    for arguments in (["rooms.toml"], ["gallery:two-rooms"], ["rooms.toml", "uniform", "--scenario", "rooms.toml"]):
        refused = veil("report", *arguments)
        assert refused.code == 2
    assert "name a policy too, as veil report rooms.toml uniform" in veil("report", "rooms.toml").err


def test_figures_for_papers(result: Path, home: Path):
    done = veil("report", result, "-o", "page.html", "--svg", "one", "--pdf", "two/deep", "--json")
    assert done.code == 0, done.err
    names = ("policy", "occupancy", "belief", "observer", "convergence", "frontier")
    assert {path.name for path in (home / "one").iterdir()} == {f"{name}.svg" for name in names}
    assert {path.name for path in (home / "two/deep").iterdir()} == {f"{name}.pdf" for name in names}
    assert done.json["report"] == "page.html"
    assert len(done.json["files"]) == 13
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
    done = veil("solve", "rooms.toml", *QUICK, "--no-certificate", "--report")
    assert "report: rooms-result/report.html" in done.out
    page = home / "rooms-result/report.html"
    assert "There is no certificate: it was not asked for." in page.read_text("utf-8")
    veil("solve", "rooms.toml", *QUICK, "--no-certificate", "--seed", "5")
    assert not page.exists()  # it spoke of another policy


def test_only_our_own_page_is_taken_away(tmp_path: Path):
    remove_stale(tmp_path)
    (tmp_path / "report.html").write_text("<p>mine</p>")
    remove_stale(tmp_path)
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "nowhere"), "no result can be read"),
        (("report", "rooms-result", "--frontier", "nowhere.json"), "cannot be read"),
        (("report", "rooms-result", "--frontier", "rooms.toml"), "not a curve"),
        (("report", "rooms-result", "--frontier", "a", "--points", "3"), "expected one"),
        (("report", "rooms-result", "--scenario", "gallery:two-rooms"), "about another problem"),
        (("report", "rooms-result", "--scenario", "gone.toml"), "gone.toml"),
        (("report", "rooms-result", "-o", "nowhere/page.html"), "cannot be written"),
        (("report", "rooms-result", "-o", "page.html", "--png", "rooms.toml"), "the folder cannot be made"),
    ],
)
def test_what_is_refused(result: Path, arguments: tuple[str, ...], said: str):
    done = veil(*arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_scenario_that_was_changed(result: Path, home: Path):
    (home / "rooms.toml").write_text(SCENARIO.replace("0.7", "0.6"), encoding="utf-8")
    done = veil("report", result)
    assert done.code == 2
    assert "the scenario was changed" in done.err


def test_a_result_that_does_not_know_its_scenario(result: Path):
    document = json.loads((result / "result.json").read_text("utf-8"))
    document["problem"]["scenario"] = None
    (result / "result.json").write_text(json.dumps(document), encoding="utf-8")
    assert "give --scenario" in veil("report", result).err
    assert veil("report", result, "--scenario", "rooms.toml").code == 0
