"""The return given the secret: by hand, over an infinite horizon, and in words."""

from dataclasses import replace

import numpy as np
import pytest

import veil
from veil.measure.measures import return_given_secret


def corridor(**changes: object) -> veil.Problem:
    """A start with two ways: the left one, where the secret is, pays; the right one does not."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, :, 1] = moves[2, :, 2] = 1.0
    model = veil.Model(moves, [0.0, 1.0, 0.0], 0, discount=0.9)
    given: dict = {"horizon": 3, "pairs": [veil.Pair("start", secret=veil.InitialState())], **changes}
    return veil.Problem(model, veil.Observer(np.eye(3)), given.pop("secret", veil.StateAt(1, {1})), **given)


POLICY = veil.MarkovPolicy([[0.25, 0.75], [0.5, 0.5], [0.5, 0.5]])


def test_an_uneven_return_is_remarked_and_pairs_have_their_own_values():
    problem = corridor()
    found = return_given_secret(problem, POLICY)
    assert found.expected_return.tolist() == pytest.approx([0.0, 0.9 + 0.81])
    assert found.text == "0 if elsewhere; 1.71 if secret"
    assert found.is_uneven
    alone = return_given_secret(problem, POLICY, pair="start")
    assert alone.expected_return.tolist() == pytest.approx([0.25 * 1.71])
    assert not alone.is_uneven
    shifted = problem.replace(model=veil.Model(problem.model.transitions, [-7.0, -6.0, -7.0], 0, discount=0.9))
    assert return_given_secret(shifted, POLICY).is_uneven
    rare = veil.MarkovPolicy([[0.999, 0.001], [0.5, 0.5], [0.5, 0.5]])
    assert not return_given_secret(problem, rare).is_uneven


@pytest.mark.parametrize("timed", [False, True])
def test_over_an_infinite_horizon_the_rest_of_the_runs_counts(timed: bool):
    """Of a stationary policy as over a long horizon; of a time-dependent one with the best continuation."""
    policy = veil.TimedPolicy([POLICY.probabilities] * 3) if timed else POLICY
    endless = return_given_secret(corridor(return_over="infinite"), policy)
    assert endless.expected_return.tolist() == pytest.approx([0.0, 9.0])
    assert endless.overall == pytest.approx(veil.expected_return(corridor(return_over="infinite"), policy))


def test_history_policies_and_large_rewards():
    problem = corridor(pairs=[])
    solution = veil.solve(problem, method="game", time_limit=5)
    found = return_given_secret(problem, solution.policy)
    assert found.overall == pytest.approx(veil.expected_return(problem, solution.policy), abs=1e-10)
    high = problem.replace(model=veil.Model(problem.model.transitions, [1e12, 1e12 + 1, 1e12], 0, discount=0.9))
    low, up = return_given_secret(high, POLICY).expected_return
    assert up - low == pytest.approx(1.71, rel=1e-3)


def test_equal_returns_are_no_remark_and_tiny_ones_are_shown_as_zero():
    problem = corridor()
    found = return_given_secret(problem, POLICY)
    assert found.differs
    assert not replace(found, expected_return=np.array([0.3, 0.3])).differs
    assert replace(found, expected_return=np.array([1e-17, 0.3])).text == "0 if elsewhere; 0.3 if secret"


def test_a_whole_path_has_no_value_to_condition_on():
    problem = corridor(pairs=[]).replace(secret=veil.Trajectory())
    with pytest.raises(veil.InputError, match="whole path"):
        return_given_secret(problem, POLICY)


def test_a_summary_says_what_a_percentage_means_and_that_the_return_is_uneven():
    solution = veil.solve(
        corridor(pairs=[], min_return="50%"), starts=2, iterations=20, certificate=False, time_limit=5
    )
    facts = " ".join(solution.summary().split())
    assert " 50% of the range 0 … 1.71 is 0.855" in facts
    assert "given the secret: 0 if elsewhere; 1.71 if secret; the runs of one value earn less than half" in facts
    even = veil.solve(
        corridor(pairs=[], secret=veil.InitialState(), min_return=0.5), starts=2, iterations=5, certificate=False
    )
    assert "given the secret" not in even.summary()
    assert "of the range" not in even.summary()
