"""Generated maps of ROS's map_server, as files."""

from pathlib import Path
from typing import Any

import numpy as np

GREYS = (0, 20, 100, 205, 206, 230, 254, 255)


def write_pgm(path: Path, pixels: np.ndarray, *, plain: bool = False, most: int = 255) -> None:
    rows, columns = pixels.shape
    head = f"{'P2' if plain else 'P5'}\n# made by a test\n{columns} {rows}\n{most}\n".encode()
    body = " ".join(map(str, pixels.ravel().tolist())).encode() if plain else pixels.astype(np.uint8).tobytes()
    path.write_bytes(head + body)


def write_map(folder: Path, pixels: np.ndarray, name: str = "map", **about: Any) -> Path:
    """A binary PGM and its yaml."""
    write_pgm(folder / f"{name}.pgm", pixels)
    given = {"image": f"{name}.pgm", "resolution": 0.05, "origin": [0.0, 0.0, 0.0], "negate": 0} | about
    path = folder / f"{name}.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in given.items()))
    return path


def rooms(seed: int, rows: int = 30, columns: int = 40) -> np.ndarray:
    """Mostly free, with walls and unknown parts, of all the greys that rules distinguish."""
    random = np.random.default_rng(seed)
    pixels = np.where(random.random((rows, columns)) < 0.75, 254, random.choice(GREYS, (rows, columns)))
    for _ in range(3):
        row, column = random.integers(rows), random.integers(columns)
        pixels[row : row + 2, : columns // 2] = 0
        pixels[: rows // 2, column : column + 2] = 205
    return pixels
