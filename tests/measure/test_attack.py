"""The attack that is played: as often right as theory says, honest about its confidence, and what a wrong belief costs."""

import numpy as np
import pytest

import veil
from tests.engine.chains import small_case, small_cases
from tests.engine.runs import MEMORIES, remembering_cases
from tests.random_problems import Case
from veil.measure.attack import attack
from veil.measure.attack_result import Attack, Estimate, fano_error
from veil.measure.result import Opacity
from veil.policy.memory import MemoryPolicy


def other_policy(case: Case, seed: int, *, sparse: bool = False) -> veil.MarkovPolicy:
    """A random policy for the problem of a case; with `sparse` it never takes some actions."""
    generator, available = np.random.default_rng(seed), case.problem.available
    theta = 2 * generator.normal(size=available.shape)
    kept = available & (generator.random(theta.shape) < 0.5)
    taken = np.where(kept.any(axis=1, keepdims=True), kept, available) if sparse else available
    return veil.MarkovPolicy.softmax(np.where(taken, theta, -np.inf))


# An observer who knows the policy


def test_confidence_is_what_it_claims():
    """In every bin the guess is right as often as claimed, and the bins account for every run."""
    bins = 0
    for name in ("paper-last-state", "paper-initial-state", "two-rooms"):
        problem = veil.gallery.load(name)
        found = attack(problem, veil.MarkovPolicy.uniform(problem), 10_000, bins=8)
        assert sum(one.count for one in found.calibration) == 10_000
        mean = sum(one.count * one.achieved for one in found.calibration) / 10_000
        assert mean == pytest.approx(found.accuracy.value, abs=1e-12)
        for one in found.calibration:
            assert one.low - 1e-9 <= one.claimed <= one.high + 1e-9
            assert one.high - one.low == pytest.approx((1 - 1 / len(problem.secret_values)) / 8)
            if one.count > 100:
                spread = np.sqrt(one.claimed * (1 - one.claimed) / one.count)
                assert abs(one.claimed - one.achieved) < 4.5 * spread + 1e-3
                bins += 1
        assert found.expected_calibration_error < 0.02
    assert bins >= 6


def test_no_decisions_and_no_first_observation():
    model = veil.Model(np.eye(2)[:, None], np.zeros((2, 1)), [0.25, 0.75])
    for first, right in ((True, 1.0), (False, 0.75)):
        observer = veil.Observer(np.eye(2), sees_initial=first)
        problem = veil.Problem(model, observer, veil.LastState({0}), 0)
        found = attack(problem, veil.MarkovPolicy.uniform(problem), 3_000)
        assert found.accuracy.exact == right
        assert found.accuracy.value == pytest.approx(right, abs=0.04)
        assert found.traces[0].posterior.shape == (1, 2)


# Traces


@pytest.mark.parametrize("sees_actions", [False, True], ids=["blind", "sees-actions"])
def test_traces_follow_the_filter(sees_actions: bool):
    for case in small_cases(6, work=1_000, sees_actions=sees_actions):
        problem = case.problem
        found = attack(problem, case.policy, 30, traces=4)
        table = veil.measures.joint_table(problem, case.policy)
        rows = dict(zip(table.sequences, table.posterior, strict=True))
        assert len(found.traces) == 4
        for trace in found.traces:
            assert trace.posterior.shape == (problem.horizon + 1, len(problem.secret_values))
            assert trace.impossible_at is None
            np.testing.assert_allclose(trace.posterior[-1], rows[trace.observations], atol=1e-12)
            assert trace.posterior[-1][problem.secret_values.index(trace.truth)] > 0


# An observer who is wrong about the policy


def test_a_belief_that_is_right_after_all_costs_nothing():
    """The same policy told in other words: as one with a clock, or with a memory that it does not use."""
    for seed, case in enumerate(remembering_cases(4, "last")):
        problem = case.problem
        policy = veil.MarkovPolicy.uniform(problem)
        knowing = attack(problem, policy, 500, seed=seed)
        for believed in (
            veil.TimedPolicy(np.tile(policy.probabilities, (problem.horizon, 1, 1))),
            *(MemoryPolicy.lift(problem, MEMORIES[name], policy) for name in ("observation", "state", "controller")),
        ):
            found = attack(problem, policy, 500, observer_believes=believed, seed=seed)
            assert found.mistake is not None
            assert found.mistake.bits == pytest.approx(0, abs=1e-9)
            assert found.accuracy.value == pytest.approx(knowing.accuracy.value, abs=1e-12)
            np.testing.assert_allclose(found.accuracy_over_time, knowing.accuracy_over_time, atol=1e-12)
            for first, second in zip(found.traces, knowing.traces, strict=True):
                assert (first.observations, first.truth) == (second.observations, second.truth)
                np.testing.assert_allclose(first.posterior, second.posterior, atol=1e-12)


