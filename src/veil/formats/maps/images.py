"""Images of maps: PGM read here, everything else by Pillow, within limits of size that are checked before memory is used."""

import io
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, UInt8

from ...common.errors import MissingExtraError, ModelFileError
from ..text import read_content

MOST_PIXELS = 2**24
_MOST_PLAIN = 2**21  # pixels written as decimal numbers, which take far more memory
_MOST_BYTES = 2**28
_HEADER = re.compile(
    rb"(P[25])(?:\s|#[^\n\r]*[\n\r])+(\d{1,9})(?:\s|#[^\n\r]*[\n\r])+(\d{1,9})(?:\s|#[^\n\r]*[\n\r])+(\d{1,9})\s"
)
_LONGEST_HEADER = 2**14
_FORMATS = ("PNG", "BMP", "PPM", "GIF", "TIFF")  # those without loss, whose grey values are what was saved


@dataclass(frozen=True, eq=False)
class MapImage:
    """An image as map_server sees it.

    **Attributes:** `shade`, `(rows, columns)`: the mean of the colours of each pixel, from 0, black, to 1, white; `alpha`: how
    opaque it is, None for an image without transparency. An alpha that is 1 everywhere counts as map_server counts it.
    """

    shade: Float[np.ndarray, "rows columns"]
    alpha: Float[np.ndarray, "rows columns"] | None = None


def read_image(path: Path) -> MapImage:
    """The image in a file.

    **Raises:** `ModelFileError` if it cannot be read or is too large; `MissingExtraError` if it needs Pillow.
    """
    if path.suffix.lower() == ".pgm":
        return MapImage(_read_pgm(path))
    pixels, has_alpha = _read_pixels(path)
    shade = pixels[..., :3].sum(axis=-1, dtype=np.int64) / (3 * 255.0)
    return MapImage(shade, pixels[..., 3] / 255.0 if has_alpha else None)


def read_colours(path: Path) -> UInt8[np.ndarray, "rows columns 4"]:
    """The red, green, blue and alpha of each pixel."""
    return _read_pixels(path)[0]


def _read_pixels(path: Path) -> tuple[UInt8[np.ndarray, "rows columns 4"], bool]:
    """The colours and alpha of each pixel, and whether the file says anything of alpha."""
    content = read_content(path, _MOST_BYTES)
    try:
        from PIL import Image
    except ImportError:
        words = "images other than .pgm need Pillow: pip install 'veil[maps]', or save the map as .pgm"
        raise MissingExtraError(f"{path}: {words}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the size is checked below
            with Image.open(io.BytesIO(content), formats=_FORMATS) as image:
                _check_size(path, image.width, image.height)
                if image.mode.startswith(("I", "F")):
                    raise ModelFileError(path, f"its pixels are of the kind {image.mode!r}, expected 8 bits a colour")
                return np.asarray(image.convert("RGBA")), image.has_transparency_data
    except ModelFileError:
        raise
    except MemoryError:
        raise ModelFileError(path, "there is not enough memory to read it") from None
    except Exception as error:  # a damaged image raises whatever its decoder stumbles upon
        known = ", ".join(_FORMATS)
        raise ModelFileError(
            path, f"it cannot be read as an image ({known}): {type(error).__name__}: {error}"
        ) from None


def _read_pgm(path: Path) -> Float[np.ndarray, "rows columns"]:
    """The shades of a PGM file: plain (P2) or binary (P5), of 8 or 16 bits."""
    content = read_content(path, _MOST_BYTES)
    header = _HEADER.match(content)
    if header is None:
        raise ModelFileError(
            path, f"it begins with {content[:20]!r}, expected P5 or P2, width, height and largest value"
        )
    columns, rows, most = (int(header[number]) for number in (2, 3, 4))
    _check_size(path, columns, rows)
    if not 0 < most < 2**16:
        raise ModelFileError(path, f"its largest value is {most}, expected one from 1 to 65535")
    body, wide = content[header.end() :], 2 if most > 255 else 1
    if header[1] == b"P5":
        count = min(rows * columns, len(body) // wide)
        values = np.frombuffer(body, dtype=">u2" if wide == 2 else np.uint8, count=count)
    elif rows * columns > _MOST_PLAIN:
        raise ModelFileError(path, f"it is a plain PGM of more than {_MOST_PLAIN:,} pixels: save it as P5")
    else:
        values = _plain_values(body[: 8 * rows * columns + _LONGEST_HEADER], path)
    if len(values) < rows * columns:
        raise ModelFileError(
            path, f"it has {len(values):,} pixels, expected {columns:,} × {rows:,} = {rows * columns:,}"
        )
    shades = values[: rows * columns].reshape(rows, columns)
    if shades.max(initial=0) > most:
        raise ModelFileError(path, f"a pixel has the value {shades.max()}, expected at most {most}")
    return shades / float(most)


def _plain_values(content: bytes, path: Path) -> np.ndarray:
    words = re.sub(rb"#[^\n\r]*", b"", content).split()
    wrong = next((word for word in words if len(word) > 5 or not word.isdigit()), None)
    if wrong is not None:
        raise ModelFileError(path, f"found {wrong[:20]!r}, expected whole numbers, as a plain PGM has")
    return np.array([int(word) for word in words], dtype=np.int64)


def check_inside(path: Path, folder: Path | None) -> None:
    """Raise `ModelFileError` if a file does not lie in a folder, every symbolic link followed; None: any does."""
    try:
        inside = folder is None or Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
    except ValueError as error:
        raise ModelFileError(str(path)[:200], f"this is not the name of a file: {error}") from None
    if not inside:
        raise ModelFileError(
            path.name, "the image leaves the folder of the scenario, expected it inside: copy it there"
        )


def _check_size(path: Path, columns: int, rows: int) -> None:
    if not 0 < columns * rows <= MOST_PIXELS:
        raise ModelFileError(path, f"it has {columns:,} × {rows:,} pixels, expected 1 to {MOST_PIXELS:,}")
