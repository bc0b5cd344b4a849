"""A run: each part is kept as it is ready, a run that was stopped goes on, and the same seed gives the same bytes."""

import json
from pathlib import Path
from typing import Any

import pytest
from reproduction.run import Piece, pieces, plan_lines, run, write_pages
from reproduction.store import PIECES, TIMES, Settings, Store, Times

import veil
from reproduction import run as module
from tests.reproduction.results import made_up


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pieces of a run give made-up results at once; which were made is listed."""
    results, listed = made_up(), []

    def piece(name: str) -> Piece:
        def work(settings: Settings, done: dict[str, Any], times: Times) -> Any:
            listed.append(name)
            with times.of("search"):
                return results[name]

        return Piece(name, f"the words of {name}", work, 10.0, 1.0)

    monkeypatch.setattr(module, "pieces", lambda settings: [piece(name) for name in results])
    monkeypatch.setattr(module, "FIGURES", {"grid": module.FIGURES["grid"]})  # drawing takes a second each
    return listed


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files but those of the wall times."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "times" not in path.name]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def whole(folder: Path, settings: Settings | None = None) -> dict[str, bytes]:
    store, results = run(folder, settings or Settings(), lambda line: None)
    write_pages(folder, store, results)
    return bytes_of(folder)


def test_a_run_goes_on_where_it_was(tmp_path: Path, made: list[str]):
    first = whole(tmp_path)
    assert f"{PIECES}/baseline.json" in first
    assert "figures/reproduction-grid.png" in first
    number = len(made)
    (tmp_path / PIECES / "baseline.json").unlink()
    (tmp_path / PIECES / "readings.json").write_text("{ half")
    assert whole(tmp_path) == first
    assert made[number:] == ["baseline", "readings"]


def test_a_piece_is_handed_on_as_it_is_read(tmp_path: Path):
    store = Store(tmp_path, Settings())
    store.prepare()
    kept = store.write("piece", {"z": [1.5, float("nan")], "a": {"second": 2, "first": (1,)}}, Times())
    assert json.dumps(kept) == json.dumps(store.read("piece"))
    assert kept == {"z": [1.5, None], "a": {"first": [1], "second": 2}}


def test_other_settings_are_made_again(tmp_path: Path, made: list[str]):
    whole(tmp_path)
    number = len(made)
    whole(tmp_path, Settings(seed=1))
    assert made[number:] == made[:number]


def test_progress_is_told(tmp_path: Path, made: list[str]):
    lines: list[str] = []
    run(tmp_path, Settings(), lines.append)
    assert "the full run" in lines[0]
    assert "about" in lines[0]
    assert lines[-1].startswith(f"{len(made)}/{len(made)} the words of ")
    run(tmp_path, Settings(), lines.append)
    assert "parts are done" in lines[-1]
    times = json.loads((tmp_path / TIMES).read_text("utf-8"))
    assert set(times["baseline"]) == {"all", "processor", "search"}


def test_an_interrupt_keeps_what_is_done(tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch):
    listed = module.pieces(Settings())

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    broken = [*listed[:2], Piece("baseline", "", interrupt, 1.0, 1.0), *listed[3:]]
    monkeypatch.setattr(module, "pieces", lambda settings: broken)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Settings(), lambda line: None)
    assert sorted(path.stem for path in (tmp_path / PIECES).iterdir()) == sorted(piece.name for piece in listed[:2])


def test_a_plan_makes_nothing(tmp_path: Path):
    lines = plan_lines(tmp_path / "nowhere", Settings(quick=True))
    assert len(lines) == len(pieces(Settings(quick=True))) + 1
    assert "a quick run" in lines[-1]
    assert not (tmp_path / "nowhere").exists()


def test_a_run_has_at_least_ten_other_layouts():
    names = [piece.name for piece in pieces(Settings())]
    assert sum(name.startswith("layout-") for name in names) >= 11
    assert len(set(names)) == len(names)


def test_a_folder_that_cannot_be_made(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(veil.InputError, match="cannot be made"):
        Store(tmp_path / "file" / "folder", Settings()).prepare()


@pytest.mark.slow
def test_a_quick_run_twice(tmp_path: Path):
    """The real thing: two quick runs, the second stopped in between, end with the same bytes; the conclusions hold."""
    one = whole(tmp_path / "one", Settings(quick=True))
    whole(tmp_path / "two", Settings(quick=True))
    for name in ("convergence-last", "layouts", "layout-02", "later-last-5"):
        (tmp_path / "two" / PIECES / f"{name}.json").unlink()
    assert whole(tmp_path / "two", Settings(quick=True)) == one
