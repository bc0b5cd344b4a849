"""The page's modules: their unit tests under Node, as they are served, and lines that can be read."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "src" / "veil"
UNITS = Path(__file__).parent / "page"
LONGEST = 120


def test_units(tmp_path: Path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node.js on this machine, which runs the unit tests of the studio's page")
    for room in ("studio", "report"):
        shutil.copytree(ROOM / room / "page", tmp_path / room)
    units = shutil.copytree(UNITS, tmp_path / "units")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    found = subprocess.run(
        [node, "--test", "--test-reporter=spec", str(units)], capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stdout[-4000:]


def test_lines_can_be_read():
    files = [path for path in ROOM.glob("stud*/page/*") if path.suffix in (".js", ".css", ".html")]
    files += [path for path in (ROOM / "report" / "page").iterdir() if path.suffix in (".js", ".css")]
    long = [
        f"{path.name}:{number}"
        for path in (*files, *UNITS.iterdir())
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if len(line) > LONGEST
    ]
    assert len(files) > 30
    assert long == []
