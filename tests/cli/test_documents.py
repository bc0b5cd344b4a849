"""Every line of the shell in the documents runs as it stands and prints what is shown below it."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import Done, veil

ROOT = Path(__file__).parents[2]
# `docs/importing.md` needs model files; tests/formats/test_importing.py runs it beside them. README.md: see below.
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "importing.md"]
DOCUMENTS = [path for path in PAGES if "```console" in path.read_text("utf-8")]
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODES = re.compile(r"\s+# exit code (\d+(?:(?:, | or )\d+)*)$")


def run_console(text: str, folder: Path) -> None:
    """Each command of a block ends with its exit code and prints the lines below it, among others."""
    steps: list[tuple[str, list[str]]] = []
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    for line, shown in steps:
        codes = CODES.search(line)
        allowed = {int(code) for code in re.findall(r"\d+", codes[1])} if codes else {0}
        done = run(CODES.sub("", line), folder)
        assert done.code in allowed, f"{line}: exit code {done.code}\n{done.err}"
        for expected in shown:
            assert expected in done.out.splitlines(), f"{line} does not print {expected!r}:\n{done.out}"


def run(line: str, folder: Path) -> Done:
    """In this process where the line is one command, by the shell where it has a pipe."""
    words = shlex.split(line, comments=True)
    if "|" not in words:
        assert words[0] == "veil"
        return veil(*words[1:])
    tools = folder / ".tools"
    tools.mkdir(exist_ok=True)
    (tools / "veil").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m veil "$@"\n')
    (tools / "veil").chmod(0o755)
    names = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False, env=names, timeout=120
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_line_runs_and_prints_what_is_shown(document: Path, home: Path):
    (home / "rooms.toml").unlink()
    if document.name == "maps.md":
        copy_map(home)
    for block in BLOCK.findall(document.read_text("utf-8")):
        run_console(block, home)


@pytest.mark.slow
def test_a_map_of_60_by_80_cells_is_planned_by_the_five_commands_of_the_tutorial(home: Path):
    copy_map(home)
    text = (ROOT / "docs" / "tutorials" / "maps.md").read_text("utf-8")
    commands = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", "").splitlines()]
    commands = [line for line in commands if line.startswith("$ ")][1:6]
    assert [line.split()[2] for line in commands] == ["convert", "inspect", "solve", "report", "convert"]
    for line in commands:
        done = run(
            CODES.sub("", line[2:]).replace("cell_size=1", "cell_size=0.5").replace("horizon=24", "horizon=48"), home
        )
        assert done.code in (0, 4), done.err
    assert "GridWorld(60 × 80, 3810 states" in (home / "patrol.toml").read_text("utf-8")
    assert (home / "robot.py").stat().st_size > 10_000


def copy_map(folder: Path) -> None:
    for path in (ROOT / "examples" / "maps").glob("office.*"):
        (folder / path.name).write_bytes(path.read_bytes())


def test_the_readme_shows_a_part_of_the_first_steps():
    """So its lines are run there."""
    readme, pages = (BLOCK.findall((ROOT / name).read_text("utf-8")) for name in ("README.md", "docs/get-started.md"))
    lines, known = ([line.split("#")[0].strip() for line in "".join(found).splitlines()] for found in (readme, pages))
    rest = iter(known)
    assert lines
    assert all(line in rest for line in lines), lines  # in the same order


def test_every_command_is_in_the_document():
    from veil.cli.main import app

    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    lines = "".join(BLOCK.findall(text))
    for command in app.registered_commands:
        assert command.callback is not None
        name = command.callback.__name__
        assert f"veil {name}" in (
            lines if name != "demo" else text
        )  # the demo takes most of a minute; .ci/smoke runs it
