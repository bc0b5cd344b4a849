"""Every block of `docs/importing.md` runs in order: files are written, Python is executed, commands print what is shown."""

import re
from pathlib import Path

import pytest

import veil
from tests.cli.test_documents import run_console
from tests.formats.storm import stormpy
from veil.formats.registry import format_table

DOCUMENT = Path(__file__).parents[2] / "docs" / "importing.md"
BLOCK = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    kinds = set()
    for number, (kind, name, text) in enumerate(BLOCK.findall(DOCUMENT.read_text("utf-8"))):
        kinds.add((kind, name))
        if kind == "console":
            run_console(text, tmp_path)
        elif kind == "text":
            assert capsys.readouterr().out.endswith(text)  # what the block before it prints
        elif kind != "py":
            Path(name).write_text(text, encoding="utf-8")
        elif not name:
            exec(compile(text, f"{DOCUMENT.name}, block {number}", "exec"), space)
    assert {kind for kind, _ in kinds} >= {"py", "console", "prism", "drn", "pomdp", "toml"}
    assert {name for kind, name in kinds if kind == "py"} == {"", "stormpy"}


def test_the_blocks_that_need_storm_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stormpy()
    monkeypatch.chdir(tmp_path)
    space: dict = {"veil": veil}
    for kind, name, text in BLOCK.findall(DOCUMENT.read_text("utf-8")):
        if kind == "prism":
            Path(name).write_text(text, encoding="utf-8")
        elif name == "stormpy":
            exec(text, space)
    assert space["solution"].feasible


def test_the_table_of_formats_is_that_of_the_registry():
    text = DOCUMENT.read_text("utf-8")
    for row in format_table():
        extensions = ", ".join(f"`{suffix}`" for suffix in row["extensions"].split(", "))
        extra = f"`{row['extra']}`" if row["extra"] else ""
        cells = [row["name"], extensions, row["description"], row["abilities"], row["options"], extra]
        assert f"| {' | '.join(cells)} |" in text
