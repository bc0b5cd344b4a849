"""Policies without memory: stationary and time-dependent."""

import numpy as np

import veil
from tests.policy.masked import AVAILABLE, knowing_problem, masked_problem
from tests.seeds import looped


def test_probabilities_are_kept_and_have_a_table_without_time():
    policy = veil.MarkovPolicy([[0.25, 0.75], [1, 0]])
    np.testing.assert_array_equal(policy.probabilities, [[0.25, 0.75], [1, 0]])
    np.testing.assert_array_equal(policy.table, [[[0.25, 0.75], [1, 0]]])
    assert policy.probabilities.dtype == np.float64
    assert not policy.probabilities.flags.writeable
    assert not policy.table.flags.writeable
    assert repr(policy) == "MarkovPolicy(2 states, 2 actions)"


def test_makers_respect_the_mask():
    problem = masked_problem()
    for policy in (
        veil.MarkovPolicy.uniform(problem),
        veil.MarkovPolicy.softmax(np.random.default_rng(0).normal(size=(3, 3)), problem),
        veil.MarkovPolicy.deterministic(problem, ["up", "down", "stay"]),
    ):
        np.testing.assert_array_equal(policy.probabilities[~AVAILABLE], 0)
        np.testing.assert_allclose(policy.probabilities.sum(axis=1), 1, atol=1e-15)
    assert veil.MarkovPolicy.uniform(knowing_problem()).probabilities.shape == (6, 3)
    large = veil.MarkovPolicy.softmax(np.array([[1e3, 1e3], [-1e6, 0.0], [0.0, np.log(3)]]))
    np.testing.assert_allclose(large.probabilities, [[0.5, 0.5], [0, 1], [0.25, 0.75]], rtol=1e-15)


@looped("horizon", [0, 1, 4])
def test_time_dependent_makers_respect_mask_and_horizon(horizon: int):
    problem = masked_problem(horizon)
    actions = np.tile(np.array(["up", "down", "stay"], dtype=object), (horizon, 1))
    for policy in (
        veil.TimedPolicy.uniform(problem),
        veil.TimedPolicy.softmax(np.random.default_rng(0).normal(size=(horizon, 3, 3)), problem),
        veil.TimedPolicy.deterministic(problem, actions),
    ):
        assert policy.probabilities.shape == (horizon, 3, 3)
        np.testing.assert_array_equal(policy.probabilities[:, ~AVAILABLE], 0)
        np.testing.assert_allclose(policy.probabilities.sum(axis=2), 1, atol=1e-15)
        assert np.isfinite(veil.opacity(problem, policy, method="exact").bits)
    assert veil.TimedPolicy.uniform(knowing_problem(horizon)).probabilities.shape == (horizon, 6, 3)


def test_each_time_has_its_own_table():
    problem = masked_problem(horizon=2)
    policy = veil.TimedPolicy.deterministic(problem, [["up", "stay", "stay"], ["stay", "down", "stay"]])
    table = veil.measures.joint_table(problem, policy)
    assert table.sequences == [("o0", "o1", "o0")]
