"""Estimates from samples: no bias, errors that are what they say, a gradient that is right on average, bounded work."""

import math
import tracemalloc
from functools import cache
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import chain_of, on_sparse_kernel, small_cases
from tests.random_problems import KINDS
from tests.seeds import looped
from veil.common.logs import entropy_bits
from veil.engine.chain import Chain, make_chain
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass
from veil.measure.exact import Budget
from veil.measure.ladder import Settings, measure
from veil.measure.question import SecretValue
from veil.measure.sampled import sample


@cache
def paper() -> tuple[veil.Problem, Chain, float]:
    """The paper's grid under the uniform policy, with its exact opacity."""
    problem = veil.gallery.load("paper-last-state")
    policy = veil.MarkovPolicy.uniform(problem)
    return problem, make_chain(problem, policy), veil.opacity(problem, policy, "exact").bits


# The value


@pytest.mark.parametrize("timed", [False, True], ids=["markov", "timed"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_value_is_right_within_its_error(kind: str, timed: bool):
    scores = []
    for number, case in enumerate(small_cases(10, kind, timed=timed)):
        chain = chain_of(case)
        exact = SecretValue(chain).exact(Budget()).opacity.bits
        for one in (chain, on_sparse_kernel(chain)):
            found = measure(one, Settings("sampled", Budget(), sequences=4_000, seed=number)).opacity
            assert found.method == "sampled"
            assert found.num_sequences == 4_000
            # What is rarer than one in thousands may not have been drawn, and is not in the error either.
            assert found.bits == pytest.approx(exact, abs=1e-4 + 4.5 * found.std_error)
        if found.std_error > 1e-6:
            scores.append((found.bits - exact) / found.std_error)
    assert len(scores) > 2
    assert abs(np.mean(scores)) < 4 / np.sqrt(len(scores))


@pytest.mark.slow
def test_intervals_hold_the_exact_value_as_often_as_they_say():
    """600 repeats of 400 sequences: 95% coverage, an honest standard error, no bias."""
    _, chain, exact = paper()
    found = [measure(chain, Settings("sampled", Budget(), sequences=400, seed=seed)).opacity for seed in range(600)]
    for confidence, low, high in ((0.95, 0.92, 0.98), (0.8, 0.75, 0.85)):
        ends = [one.interval(confidence) for one in found]
        assert low <= np.mean([lower <= exact <= upper for lower, upper in ends]) <= high
    values, errors = np.array([one.bits for one in found]), np.array([one.std_error for one in found])
    spread = values.std(ddof=1)
    assert abs(values.mean() - exact) < 4 * spread / math.sqrt(len(values))
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(spread, rel=4 / math.sqrt(2 * len(values)))


def test_the_standard_error_is_that_of_the_entropies_drawn():
    _, chain, _ = paper()
    found = measure(chain, Settings("sampled", Budget(), sequences=1_000, seed=5)).opacity
    events = draw_events(chain, 1_000, np.random.default_rng(5))
    run = SequencePass(chain, events, gradient=False, memory_bytes=2**30)
    bits = entropy_bits(run.result.posterior)[run.result.index]
    assert found.bits == pytest.approx(bits.mean(), abs=1e-13)
    assert found.std_error == pytest.approx(bits.std(ddof=1) / math.sqrt(1_000), rel=1e-10)


def test_what_does_not_vary_has_no_error():
    problem = veil.gallery.load("two-rooms")
    blind = problem.replace(observer=veil.Observer(np.ones((2, 1))))
    found = veil.opacity(blind, veil.MarkovPolicy.uniform(blind), "sampled")
    assert found.bits == pytest.approx(1, abs=1e-12)
    assert found.std_error < 1e-9
    told = problem.replace(observer=veil.Observer(np.eye(2)))
    assert veil.opacity(told, veil.MarkovPolicy.uniform(told), "sampled").bits == 0


def test_a_sample_proves_nothing_but_the_trivial_bounds():
    problem, chain, _ = paper()
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "sampled", sequences=50)
    assert found.lower == 0
    assert found.upper == found.prior_bits == pytest.approx(float(entropy_bits(chain.prior)), abs=1e-15)
    assert "50 sampled sequences" in found.reason
    low, high = found.interval()
    assert found.lower <= low < found.bits < high <= found.upper


def test_the_same_seed_gives_the_same_answer():
    problem, _, _ = paper()
    policy = veil.MarkovPolicy.uniform(problem)
    first, second, third = (veil.opacity(problem, policy, "sampled", seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first.bits != third.bits


# Budgets


@pytest.mark.parametrize("target", [3e-3, 1e-3])
def test_the_sample_grows_until_the_error_is_as_small_as_asked(target: float):
    problem, _, exact = paper()
    found = veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "sampled", sequences=500, std_error=target)
    assert target / 2 < found.std_error <= target
    assert found.num_sequences > 500
    assert abs(found.bits - exact) < 4 * found.std_error


@looped("count", [2, 3, 4_095, 4_096, 4_097, 8_193, 10_001])
def test_as_many_sequences_as_asked_for_are_drawn(count: int):
    _, chain, _ = paper()
    for gradient in (False, True):
        found = measure(chain, Settings("sampled", Budget(), sequences=count), gradient=gradient)
        assert found.opacity.num_sequences == count


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_sequences():
    problem = veil.gallery.load("paper-false-alarms")
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    peaks = []
    for count in (5_000, 60_000):
        sample(SecretValue(chain), sequences=count, memory_bytes=2**23, gradient=True)
        tracemalloc.start()
        sample(SecretValue(chain), sequences=count, memory_bytes=2**23, gradient=True)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.4 * peaks[0]  # chunks are of equal size, 1,250 and 1,579 here
    assert peaks[1] < 4 * 2**23


# The gradient


def test_the_gradient_is_unbiased_in_every_coordinate():
    """100,000 sequences in one call, and as many in batches, whose spread gives the error of each coordinate."""
    problem, _, _ = paper()
    theta = np.random.default_rng(0).normal(size=(36, 5))
    _, exact = veil.opacity_gradient(problem, theta, "exact")
    batches = np.stack(
        [veil.opacity_gradient(problem, theta, "sampled", sequences=2_000, seed=seed)[1] for seed in range(1, 61)]
    )
    error = batches.std(axis=0, ddof=1) / math.sqrt(len(batches))
    moving = error > 1e-12
    assert moving.sum() > 100
    _, whole = veil.opacity_gradient(problem, theta, "sampled", sequences=100_000, seed=0)
    for found in (whole, batches.mean(axis=0)):
        np.testing.assert_allclose(found[~moving], exact[~moving], atol=1e-10)
        scores = (found - exact)[moving] / error[moving]
        assert np.abs(scores).max() <= 4
        assert np.sqrt(np.mean(scores**2)) < 1.3


# Settings


@looped(
    ("setting", "value", "says"),
    [
        ("sequences", 1, "sequences is 1, expected a whole number, 2 or more"),
        ("sequences", 0, "2 or more"),
        ("sequences", 2.5, "whole number"),
        ("sequences", True, "whole number"),
        ("std_error", 0.0, "std_error is 0.0, expected bits above 0"),
        ("std_error", -1.0, "above 0"),
        ("std_error", math.nan, "above 0"),
        ("seed", -1, "seed is -1, expected a whole number, 0 or more"),
        ("seed", 0.5, "whole number"),
        ("seed", True, "whole number"),
        ("std_error", "small", "above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(setting: str, value: Any, says: str):
    problem, _, _ = paper()
    with pytest.raises(veil.InputError, match=says):
        veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "sampled", **{setting: value})


def test_all_that_is_wrong_is_said_at_once():
    problem, _, _ = paper()
    with pytest.raises(veil.InputError) as caught:
        veil.opacity(problem, veil.MarkovPolicy.uniform(problem), "sampled", sequences=1, std_error=0.0, seed=-1)
    for part in ("sequences", "std_error", "seed"):
        assert part in str(caught.value)
