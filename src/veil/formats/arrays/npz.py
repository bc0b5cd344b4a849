"""NumPy `.npz` archives: sizes and types are checked before memory is taken, and nothing is unpickled."""

import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import numpy as np
from jaxtyping import Float

from ...common.errors import ModelFileError
from ...common.files import check_ordinary, reason

LIMIT_BYTES = 2**26  # of all arrays together, for a small file; a larger file may hold 16 times its own size
NUMBERS, TEXT = "fiub", "U"
_MOST_MEMBERS = 256
_MOST_HEADER = 4096  # NumPy's own headers have some 120 bytes
Fault = Callable[[str], ModelFileError]
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class Arrays(dict[str, np.ndarray]):
    """The arrays of a file by name; `path` is that of the file, for messages."""

    def __init__(self, path: str | Path):
        super().__init__()
        self.path = path

    @property
    def listed(self) -> str:
        """The names, for messages."""
        return ", ".join(map(repr, list(self)[:12])) or "none that is known"

    def error(self, message: str) -> ModelFileError:
        """A fault of the file."""
        return ModelFileError(self.path, message)

    def need(self, key: str, expected: str) -> None:
        """Raise `ModelFileError` where there is no array of this name."""
        if key not in self:
            raise self.error(f"it has no array {key!r}, {expected}")

    def floats(self, key: str) -> Float[np.ndarray, " n"]:
        """An array of one axis as numbers of 64 bits."""
        if self[key].ndim != 1:
            raise self.error(f"array {key!r} has shape {self[key].shape}, expected one axis")
        return self[key].astype(np.float64)

    def scalar(self, key: str, otherwise: float) -> float:
        """One number, which may be left out."""
        if key in self and self[key].size != 1:
            raise self.error(f"array {key!r} has shape {self[key].shape}, expected one number")
        return float(self[key].reshape(())) if key in self else otherwise

    def names(self, key: str) -> list[str] | None:
        """Names, which may be left out."""
        return [str(name) for name in self[key].ravel()] if key in self else None


def read_arrays(path: str | Path, limit_bytes: int, kinds_of: Callable[[str], str | None]) -> tuple[Arrays, list[str]]:
    """The arrays of a file by name, and the names that are not known.

    **Arguments:** `limit_bytes`: the most that all arrays together may take, where the file is not larger itself;
    `kinds_of`: the kinds of data types that an array of this name may have, as `NUMBERS`; None where it is not known.

    **Raises:** `ModelFileError` naming the array.
    """
    try:
        check_ordinary(path)
        left = max(limit_bytes, 16 * Path(path).stat().st_size)
        arrays = Arrays(path)
        unknown = []
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise arrays.error(f"it holds {len(members)} arrays, expected at most {_MOST_MEMBERS}")
            for member in members:
                key = member.filename.removesuffix(".npy")
                kinds = kinds_of(key)
                if kinds is None:
                    unknown.append(key[:60])
                    continue
                if key in arrays:
                    raise arrays.error(f"array {key!r} occurs twice, expected once")
                arrays[key] = _read_member(archive, member, key, kinds, left, arrays.error)
                left -= arrays[key].nbytes
        return arrays, unknown
    except FileNotFoundError:
        raise ModelFileError(path, "the file does not exist") from None
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(path, f"it cannot be read: {reason(error)}") from None
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError, OverflowError, MemoryError) as error:
        raise ModelFileError(path, f"it cannot be read as a NumPy .npz file: {str(error)[:200]}") from None
    except (TypeError, KeyError, IndexError, AttributeError, AssertionError) as error:
        # The standard library raises any of these where the directory of an archive is damaged.
        raise ModelFileError(path, f"it cannot be read as a NumPy .npz file: {type(error).__name__}") from None


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of a `.npz` file; the same arrays give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{key}.npy")  # without the time of day: the same model gives the same bytes
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, member.getvalue())
    return buffer.getvalue()


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, key: str, kinds: str, left: int, error: Fault
) -> np.ndarray:
    """One array; its header is compared with what is allowed before its numbers are read."""
    if member.file_size > left + _MOST_HEADER:
        raise error(f"array {key!r} has {member.file_size:,} bytes, expected at most {left:,}: raise limit_bytes")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise error(f"array {key!r} uses an unsupported compression, expected that of numpy.savez or savez_compressed")
    with archive.open(member) as stream:
        shape, by_columns, dtype = _read_header(stream, key, error)
        if dtype.kind not in kinds:
            wanted = "text" if kinds == TEXT else "numbers" if TEXT not in kinds else "numbers or text"
            raise error(f"array {key!r} is of type {dtype}, expected {wanted}")
        count = math.prod(shape)
        if count * dtype.itemsize > left or len(shape) > 3:
            raise error(f"array {key!r} has shape {shape} of {dtype}, expected at most three axes and {left:,} bytes")
        content = stream.read(count * dtype.itemsize)
        if len(content) != count * dtype.itemsize or stream.read(1):
            raise error(f"array {key!r} does not have as many numbers as its shape {shape} says")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if by_columns else "C")


def _read_header(stream: IO[bytes], key: str, error: Fault) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether stored by columns, and data type; raises `ModelFileError` where NumPy does not understand them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # headers of Python 2, and types that NumPy no longer likes
            read = _HEADERS.get(np.lib.format.read_magic(stream))
            if read is None:
                raise error(f"array {key!r} is not in NumPy's format, version 1 or 2")
            shape, by_columns, dtype = read(stream, max_header_size=_MOST_HEADER)
    except ModelFileError:
        raise
    except Exception as found:  # of the parser and the tokenizer of Python, of NumPy, or a warning
        raise error(f"array {key!r} has a header that is not understood: {str(found)[:100]}") from None
    if any(size < 0 for size in shape):
        raise error(f"array {key!r} has a header that is not understood: its shape is {shape}")
    return shape, by_columns, dtype
