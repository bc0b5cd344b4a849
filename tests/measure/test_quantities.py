"""Quantities of leakage: against qif and exact fractions on random tables, by every backend, and from samples."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from validation.qif_tables import channel_problem, random_channel

import veil
from tests.seeds import looped
from veil.measure.quantities import Quantities, of_joint, quantities


def of_channel(prior: np.ndarray, channel: np.ndarray, **asked: Any) -> Quantities:
    problem = channel_problem(prior, channel)
    return quantities(problem, veil.MarkovPolicy.uniform(problem), "exact", **asked)


def test_a_capacity_is_the_most_that_any_prior_leaks():
    rng = np.random.default_rng(8)
    for _ in range(40):
        prior, channel = random_channel(rng)
        found = of_channel(prior, channel)
        uniform = of_channel(np.full(len(prior), 1 / len(prior)), channel)
        assert found.maximal_leakage_bits == pytest.approx(uniform.min_entropy_leakage_bits, abs=1e-9)
        assert found.min_entropy_leakage_bits <= found.maximal_leakage_bits + 1e-12


def test_order_one_is_the_limit_and_entropies_fall_with_the_order():
    rng = np.random.default_rng(9)
    orders = (0.05, 0.5, 1 - 1e-6, 1, 1 + 1e-6, 2, 5000.0, math.inf)
    for _ in range(40):
        prior, channel = random_channel(rng)
        found = of_channel(prior, channel, orders=orders).renyi_bits
        bits = [found[order].posterior for order in orders]
        assert all(one >= two - 1e-9 for one, two in pairwise(bits))
        assert bits[2] == pytest.approx(bits[3], abs=1e-4)
        assert bits[-2] == pytest.approx(bits[-1], abs=0.01)


def test_proportional_outputs_are_merged_without_the_worst_sequences():
    problem = veil.gallery.load("two-rooms").replace(horizon=6)
    policy = veil.MarkovPolicy.uniform(problem)
    apart, merged = (quantities(problem, policy, "exact", top=top) for top in (3, 0))
    assert merged.worst == {"leaked_bits": (), "gain_bits": (), "posterior": ()}
    assert len(apart.worst["posterior"]) == 3
    for (name, one, leaked, _), (_, two, other, _) in zip(apart.facts(), merged.facts(), strict=True):
        assert one.posterior == pytest.approx(two.posterior, abs=1e-12), name
        assert leaked == pytest.approx(other, abs=1e-12)


def test_auto_samples_where_the_sequences_do_not_fit():
    problem = veil.gallery.load("paper-false-alarms")
    policy = veil.MarkovPolicy.uniform(problem)
    found = quantities(problem, policy, sequences=50, time_limit=0.05)
    assert found.method == "sampled"
    assert "too many" in found.reason
    assert found.entropy_bits.std_error > 0
    with pytest.raises(veil.TooLargeError):
        quantities(problem, policy, "exact", time_limit=0.05)


def test_history_policies_are_measured():
    problem = veil.gallery.load("two-rooms", min_return=None).replace(horizon=3, agent_sees="state+observations")
    policy = veil.solve(problem, method="game", certificate=False).policy
    found, table = quantities(problem, policy), veil.measures.joint_table(problem, policy)
    assert found.guess_probability.posterior == pytest.approx(table.guess_probability, abs=1e-15)
    assert found.worst["leaked_bits"] == tuple(table.revealing(10))


@looped(
    ("asked", "message"),
    [
        ({"gain": [[1.0, 2.0, 3.0]]}, r"gain has shape \(1, 3\), expected \(W, 2\)"),
        ({"gain": [[1.0, math.nan]]}, r"gain \(0, 1\) is nan, expected a finite number"),
        ({"gain": np.zeros((0, 2))}, "gain has no rows"),
        ({"orders": (0.01,)}, "expected numbers of 0.05 or more"),
        ({"orders": "two"}, "orders are 'two'"),
        ({"top": -1}, "top is -1"),
        ({"method": "bracket"}, "method is 'bracket'"),
        ({"sequences": 1}, "sequences is 1"),
    ],
)
def test_wrong_settings_are_refused(asked: dict[str, Any], message: str):
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(veil.InputError, match=message):
        quantities(problem, veil.MarkovPolicy.uniform(problem), **asked)


def test_an_order_that_was_not_asked_for_is_named():
    with pytest.raises(veil.InputError, match=r"known are 0\.5, 2"):
        of_channel(np.array([0.5, 0.5]), np.eye(2)).renyi_leakage_bits(3)


def test_negative_gains_have_no_bits():
    found = of_channel(np.array([0.5, 0.5]), np.eye(2), gain=[[-1.0, -2.0]])
    assert found.gain_leakage_bits is None
    assert found.gain is not None
    assert found.gain.prior == found.gain.posterior == -1.5


def test_errors_of_a_sample_are_those_of_its_draws():
    """Two rows drawn three times and once: mean and error of each function are those of four numbers."""
    problem = veil.gallery.load("two-rooms")
    posterior, share = np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0.75, 0.25])
    found = of_joint(problem, share[:, None] * posterior, np.array([[0, 0], [0, 1]]), np.array([0.5, 0.5]), 4)
    drawn = {"guess_probability": [0.5, 0.5, 0.5, 1.0], "entropy_bits": [1.0, 1.0, 1.0, 0.0]}
    for name, values in drawn.items():
        quantity = getattr(found, name)
        assert quantity.posterior == pytest.approx(np.mean(values))
        assert quantity.std_error == pytest.approx(np.std(values, ddof=1) / 2)
    assert (found.method, found.num_sequences, found.reason) == ("sampled", 4, "4 drawn sequences")
