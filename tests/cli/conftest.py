"""A small scenario in a folder of its own, and its result, solved once."""

import shutil
from pathlib import Path

import pytest

from tests.cli.commands import QUICK, SCENARIO, veil


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test works in an empty folder that holds `rooms.toml`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rooms.toml").write_text(SCENARIO, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="session")
def solved_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("solved")
    (folder / "rooms.toml").write_text(SCENARIO, encoding="utf-8")
    done = veil("solve", folder / "rooms.toml", "-o", folder / "rooms-result", *QUICK, "--proof-time-limit", "2")
    assert done.code in (0, 4), done.err
    return folder


@pytest.fixture
def result(home: Path, solved_once: Path) -> Path:
    """A result folder of `rooms.toml`, which the test may spoil."""
    shutil.copytree(solved_once / "rooms-result", home / "rooms-result")
    return home / "rooms-result"
