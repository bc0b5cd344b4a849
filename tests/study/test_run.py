"""Studies that are run, stopped, resumed, extended, damaged and compared."""

import csv
import json
import shutil
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pyarrow.parquet
import pytest

import veil
from tests.accessibility import violations
from tests.browser import launched, window
from tests.cli.commands import veil as command
from veil.common.errors import InputError
from veil.study.analysis import effects, front, mean_of
from veil.study.drive import run_study
from veil.study.executors import Outcome, SchedulerLost
from veil.study.job import Job, perform
from veil.study.page import write_study_report
from veil.study.summary import latex_table, over_seeds
from veil.study.table import difference

SET = {"solve.iterations": 2, "solve.starts": 2, "solve.certificate": False}


def study(**changes: Any) -> veil.Study:
    parts: dict[str, Any] = {"vary": {"min_return": ["50%", "90%"], "solve.seed": [0, 1]}, "set": SET}
    return veil.Study(["gallery:two-rooms"], **(parts | changes), derived={"share": "bits / prior_bits"})


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> veil.StudyResult:
    return study().run(tmp_path_factory.mktemp("studies") / "one", workers=1)


def copied(done: veil.StudyResult, folder: Path) -> Path:
    shutil.copytree(done.folder, folder)
    return folder


def test_the_table_has_a_row_for_each_run_equal_to_a_single_solve(done: veil.StudyResult):
    rows = list(done.rows())
    assert done.counts() == {"done": 4, "failed": 0, "to_do": 0}
    for row in rows:
        problem = veil.gallery.load("two-rooms", min_return=row["min_return"])
        alone = veil.solve(problem, iterations=2, starts=2, certificate=False, seed=row["solve.seed"])
        assert row["bits"] == alone.opacity.bits
        assert row["expected_return"] == alone.expected_return
        assert row["share"] == row["bits"] / row["prior_bits"]
    with open(done.folder / "table.csv", newline="") as file:
        written = list(csv.DictReader(file))
    assert [float(row["bits"]) for row in written] == [row["bits"] for row in rows]
    parquet = pyarrow.parquet.read_table(done.folder / "table.parquet")
    assert parquet.column("bits").to_pylist() == [row["bits"] for row in rows]
    assert parquet.column_names == list(done.columns)


def test_finished_runs_are_never_repeated_and_a_study_can_be_extended(done: veil.StudyResult, tmp_path: Path):
    folder = copied(done, tmp_path / "study")
    before = {path: path.read_bytes() for path in sorted(folder.glob("runs/*/*"))}
    events: list[dict[str, object]] = []
    more = study(vary={"min_return": ["50%", "90%", "70%"], "solve.seed": [0, 1]})
    assert more.run(folder, workers=1, tell=events.append).counts() == {"done": 6, "failed": 0, "to_do": 0}
    assert [event["event"] for event in events] == ["study", "executor", "done", "done", "end"]
    assert all(path.read_bytes() == content for path, content in before.items())
    assert [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()][-5:] == events


def test_changed_settings_are_other_runs(done: veil.StudyResult, tmp_path: Path):
    folder = copied(done, tmp_path / "study")
    changed = study(set=SET | {"solve.iterations": 1})
    result = changed.run(folder, workers=1)
    assert result.counts()["done"] == 4
    assert set(result.runs).isdisjoint(done.runs)
    assert len(list((folder / "runs").iterdir())) == 8


def test_a_run_that_fails_is_recorded_and_retried_when_asked(tmp_path: Path):
    asked = study(vary={"min_return": ["50%", "900%"]})
    result = asked.run(tmp_path / "study", workers=1)
    rows = list(result.rows())
    assert [row["status"] for row in rows][1] in ("FAILED", "INFEASIBLE")
    wrong = study(vary={"horizon": [1, -3]})
    result = wrong.run(tmp_path / "wrong", workers=1)
    row = list(result.rows())[1]
    assert row["status"] == "FAILED"
    assert "horizon" in row["reason"]
    events: list[dict[str, object]] = []
    wrong.run(tmp_path / "wrong", workers=1, tell=events.append)
    assert len(events) == 1
    wrong.run(tmp_path / "wrong", workers=1, tell=events.append, retry_failed=True)
    assert [event["event"] for event in events[1:]] == ["study", "executor", "failed", "end"]


def test_damaged_runs_are_set_aside_and_made_again(done: veil.StudyResult, tmp_path: Path):
    folder = copied(done, tmp_path / "study")
    key = next(iter(done.runs))
    (folder / "runs" / key / "history.csv").write_text("nonsense")
    result = study().run(folder, workers=1, repair=True)
    assert result.row(key)["bits"] == done.row(key)["bits"]
    assert (folder / "runs" / key / "history.csv").read_text() != "nonsense"
    assert len(list((folder / "runs").glob(".damaged-*"))) == 1


