"""What people install: the wheel in a fresh environment has its data files, and its command solves and reports."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_INDEX = ("No matching distribution found for setuptools", "Could not find a version that satisfies")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without the paths of this checkout."""
    names = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(word) for word in command], cwd=cwd, env=names, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; what veil needs is taken from this one, behind it in the search path."""
    home = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, home)
    shutil.copytree(ROOT / "src" / "veil", home / "src" / "veil", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    built = run(*pip, "wheel", ".", "--no-deps", "-w", "out", cwd=home)
    if any(words in built.stderr for words in NO_INDEX):
        pytest.skip("the wheel cannot be built without a package index, which has setuptools")
    assert built.returncode == 0, built.stderr
    made = run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=home)
    assert made.returncode == 0, made.stderr
    (wheel,) = (home / "out").iterdir()
    python = home / "env" / "bin" / "python"
    installed = run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=home)
    assert installed.returncode == 0, installed.stderr
    (site,) = (home / "env").glob("lib/python*/site-packages")
    (site / "behind.pth").write_text(sysconfig.get_path("purelib"))
    shutil.rmtree(home / "src")
    return home / "env" / "bin"


@pytest.mark.slow
def test_the_installed_command_works(environment: Path, tmp_path: Path):
    where = run(environment / "python", "-c", "import veil; print(veil.__file__)", cwd=tmp_path)
    assert where.stdout.startswith(str(environment.parent)), where.stdout + where.stderr
    veil = environment / "veil"
    for command in (
        ["--version"],
        ["show", "installation"],
        ["new", "mine"],
        ["inspect", "mine.toml"],
        ["new", "rooms", "--from", "two-rooms"],
        ["solve", "rooms.toml", "--set", "solve.starts=2", "--set", "solve.iterations=12", "--report"],
        ["verify", "rooms-result"],
        ["study", "new", "layouts"],
        ["studio", "--help"],
    ):
        done = run(veil, *command, cwd=tmp_path)
        assert done.returncode in (0, 4), f"{command}: {done.stderr}"
    assert (tmp_path / "rooms-result" / "report.html").stat().st_size > 50_000
