"""States that cannot be reached within the horizon are not carried, and nothing that is measured changes by it."""

import numpy as np
import pytest
import scipy.sparse as sp

import veil
from veil.engine.compile import build
from veil.measure.evaluate import Method

SIZE, HORIZON, REACHED = 300, 7, 8
WAYS: list[tuple[Method, dict]] = [("exact", {}), ("bracket", {"width": 1e-9}), ("sampled", {"sequences": 64})]


def corridor(size: int, secret: veil.LastState | veil.InitialState, **options) -> veil.Problem:
    """A corridor that is entered at its first cell: each step stays or goes one cell on, seen by a noisy sensor."""
    here, on = np.arange(size), np.minimum(np.arange(size) + 1, size - 1)
    stay = sp.csr_array((np.ones(size), (here, here)), shape=(size, size))
    places = (np.concatenate([here, here]), np.concatenate([here, on]))
    move = sp.csr_array(sp.coo_array((np.repeat([0.25, 0.75], size), places), shape=(size, size)))
    rewards = np.column_stack([np.zeros(size), np.ones(size)])
    sensed = np.where(here % 3 == 0, 0.75, 0.125)
    start = np.zeros(size)
    start[0] = 1.0
    model = veil.Model([stay, move], rewards, start, discount=options.pop("discount", 1.0))
    return veil.Problem(model, veil.Observer(np.column_stack([1 - sensed, sensed])), secret, HORIZON, **options)


@pytest.fixture
def pair() -> tuple[veil.Problem, veil.Problem]:
    """A long corridor, and one as long as the horizon reaches."""
    secret = veil.LastState({2, 4, 5})
    return corridor(SIZE, secret), corridor(REACHED, secret)


def test_a_return_over_an_infinite_horizon_carries_all_that_it_reaches():
    problem = corridor(SIZE, veil.LastState({2}), discount=0.9, return_over="infinite")
    assert build(problem).num_states == SIZE
    stay = veil.MarkovPolicy(np.tile([0.0, 1.0], (SIZE, 1)))
    assert veil.expected_return(problem, stay) == pytest.approx(10.0)


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize(("method", "options"), WAYS, ids=[name for name, _ in WAYS])
def test_gradients_come_back_in_the_shape_of_the_whole_table(
    pair: tuple[veil.Problem, veil.Problem], method: Method, options: dict, timed: bool
):
    shape = (HORIZON, SIZE, 2) if timed else (SIZE, 2)
    theta = np.random.default_rng(3).normal(size=shape)
    _, long = veil.opacity_gradient(pair[0], theta, method, **options)
    _, short = veil.opacity_gradient(pair[1], theta[..., :REACHED, :], method, **options)
    assert long.shape == shape
    np.testing.assert_allclose(long[..., :REACHED, :], short, atol=1e-12)
    assert not long[..., REACHED:, :].any()
