"""The baseline on the reconstruction: the numbers that are known, and the paper's two statements about it."""

import pytest
from reproduction.baseline import compare
from reproduction.store import Settings, Times

BITS = (0.033, 0.066, 0.139, 0.227, 0.288, 0.318, 0.330, 0.335, 0.336, 0.336)
RETURNS = (0.436, 0.380, 0.293, 0.202, 0.131, 0.087, 0.060, 0.045, 0.035, 0.029)


@pytest.mark.slow
def test_the_known_numbers():
    found = compare(Settings(quick=True), Times())
    last = found["last"]
    assert [point["bits"] for point in last] == pytest.approx(BITS, abs=6e-4)
    assert [point["return"] for point in last] == pytest.approx(RETURNS, abs=6e-4)
    for points in found.values():
        for point in points:
            assert point["lower"] <= point["bits"] <= point["upper"] + 1e-12
            assert abs(point["sampled_bits"] - point["bits"]) < 5 * point["sampled_bits_error"]
    assert [point["feasible"] for point in last] == [True, True] + 8 * [False]
