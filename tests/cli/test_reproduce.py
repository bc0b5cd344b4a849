"""`veil reproduce`: the plan, a run of made-up parts, and faults of the user."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from reproduction.run import Piece

from reproduction import run as module
from tests.cli.commands import process, veil
from tests.reproduction.results import made_up
from tests.seeds import looped
from veil.cli import shared

ROOT = Path(__file__).parents[2]


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch) -> None:
    results = made_up()

    def piece(name: str) -> Piece:
        return Piece(name, f"the words of {name}", lambda settings, done, times: results[name], 1.0, 1.0)

    monkeypatch.setattr(module, "pieces", lambda settings: [piece(name) for name in results])
    monkeypatch.setattr(module, "FIGURES", {"grid": module.FIGURES["grid"]})  # drawing takes a second each


def test_the_plan_runs_nothing(home: Path):
    done = veil("reproduce", "paper", "--plan")
    assert done.code == shared.SOLVED, done.err
    assert "the primal-dual method" in done.out
    assert "the full run" in done.out
    assert sorted(path.name for path in home.iterdir()) == ["rooms.toml"]
    assert "a quick run" in veil("reproduce", "paper", "--plan", "--quick", "--json").json["plan"][-1]


@pytest.mark.usefixtures("instant")
def test_a_run_writes_tables_and_figures(home: Path):
    done = veil("reproduce", "paper", "-o", "out", "--write-docs", "docs")
    assert done.code == shared.SOLVED, done.err
    assert "on 3 of 3 layouts" in done.out
    assert "the words of baseline" in done.err
    for folder in ("out", "docs"):
        assert [path.name for path in (home / folder / "figures").iterdir()] == ["reproduction-grid.png"]
    assert (home / "docs/reproduction.md").read_bytes() == (home / "out/reproduction.md").read_bytes()
    assert (home / "docs/reproduction-times.md").exists()


@pytest.mark.usefixtures("instant")
def test_one_document_on_demand(home: Path):
    done = veil("reproduce", "paper", "--quick", "--seed", "5", "--json")
    assert (
        home / "out/reproduction/reproduction.md"
    ).exists()  # the default; `reproduction` is the folder of the source
    document = done.json
    assert (document["quick"], document["seed"]) == (True, 5)
    assert document["conclusions"]["last_holds"] == 3
    assert document["tables"]["paper"]["rows"][0][1] == "0.930"
    assert document["results"]["planned-last"]["at_threshold"]["bits"] == 0.95
    assert all(Path(name).exists() for name in document["files"])
    json.dumps(document, allow_nan=False)


@looped("arguments", [("book",), ("paper", "--seed", "-1"), ()])
def test_bad_arguments_are_2(arguments: tuple[str, ...]):
    assert veil("reproduce", *arguments).code == shared.BAD_INPUT


def test_a_folder_that_cannot_be_made_is_2(home: Path):
    (home / "file").write_text("")
    done = veil("reproduce", "paper", "-o", "file/folder", "--quick")
    assert done.code == shared.BAD_INPUT
    assert "cannot be made" in done.err


@pytest.mark.usefixtures("instant")
def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "pieces", lambda settings: [Piece("baseline", "", interrupt, 1.0, 1.0)])
    assert veil("reproduce", "paper").code == shared.INTERRUPTED


def test_it_runs_from_any_folder_with_the_checkout_s_veil(home: Path):
    done = process("reproduce", "paper", "--plan", "--quick", cwd=home, PYTHONPATH=str(ROOT / "src"))
    assert done.code == shared.SOLVED, done.err
    assert "a quick run" in done.out


@pytest.mark.parametrize("inside", [False, True])
def test_an_installed_veil_looks_in_the_working_folder(home: Path, inside: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("veil.cli.reproduce.__file__", str(home / "lib" / "python" / "veil" / "cli" / "reproduce.py"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    if inside:
        monkeypatch.chdir(ROOT)
        assert veil("reproduce", "paper", "--plan").code == shared.SOLVED
        assert str(ROOT) in sys.path
        return
    done = veil("reproduce", "paper", "--plan")
    assert done.code == shared.BAD_INPUT
    assert "no checkout of veil's repository" in done.err
    assert "clone the repository" in done.err
