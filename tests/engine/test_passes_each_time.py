"""Passes with a secret that has a value at every time: one pass is the passes up to each time, each by itself."""

from collections.abc import Callable

import numpy as np
import pytest

import veil
from tests.engine.passes import PLENTY, any_sequences, by_columns, by_compiled_columns, by_prefixes
from tests.seeds import looped
from veil.engine.chain import Chain, make_chain
from veil.engine.columns import ColumnPass
from veil.engine.each_time import times_of
from veil.engine.sampling import draw_events
from veil.engine.sequences import SequencePass
from veil.engine.strings import StringPass
from veil.measure.each_time import EachValue
from veil.measure.exact import Budget
from veil.measure.sampled import sample

HORIZON, COUNT = 6, 40


def random_chain(ahead: int, *, timed: bool, untimed: bool = False, sees_actions: bool = False) -> Chain:
    """Four states, of which one is secret now or soon; one time counts nothing, and the last does not either."""
    rng = np.random.default_rng(ahead)
    model = veil.Model(rng.dirichlet(np.ones(4), size=(4, 2)), np.zeros((4, 2)), rng.dirichlet(np.ones(4)))
    silent = {"silent": 0, "untimed": True} if untimed else {}
    observer = veil.Observer(rng.dirichlet(np.ones(3), size=4), sees_actions=sees_actions, **silent)
    secret = veil.StateNow([0], ahead=ahead, weights=[0.3, 0.1, 0.0, 0.2, 0.4, 0.5, 0.0])
    problem = veil.Problem(model, observer, secret, HORIZON)
    table = rng.dirichlet(np.ones(2), size=(HORIZON, 4) if timed else 4)
    return make_chain(problem, (veil.TimedPolicy if timed else veil.MarkovPolicy)(table))


def by_strings(chain: Chain, events: np.ndarray, memory_bytes: int = PLENTY):
    return StringPass(chain, events, gradient=True, memory_bytes=memory_bytes)


def of_sequences(run: SequencePass | ColumnPass | StringPass, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The posteriors of each sequence and the gradient from a slope in them."""
    posterior = run.result.posterior
    united = np.zeros_like(posterior)
    np.add.at(united, run.result.index, slope)
    return posterior[run.result.index], run.pull_back(united)


def one_by_one(make: Callable, chain: Chain, events: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same from a pass for each time, along what is observed until then."""
    rows, total = [], np.zeros(chain.table.shape)
    for place, time in enumerate(times_of(chain)):
        seen = events[:, : time.time + 1]
        if time.is_forecast:  # the step in which the value is chosen always shows the first event
            seen = np.column_stack([seen, np.zeros(len(events), dtype=events.dtype)])
        posterior, part = of_sequences(make(time.with_slopes, seen), slope[:, place])
        rows.append(posterior)
        total += time.in_table(part)
    return np.stack(rows, axis=1), total


@looped("sees_actions", [False, True])
@looped("timed", [False, True])
@looped("ahead", [0, 1, 3])
@pytest.mark.parametrize("make", [by_prefixes, by_columns, by_compiled_columns])
def test_one_pass_is_the_passes_up_to_each_time(make: Callable, ahead: int, timed: bool, sees_actions: bool):
    chain = random_chain(ahead, timed=timed, sees_actions=sees_actions)
    rng = np.random.default_rng(1)
    events = any_sequences(chain, COUNT, rng)
    slope = rng.normal(size=(COUNT, len(times_of(chain)), 2))
    posterior, gradient = of_sequences(make(chain, events), slope)
    expected, expected_gradient = one_by_one(make, chain, events, slope)
    np.testing.assert_allclose(posterior, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-10, atol=1e-10)
    tight, again = of_sequences(make(chain, events, memory_bytes=1), slope)
    np.testing.assert_array_equal(tight, posterior)
    np.testing.assert_allclose(again, gradient, rtol=1e-13, atol=1e-13)


@looped("timed", [False, True])
@looped("ahead", [0, 2])
def test_strings_are_those_written_up_to_each_time(ahead: int, timed: bool):
    chain = random_chain(ahead, timed=timed, untimed=True)
    rng = np.random.default_rng(1)
    events = draw_events(chain, COUNT, rng)
    slope = rng.normal(size=(COUNT, len(times_of(chain)), 2))
    if ahead:  # a further step, which is silent, would not tell the time either: values alone are compared
        posterior, _ = of_sequences(by_strings(chain, events), slope)
        rows = [StringPass(one.chain, events[:, : one.time + 1], gradient=False, memory_bytes=PLENTY).result
                for one in times_of(chain)]  # fmt: skip
        expected = np.stack([found.posterior[found.index] for found in rows], axis=1)
    else:
        posterior, gradient = of_sequences(by_strings(chain, events), slope)
        expected, expected_gradient = one_by_one(by_strings, chain, events, slope)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(posterior, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("untimed", [False, True])
def test_the_sampled_gradient_is_the_exact_one_within_errors(untimed: bool, ahead: int):
    """Along a direction, over independent samples; the exact gradient is that of all sequences."""
    chain = random_chain(ahead, timed=True, untimed=untimed)
    problem_gradient = EachValue(chain).exact(Budget(), gradient=True)
    direction = np.random.default_rng(5).normal(size=chain.table.shape)
    direction -= direction.mean(axis=-1, keepdims=True)  # rows keep their sum
    values, slopes = [], []
    for seed in range(20):
        tally, slope, _ = sample(EachValue(chain), sequences=500, seed=seed, gradient=True)
        assert slope is not None
        values.append(tally.mean)
        slopes.append(float(np.sum(slope * direction)))
    assert problem_gradient.gradient is not None
    expected = float(np.sum(problem_gradient.gradient * direction))
    for found, wanted in ((values, problem_gradient.opacity.bits), (slopes, expected)):
        assert abs(np.mean(found) - wanted) < 4 * np.std(found, ddof=1) / len(found) ** 0.5
        assert np.std(found) > 0