def certain_and_wrong(horizon: int = 2) -> tuple[veil.Problem, veil.MarkovPolicy, veil.MarkovPolicy]:
    """Two rooms that are seen as they are; the agent crosses over, the observer thinks that it stays."""
    transitions = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], dtype=float)
    model = veil.Model(transitions, np.zeros((2, 2)), 0, action_names=["stay", "cross"])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({0}), horizon)
    return problem, veil.MarkovPolicy([[0, 1], [0, 1]]), veil.MarkovPolicy([[1, 0], [1, 0]])


def test_what_was_held_impossible():
    problem, crossing, staying = certain_and_wrong()
    found = attack(problem, crossing, 20, observer_believes=staying)
    assert found.impossible_share == Estimate(1.0, 0.0, 1.0)
    assert found.infinite_share == Estimate(1.0, 0.0, 1.0)
    assert found.finite_cross_entropy_bits is None
    assert found.cross_entropy_bits == found.exact_cross_entropy_bits == np.inf
    assert found.mistake is not None
    assert found.mistake.finite_bits is None
    assert found.mistake.bits == np.inf
    # It falls back on what it thought before, "it will be in room 0", which after two crossings is true.
    assert found.accuracy.value == found.accuracy.exact == 1
    assert found.accuracy_over_time.tolist() == [1, 1, 1]
    trace = found.traces[0]
    assert trace.observations == ("o0", "o1", "o0")
    assert (trace.impossible_at, trace.posterior.tolist()) == (1, [[0.0, 1.0]])
    assert "infinite" in found.summary()
    once = attack(problem.replace(horizon=1), crossing, 20, observer_believes=staying)
    assert once.accuracy.value == once.accuracy.exact == 0


def test_what_is_rare_is_not_forgotten_where_no_run_met_it():
    """A belief that rules out what happens once in a million: infinite exactly, whatever the sample says."""
    problem, _, staying = certain_and_wrong()
    almost = veil.MarkovPolicy([[1 - 1e-6, 1e-6], [1, 0]])
    found = attack(problem, almost, 50, observer_believes=staying)
    assert found.cross_entropy_bits == 0
    assert found.exact_cross_entropy_bits == np.inf
    assert found.mistake is not None
    assert (found.mistake.sampled_bits, found.mistake.bits) == (0, np.inf)
    assert "infinite" in found.summary()


def test_no_watcher_is_better_than_one_who_knows():
    for number, case in enumerate(small_cases(20)):
        found = attack(case.problem, case.policy, 2, observer_believes=other_policy(case, number), seed=number)
        table = veil.measures.joint_table(case.problem, case.policy)
        assert found.accuracy.exact is not None
        assert found.accuracy.exact <= table.guess_probability + 1e-9
        assert found.fano_error <= 1 - found.accuracy.exact + 1e-9


# Fano's inequality


def test_fano_with_two_values_inverts_the_binary_entropy():
    for error in (1e-6, 0.01, 0.11, 0.3, 0.49):
        bits = -error * np.log2(error) - (1 - error) * np.log2(1 - error)
        assert fano_error(bits, 2) == pytest.approx(error, rel=1e-9)
    assert fano_error(1.0, 2) == 0.5
    assert fano_error(0.0, 2) == fano_error(0.0, 1) == fano_error(1e-14, 1) == 0


def test_fano_with_more_values_is_met_by_its_extreme_case():
    """Right with probability 1 − e, else any of the others alike: there the inequality is an equation."""
    for values in (3, 4, 10):
        for error in (0.05, 0.3, 1 - 1 / values - 0.01):
            row = np.array([1 - error] + [error / (values - 1)] * (values - 1))
            assert fano_error(float(-row @ np.log2(row)), values) == pytest.approx(error, rel=1e-9)
        assert fano_error(float(np.log2(values)), values) == pytest.approx(1 - 1 / values)


