"""Reading files that someone else may have put there: pipes, devices and files of any size are refused at once."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import veil
from veil.common.errors import VeilError
from veil.common.files import read_whole
from veil.planning.checkpoint import read_checkpoint


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)  # takes no place on the disk


TRAPS = pytest.mark.parametrize("trap", [pipe, device, huge, Path.mkdir])


def test_ordinary_files_and_links_to_them_are_read(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("it")
    assert read_whole(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="4 bytes"):
        read_whole(tmp_path / "link", 4)
    with pytest.raises(FileNotFoundError):
        read_whole(tmp_path / "absent")


@TRAPS
def test_policies_checkpoints_and_certificates(trap: Callable[[Path], None], tmp_path: Path) -> None:
    """Each is refused with an error of veil that names the file."""
    trap(tmp_path / "it.safetensors")
    for read in (veil.load_policy, veil.Certificate.load, lambda path: read_checkpoint(path, {})):
        with pytest.raises(VeilError, match=r"it\.safetensors"):
            read(tmp_path / "it.safetensors")
