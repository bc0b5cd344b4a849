"""Measures of a policy agree with each other, and an interrupted search is never taken for a result."""

import pytest
from reproduction.measured import measure, play_game

import veil


def test_the_numbers_agree():
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy([[0.25, 0.75], [0.5, 0.5]])
    found = measure(problem, policy, play_game(problem, 1e-3), seed=0)
    assert found["bits"] == pytest.approx(0.431037, abs=1e-6)
    assert found["return"] == pytest.approx(0.75)
    assert found["lower"] <= found["bits"] <= found["upper"] + 1e-12
    assert abs(found["sampled_bits"] - found["bits"]) < 4 * found["sampled_bits_error"]
    assert abs(found["sampled_return"] - 0.75) < 4 * found["sampled_return_error"]
    assert found["feasible"]
