"""Logarithms of probabilities: exact zeros, no clamping, bits."""

import math

import numpy as np
import pytest

from tests.seeds import in_blocks
from veil.common import logs

SMALLEST = 5e-324  # the smallest positive float64, 2^-1074


def random_joint(seed: int, rows: int = 6, values: int = 3, zeros: float = 0.3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.gamma(0.7, size=(rows, values)) * (rng.random((rows, values)) >= zeros)
    table[0, 0] += 0.1
    return table / table.sum()


def binary_entropy(p: float) -> float:
    return -p * math.log2(p) - (1 - p) * math.log2(1 - p)


def test_log2_or_zero_takes_zero_to_zero_and_clamps_nothing():
    np.testing.assert_array_equal(logs.log2_or_zero(np.array([0.0, 0.25, 1.0, 8.0])), [0, -2, 0, 3])
    assert logs.log2_or_zero(np.array([SMALLEST]))[0] == -1074
    assert logs.log2_or_zero(np.array([1e-300]))[0] == pytest.approx(-300 * math.log2(10), rel=1e-15)


def test_conditional_entropy_by_hand():
    """Two rooms, p = 1/2: a beep settles it; silence, of probability 5/8, leaves the vault one chance in five."""
    joint = np.array([[0.5, 0.125], [0.0, 0.375]])
    assert logs.conditional_entropy_bits(joint) == pytest.approx(5 / 8 * math.log2(5) - 1, abs=1e-15)
    assert logs.conditional_entropy_bits(np.eye(4) / 4) == 0
    assert logs.conditional_entropy_bits(np.full((2, 4), 1 / 8)) == 2
    assert logs.conditional_entropy_bits(np.zeros((3, 2))) == 0


@in_blocks(10, 10, 10)
def test_conditional_entropy_is_joint_entropy_less_that_of_the_observations(seed: int):
    joint = random_joint(seed)
    by_chain_rule = logs.entropy_bits(joint.reshape(-1)) - logs.entropy_bits(joint.sum(axis=1))
    assert logs.conditional_entropy_bits(joint) == pytest.approx(float(by_chain_rule), abs=1e-14)


@in_blocks(10, 10, 10)
def test_conditional_entropy_is_homogeneous_concave_and_never_falls_in_an_entry(seed: int):
    first, second = random_joint(seed), random_joint(seed + 100)
    bits = logs.conditional_entropy_bits
    for scale in (1e-200, 0.3, 1e6):
        assert bits(scale * first) == pytest.approx(scale * bits(first), rel=1e-14)
    assert bits((first + second) / 2) >= (bits(first) + bits(second)) / 2 - 1e-15
    for index in np.ndindex(first.shape):
        more = first.copy()
        more[index] += 0.01
        assert bits(more) >= bits(first) - 1e-15


def test_surprisal_is_the_slope_of_the_conditional_entropy():
    joint, step = random_joint(3, zeros=0.0) + 0.01, 1e-6
    slope = np.zeros_like(joint)
    for index in np.ndindex(joint.shape):
        change = np.zeros_like(joint)
        change[index] = step
        rise = logs.conditional_entropy_bits(joint + change) - logs.conditional_entropy_bits(joint - change)
        slope[index] = rise / (2 * step)
    np.testing.assert_allclose(logs.surprisal_bits(joint), slope, atol=1e-7)


def test_divergence_of_each_row():
    rows = np.array([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    base = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    np.testing.assert_allclose(logs.divergence_bits(rows, base), [1, 0, 1 - binary_entropy(0.25)], atol=1e-15)
    joint = random_joint(5)
    posterior = logs.posteriors(joint)
    gains = logs.divergence_bits(posterior, np.broadcast_to(joint.sum(axis=0), posterior.shape))
    assert (gains >= -1e-15).all()
    leaked = float(logs.entropy_bits(joint.sum(axis=0))) - logs.conditional_entropy_bits(joint)
    assert joint.sum(axis=1) @ gains == pytest.approx(leaked, abs=1e-14)
