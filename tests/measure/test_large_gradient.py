"""The exact value and gradient of a problem of many states: refused early, with what to do instead."""

import time

import numpy as np
import pytest
import scipy.sparse as sp

import veil

STATES = 10_000


def long_ring(horizon: int) -> veil.Problem:
    """A ring of many states with a noisy sensor in every third."""
    here = np.arange(STATES)
    moves = [
        sp.csr_array((np.full(2 * STATES, 0.5), (np.r_[here, here], np.r_[here, (here + step) % STATES])))
        for step in (1, 5)
    ]
    seen = np.where(here[:, None] % 3 == 0, [[0.3, 0.7]], [[0.9, 0.1]])
    model = veil.Model(moves, np.zeros((STATES, 2)), np.full(STATES, 1 / STATES))
    return veil.Problem(model, veil.Observer(seen), veil.LastState(range(0, STATES, 7)), horizon)


def test_what_takes_far_longer_than_its_limit_is_refused_long_before_it():
    problem = long_ring(60)
    for call in (
        lambda: veil.opacity_gradient(problem, np.zeros((STATES, 2)), "exact", time_limit=200),
        lambda: veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "exact", time_limit=200),
    ):
        begin = time.monotonic()
        with pytest.raises(veil.TooLargeError, match=r"would take about .*method='auto'"):
            call()
        assert time.monotonic() - begin < 100


def test_what_fits_is_not_refused():
    """The same problem with fewer steps, in less than its limit."""
    problem = long_ring(3)
    found, slope = veil.opacity_gradient(problem, np.zeros((STATES, 2)), "exact", time_limit=200)
    assert found.method == "exact"
    assert found.num_sequences == 16
    assert np.isfinite(slope).all()
