"""Certificates made by hand to lie: types, indices and numbers that could be turned against the verifier."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import veil
from veil.common.errors import CertificateError
from veil.proof.arithmetic import LARGEST
from veil.proof.backward import rule_bound
from veil.proof.certificate import Certificate, Witness
from veil.proof.checked_problem import CheckedProblem
from veil.proof.claim import claim_words, seal_of
from veil.proof.policy_values import policy_values


@pytest.fixture(scope="module")
def coin() -> veil.Problem:
    """A fair coin that nobody sees, tossed twice: every policy hides one bit."""
    model = veil.Model(np.full((2, 2, 2), 0.5), [[0.0, 1.0], [0.0, 1.0]], [0.5, 0.5])
    return veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({1}), 2, min_return=0.5)


@pytest.fixture(scope="module")
def honest(coin: veil.Problem) -> Certificate:
    return veil.certify(coin, veil.MarkovPolicy.uniform(coin), time_limit=5)


def forged(honest: Certificate, **changes: Any) -> Certificate:
    """The certificate with changes, and with words and seal that fit them."""
    lie = replace(honest, **changes)
    return replace(lie, claim=claim_words(lie), seal=seal_of(lie))


def refused(lie: Certificate, problem: veil.Problem, words: str) -> None:
    with pytest.raises(CertificateError, match=words):
        veil.verify(lie, problem, veil.MarkovPolicy.uniform(problem))


def test_the_honest_one_holds(coin: veil.Problem, honest: Certificate):
    assert veil.verify(honest, coin, veil.MarkovPolicy.uniform(coin)).upper == 1
    assert honest.lower == pytest.approx(1)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, bool, complex, object])
def test_costs_that_are_no_floats_are_refused(coin: veil.Problem, honest: Certificate, kind: Any):
    """In int8 the opposite of -128 is -128, and the sum of 2^-cost is nearly nothing."""
    assert honest.witness is not None
    lowest = np.iinfo(kind).min if np.dtype(kind).kind in "iu" else 0
    costs = np.full(honest.witness.costs.shape, lowest).astype(kind)
    lie = forged(honest, upper=0.0, lower=0.0, best_known=None, witness=replace(honest.witness, costs=costs))
    refused(lie, coin, "expected an array of floats")


def test_masked_costs_are_refused(coin: veil.Problem, honest: Certificate):
    """A masked array leaves its masked numbers out of the sum of 2^-cost, and not out of the bound."""
    assert honest.witness is not None
    costs = np.ma.masked_array(np.full(honest.witness.costs.shape, 2.0**-39))
    costs[:, 0] = np.ma.masked
    lie = forged(honest, upper=1e-6, lower=0.0, best_known=None, witness=replace(honest.witness, costs=costs))
    refused(lie, coin, "expected an array of floats")


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_short_floats_are_read_as_what_they_are(coin: veil.Problem, honest: Certificate, kind: Any):
    """Half precision would round the sum of 2^-cost down to one; the sum is taken in double precision."""
    assert honest.witness is not None
    witness = replace(honest.witness, costs=np.full(honest.witness.costs.shape, 0.9998).astype(kind))
    lie = forged(honest, upper=0.9998, lower=0.9, best_known=None, witness=witness)
    refused(lie, coin, "sum to more than one")
    wide = replace(honest.witness, costs=honest.witness.costs.astype(np.longdouble))
    if np.longdouble(0).itemsize > 8:
        refused(forged(honest, witness=wide), coin, "64 bits")


@pytest.mark.parametrize("node", [-2, -(2**31), -(2**62), -(2**63), 2**31, 2**62])
def test_nodes_that_do_not_exist_are_refused(coin: veil.Problem, honest: Certificate, node: int):
    """Times the number of states such a node passes 2^64 and comes back as another one."""
    assert honest.witness is not None
    for change in (
        {"first": np.full(1, node)},
        {"following": tuple(np.full(table.shape, node) for table in honest.witness.following)},
    ):
        refused(forged(honest, witness=replace(honest.witness, **change)), coin, "outside -1")
    far = np.full(1, 2**64 - 1, dtype=np.uint64)
    refused(forged(honest, witness=replace(honest.witness, first=far)), coin, "outside -1")
    refused(forged(honest, witness=replace(honest.witness, first=np.zeros(1))), coin, "array of integers")


def test_the_first_node_that_does_not_exist_is_refused(coin: veil.Problem, honest: Certificate):
    rule = honest.witness
    assert rule is not None
    refused(forged(honest, witness=replace(rule, first=np.full(1, len(rule.following[0])))), coin, "outside -1")
    last = np.full(rule.following[-1].shape, len(rule.costs))
    refused(forged(honest, witness=replace(rule, following=(*rule.following[:-1], last))), coin, "outside -1")


def test_costs_up_to_the_largest_number_are_taken(coin: veil.Problem, honest: Certificate):
    """Their bound is too large to be of use, but it is one."""
    rule = honest.witness
    assert rule is not None
    largest = replace(rule, costs=np.full(rule.costs.shape, LARGEST))
    assert LARGEST <= rule_bound(CheckedProblem(coin), largest, (0.5,), None) < np.inf
    above = replace(rule, costs=np.full(rule.costs.shape, np.nextafter(LARGEST, np.inf)))
    with pytest.raises(CertificateError, match=r"above 2\^900"):
        rule_bound(CheckedProblem(coin), above, (0.5,), None)


def test_numbers_at_the_ends_of_their_ranges(coin: veil.Problem, honest: Certificate):
    """Histories cannot be merged into less than none, and a window has two ends, of which -1 is the smallest."""
    low = {"lower": 0.0, "best_known": None}
    refused(forged(honest, merge=-1, **low), coin, "window or merge")
    refused(forged(honest, window=(-1, 1, 3), **low), coin, "window or merge")
    refused(forged(honest, window=(-2, 3), **low), coin, "window: it is")
    refused(forged(honest, window=(-1, 2**31), **low), coin, "window: it is")
    uniform = veil.MarkovPolicy.uniform(coin)
    for change in ({"merge": 1}, {"window": (-1, 2**31 - 1)}, {"prune": 0.0}):
        veil.verify(forged(honest, **low, **change), coin, uniform)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("upper", 10**400),
        ("lower", "0.9"),
        ("expected_return", True),
        ("return_error", -1.0),
        ("return_error", 1e9),
        ("prune", 10**400),
        ("prune", -1.0),
        ("merge", 0.5),
        ("merge", 10**30),
        ("window", (-1, 10**400)),
        ("window", (-1.0, 3.0)),
        ("threshold", 10**400),
        ("best_known", "much"),
    ],
)
def test_numbers_that_are_none(coin: veil.Problem, honest: Certificate, field: str, value: Any):
    lie = replace(honest, **{field: value})
    with pytest.raises(CertificateError):
        veil.verify(replace(lie, seal=seal_of(lie)), coin, veil.MarkovPolicy.uniform(coin))


def test_leaving_everything_out_proves_nothing(coin: veil.Problem, honest: Certificate):
    for prune in (0.5, 1.0, 1e200):
        refused(forged(honest, prune=prune), coin, "lower bound")


def test_multipliers_that_overflow(coin: veil.Problem, honest: Certificate):
    assert honest.witness is not None
    for multiplier in (np.inf, 1e308, 10**400, "1", None, True, -1.0):
        lie = replace(honest, witness=replace(honest.witness, multiplier=multiplier))
        with pytest.raises(CertificateError):
            veil.verify(replace(lie, seal=seal_of(lie)), coin, veil.MarkovPolicy.uniform(coin))


def test_a_percentage_is_recomputed(coin: veil.Problem):
    """The return lies between 0 and 2: half of the way is 1, whatever the certificate says."""
    asked = coin.replace(min_return="50%")
    honest = veil.certify(asked, veil.MarkovPolicy.uniform(asked), time_limit=5)
    veil.verify(honest, asked, veil.MarkovPolicy.uniform(asked))
    assert honest.threshold == 1
    for wrong in (0.9, 1 + 1e-6, -5.0):
        lie = replace(honest, threshold=wrong, feasible=wrong <= 1)
        refused(forged(lie), asked, "50%")


# Numbers at the ends of the range of floats


def paying(reward: float, discount: float, horizon: int) -> veil.Problem:
    """One state, paid at every step."""
    model = veil.Model(np.ones((1, 1, 1)), [[reward]], [1.0], discount=discount)
    return veil.Problem(model, veil.Observer(np.ones((1, 1))), veil.LastState({0}), horizon)


@pytest.mark.parametrize(
    ("reward", "discount", "horizon"), [(1e260, 0.5, 1200), (1e-300, 0.9, 40), (-1e260, 1e-3, 300)]
)
def test_discounts_that_underflow_are_counted(reward: float, discount: float, horizon: int):
    problem = paying(reward, discount, horizon)
    found = policy_values(CheckedProblem(problem), veil.MarkovPolicy.uniform(problem), (-1, horizon + 1), 0.0, None)
    exact = Fraction(reward) * sum(Fraction(discount) ** t for t in range(horizon))
    assert abs(Fraction(found.expected_return) - exact) <= Fraction(found.return_error)
    free = Witness(np.zeros(1, int), (np.zeros((1, 1), int),) * horizon, np.full((1, 2), 1.01), 1.0, "nothing")
    bound = rule_bound(CheckedProblem(problem), free, (0.0,), None)
    assert Fraction(bound) >= exact


def test_a_reward_that_only_comes_after_the_discount_underflows_is_within_the_error():
    """2^860 at time 95 under the discount 2^-10: worth 2^-90, in units too small to be counted."""
    steps = np.arange(97)
    moves = np.zeros((97, 1, 97))
    moves[steps, 0, np.minimum(steps + 1, 96)] = 1
    model = veil.Model(moves, np.where(steps == 95, 2.0**860, 0.0)[:, None], 0, discount=2.0**-10)
    problem = veil.Problem(model, veil.Observer(np.ones((97, 1))), veil.LastState({0}), 96)
    found = policy_values(CheckedProblem(problem), veil.MarkovPolicy.uniform(problem), (-1, 97), 0.0, None)
    assert abs(Fraction(found.expected_return) - Fraction(1, 2**90)) <= Fraction(found.return_error)


def test_rewards_too_large_for_floats_are_refused():
    with pytest.raises(CertificateError, match="scale them"):
        CheckedProblem(paying(8e270, 1.0, 3))
