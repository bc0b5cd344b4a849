"""Numbers and arrays of a certificate as the verifier takes them: checked for type and range, then float64 or int64."""

import numpy as np
from jaxtyping import Float, Int

from .arithmetic import LARGEST, require


def read_integers(given: object, low: int, high: int, dimensions: int, what: str) -> Int[np.ndarray, "..."]:
    """An array of a file as int64, once it is seen to hold whole numbers of which low ≤ n < high.

    **Raises:** `CertificateError` naming what is wrong; nothing is computed with the numbers before.
    """
    array = _array(given, "iu", dimensions, what)
    inside = array.size == 0 or (int(array.min()) >= low and int(array.max()) < high)
    require(inside, f"{what}: a number is outside {low} … {high - 1}")
    return array.astype(np.int64)


def read_floats(given: object, dimensions: int, what: str) -> Float[np.ndarray, "..."]:
    """An array of a file as float64, once it is seen to hold floating-point numbers of at most 64 bits and no NaN."""
    array = _array(given, "f", dimensions, what)
    require(
        array.dtype.itemsize <= 8 and not np.isnan(array).any(), f"{what}: numbers of 64 bits are expected, not NaN"
    )
    return array.astype(np.float64)


def _array(given: object, kinds: str, dimensions: int, what: str) -> np.ndarray:
    plain = type(given) is np.ndarray  # not a masked array, whose sums leave numbers out
    found = f"{given.dtype} with {given.ndim} axes" if plain else type(given).__name__
    fits = plain and given.dtype.kind in kinds and given.ndim == dimensions
    wanted = "floats" if kinds == "f" else "integers"
    require(fits, f"{what}: it is {found}, expected an array of {wanted} with {dimensions} axes")
    assert isinstance(given, np.ndarray)
    return given


def is_finite(value: object) -> bool:
    """Whether something is a finite number that a double holds; a truth value is not a number."""
    return isinstance(value, float | int) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST
