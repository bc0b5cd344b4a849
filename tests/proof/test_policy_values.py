"""What is proven of a policy: windows against a sum over all paths, and the errors of returns in full."""

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

import veil
from tests.proof.exact import ExactProblem, Run, normalised, runs
from tests.proof.reading import CheckedProblem, policy_return, policy_values, read_policy
from tests.proof.test_checked import example, whole
from veil.common.clock import UNLIMITED
from veil.common.errors import CertificateError
from veil.common.logs import log2_or_zero
from veil.proof.arithmetic import FLOOR, TINY, UNIT, gamma
from veil.proof.exact_return import exact_return
from veil.proof.forward import ForwardPass

# Windows: what the observer is told, and what it forgets.


def small(seed: int) -> tuple[veil.Problem, veil.MarkovPolicy]:
    """Three states seen through noise over two steps; the secret is the first, the second or the last state."""
    rng = np.random.default_rng([seed, 9])
    model = veil.Model(rng.dirichlet(np.ones(3), size=(3, 2)), rng.normal(size=(3, 2)), rng.dirichlet(np.ones(3)))
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3), sees_initial=bool(seed % 2))
    secret = (veil.InitialState(), veil.StateAt(1, {0}), veil.LastState({0}))[seed % 3]
    return veil.Problem(model, observer, secret, 2), veil.MarkovPolicy(rng.dirichlet(np.ones(2), size=3))


def hidden(all_runs: list[Run], left: int, right: int, *, told: bool) -> float:
    """The entropy for an observer who sees the events of a window, and is told the states at its ends, or not."""
    total = defaultdict[tuple[int, ...], Fraction](Fraction)
    joint = defaultdict[tuple[tuple[int, ...], int], Fraction](Fraction)
    for seen, states, z, mass in all_runs:
        ends = [states[time] for time in (left, right) if told and 0 <= time < len(states)]
        known = (*seen[left + 1 : right + 1], *ends)
        joint[known, z] += mass
        total[known] += mass
    return math.fsum(float(mass) * math.log2(total[known] / mass) for (known, _), mass in joint.items())


@pytest.mark.parametrize("seed", range(6))
def test_windows_against_all_paths(seed: int):
    """At its ends the observer is told the state, and the bound is one from below; or it forgets and stops looking, and the
    bound is one from above. Nothing else is lost: the bounds are what such an observer knows."""
    problem, policy = small(seed)
    checked, time, horizon = CheckedProblem(problem), problem.secret_table.time, problem.horizon
    all_runs = list(runs(ExactProblem(problem), [normalised(row) for row in np.asarray(policy)]))
    for left in range(-1, time + 1):
        for right in range(time, horizon + 2):
            below = policy_values(checked, policy, (left, right), FLOOR, None)
            above = policy_values(checked, policy, (left, right), FLOOR, None, goal="transparent")
            assert below.lower == pytest.approx(hidden(all_runs, left, right, told=True), abs=1e-13)
            assert above.upper == pytest.approx(hidden(all_runs, left, right, told=False), abs=1e-13)
            if (left, right) == (-1, horizon + 1):
                assert (below.lower, below.upper) == (above.lower, above.upper)
            else:
                assert (below.upper, above.lower) == (checked.most_bits, 0.0)


@pytest.mark.parametrize("window", [(-1, 1), (1, 3), (0, 2)])
def test_a_window_of_a_path_proves_nothing_from_above(window: tuple[int, int]):
    """It holds only the last part of the path."""
    problem, policy = small(1)
    checked = CheckedProblem(problem.replace(secret=veil.Trajectory()))
    assert checked.secret_time == 2
    if window[1] < 2:
        with pytest.raises(CertificateError, match="not around the secret"):
            policy_values(checked, policy, window, FLOOR, None)
        return
    found = policy_values(checked, policy, window, FLOOR, None, goal="transparent")
    assert (found.lower, found.upper) == (0.0, checked.most_bits)


# Returns.


