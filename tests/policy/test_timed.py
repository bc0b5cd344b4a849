"""Time-dependent policies."""

import numpy as np
import pytest

import veil
from tests.policy.masked import AVAILABLE, knowing_problem, masked_problem
from tests.seeds import looped


def test_probabilities_are_kept_and_are_the_table():
    given = np.array([[[0.25, 0.75], [1, 0]], [[0, 1], [0.5, 0.5]], [[1, 0], [1, 0]]])
    policy = veil.TimedPolicy(given)
    np.testing.assert_array_equal(policy.probabilities, given)
    np.testing.assert_array_equal(policy.table, given)
    assert not policy.table.flags.writeable
    assert repr(policy) == "TimedPolicy(3 steps, 2 states, 2 actions)"


def test_a_bad_row_is_refused_with_time_and_state():
    with pytest.raises(veil.InputError, match=r"time-dependent policy: row \(time 1, state 0\) sums to 0.9"):
        veil.TimedPolicy([[[1.0, 0.0]], [[0.5, 0.4]]])
    with pytest.raises(veil.InputError, match=r"entry \(time 0, state 0, action 1\) is -0.5"):
        veil.TimedPolicy([[[1.5, -0.5]]])
    with pytest.raises(veil.InputError, match=r"expected \(time, state, action\)"):
        veil.TimedPolicy([[1.0, 0.0]])


@looped("horizon", [0, 1, 4])
def test_makers_respect_mask_and_horizon(horizon: int):
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


def test_softmax_and_logits_are_inverse_to_each_other():
    table = np.random.default_rng(3).dirichlet(np.full(3, 0.3), size=(4, 5))
    table[2, 1] = [0, 0, 1]
    table[3, 4] = [0, 0.5, 0.5]
    logits = veil.TimedPolicy(table).logits()
    np.testing.assert_array_equal(np.isneginf(logits), table == 0)
    np.testing.assert_allclose(veil.TimedPolicy.softmax(logits).probabilities, table, rtol=1e-14, atol=0)


def test_each_time_has_its_own_table():
    problem = masked_problem(horizon=2)
    policy = veil.TimedPolicy.deterministic(problem, [["up", "stay", "stay"], ["stay", "down", "stay"]])
    table = veil.measures.joint_table(problem, policy)
    assert table.sequences == [("o0", "o1", "o0")]
