"""The time limit of an attack: kept, and the same numbers where it suffices."""

import time

import pytest

import veil
from tests.measure.test_large_gradient import long_ring


def test_runs_that_do_not_fit_are_refused_with_the_remedy():
    problem = long_ring(40)
    begin = time.monotonic()
    with pytest.raises(veil.TooLargeError, match="fewer episodes"):
        veil.attack(problem, veil.MarkovPolicy.uniform(problem), 100_000, time_limit=1)
    assert time.monotonic() - begin < 40
    with pytest.raises(veil.InputError, match="time_limit"):
        veil.attack(problem, veil.MarkovPolicy.uniform(problem), time_limit=0)


def test_a_limit_that_suffices_changes_nothing():
    problem = veil.gallery.load("two-rooms").replace(horizon=4)
    policy = veil.MarkovPolicy.uniform(problem)
    limited, free = veil.attack(problem, policy, 500, time_limit=60), veil.attack(problem, policy, 500)
    assert limited == free
    assert limited.accuracy.exact is not None