def far_reward(discount: float, horizon: int = 3, last: float = 0.0) -> veil.Problem:
    """Two states that stay; the start pays nothing, and the other one, which is never reached, 2^800 or at the end."""
    moves = np.repeat(np.eye(2)[:, None], 2, axis=1)
    rewards = np.array([[0.0, 0.0], [0.0, 0.0 if last else 2.0**800]])
    model = veil.Model(moves, rewards, 0, discount=discount, terminal_rewards=[0.0, last])
    return veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({1}), horizon)


@pytest.mark.parametrize(("last", "largest"), [(0.0, 2.0**800), (2.0**700, 2.0**700)])
def test_what_products_below_the_normal_range_lose_is_part_of_the_error(last: float, largest: float):
    """2^-1000 of the largest return for each choice of each step, two in each of three, and for the state at the end."""
    problem = far_reward(1.0, last=last)
    found = policy_return(CheckedProblem(problem), veil.MarkovPolicy.uniform(problem), None, (None,))
    assert found.expected_return == 0
    assert found.return_error == pytest.approx(1.02 * (3 * 2 + 1) * TINY * largest * 4, rel=1e-12, abs=0)


def test_what_powers_below_the_floor_lose_is_part_of_the_error():
    """Two of three steps and the end are discounted below 2^-900: each may lose 2^-900 of the largest return."""
    problem = far_reward(2.0**-500)
    found = policy_return(CheckedProblem(problem), veil.MarkovPolicy.uniform(problem), None, (None,))
    lost = 2 * 1.01 * FLOOR
    assert found.return_error == pytest.approx(1.02 * lost * 2.0**800 * 4, rel=1e-12, abs=0)


def test_where_nothing_is_paid_the_error_is_not_below_zero():
    found = policy_return(CheckedProblem(example()), veil.MarkovPolicy.uniform(example()), None, (None,))
    assert (found.expected_return, found.return_error) == (0.0, FLOOR)


def test_what_a_rest_below_the_floor_loses_is_part_of_the_error():
    """The same without end: what comes later is 2^-900 of the largest reward over 1 − γ, which is as large."""
    problem = far_reward(2.0**-500).replace(return_over="infinite")
    found = policy_return(CheckedProblem(problem), veil.MarkovPolicy.uniform(problem), None, (None,))
    lost = 1.01 * FLOOR * 2.0**800
    assert found.return_error == pytest.approx(1.02 * (lost + 2 * lost * 4), rel=1e-12, abs=0)


def test_what_rare_paths_lose_is_part_of_the_error():
    """One choice is too rare to be followed; it leads to the state that pays."""
    moves = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    model = veil.Model(moves, [[0.0, 0.0], [1.0, 1.0]], 0)
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({1}), 2)
    policy = veil.MarkovPolicy([[1.0, 5e-324], [1.0, 0.0]])
    found = policy_return(CheckedProblem(problem), policy, None, (None,))
    assert found.expected_return == 0
    lost = 2 * 1.01 * FLOOR  # one at each step
    assert found.return_error == pytest.approx(1.02 * lost * 3 + FLOOR, rel=1e-12, abs=0)


def endless(discount: float) -> veil.Problem:
    """One state that pays 1, for ever."""
    model = veil.Model(np.ones((1, 1, 1)), [[1.0]], 0, discount=discount)
    secret = veil.LastState({0})
    return veil.Problem(model, veil.Observer(np.ones((1, 1))), secret, 2, 1.0, return_over="infinite")


@pytest.mark.parametrize(("discount", "steps"), [(0.5, 44), (0.0, 2), (0.25, 22)])
def test_the_error_of_a_sum_without_end_is_that_of_its_terms_and_of_its_rest(discount: float, steps: int):
    """The sum goes on until γ^t is below 1e-13; what comes after is at most γ^t / (1 − γ)."""
    checked = CheckedProblem(endless(discount))
    found = policy_return(checked, veil.MarkovPolicy([[1.0]]), None, (None,))
    total = math.fsum(discount**time for time in range(steps))
    assert found.expected_return == total
    weighted = math.fsum((time + 1) * discount**time for time in range(steps))
    error = (gamma(3 + 12) + 4.04 * checked.defect) * weighted + discount**steps / (1 - discount)
    assert found.return_error == pytest.approx(1.02 * error, rel=1e-9, abs=0)
    assert abs(Fraction(found.expected_return) - 1 / (1 - Fraction(discount))) <= Fraction(found.return_error)


