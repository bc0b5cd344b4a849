"""Estimates on drawn sequences: lanes that fit the time, which pass is taken, and the cotangents of gradients."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import veil
from tests.engine.chains import on_sparse_kernel
from tests.planning.small_problems import drawn, random_problem
from veil.common.clock import UNLIMITED, Clock
from veil.engine.sequences import Posteriors
from veil.planning import sampled_values
from veil.planning.layers import Layers
from veil.planning.policy_class import any_table, make_space
from veil.planning.sampled_values import (
    Estimate,
    LossMeasure,
    SampledPath,
    SampleSecrecy,
    advantages,
    entropy_measure,
    in_lanes,
    make_sampled,
)


@pytest.mark.parametrize(("seconds", "lanes"), [(12.5, 9), (0.0, 1), (1.0, 1), (2.6, 2), (1e6, 16)])
def test_as_many_lanes_are_drawn_as_fit_the_seconds(monkeypatch: pytest.MonkeyPatch, seconds: float, lanes: int):
    """A lane takes a second; another is drawn while more is left of four fifths of the time than one takes on average."""
    now, asked = [0.0], list[int]()
    monkeypatch.setattr(sampled_values, "Clock", lambda limit: Clock(limit, now=lambda: now[0]))

    def draw(count: int, generator: np.random.Generator) -> np.ndarray:
        now[0] += 1.0
        asked.append(count)
        return generator.random(count)

    found = in_lanes(draw, 1000, 64, 3, seconds)
    assert (len(asked), len(found)) == (lanes, 64 * lanes)
    np.testing.assert_array_equal(found[:64], np.random.default_rng([3, 1]).random(64))
    assert len(in_lanes(draw, 40, 64, 3, 1e6)) == 40
    assert len(in_lanes(draw, 128, 64, 3, 1e9)) == 128


def test_an_estimate_is_the_mean_with_its_standard_error():
    bits = np.array([0.1, 0.5, 0.6])
    found = Estimate.of(bits)
    assert (found.bits, found.sequences) == (pytest.approx(0.4), 3)
    assert found.std_error == pytest.approx(np.sqrt(np.sum((bits - 0.4) ** 2) / 2) / np.sqrt(3))


def test_cotangents_are_costs_less_the_mean_of_the_other_sequences():
    bits, costs = np.array([0.1, 0.5, 0.6]), np.arange(6.0).reshape(3, 2)
    possible = np.array([[True, True], [True, False], [True, True]])
    found = advantages(bits, costs, possible)
    for row in range(3):
        others = (bits.sum() - bits[row]) / 2
        for column in range(2):
            wanted = (costs[row, column] - others) / 3 if possible[row, column] else 0.0
            assert found[row, column] == pytest.approx(wanted)
    assert advantages(bits[:1], costs[:1], possible[:1]).tolist() == [[0.0, 1.0]]


def test_what_a_sequence_rules_out_has_no_cotangent():
    posterior = np.array([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
    found = Posteriors(np.zeros(2), posterior, np.ones(2), np.arange(2))
    bits, slope = entropy_measure(found, np.zeros((2, 1), dtype=int))
    entropy = -0.25 * np.log2(0.25) - 0.75 * np.log2(0.75)
    np.testing.assert_allclose(bits, [entropy, 0.0])
    np.testing.assert_allclose(slope, [[1.0, -np.log2(0.75) / 2, 0.0], [-entropy / 2, 0.0, 0.0]], atol=1e-15)


def test_a_loss_counts_values_that_are_possible_alone_even_where_the_observer_rules_out_others():
    posterior, costs = (
        np.array([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]),
        np.array([[3.0, 0.5, np.inf], [2.0, np.inf, 7.0]]),
    )
    found = Posteriors(np.zeros(2), posterior, np.ones(2), np.arange(2))
    rule: Any = SimpleNamespace(costs_bits=lambda events: costs)
    bits, slope = LossMeasure(rule)(found, np.zeros((2, 1), dtype=int))
    np.testing.assert_allclose(bits, [1.125, 2.0])
    np.testing.assert_allclose(slope, [[0.5, -0.75, 0.0], [0.4375, 0.0, 0.0]])
    costs[1, 0] = np.inf
    with pytest.raises(veil.InputError, match="the observer rules out what some policy brings about"):
        LossMeasure(rule)(found, np.zeros((2, 1), dtype=int))


def test_sparse_chains_are_passed_over_reachable_states_unless_there_is_an_accelerator(monkeypatch: pytest.MonkeyPatch):
    space = make_space(random_problem(0), "timed")
    sparse = replace(space, hidden=on_sparse_kernel(space.chain(any_table(space))).hidden)
    table, calls = drawn(space, 1)[0], list[str]()
    plain = sampled_values.sampled_gradient
    monkeypatch.setattr(sampled_values, "sampled_gradient", lambda *a, **k: calls.append("dense") or plain(*a, **k))
    gradient = Layers.gradient
    monkeypatch.setattr(Layers, "gradient", lambda *a, **k: calls.append("layers") or gradient(*a, **k))
    exact = veil.opacity(space.problem, space.policy(table), "exact").bits
    for one, there, wanted in ((space, False, "dense"), (sparse, False, "layers"), (sparse, True, "dense")):
        with monkeypatch.context() as patched:
            if there:
                patched.setattr(sampled_values, "on_accelerator", lambda chain: True)
            found, slope = SampleSecrecy(one, "entropy", 400, 1, "").fresh(table, 400, 1, UNLIMITED)
        assert calls.pop() == wanted
        assert slope.shape == space.shape
        assert abs(found.bits - exact) < 5 * found.std_error + 1e-9
        assert found.sequences == 400


def test_the_forecast_grows_with_what_is_drawn_and_the_most_bits_are_those_of_the_values():
    space = make_space(random_problem(0), "timed")
    one, more = (make_sampled(space, "entropy", count, 0, "why") for count in (100, 300))
    hidden = space.hidden
    assert more.cost_seconds == pytest.approx(3 * one.cost_seconds)
    assert one.cost_seconds == pytest.approx(3e-9 * hidden.horizon * 100 * hidden.num_states**2)
    assert one.reason == "sampled sequences: why"
    assert one.most_bits == 1.0


@pytest.mark.parametrize("objective", ["entropy", "leakage"])
def test_an_estimate_alone_is_that_of_its_draws(objective: Any):
    space = make_space(random_problem(0), "timed")
    table = drawn(space, 1)[0]
    secrecy = make_sampled(space, objective, 50, 0, "")
    found = secrecy.estimate(table, 50, 4, UNLIMITED)
    layers = space.layers
    posteriors = layers.posteriors(table, layers.draw(table, 50, np.random.default_rng(4)))
    logs = np.log2(np.where(posteriors > 0, posteriors, 1.0))
    prior = space.chain(table).prior
    less = -np.sum(prior * np.log2(prior)) if objective == "leakage" else 0.0
    assert found.bits == pytest.approx(np.mean(-np.sum(posteriors * logs, axis=1)) - less)


def test_the_answer_of_a_path_is_on_sixty_four_sequences_at_a_time():
    """Exact less sampled entropy, near the exact bits; the standard error is that of the sequences."""
    space = make_space(random_problem(0).replace(secret=veil.Trajectory()), "timed")
    table = drawn(space, 1)[0]
    secrecy = make_sampled(space, "entropy", 50, 3, "")
    assert isinstance(secrecy, SampledPath)
    assert (secrecy.kind, secrecy.at_once) == ("sampled", 1)
    exact = veil.opacity(space.problem, space.policy(table), "exact")
    for seconds, count in ((0.0, 64), (1e9, 1024)):
        found = secrecy.answer(table, 1000, seconds)
        assert (found.num_sequences, found.method, found.lower) == (count, "sampled", 0.0)
        assert abs(found.bits - exact.bits) < 5 * found.std_error
        assert found.prior_bits == found.upper == pytest.approx(exact.prior_bits)
