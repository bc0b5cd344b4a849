"""What the exit codes of both verifiers say: the certificate holds, it does not hold, or it could not be checked."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.commands import veil
from tests.common.test_read_whole import device, huge, pipe
from tests.proof.plain import SCRIPT, second

REJECTED, UNCHECKED = (5, 5), (2, 2)
"""The exit codes of `veil verify` and of `veil.verify_plain`."""
FILES = ("certificate.json", "policy.safetensors", "arrays")


def codes(result: Path) -> tuple[int, int]:
    return veil("verify", result).code, second.main([str(result)])[1]


def place(result: Path, name: str) -> Path:
    return next(result.glob("certificate.*.safetensors")) if name == "arrays" else result / name


def test_any_changed_byte_of_the_policy(result: Path) -> None:
    """In the length of the header, in the header, in the numbers."""
    path = result / "policy.safetensors"
    content = path.read_bytes()
    for number in (0, 3, 20, 60, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:number] + bytes([content[number] ^ 0x15]) + content[number + 1 :])
        assert codes(result) == REJECTED, number
    path.write_bytes(content[:-8])
    assert codes(result) == REJECTED


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(result: Path, name: str) -> None:
    place(result, name).unlink()
    assert codes(result) == UNCHECKED


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("trap", [pipe, device, huge, Path.mkdir])
def test_a_file_that_is_none(result: Path, name: str, trap: Callable[[Path], None]) -> None:
    """A pipe, a device, a terabyte or a folder in the place of a file: refused at once."""
    path = place(result, name)
    path.unlink()
    trap(path)
    assert codes(result) == UNCHECKED


@pytest.mark.parametrize("trap", [pipe, device, huge, Path.mkdir])
@pytest.mark.parametrize("name", ["result.json", "problem.bin"])
def test_files_that_one_of_them_reads(result: Path, name: str, trap: Callable[[Path], None]) -> None:
    (result / name).unlink()
    trap(result / name)
    assert codes(result) == ((2, 0) if name == "result.json" else UNCHECKED)


def test_the_program_itself(tmp_path: Path) -> None:
    """Its codes reach the shell; asking for help is no verdict, and neither is a folder that is not there."""
    for arguments, code in ((["--help"], 0), ([], 2), ([str(tmp_path / "absent")], 2), ([str(tmp_path), "more"], 2)):
        done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, ""), arguments
        assert "does not hold:" not in done.stdout
