"""Problem and policy as the verifier reads them: the examples of the docstrings, allowances, and what is refused."""

import math

import numpy as np
import pytest

import veil
from tests.proof.cases import random_policy, random_problem
from tests.proof.reading import CheckedProblem, Witness, policy_values, read_policy, rule_bound
from veil.common.clock import UNLIMITED, Clock, OutOfTime
from veil.common.errors import CertificateError, TooLargeError
from veil.common.logs import log2_or_zero
from veil.policy.history import HistoryPolicy
from veil.proof import policy_values as values_module
from veil.proof.agent import Agent
from veil.proof.arithmetic import FLOOR, TINY, UNIT, gamma
from veil.proof.forward import MOST_MOVES, ForwardPass


def example() -> veil.Problem:
    """State 0 goes to 0 or 1, state 1 stays; the observer mistakes state 1 for 0 one time in four."""
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [0.0]], 0)
    return veil.Problem(model, veil.Observer([[1.0, 0.0], [0.25, 0.75]]), veil.LastState({1}), horizon=1)


def whole(problem: veil.Problem) -> tuple[int, int]:
    return -1, problem.horizon + 1


def test_the_allowance_of_the_example_is_the_documented_one():
    """Two roundings of the start, three of a step, none of sums; nothing is left out, and two values are told apart."""
    problem = example()
    checked = CheckedProblem(problem)
    played = ForwardPass(
        checked, read_policy(checked, veil.MarkovPolicy.uniform(problem)), UNLIMITED, MOST_MOVES, apart=True
    )
    played.step()
    assert played.roundings == 5
    assert played.sums[0].left_out == TINY
    assert played.relative_error() == gamma(7) + 3.03 * 2 * played.defect
    joint, total = np.array([0.5, 0.125, 0.375]), np.array([0.625, 0.625, 0.375])
    bits = math.fsum(-joint * log2_or_zero(joint / total))
    around, allowed = 1.5 * 4 * UNIT + 12 * UNIT * bits, played.relative_error()
    lower, upper = played.bits()
    assert lower == (bits - around) * (1 - allowed) - 8 * UNIT
    assert upper == (bits + around) * (1 + 1.01 * allowed) + 8 * UNIT


def test_what_is_left_out_of_the_example_is_added_to_its_upper_bound():
    """Weights below 0.2 are left out, one of 1/8: what is kept gives the state away, and the bound must not."""
    problem = example()
    checked = CheckedProblem(problem)
    policy = read_policy(checked, veil.MarkovPolicy.uniform(problem))
    played = ForwardPass(checked, policy, UNLIMITED, MOST_MOVES, apart=True, below=0.2)
    played.step()
    assert played.mass.tolist() == [0.5, 0.375]
    assert played.lost == 1.01 * 0.2
    lower, upper = played.bits()
    assert lower == 0
    assert upper > 0.4512


def test_the_allowances_of_a_rule_and_of_a_return_are_the_documented_ones():
    """With a threshold that takes away all of the bound, the allowance for rounding is what is left of it."""
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [-1.0]], 0)
    problem = example().replace(model=model)
    checked, cost = CheckedProblem(problem), 1 + 2.0**-39
    graph = np.array([0, 0]), (np.zeros((1, 2), dtype=int),)
    bound = rule_bound(checked, Witness(*graph, np.full((1, 2), cost), 1.0, "nothing"), (1 + cost,), None)
    error = (gamma(3 + 12) + 2.02 * checked.defect) * (cost + (cost + 1))
    error += (gamma(8) + 3.03 * checked.defect) * (1 + cost) + 8 * UNIT * (1 + cost) + FLOOR
    assert bound == 1.01 * error
    found = policy_values(checked, veil.MarkovPolicy.uniform(problem), whole(problem), FLOOR, None)
    assert found.expected_return == 1
    assert found.return_error == 1.02 * (gamma(3 + 12) + 4.04 * checked.defect)


# The problem.


