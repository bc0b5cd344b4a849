"""The separation example: intervals hold what they should, the bound holds on a fine grid, and memory wins provably."""

import importlib.util
import math
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.seeds import looped
from veil.game.solve import solve_game

EXAMPLE = Path(__file__).parents[2] / "examples" / "separation.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("separation", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["separation"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["separation"]


def markov(p: float, q: float) -> veil.MarkovPolicy:
    return veil.MarkovPolicy([[1 - p, p], [1 - q, q]])


def test_intervals_hold_the_exact_results(example):
    rng = np.random.default_rng(0)
    left, right = np.sort(rng.normal(size=(2, 500)), axis=0), np.sort(rng.normal(size=(2, 500)), axis=0)
    one, other = example.Interval(*left), example.Interval(*right)
    share = rng.integers(0, 2, size=(2, 500))
    for found, exactly in (
        (one + other, Fraction.__add__),
        (one - other, Fraction.__sub__),
        (one * other, Fraction.__mul__),
    ):
        for i in range(500):
            a, b = Fraction(left[share[0, i], i]), Fraction(right[share[1, i], i])
            assert Fraction(found.low[i]) <= exactly(a, b) <= Fraction(found.high[i])
    positive = example.Interval.exactly(np.exp(rng.normal(size=500)))
    logs = positive.log2()
    for value, low, high in zip(positive.low, logs.low, logs.high, strict=True):
        assert low < math.log2(value) < high


def test_the_bound_of_a_box_holds_all_values_in_it(example):
    problem, rng = example.guard_problem(), np.random.default_rng(1)
    for _ in range(60):
        low = rng.random(2) * 0.9
        high = low + rng.random(2) * rng.choice([0.001, 0.02, 0.1])
        box = [example.Interval(low[i : i + 1], high[i : i + 1]) for i in (0, 1)]
        bits, gained = example.markov_opacity(*box)[0], example.markov_return(*box)[0]
        for share in rng.random((4, 2)):
            policy = markov(*(low + share * (high - low)))
            assert veil.opacity(problem, policy, "exact").bits <= bits
            assert veil.expected_return(problem, policy) <= gained + 1e-12


def test_at_a_point_the_bound_is_the_value(example):
    problem = example.guard_problem()
    for p, q in ((0.2, 0.3), (0.55, 0.45), (0.01, 0.99), (1.0, 1.0), (0.0, 0.5)):
        box = [example.Interval.exactly(np.array([value])) for value in (p, q)]
        assert example.markov_opacity(*box)[0] == pytest.approx(veil.opacity(problem, markov(p, q)).bits, abs=1e-9)
        gained = veil.expected_return(problem, markov(p, q))
        assert example.markov_return(*box)[0] == pytest.approx(gained, abs=1e-12)


@looped("known", [0.0, 0.5, 0.5685])
def test_no_stationary_policy_on_a_fine_grid_exceeds_the_bound(example, known):
    bound, boxes = example.bound_markov(known, 0.58 - known)
    assert boxes > 10
    assert 0.5685 < bound <= 0.58
    values = np.linspace(0, 1, 201)
    p, q = (example.Interval.exactly(axis.ravel()) for axis in np.meshgrid(values, values))
    enough = example.markov_return(p, q) >= example.MIN_RETURN
    assert example.markov_opacity(p, q)[enough].max() <= bound


def test_memory_wins_provably(example):
    problem = example.guard_problem()
    upper, _ = example.bound_markov(0.5685, 2e-3)
    joint, earned = example.exact_side(problem, example.waiting_policy(problem))
    assert earned == 3
    assert sum(sum(row) for row in joint) == 1
    proven = example.entropy([[example.Interval.exactly(float(entry)) for entry in row] for row in joint])
    # 3/4 log2 3 − 1/2, where 2^15849 < 3^10000 < 2^15850 by whole numbers alone.
    assert 2**15849 < 3**10000 < 2**15850
    assert 0.75 * 1.5849 - 0.5 <= proven.low <= proven.high <= 0.75 * 1.5850 - 0.5
    assert proven.low > upper + 0.117
    assert proven.high <= solve_game(problem, gap=1e-4).upper


def test_the_example_runs_and_says_so():
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = re.search(r"provably gains at least +([\d.]+) bits", done.stdout)
    assert found is not None
    assert float(found[1]) > 0.119
