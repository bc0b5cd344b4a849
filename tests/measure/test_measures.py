"""Other ways to read the joint table: by hand, and their identities."""

import math

import numpy as np
import pytest

import veil
from tests.engine.chains import small_case
from veil.engine.chain import make_chain


def two_rooms_table() -> veil.measures.JointTable:
    """`P(elsewhere, secret)`: 1/2 and 1/8 after silence, 0 and 3/8 after a beep."""
    problem = veil.gallery.load("two-rooms")
    return veil.measures.joint_table(problem, veil.MarkovPolicy.uniform(problem))


# By hand


def test_two_rooms_by_hand():
    table = two_rooms_table()
    assert table.num_sequences == 2
    assert dict(zip(table.sequences, table.probabilities.tolist(), strict=True)) == {
        ("0", "0"): [0.5, 0.125],
        ("0", "beep"): [0.0, 0.375],
    }
    np.testing.assert_allclose(table.prior, [0.5, 0.5])
    assert table.prior_bits == 1
    assert table.bits == pytest.approx(5 / 8 * math.log2(5) - 1, abs=1e-15)
    assert table.guess_probability == 0.875
    assert table.prior_guess_probability == 0.5
    assert table.min_entropy_leakage_bits == pytest.approx(math.log2(1.75), abs=1e-15)
    assert table.guessing_entropy == 1.125
    assert table.asymmetric_bits() == pytest.approx(0.125 * math.log2(5), abs=1e-15)
    assert table.asymmetric_bits("elsewhere") == pytest.approx(0.5 * math.log2(1.25), abs=1e-15)
    assert table.probability_surer(0.7) == 1
    assert table.probability_surer(0.9) == 0.375
    assert table.probability_surer(0.5, "secret") == 0.375
    assert table.probability_surer(0.5, "elsewhere") == 0.625
    assert table.probability_surer(1.0) == 0


def test_a_sampled_table_has_exact_posteriors_and_the_true_prior():
    problem = veil.gallery.load("two-rooms")
    exact = two_rooms_table()
    chain = make_chain(problem, veil.MarkovPolicy.uniform(problem))
    events = exact.events[[1, 1, 1, 0]]  # three of four drawn runs with the same observations
    found = veil.measures.sampled_table(problem, chain, events)
    assert found.num_sequences == 2
    assert found.events.tolist() == exact.events.tolist()
    np.testing.assert_allclose(found.posterior, exact.posterior)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), [0.25, 0.75])
    np.testing.assert_allclose(found.prior, [0.5, 0.5])  # not that of the sample
    assert found.revealing(by="gain_bits")[0].gain_bits == pytest.approx(1)


def test_the_most_revealing_sequence_by_hand():
    """A beep makes an even chance a certainty: one bit, with probability 3/8."""
    first, second = two_rooms_table().revealing()
    assert first.observations == ("0", "beep")
    assert first.probability == 0.375
    assert first.posterior == {"elsewhere": 0.0, "secret": 1.0}
    assert first.gain_bits == 1
    assert first.leaked_bits == 0.375
    assert second.observations == ("0", "0")
    assert second.gain_bits == pytest.approx(0.2 * math.log2(0.4) + 0.8 * math.log2(1.6), abs=1e-15)
    assert second.posterior == pytest.approx({"elsewhere": 0.8, "secret": 0.2})


# Against fractions


def test_revealing_sequences_are_written_as_the_watcher_does():
    for sees_actions in (False, True):
        case = small_case(2, "last", sees_actions=sees_actions, on_actions=False)
        watcher = veil.ObserverFilter(case.problem, case.policy)
        part = veil.measures.joint_table(case.problem, case.policy).revealing(1)[0]
        for event in part.observations:
            watcher.update(event)
        assert watcher.posterior == pytest.approx(list(part.posterior.values()), abs=1e-12)


def test_a_wrong_value_or_level_is_named():
    table = two_rooms_table()
    with pytest.raises(veil.InputError, match="unknown value 'vault': known are 'elsewhere', 'secret'"):
        table.asymmetric_bits("vault")
    with pytest.raises(veil.InputError, match="value 2 does not exist: there are 2 values"):
        table.asymmetric_bits(2)
    for level in (-0.1, 1.1, math.nan):
        with pytest.raises(veil.InputError, match=r"level is .*, expected a probability"):
            table.probability_surer(level)


def test_a_table_too_large_is_refused():
    problem = veil.gallery.load("paper-false-alarms")
    with pytest.raises(veil.TooLargeError, match="48,828,125"):
        veil.measures.joint_table(problem, veil.MarkovPolicy.uniform(problem))


# What a sensor costs


def test_the_sensor_of_two_rooms_costs_all_that_is_lost():
    problem = veil.gallery.load("two-rooms")
    policy = veil.MarkovPolicy.uniform(problem)
    lost = 1 - veil.opacity(problem, policy, method="exact").bits
    assert veil.measures.sensor_costs(problem, policy) == pytest.approx({"vault": lost}, abs=1e-12)
    assert veil.measures.observation_costs(problem, policy) == pytest.approx({"beep": lost}, abs=1e-12)
    # Shown as a beep instead, silence costs as much: what matters is that they can be told apart.
    assert veil.measures.observation_costs(problem, policy, silent="beep") == pytest.approx({"0": lost}, abs=1e-12)


def test_costs_pass_the_budget_on():
    problem = veil.gallery.load("paper-last-state")
    policy = veil.MarkovPolicy.uniform(problem)
    with pytest.raises(veil.InputError, match="time_limit is -1"):
        veil.measures.sensor_costs(problem, policy, time_limit=-1)
    with pytest.raises(veil.TooLargeError):
        veil.measures.observation_costs(problem, policy, time_limit=1e-6)


def test_an_observer_without_sensors_or_silence_is_told_what_is_missing():
    case = small_case(0, "last")
    with pytest.raises(veil.InputError, match="it has no sensors: give them"):
        veil.measures.sensor_costs(case.problem, case.policy)
    with pytest.raises(veil.InputError, match="no silent observation to show"):
        veil.measures.observation_costs(case.problem, case.policy)
