"""The package of this folder installed for tests: its modules and metadata in a folder of their own, without a network."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"

Run = Callable[..., str]
GRAPH = """
[graph]
initial = "hall"
transitions = [
  ["hall", "stay", "hall"], ["hall", "go", { vault = 0.5, hall = 0.5 }],
  ["vault", "stay", "vault"], ["vault", "go", "hall"],
]

[observer.sensors.vault]
states = "vault"
detection = 0.75

[secret]
kind = "last_state"
states = "vault"
"""
# Entry points that do not fit, each beside those that do.
MISFITS = {
    "veil.secrets": {
        "absent": "veil_example.passed:Missing",
        "nowhere": "veil_example.nowhere:Passed",
        "other": "veil_example.passed:States",
    },
    "veil.memories": {"stays": "veil_example.stayed:Counter", "stayed": "veil_example.duty:Duty"},
    "veil.observers": {"duties": "veil_example.stayed:Stayed"},
    "veil.formats": {"edges": "veil_example.edges:read_edges"},
    "veil.methods": {"random": "veil_example.random_search:SolveOptions"},
}


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


class Worker:
    """One process with a package installed, which runs programs and commands one after the other: see `worker.py`."""

    def __init__(self, site: Path):
        environment = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{site}"}
        environment |= {"NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(HERE / "worker.py")]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True, encoding="utf-8")

    def run(self, folder: Path, *command: str, code: int = 0) -> str:
        """What Python prints, given `-c` and a program, or `veil` with arguments; of a failure its message."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(folder), command]) + "\n")
        self._process.stdin.flush()
        found, out, err = json.loads(self._process.stdout.readline())
        assert found == code, out + err
        return out if code == 0 else err

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A process with the package installed."""
    yield from _worker(tmp_path_factory.mktemp("site"), None)


@pytest.fixture(scope="session")
def misfit_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A process with a package installed whose entry points do not fit."""
    yield from _worker(tmp_path_factory.mktemp("misfits"), MISFITS)


def _worker(site: Path, points: dict[str, dict[str, str]] | None) -> Iterator[Worker]:
    install(site, points)
    made = Worker(site)
    yield made
    made.close()


@pytest.fixture
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The file `rooms.toml` with the module's `ROOMS`."""
    path = tmp_path / "rooms.toml"
    path.write_text(request.module.ROOMS)
    return path


@pytest.fixture
def run(worker: Worker, tmp_path: Path) -> Run:
    """Runs Python, or `veil` with arguments, in an empty folder with the package installed; what it prints."""
    return lambda *command, code=0: worker.run(tmp_path, *command, code=code)


@pytest.fixture
def run_misfit(misfit_worker: Worker, tmp_path: Path) -> Run:
    """The same with the package whose entry points do not fit."""
    return lambda *command, code=0: misfit_worker.run(tmp_path, *command, code=code)


def run_in(folder: Path, site: Path, *command: str, code: int = 0) -> str:
    """The same in a process of its own."""
    made = Worker(site)
    try:
        return made.run(folder, *command, code=code)
    finally:
        made.close()


def parsed(text: str) -> Any:
    """A document that was printed."""
    return json.loads(text)