class Unreliable:
    """An executor that loses every second attempt, and its scheduler after every third."""

    words, dashboard = "unreliable", ""

    def __init__(self, log: list[str]):
        self.log = log
        self.job: Job | None = None

    def room(self) -> int:
        return int(self.job is None)

    def submit(self, job: Job) -> None:
        self.job = job

    def finished(self, seconds: float) -> list[Outcome]:
        self.log.append("attempt")
        if len(self.log) % 3 == 0:
            raise SchedulerLost
        assert self.job is not None
        job, self.job = self.job, None
        return [Outcome(job, "lost", lost=True) if len(self.log) % 2 else Outcome(job, perform(job))]

    def close(self) -> None:
        pass


def test_lost_workers_and_schedulers_cost_attempts_and_no_run(done: veil.StudyResult, tmp_path: Path):
    log: list[str] = []
    result = run_study(study(attempts=50), tmp_path / "study", lambda: Unreliable(log))
    assert result.counts() == {"done": 4, "failed": 0, "to_do": 0}
    assert difference(done, result) == []
    assert len(log) > 4


def test_a_run_that_is_always_lost_fails_with_its_reason(tmp_path: Path):
    """Its workers have less memory than they need to start."""
    asked = study(vary={"solve.seed": [0]}, attempts=2)
    events: list[dict[str, object]] = []
    row = next(asked.run(tmp_path / "study", workers=1, memory=2**20, tell=events.append).rows())
    assert row["status"] == "FAILED"
    assert "GiB of memory, expected at most 0.00" in row["reason"]
    assert [event["event"] for event in events].count("again") == 1


def test_an_interrupt_keeps_what_is_done(tmp_path: Path):
    def stop(event: dict[str, object]) -> None:
        if event["event"] == "done":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        study().run(tmp_path / "study", workers=1, tell=stop)
    assert veil.StudyResult(tmp_path / "study").counts() == {"done": 1, "failed": 0, "to_do": 3}
    assert study().run(tmp_path / "study", workers=1).counts()["done"] == 4


