"""Text files: read within a limit of size, written complete or not at all, and the words and numbers in them."""

import csv
import errno
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..common.errors import ModelFileError
from ..common.files import read_whole, reason, write_whole

END = ""


def read_text(path: str | Path, most_bytes: int, remedy: str = "") -> str:
    """The text of a file; no more is read than the limit allows.

    **Arguments:** `remedy`: what to do where it is too large.

    **Raises:** `ModelFileError` where the file does not exist, is too large, or is not text.
    """
    content = read_content(path, most_bytes, remedy)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"byte {content[error.start]:#04x} is not UTF-8"
        raise ModelFileError(path, f"{found}, expected a text file in UTF-8", line) from None


def read_content(path: str | Path, most_bytes: int, remedy: str = "") -> bytes:
    """The bytes of a file; arguments and errors as for `read_text`."""
    try:
        return read_whole(path, most_bytes)
    except FileNotFoundError:
        raise ModelFileError(path, "the file does not exist") from None
    except OSError as error:
        words = reason(error) if error.errno == errno.EFBIG else f"it cannot be read: {reason(error)}"
        raise ModelFileError(path, f"{words}: {remedy}" if remedy and error.errno == errno.EFBIG else words) from None
    except ValueError as error:
        raise ModelFileError(repr(path), f"this is not the name of a file: {error}") from None


def read_rows(path: str | Path, text: str, first: int = 1) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV text that are not empty, numbered from `first` on; all have as many cells as the first one.

    **Raises:** `ModelFileError` naming the line.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    width = 0
    try:
        for cells in reader:
            line = reader.line_num + first - 1
            if not width and not any(cells):
                break
            if cells and width and len(cells) != width:
                raise ModelFileError(path, f"{len(cells)} cells found, expected {width}, as in the first line", line)
            width = width or len(cells)
            if cells:
                yield line, cells
    except csv.Error as error:
        raise ModelFileError(path, f"not a CSV file: {error}", reader.line_num + first - 1) from None
    if not width:
        raise ModelFileError(path, "its first line is empty, expected the names of columns", first)


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a file, complete or not at all.

    **Raises:** `ModelFileError` where it cannot be written.
    """
    try:
        write_whole(path, content.encode("utf-8") if isinstance(content, str) else content)
    except OSError as error:
        raise ModelFileError(path, f"it cannot be written: {reason(error)}") from None


def is_whole(token: str) -> bool:
    """Whether a token is a whole number without a sign."""
    return token.isascii() and token.isdigit()


def to_number(token: str) -> float | None:
    """A token as a finite number; None where it is not one."""
    # Python accepts more as a number: 1_000, inf, nan, digits of other scripts.
    if not token or token[-1] not in "0123456789." or "_" in token or not token.isascii():
        return None
    try:
        value = float(token)
    except ValueError:
        try:
            value = float(token.replace(" ", "").replace("\t", ""))
        except ValueError:
            return None
    return value if math.isfinite(value) else None


def shown(token: str) -> str:
    """A token for a message, cut where it is long."""
    return "the end of the file" if token is END else repr(token if len(token) <= 40 else token[:37] + "…")


def value_text(value: object) -> str:
    """The value of a variable as text: truth values in lower case, whole numbers without a decimal point."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def joined_values(columns: Mapping[str, Sequence[object] | np.ndarray], separator: str) -> list[str]:
    """For each state, the values of some variables as one text: `x=3,door=true`.

    **Arguments:** `columns`: the value of each variable in each state, `(S,)` each.
    """
    texts = [
        [f"{name}={value_text(value)}" for value in (v.tolist() if isinstance(v, np.ndarray) else v)]
        for name, v in columns.items()
    ]
    return [separator.join(parts) for parts in zip(*texts, strict=True)]
