"""Files are complete or absent, whatever happens while they are written."""

import os
import stat
from pathlib import Path

import pytest

from veil.common.files import write_whole


def test_a_file_is_written_and_replaced(tmp_path: Path):
    path = tmp_path / "file"
    write_whole(path, b"one")
    write_whole(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_others_may_read_it(tmp_path: Path):
    write_whole(tmp_path / "file", b"")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) & 0o400


@pytest.mark.parametrize("fault", [OSError("no space"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch, fault: BaseException, step: str
):
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(fault)):
        write_whole(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_a_missing_directory_is_an_error(tmp_path: Path):
    with pytest.raises(OSError, match="nowhere"):
        write_whole(tmp_path / "nowhere" / "file", b"")
    assert not list(tmp_path.iterdir())


def test_readers_never_see_a_part(tmp_path: Path):
    """An open file keeps its old content while a new one takes its place."""
    path = tmp_path / "file"
    write_whole(path, b"a" * 100_000)
    with path.open("rb") as reader:
        first = reader.read(10)
        write_whole(path, b"b" * 100_000)
        assert first + reader.read() == b"a" * 100_000
    assert path.read_bytes() == b"b" * 100_000
