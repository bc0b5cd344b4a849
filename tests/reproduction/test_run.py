"""A run: each part is kept as it is ready, a run that was stopped goes on, and the same seed gives the same bytes."""

import json
from pathlib import Path

import pytest
from reproduction.run import plan_lines, run, write_pages
from reproduction.store import PIECES, TIMES, Settings, Store, Times

from tests.reproduction.results import kept


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files but those of the wall times."""
    paths = [path for path in folder.rglob("*") if path.is_file() and "times" not in path.name]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def whole(folder: Path, settings: Settings | None = None) -> dict[str, bytes]:
    store, results = run(folder, settings or Settings(), lambda line: None)
    write_pages(folder, store, results)
    return bytes_of(folder)


@pytest.mark.slow
def test_a_run_goes_on_where_it_was(tmp_path: Path):
    """Of a part that is missing or cut short the result is made again, by what it needs of the others."""
    settings = Settings(quick=True)
    kept(tmp_path, settings, without={"layouts"})
    (tmp_path / PIECES / "layout-01.json").write_text("{ half")
    lines: list[str] = []
    _, results = run(tmp_path, settings, lines.append)
    assert "2 parts to run" in lines[0]
    assert len(results["layouts"]["layouts"]) == 3
    assert results["layout-01"]["last"]["holds"]
    lines.clear()
    assert run(tmp_path, settings, lines.append)[1] == results
    assert "parts are done" in lines[-1]
    assert set(json.loads((tmp_path / TIMES).read_text("utf-8"))["layouts"]) >= {"all", "processor"}
    assert "parts are done" not in plan_lines(tmp_path, Settings(quick=True, seed=1))[-1]  # other settings: made again


def test_a_piece_is_handed_on_as_it_is_read(tmp_path: Path):
    store = Store(tmp_path, Settings())
    store.prepare()
    kept = store.write("piece", {"z": [1.5, float("nan")], "a": {"second": 2, "first": (1,)}}, Times())
    assert json.dumps(kept) == json.dumps(store.read("piece"))
    assert kept == {"z": [1.5, None], "a": {"first": [1], "second": 2}}


@pytest.mark.slow
def test_a_quick_run_twice(tmp_path: Path):
    """The real thing: two quick runs, the second stopped in between, end with the same bytes; the conclusions hold."""
    one = whole(tmp_path / "one", Settings(quick=True))
    whole(tmp_path / "two", Settings(quick=True))
    for name in ("convergence-last", "layouts", "layout-02", "later-last-5"):
        (tmp_path / "two" / PIECES / f"{name}.json").unlink()
    assert whole(tmp_path / "two", Settings(quick=True)) == one
