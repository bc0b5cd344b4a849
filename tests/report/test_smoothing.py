"""The report on a whole path: what an observer reconstructs, most likely paths, and what is left out."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.cli.commands import veil as veil_command
from tests.paths import all_runs
from tests.report.test_html import Elements, data_of
from veil.report.answer import audit
from veil.report.behaviour import behave
from veil.report.html import make_report
from veil.report.smoothing import smooth_runs
from veil.studio.looking import Subject, look_document


@pytest.fixture(scope="module")
def solved() -> tuple[veil.Problem, veil.Solution]:
    problem = veil.gallery.load("smart-meter", horizon=3, min_return=None)
    return problem, veil.solve(problem, method="game", progress=False)


def test_smoothed_runs_against_all_runs() -> None:
    """Beliefs are those given all observations, and the most likely path is the most likely of all."""
    problem = veil.gallery.load("night-round", horizon=2, min_return=None)
    policy = veil.MarkovPolicy.uniform(problem)
    runs = all_runs(problem, lambda path, _: policy.table[0, path[-1]])
    sample, leaking = smooth_runs(behave(problem, policy), 4, 0)
    assert [run.title for run in sample.runs] == ["Sample 1", "Sample 2", "Most revealing", "Most misleading"]
    names = problem.model.states
    for run in sample.runs:
        seen = tuple(problem.observer.observations.index(one) for one in run.observations if isinstance(one, str))
        given = {path: mass for (path, events), mass in runs.items() if events == seen}
        total = sum(given.values())
        belief = np.zeros_like(run.belief)
        for (path, mass), time in itertools.product(given.items(), range(3)):
            belief[time, path[time]] += mass / total
        np.testing.assert_allclose(run.belief, belief, atol=1e-12)
        assert run.states is not None
        np.testing.assert_allclose(run.posterior[:, 0], belief[np.arange(3), run.states], atol=1e-12)
        assert run.path_probability == pytest.approx(max(given.values()) / total, abs=1e-12)
        found = tuple(list(names.all()).index(name) for name in run.path)
        assert given[found] == pytest.approx(max(given.values()), abs=1e-12)
    assert leaking.drawn >= 4
    assert len(leaking.over_time) == 3


def test_the_report_on_a_path(solved: tuple[veil.Problem, veil.Solution]) -> None:
    problem, found = solved
    text = make_report(problem, found)
    assert text == make_report(problem, found)
    sections = {element[1].get("id") for element in Elements(text).found if element[0] == "section"}
    assert {"policy", "occupancy", "belief", "paths", "over-time", "certificate", "settings"} <= sections
    assert not sections & {"revealing", "quantities", "attack"}
    data = data_of(text)
    assert data["path"] is True
    assert [line["name"] for line in data["runs"][0]["lines"]] == ["true state"]
    assert "Proven upper bound over all policies: 3.5001 bits" in Elements(text).text


def test_the_report_on_a_given_policy() -> None:
    problem = veil.gallery.load("night-round", horizon=2)
    text = make_report(problem, audit(problem, veil.MarkovPolicy.uniform(problem)))
    assert 'id="path-table"' in text
    assert 'id="advice"' not in text


def test_the_studio_looks_at_it_too() -> None:
    problem = veil.gallery.load("night-round", horizon=2)
    found = look_document(Subject(problem, audit(problem, veil.MarkovPolicy.uniform(problem))))
    assert [line["name"] for line in found["data"]["runs"][0]["lines"]] == ["true state"]


def test_result_folder(tmp_path: Path) -> None:
    """`veil solve --report`, `veil verify` and `veil report` of a path; edited numbers are refused."""
    folder = str(tmp_path / "result")
    options = (
        "--set",
        "horizon=3",
        "--set",
        "min_return=0.1",
        "--method",
        "game",
        "--set",
        "solve.objective=entropy",
        "-q",
    )
    assert veil_command("solve", "gallery:smart-meter", *options, "-o", folder, "--report").code == 0
    assert (tmp_path / "result" / "report.html").exists()
    assert "the certificate holds" in veil_command("verify", folder).out
    assert veil_command("report", folder, "-o", str(tmp_path / "again.html")).code == 0
    document = tmp_path / "result" / "result.json"
    text = document.read_text("utf-8")
    document.write_text(re.sub(r'"bits": [0-9.]+', '"bits": 4.9', text, count=1), "utf-8")
    assert veil_command("verify", folder).code != 0
