"""The package of this folder installed for a test: its modules and metadata in a folder of their own, without a network."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"

Run = Callable[..., str]


def install(folder: Path, points: dict[str, dict[str, str]] | None = None) -> None:
    """Write what an installer writes: the modules, and `*.dist-info` with the entry points of `pyproject.toml`."""
    project: dict[str, Any] = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    shutil.copytree(HERE / "veil_example", folder / "veil_example", dirs_exist_ok=True)
    metadata = folder / f"veil_example-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"] if points is None else points
    lines = [line for group, named in groups.items() for line in (f"[{group}]", *map(" = ".join, named.items()), "")]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package installed."""
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    return folder


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Run:
    """Runs Python, or `veil` with arguments, in an empty folder with the package installed; what it prints."""
    return lambda *command, site=site, code=0: run_in(tmp_path, site, *command, code=code)


def run_in(folder: Path, site: Path, *command: str, code: int = 0) -> str:
    """What Python prints, given `-c` and a program, or `veil` with arguments."""
    words = [sys.executable, *(("-m", "veil", *command[1:]) if command[0] == "veil" else command)]
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{site}", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def parsed(text: str) -> Any:
    """A document that was printed."""
    return json.loads(text)