def test_a_return_without_end_that_is_near_its_threshold_is_not_decided():
    """Fractions do not help: there is no last step. The range of rewards does not help either."""
    checked, policy = CheckedProblem(endless(0.5)), veil.MarkovPolicy([[1.0]])
    for bound, reached in ((2 - 1e-9, True), (2.0, False), (2 + 1e-9, False)):
        assert policy_return(checked, policy, None, (bound,)).reaches is reached


def test_after_the_horizon_a_policy_of_time_goes_on_optimally_if_it_can_know_the_model():
    """Its values are those that are claimed, with their error; who does not know the model cannot go on."""
    problem = endless(0.5)
    timed = veil.TimedPolicy(np.ones((2, 1, 1)))
    checked = CheckedProblem(problem)
    found = policy_return(checked, timed, np.array([[2.0], [0.0]]), (None,))
    assert found.expected_return == 2
    assert found.return_error < 1e-13
    worse = policy_return(checked, timed, np.array([[4.0], [0.0]]), (None,))
    assert abs(worse.expected_return - 2) <= worse.return_error < 0.6
    with pytest.raises(CertificateError, match="values"):
        policy_return(checked, timed, None, (None,))
    several = problem.replace(model=[problem.model] * 2, secret=veil.WhichModel(agent_knows=False))
    with pytest.raises(CertificateError, match="cannot continue optimally"):
        policy_return(CheckedProblem(several), timed, np.full((2, 2), 2.0), (None,))
    knowing = several.replace(secret=veil.WhichModel(agent_knows=True))
    both = veil.TimedPolicy(np.ones((2, 2, 1)))
    assert policy_return(CheckedProblem(knowing), both, np.full((2, 2), 2.0), (None,)).expected_return == 2
    still = veil.MarkovPolicy([[1.0]])
    assert policy_return(CheckedProblem(several), still, None, (None,)).expected_return == pytest.approx(2)


# The pass itself.


def test_a_weight_that_is_just_large_enough_is_kept():
    """Weights are 1/2, 1/8 and 3/8."""
    checked = CheckedProblem(example())
    policy = read_policy(checked, veil.MarkovPolicy.uniform(example()))
    for below, kept in ((0.125, 3), (math.nextafter(0.125, 1), 2), (0.4, 1), (0.0, 3)):
        played = ForwardPass(checked, policy, UNLIMITED, 3, apart=True, below=below)
        played.step()
        assert len(played.mass) == kept
        assert played.lost == 1.01 * (3 - kept) * max(below, FLOOR)


def test_what_is_charged_for_merging_lowers_the_bound():
    """By exactly that; and the allowances of both ends are those that the derivation gives."""
    checked = CheckedProblem(example())
    policy = read_policy(checked, veil.MarkovPolicy.uniform(example()))
    played = ForwardPass(checked, policy, UNLIMITED, 3, apart=True)
    played.step()
    played.defect, played.charged = 2.0**-20, 0.125
    eta = gamma(played.roundings + 2) + 3.03 * 2 * 2.0**-20
    joint, total = np.array([0.5, 0.125, 0.375]), np.array([0.625, 0.625, 0.375])
    bits = math.fsum(-joint * log2_or_zero(joint / total))
    around = 1.5 * 4 * UNIT + 12 * UNIT * bits
    lower, upper = played.bits()
    assert lower == pytest.approx((bits - around) * (1 - eta) - 8 * UNIT - 0.125, abs=1e-17)
    assert upper == pytest.approx((bits + around) * (1 + 1.01 * eta) + 8 * UNIT, abs=1e-16)
    played.charged = 1.0
    assert played.bits()[0] == 0


@pytest.mark.parametrize(("lost", "known"), [(0.25, True), (0.299, True), (0.301, False), (1.0, False)])
def test_where_much_is_lost_nothing_is_known_from_above(lost: float, known: bool):
    """`h(p) ≤ p (2 − log2 p)` is of use only for few paths."""
    problem = example().replace(observer=veil.Observer(np.eye(2)), secret=veil.InitialState())
    checked = CheckedProblem(problem)
    played = ForwardPass(checked, read_policy(checked, veil.MarkovPolicy.uniform(problem)), UNLIMITED, 9, apart=True)
    played.lost, checked.most_bits = lost, 5.0
    assert played.bits()[1] == pytest.approx(lost * (5 + 2 - math.log2(lost)) if known else 5.0, abs=1e-12)


