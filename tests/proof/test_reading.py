"""What the verifier takes from a file: types, axes and the ends of ranges."""

import math
from typing import Any

import numpy as np
import pytest

from veil.common.errors import CertificateError
from veil.proof.arithmetic import LARGEST
from veil.proof.reading import is_finite, read_floats, read_integers


@pytest.mark.parametrize("numbers", [[-1], [4], [-1, 4], [4, -1, 0], []])
@pytest.mark.parametrize("kind", [np.int8, np.int64])
def test_whole_numbers_of_a_range(numbers: list[int], kind: Any):
    """Both ends of it, in any type, and none at all."""
    found = read_integers(np.array(numbers, dtype=kind), -1, 5, 1, "nodes")
    assert found.dtype == np.int64
    assert found.tolist() == numbers


@pytest.mark.parametrize("numbers", [[-2], [5], [-2, 0], [0, 5], [5, -2]])
def test_whole_numbers_outside_of_a_range(numbers: list[int]):
    with pytest.raises(CertificateError, match="nodes: a number is outside -1 … 4"):
        read_integers(np.array(numbers), -1, 5, 1, "nodes")


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_floats_are_read_in_double_precision(kind: Any):
    found = read_floats(np.array([[0.5, np.inf]], dtype=kind), 2, "costs")
    assert found.dtype == np.float64
    assert found.tolist() == [[0.5, math.inf]]


@pytest.mark.parametrize(
    "given", [np.array([np.nan, 1.0]), np.array([1.0, np.nan]), np.array([0.5], dtype=np.longdouble)]
)
def test_floats_of_more_digits_and_those_that_are_none_are_refused(given: np.ndarray):
    if given.dtype.itemsize > 8 or np.isnan(given).any():  # a long double has 64 bits on some machines
        with pytest.raises(CertificateError, match="costs: numbers of 64 bits are expected, not NaN"):
            read_floats(given, 1, "costs")


@pytest.mark.parametrize("value", [0, 1, -1, 0.5, LARGEST, -LARGEST, 2**900, -(2**900)])
def test_numbers_that_can_be_computed_with(value: object):
    assert is_finite(value)