def test_what_is_not_a_study_is_refused(done: veil.StudyResult, tmp_path: Path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(InputError, match="not a study's folder"):
        study().run(tmp_path, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
    with pytest.raises(InputError, match="no study can be read"):
        veil.StudyResult(tmp_path)
    with pytest.raises(InputError, match="expected 1 or more"):
        study().run(tmp_path / "x", workers=0)
    for content in ("[1]", "{", '{"format": "veil-study-1"}', "[" * 1000):
        (tmp_path / "s").mkdir(exist_ok=True)
        (tmp_path / "s" / "study.json").write_text(content)
        with pytest.raises(InputError):
            veil.StudyResult(tmp_path / "s")


def test_the_difference_of_two_studies(done: veil.StudyResult, tmp_path: Path):
    other = study(vary={"min_return": ["50%", "80%"], "solve.seed": [0, 1]}, set=SET | {"horizon": 2})
    rows = difference(done, other.run(tmp_path / "study", workers=1))
    assert [row["what"] for row in rows].count("only in the first") == 2
    assert [row["what"] for row in rows].count("only in the second") == 2
    changed = [row for row in rows if "fingerprint" in row["what"]]
    assert all(row["change"] == row["bits_2"] - row["bits_1"] for row in changed)
    assert len(changed) == 2


def test_what_a_time_limit_decides_is_told_and_is_no_difference(tmp_path: Path):
    endless = {"solve.method": "primal-dual", "solve.iterations": 10**9, "solve.step": 1e-6, "solve.certificate": False}
    short, long = (
        study(vary={"solve.seed": [0, 1]}, set=endless | {"solve.time_limit": seconds}).run(tmp_path / name, workers=1)
        for name, seconds in (("short", 0.2), ("long", 0.6))
    )
    assert [row["status"] for row in (*short.rows(), *long.rows())] == ["TIME_LIMIT"] * 4
    assert "every run ended at its time limit" in short.limited()
    assert {row["what"] for row in difference(short, long)} <= {""}
    assert [row["what"] for row in difference(short, long, columns=["seconds"])] == ["seconds", "seconds"]
    write_study_report(short)
    assert "very run ended at its time limit" in (short.folder / "report.html").read_text()
    folders = [tmp_path / "short", tmp_path / "long"]
    for told, code in (
        (["table", folders[0]], 0),
        (["table", *folders], 0),
        (["table", *folders, "--columns", "seconds"], 1),
    ):
        done = command("study", *told)
        assert done.code == code, done.err
        assert "time limit" in done.err or code == 1


def test_given_policies_are_measured(done: veil.StudyResult, tmp_path: Path):
    """A result folder and the uniform policy, in every scenario; their values are those of `veil measure`."""
    given = next(done.folder.glob("runs/*"))
    shutil.copytree(given, tmp_path / "best")
    asked = study(policies=["uniform", "best"], folder=tmp_path, vary={"min_return": ["50%", "90%"]})
    measured = asked.run(tmp_path / "study", workers=1)
    rows = list(measured.rows())
    assert [row["policy"] for row in rows] == ["uniform", "uniform", "best", "best"]
    for row in rows:
        problem = veil.gallery.load("two-rooms", min_return=row["min_return"])
        policy = veil.load_result(given).policy if row["policy"] == "best" else veil.MarkovPolicy.uniform(problem)
        assert (row["status"], row["bits"]) == ("GIVEN", veil.opacity(problem, policy).bits)
        assert row["expected_return"] == veil.expected_return(problem, policy)
    keys = [run.key for run in asked.runs]
    assert keys == [run.key for run in study(policies=["uniform", "best"], folder=tmp_path, vary=asked.vary).runs]
    (tmp_path / "best" / "policy.safetensors").write_bytes(b"another")
    changed = [run.key for run in study(policies=["uniform", "best"], folder=tmp_path, vary=asked.vary).runs]
    assert [one == other for one, other in zip(keys, changed, strict=True)] == [True, True, False, False]


def test_limits_of_a_study_end_it_with_7(done: veil.StudyResult, tmp_path: Path):
    rows = list(done.rows())
    least = min(row["bits"] for row in rows)
    most = max(row["leakage_bits"] for row in rows)
    assert done.missed_gates(least, most) == []
    missed = done.missed_gates(least + 1e-3, None)
    assert [gate.reached for _, gate in missed] == [row["bits"] for row in rows if row["bits"] < least + 1e-3]
    (tmp_path / "s.toml").write_text('scenarios = ["gallery:two-rooms"]\npolicies = ["uniform"]\n')
    command_line = ["study", tmp_path / "s.toml", "-o", tmp_path / "out", "--workers", "1", "--max-leakage"]
    assert command(*command_line, "0.6").code == 0
    told = command(*command_line, "0.5", "--json")
    assert (told.code, told.json["missed_gates"][0]["name"]) == (7, "max_leakage")


def test_tables_over_seeds_and_for_latex(done: veil.StudyResult):
    rows = list(done.rows())
    for row in over_seeds(rows, done.factors, ["status", "bits"]):
        bits = [one["bits"] for one in rows if one["min_return"] == row["min_return"]]
        assert row["runs"] == 2
        if bits[0] == bits[1]:
            assert row["bits"] == bits[0]
        else:
            assert (row["bits"].value, row["bits"].deviation) == (mean(bits), pytest.approx(stdev(bits)))
    assert str(mean_of([1.0, 2.0, 4.0])) == "2.3 ± 1.5"
    text = latex_table(["a_b", "bits"], [["50%", mean_of([1.0, 2.0, 4.0])], ["90%", None]])
    assert text.splitlines()[1:-1] == [
        r"\toprule", r"a\_b & bits \\", r"\midrule", r"50\% & 2.3 $\pm$ 1.5 \\", r"90\% &  \\", r"\bottomrule"
    ]  # fmt: skip
    assert (
        "min\\_return & runs & bits"
        in command("study", "table", done.folder, "--means", "--latex", "--columns", "bits").out
    )
    assert command("study", "table", done.folder, "--means", "--json").json["rows"][0]["runs"] == 2


def test_the_report_shows_every_run(done: veil.StudyResult, tmp_path: Path):
    folder = copied(done, tmp_path / "study")
    paths = write_study_report(veil.StudyResult(folder))
    assert {path.name for path in paths} >= {"report.html", "multiples.svg", "effects.pdf", "fronts.svg"}
    page = (folder / "report.html").read_text()
    assert "4 runs done" in page
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creative", ""
    )
    with pytest.raises(InputError, match="there is no column 'bytes'"):
        write_study_report(veil.StudyResult(folder), "bytes")


def test_the_report_keeps_the_rules_of_accessibility(done: veil.StudyResult, tmp_path: Path):
    page_file, *_ = write_study_report(veil.StudyResult(copied(done, tmp_path / "study")))
    with launched() as browser:
        for width, dark in ((1280, False), (390, True)):
            page = window(browser, width, dark=dark).new_page()
            page.goto(page_file.as_uri())
            assert violations(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") == width


def test_means_effects_and_fronts():
    one = mean_of([1.0, 2.0, 3.0])
    assert one.value == 2.0
    assert one.high - one.value == pytest.approx(4.302652729911275 / 3**0.5)
    rows = [
        {"a": a, "b": b, "solve.seed": seed, "bits": {"x": 1.0, "y": 3.0}[a] + b + 0.1 * seed * (a == "x")}
        for a in "xy"
        for b in (0, 10)
        for seed in (0, 1)
    ]
    found = {(one.factor, one.level): one for one in effects(rows, ["a", "b", "solve.seed"], "bits")}
    assert found["a", "y"].change.value == pytest.approx(0.975)
    assert found["a", "y"].blocks == 4
    assert found["b", 10].change.value == pytest.approx(5.0)
    assert found["b", 10].change.high == pytest.approx(5.0)
    assert front([(0, 1), (1, 0.5), (0.5, 0.4), (1, 0.2), (2, 0.1)]) == [(0, 1), (1, 0.5), (2, 0.1)]
