"""What is free on a map: map_server's rule for pixels, and cells made of many pixels."""

from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int8

from .description import MapDescription
from .images import MapImage

FREE, OCCUPIED, UNKNOWN = 0, 100, -1
_SAVED_UNKNOWN = 205 / 255  # the shade that map_saver writes for unknown


def occupancy(image: MapImage, about: MapDescription) -> Int8[np.ndarray, "rows columns"]:
    """The value of each pixel as map_server publishes it: 0 free, 100 occupied, -1 unknown, and others between.

    With `occ = 1 − shade`, or `shade` if `negate`: `trinary`: occupied where `occ > occupied_thresh`, free where
    `occ < free_thresh`, else unknown. `scale`: the same, but between the thresholds 1 to 99, and unknown where the image is
    transparent. `raw`: the grey value from 0 to 100 itself, others unknown. In trinary mode alpha counts as a fourth colour.
    """
    shade = image.shade
    if about.mode == "raw":
        value = np.rint(shade * 255)
        return np.where(value <= OCCUPIED, value, UNKNOWN).astype(np.int8)
    if about.mode == "trinary" and image.alpha is not None:
        shade = (3 * shade + image.alpha) / 4
    occupied = shade if about.negate else 1 - shade
    between: Float[np.ndarray, "rows columns"] | Literal[-1] = UNKNOWN
    if about.mode == "scale" and about.occupied_thresh > about.free_thresh:
        share = (occupied - about.free_thresh) / (about.occupied_thresh - about.free_thresh)
        between = np.clip(1 + np.floor(98 * share), 1, 99)
    value = np.where(occupied < about.free_thresh, FREE, between)
    value = np.where(occupied > about.occupied_thresh, OCCUPIED, value)
    if about.mode == "scale" and image.alpha is not None:
        value = np.where(image.alpha < 1, UNKNOWN, value)
    return value.astype(np.int8)


def free_cells(
    values: Int8[np.ndarray, "rows columns"], size: int, min_free: float, max_occupied: float
) -> Bool[np.ndarray, "R C"]:
    """Which cells of `size × size` pixels are free, counted from the lower left corner; beyond the image nothing is known.

    A cell is free if at least `min_free` of its pixels are free and at most `max_occupied` are occupied.
    """
    area = size * size
    return (block_sums(values == FREE, size) >= min_free * area - 1e-9) & (
        block_sums(values == OCCUPIED, size) <= max_occupied * area + 1e-9
    )


def block_sums(pixels: Bool[np.ndarray, "rows columns"], size: int) -> np.ndarray:
    """How many pixels of each cell are set, `(R, C)`; cells are counted from the lower left corner."""
    rows, columns = pixels.shape
    padded = np.pad(pixels, ((-rows % size, 0), (0, -columns % size)))
    return padded.reshape(padded.shape[0] // size, size, -1, size).sum(axis=(1, 3))


def looks_unknown(values: Int8[np.ndarray, "rows columns"], image: MapImage, about: MapDescription) -> tuple[int, str]:
    """How many pixels are free whose grey is the one that map_saver writes for unknown, and what makes them unknown."""
    if about.mode == "raw" or about.negate:
        return 0, ""
    unknown = np.abs(image.shade - _SAVED_UNKNOWN) < 1e-9
    is_alpha = about.mode == "trinary" and image.alpha is not None
    remedy = "an image without alpha" if is_alpha else f"free_thresh 0.196 instead of {about.free_thresh:g}"
    return int((unknown & (values == FREE)).sum()), remedy