@pytest.mark.parametrize(("values", "exact"), [(2, True), (3, False), (4, True), (5, False), (6, False)])
def test_the_most_bits_are_never_below_the_logarithm(values: int, exact: bool):
    model = veil.Model(np.full((values, 1, values), 1 / values), np.zeros((values, 1)), 0)
    secret = veil.InitialState({str(state): [state] for state in range(values)})
    problem = veil.Problem(model, veil.Observer(np.ones((values, 1))), secret, horizon=1)
    found = CheckedProblem(problem).most_bits
    if exact:
        assert found == math.log2(values)
    else:
        assert found == math.log2(values) * (1 + 4 * UNIT) > math.log2(values)


@pytest.mark.parametrize(("states", "observations"), [(2, 9), (9, 2)])
def test_the_defect_is_that_of_the_longest_distribution(states: int, observations: int):
    model = veil.Model(np.full((states, 1, states), 1 / states), np.zeros((states, 1)), 0)
    observer = veil.Observer(np.full((states, observations), 1 / observations))
    problem = veil.Problem(model, observer, veil.LastState({0}), horizon=1)
    sums = [np.full(length, 1 / length).sum() for length in (states, observations)]
    largest = max(abs(one - 1) for one in sums)
    assert CheckedProblem(problem).defect >= largest + gamma(10)


# The policy.


@pytest.mark.parametrize("row", [(1.5, -0.5), (np.nan, 1.0), (np.inf, 0.0), (0.5, 0.6), (0.0, 1.0)])
def test_a_table_that_is_not_a_policy_is_refused(row: tuple[float, float]):
    """The second action is not available in state 0."""
    moves = np.full((2, 2, 2), 0.5)
    moves[0, 1] = 0.0
    model = veil.Model(moves, np.zeros((2, 2)), 0, available=[[True, False], [True, True]])
    problem = veil.Problem(model, veil.Observer(np.eye(2)), veil.LastState({1}), horizon=2)
    forged = Agent("markov", [np.array([[row, (0.5, 0.5)]])]), None
    with pytest.raises(CertificateError, match=r"negative or not finite|sums to one only within|not available"):
        values_module.policy_values(CheckedProblem(problem), forged, whole(problem), FLOOR, None)


def test_a_history_policy_without_a_node_is_refused_where_it_is_told():
    """The edge into the time at which the agent's place is remembered leads nowhere."""
    for seed in range(40):
        problem = random_problem(seed)
        policy = random_policy(problem, "told", seed)
        assert isinstance(policy, HistoryPolicy)
        assert policy.told_at is not None
        if not 0 < policy.told_at <= problem.horizon:
            continue
        policy_values(CheckedProblem(problem), policy, whole(problem), FLOOR, None)
        following = [table.copy() for table in policy.following]
        following[policy.told_at - 1][:] = -1
        told = {"told_at": policy.told_at, "told": policy.told}
        wrong = HistoryPolicy(policy.first, following, policy.decisions, executable=policy.executable, **told)
        with pytest.raises(CertificateError, match=f"no node for something that it reaches at time {policy.told_at}"):
            policy_values(CheckedProblem(problem), wrong, whole(problem), FLOOR, None)


# Limits of a pass.


def test_a_pass_keeps_to_its_limits():
    problem = veil.gallery.load("paper-last-state")
    checked, policy = CheckedProblem(problem), veil.MarkovPolicy.uniform(problem)
    with pytest.raises(TooLargeError, match=r"branches at time \d+, expected at most 100"):
        policy_values(checked, policy, whole(problem), FLOOR, None, most_moves=100)
    with pytest.raises(OutOfTime):
        policy_values(checked, policy, whole(problem), FLOOR, None, clock=Clock(0.0))
    # A step that would take longer than the time that is left is not begun.
    with pytest.raises(OutOfTime):
        policy_values(checked, policy, whole(problem), FLOOR, None, clock=Clock(1e-6, now=lambda: 0.0))