# Settings, seeds and words


def test_the_seed_decides():
    problem = veil.gallery.load("paper-last-state")
    policy = veil.MarkovPolicy.uniform(problem)
    first, second, third = (attack(problem, policy, 500, seed=seed) for seed in (5, 5, 6))
    assert first.summary() == second.summary()
    assert first.calibration == second.calibration
    assert first.cross_entropy_bits == second.cross_entropy_bits != third.cross_entropy_bits


def test_the_summary_says_it_in_words():
    problem = veil.gallery.load("two-rooms")
    found = attack(problem, veil.MarkovPolicy.uniform(problem), 1_000)
    text = found.summary()
    for part in ("two-rooms", "1,000", "0.8750", "0.5000", "0.0945", "0.4512"):
        assert part in text
    wrong = attack(problem, veil.MarkovPolicy.uniform(problem), 100, observer_believes=veil.MarkovPolicy(np.eye(2)))
    assert "the wrong assumption costs the observer" in wrong.summary()
    assert "assumes another policy" in wrong.summary()


def test_settings_that_make_no_sense_are_refused_together():
    case = small_case(0, "last")
    with pytest.raises(veil.InputError) as caught:
        attack(case.problem, case.policy, 1, seed=-1, bins=0, traces=True)
    assert [defect.split()[0] for defect in caught.value.defects] == ["episodes", "seed", "bins", "traces"]
    with pytest.raises(veil.InputError, match="observer_believes, policy: its table"):
        attack(case.problem, case.policy, observer_believes=veil.MarkovPolicy(np.ones((99, 1))))


# Boundaries


def test_the_smallest_settings_are_good_and_the_defaults_are_those_of_the_documents():
    case = small_case(0, "last")
    found = attack(case.problem, case.policy, 2, seed=0, bins=1, traces=0)
    assert (found.episodes, found.traces, len(found.calibration)) == (2, (), 1)
    assert len(attack(case.problem, case.policy, 3).traces) == 3  # no more than there are runs
    usual = attack(case.problem, case.policy)
    assert (usual.episodes, usual.seed, len(usual.traces)) == (10_000, 0, 5)
    assert repr(usual) == f"Attack({case.problem.name!r}, 10,000 runs: right in {usual.accuracy.value:.4f})"
    assert usual.error == 1 - usual.accuracy.value
    assert usual.calibration[0].high - usual.calibration[0].low == pytest.approx((1 - 1 / 2) / 10)


def scored(finite: Estimate | None, infinite: Estimate, calibration: tuple = ()) -> Attack:
    """An attack of four runs with these numbers."""
    known = Opacity(0.5, 0.5, 0.5, prior_bits=1.0, method="sampled", num_sequences=4)
    half, zero = Estimate(0.5, 0.1), Estimate(0.25, 0.1)
    return Attack(
        "p",
        ("a", "b"),
        4,
        0,
        half,
        0.5,
        np.array([0.5, 0.75]),
        finite,
        infinite,
        zero,
        known,
        0.1,
        calibration,
        (),
        None,
    )


def test_the_log_loss_is_infinite_where_the_truth_was_ruled_out():
    finite = Estimate(0.75, 0.1, 0.7)
    met = scored(finite, Estimate(0.0, 0.0, 0.0))
    assert (met.cross_entropy_bits, met.exact_cross_entropy_bits) == (0.75, 0.7)
    assert "log loss     0.7500 ± 0.1 (exact: 0.7000) bits; opacity" in met.summary()
    assert "(Fano's inequality, estimated opacity)" in met.summary()
    rare = scored(finite, Estimate(0.0, 0.0, 1e-6))  # in no run, yet possible
    assert (rare.cross_entropy_bits, rare.exact_cross_entropy_bits) == (0.75, np.inf)
    assert "infinite: the true value had been ruled out in 0.0000" in rare.summary()
    some = scored(finite, Estimate(0.25, 0.1, None))
    assert (some.cross_entropy_bits, some.exact_cross_entropy_bits) == (np.inf, None)
    every = scored(None, Estimate(1.0, 0.0, 1.0))
    assert (every.cross_entropy_bits, every.exact_cross_entropy_bits) == (np.inf, np.inf)
    assert "infinite: the true value had been ruled out in every run" in every.summary()