def test_the_whole_horizon_is_a_window_of_its_own():
    """Whether in one pass or, where something is left out, in two."""
    problem, policy = small(2)
    checked = CheckedProblem(problem)
    once = policy_values(checked, policy, whole(problem), FLOOR, None)
    twice = policy_values(checked, policy, whole(problem), 2 * FLOOR, None)
    assert twice.lower == pytest.approx(once.lower, abs=1e-14)
    assert twice.upper == pytest.approx(once.upper, abs=1e-14)
    assert twice.expected_return == pytest.approx(once.expected_return, abs=1e-14)


def test_the_exact_value_of_each_quantity():
    """That of the return where none is named; none over an infinite horizon, or of too many moves."""
    model = veil.Model([[[0.5, 0.5]], [[0.0, 1.0]]], {"gain": [[1.0], [0.0]], "energy": [[0.0], [3.0]]}, 0)
    limits = [veil.Return(max=9.0, reward="energy")]
    checked = CheckedProblem(example().replace(model=model, horizon=2, constraints=limits))
    policy = read_policy(checked, veil.MarkovPolicy([[1.0], [1.0]]))
    assert exact_return(checked, policy, checked.paid[0]) == (Fraction(3, 2), Fraction(3, 2))
    assert exact_return(checked, policy, checked.paid[1]) == (Fraction(3, 2), Fraction(3, 2))
    third = CheckedProblem(checked.given.replace(horizon=3))
    assert exact_return(third, policy, third.paid[0]) == (Fraction(7, 4), Fraction(7, 4))
    both = policy_return(third, veil.MarkovPolicy([[1.0], [1.0]]), None, (None, 9.0))
    assert (both.expected_return, both.others[0].value) == (1.75, 3.75)
    for paid, value in zip(third.paid, (Fraction(7, 4), Fraction(15, 4)), strict=True):
        assert exact_return(third, policy, paid) == (value, value)
    forever = CheckedProblem(endless(0.5))
    assert exact_return(forever, read_policy(forever, veil.MarkovPolicy([[1.0]])), forever.paid[0]) is None


def test_too_many_moves_are_not_followed_in_whole_numbers():
    """330 at first, then 330 * 330 in each step, of which one is followed and two are too many."""
    large = veil.Model(np.full((330, 1, 330), 1 / 330), np.zeros((330, 1)), 0)
    many = veil.Problem(large, veil.Observer(np.ones((330, 1))), veil.LastState({0}), 3)
    checked = CheckedProblem(many)
    assert exact_return(checked, read_policy(checked, veil.MarkovPolicy.uniform(many)), checked.paid[0]) is None
    few = CheckedProblem(many.replace(horizon=2))
    assert exact_return(few, read_policy(few, veil.MarkovPolicy.uniform(many)), few.paid[0]) == (0, 0)


# Merged histories.

NEAR = {"paper-last-state": (8, 0.002), "paper-false-alarms": (5, 0.004), "later-initial-state": (8, 0.016)}


@pytest.mark.parametrize("name", NEAR)
def test_merged_histories_enclose_what_all_histories_give(name: str):
    """However few are kept apart; 128 of them suffice for bounds a few thousandths of a bit wide."""
    horizon, near = NEAR[name]
    problem = veil.gallery.load(name, horizon=horizon).replace(min_return=None)
    checked, policy = CheckedProblem(problem), veil.MarkovPolicy.uniform(problem)
    exact = policy_values(checked, policy, whole(problem), FLOOR, None)
    assert exact.upper - exact.lower < 1e-9
    for most in (1, 8, 32, 128):
        found = policy_values(checked, policy, whole(problem), FLOOR, None, merge=most)
        assert found.lower <= exact.upper
        assert found.upper >= exact.lower
    assert found.upper - found.lower < near
