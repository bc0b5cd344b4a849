"""Limits of time and memory are kept: by refusals before the work, and by work that ends in time."""

import contextlib
import time

import numpy as np
import pytest

import veil
from veil.common.clock import Clock, OutOfTime
from veil.engine.chain import Chain, make_chain
from veil.measure.question import SecretValue
from veil.measure.sampled import sample

LIMIT = 0.3


def noisy(horizon: int = 40) -> veil.Problem:
    """Every history is possible: 3^41 sequences."""
    rng = np.random.default_rng(0)
    model = veil.Model(rng.dirichlet(np.ones(6), size=(6, 2)), np.zeros((6, 2)), 0)
    return veil.Problem(model, veil.Observer(rng.dirichlet(np.ones(3), size=6)), veil.LastState({0}), horizon)


def noisy_chain(horizon: int) -> Chain:
    problem = noisy(horizon)
    return make_chain(problem, veil.MarkovPolicy.uniform(problem))


@pytest.mark.parametrize("gradient", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize(
    ("method", "options"),
    [("exact", {}), ("bracket", {"width": 0.0}), ("sampled", {"sequences": 10**7}), ("auto", {"width": 1e-9})],
)
def test_work_that_would_take_minutes_ends_near_its_limit(method, options: dict, gradient: bool):
    """In a hundred times less than it would take without one, with an answer or a refusal."""
    problem, begin = noisy(), time.process_time()
    with contextlib.suppress(veil.TooLargeError):
        if gradient:
            found = veil.opacity_gradient(problem, np.zeros((6, 2)), method, time_limit=LIMIT, **options)[0]
        else:
            found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), method, time_limit=LIMIT, **options)
        assert 0 <= found.lower <= found.upper <= found.prior_bits + 1e-9
    assert time.process_time() - begin < 5 + 10 * LIMIT


def stopping(looks: int) -> Clock:
    """A clock that ends the work at a look at it."""
    seen: list[int] = []
    return Clock(stop=lambda: seen.append(1) or len(seen) > looks)


def test_a_sample_that_ran_out_of_time_says_how_far_it_came():
    """However many are asked for, the first thousands are not kept waiting by the rest."""
    found = veil.opacity(noisy(5), veil.MarkovPolicy.uniform(noisy(5)), "sampled", sequences=10**7, time_limit=0.5)
    assert 2 <= found.num_sequences < 10**7
    assert f"{found.num_sequences:,} sequences instead of 10,000,000" in found.reason


def test_a_gradient_of_fewer_sequences_is_weighted_by_their_number():
    """On one possible sequence a draw knows all: any number of them gives the gradient of all."""
    model = veil.Model(np.array([[[0.75, 0.25], [0.25, 0.75]]] * 2), np.zeros((2, 2)), 0)
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({0}), 4)
    chain = make_chain(problem, veil.MarkovPolicy(np.full((2, 2), [0.75, 0.25])))
    whole, slope, _ = sample(SecretValue(chain), sequences=50_000, gradient=True)
    part, found, why = sample(SecretValue(chain), sequences=50_000, clock=stopping(40), gradient=True)
    assert part.count < whole.count
    assert why == f"{part.count:,} sequences instead of 50,000: the time limit allowed no more"
    assert slope is not None
    assert found is not None
    assert np.abs(slope).max() > 0.1
    np.testing.assert_allclose(found, slope, rtol=1e-12)


def test_a_gradient_that_must_be_whole_is_not_given_in_part():
    with pytest.raises(OutOfTime):
        sample(SecretValue(noisy_chain(5)), sequences=10**6, clock=stopping(40), gradient=True, partial=False)
    assert sample(SecretValue(noisy_chain(5)), sequences=10**6, clock=stopping(40))[0].count < 10**6


def test_a_limit_covers_all_trees_of_one_call():
    """Bits over time walk one tree for each time, within one limit."""
    problem = noisy(9)
    with pytest.raises(veil.TooLargeError):
        veil.measures.bits_over_time(problem, veil.MarkovPolicy.uniform(problem), time_limit=1e-4)


def test_a_walk_that_outgrows_its_limit_is_given_up_with_the_remedies():
    problem = noisy(9)
    with pytest.raises(veil.TooLargeError, match="time_limit"):
        veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "exact", time_limit=1e-4)
