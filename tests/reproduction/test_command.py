"""`make reproduce`: the plan, the pages of parts that are there, and faults of the user."""

from pathlib import Path

import pytest
from reproduction.__main__ import app
from reproduction.figures import FIGURES
from reproduction.store import Settings
from typer.testing import CliRunner

from tests.cli.commands import Done
from tests.reproduction.results import kept
from veil.cli import shared


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reproduce(*arguments: str) -> Done:
    """Run `python -m reproduction` in this process."""
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    return Done(result.exit_code, result.stdout, result.stderr)


def test_the_plan_runs_nothing(home: Path):
    done = reproduce("--plan")
    assert done.code == shared.SOLVED, done.err
    assert "the primal-dual method" in done.out
    assert "the full run" in done.out
    assert not list(home.iterdir())
    assert "a quick run" in reproduce("--plan", "--quick", "--json").json["plan"][-1]


@pytest.mark.slow
def test_a_run_writes_tables_and_figures(home: Path):
    """All parts are there from a run before: the tables and figures are made of them."""
    kept(home / "out", Settings(quick=True, seed=5))
    done = reproduce("--quick", "--seed", "5", "-o", "out", "--write-docs", "docs", "--json")
    assert done.code == shared.SOLVED, done.err
    assert "parts are done" in done.err
    for folder in ("out", "docs"):
        assert {path.name for path in (home / folder / "figures").iterdir()} == {
            f"reproduction-{name}.png" for name in FIGURES
        }
    assert (home / "docs/reproduction.md").read_bytes() == (home / "out/reproduction.md").read_bytes()
    document = done.json
    assert (document["quick"], document["seed"]) == (True, 5)
    assert document["conclusions"]["last_holds"] == 4
    assert document["tables"]["paper"]["rows"][0][1] == "0.930"
    assert document["results"]["planned-last"]["at_threshold"]["bits"] == 0.95
    assert all(Path(name).exists() for name in document["files"])


def test_bad_arguments_are_2():
    assert reproduce("--seed", "-1").code == shared.BAD_INPUT


def test_a_folder_that_cannot_be_made_is_2(home: Path):
    (home / "file").write_text("")
    done = reproduce("-o", "file/folder", "--quick")
    assert done.code == shared.BAD_INPUT
    assert "cannot be made" in done.err
