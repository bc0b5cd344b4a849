"""The primal-dual method step by step: the same as `veil.solve` with it, and iterates can be looked at on the way."""

from typing import Any

import numpy as np
import pytest
from reproduction.convergence import Climb, converge
from reproduction.published import PaperResult
from reproduction.store import Settings, Times

import veil
from veil.planning.options import SolveOptions

ROOMS = PaperResult("initial", "two-rooms", "two rooms", 0.431, 0.75)


def test_it_is_the_method_of_veil_solve():
    problem = veil.gallery.load("two-rooms")
    asked: dict[str, Any] = {"gradients": "sampled", "sequences": 50, "iterations": 30, "seed": 4}
    climb = Climb(problem, SolveOptions(**asked))
    stops = list(climb.steps(10))
    found = veil.solve(problem, method="primal-dual", certificate=False, progress=False, **asked)
    assert stops == [0, 10, 20, 30]
    np.testing.assert_array_equal(climb.state.history[:, 1], found.history.opacity_bits)
    assert climb.answer() == found.policy


@pytest.mark.slow
def test_what_a_curve_holds():
    found, times = converge(ROOMS, Settings(quick=True), Times()), Times()
    count = found["iterations"]
    assert all(len(found["curve"][name]) == count for name in ("bits", "return", "multiplier"))
    assert found["estimates"][0]["iteration"] == 0
    assert found["estimates"][-1]["iteration"] == count
    last, shown = found["estimates"][-2], found["curve"]["bits"]
    assert abs(last["bits"] - shown[last["iteration"]]) < 5 * last["bits_error"] + 0.02
    assert found["answer"]["feasible"]
    assert found["answer"]["bits"] == pytest.approx(0.431037, abs=0.02)
    again = converge(ROOMS, Settings(quick=True), times)
    np.testing.assert_array_equal(again["curve"]["bits"], found["curve"]["bits"])
    assert again["estimates"] == found["estimates"]
    assert {"search", "game"} <= set(times.seconds)
