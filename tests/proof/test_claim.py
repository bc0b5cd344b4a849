"""What a certificate says and may say: its words in full, how its numbers must fit each other, and what is sealed."""

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

import veil
from tests.problem.test_constraints import make_problem
from tests.proof.attacks import dressed
from tests.proof.test_checked import example
from veil.common.errors import CertificateError
from veil.proof.arithmetic import FLOOR
from veil.proof.certificate import Certificate, DelayedBound, ProvenConstraint, ProvenPair
from veil.proof.certify import certify
from veil.proof.claim import (
    _check_delayed,
    _check_pairs,
    _highest,
    _missing,
    bound_words,
    check_claim,
    claim_words,
    claimed_pairs,
    seal_of,
)

PAIR = ProvenPair("two", None, None, 0.25, 0.75, (-1, 2), FLOOR, 0)
BLIND = veil.Observer(np.ones((2, 1)))
LIMIT = ProvenConstraint("energy", "≤", 2.0, 1.0, 0.125, True)


@pytest.fixture(scope="module")
def plain() -> Certificate:
    """The certificate of an example, with numbers that are easily read."""
    proof = certify(example(), veil.MarkovPolicy.uniform(example()), 0.0)
    return replace(proof, lower=0.25, upper=0.75, expected_return=1.0, return_error=0.125, best_known=None)


# Words.


RETURN = "Its return is at least 0.875."


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "hides at least 0.2500 bits (proven); proven upper bound over all policies: 0.7500 bits (witness attached)."
             f" {RETURN}"),
        ({"threshold": 0.5}, "hides at least 0.2500 bits (proven); proven upper bound over all policies with return ≥ 0.5:"
                             f" 0.7500 bits (witness attached). {RETURN}"),
        ({"hide": ("two",)}, "hides at least 0.2500 bits in two (proven); proven upper bound in two over all policies:"
                             f" 0.7500 bits (witness attached). {RETURN}"),
        ({"hide": ("own", "two")}, "hides at least 0.2500 bits in each of own and two (proven); proven upper bound on the least"
                                   f" of them over all policies: 0.7500 bits (witness attached). {RETURN}"),
        ({"pairs": (replace(PAIR, min=0.25), replace(PAIR, name="three", max=0.5), replace(PAIR, name="four", min=0.0))},
         "hides at least 0.2500 bits (proven); proven upper bound over all policies with H(two) ≥ 0.25: 0.7500 bits (witness"
         f" attached). {RETURN} H(two) is between 0.2500 and 0.7500 bits. Not proven: H(three) ≤ 0.5; it is between 0.2500 and"
         " 0.7500 bits, a bound that the upper bound over all policies leaves out. H(four) is between 0.2500 and 0.7500 bits."),
        ({"constraints": (LIMIT,), "threshold": 0.5},
         "hides at least 0.2500 bits (proven); proven upper bound over all policies with return ≥ 0.5, energy ≤ 2.0: 0.7500"
         f" bits (witness attached). {RETURN} energy is at most 1.125."),
        ({"goal": "transparent", "witness": None, "threshold": 0.5},
         "hides at most 0.7500 bits (proven); over all policies with return ≥ 0.5 only the lower bound 0 is proven."
         f" {RETURN}"),
    ],
)  # fmt: skip
def test_claims_in_full(plain: Certificate, changes: dict[str, Any], words: str):
    assert claim_words(replace(plain, **changes)) == words


# Pairs that are told of.


def test_which_pairs_are_told_of():
    """Those that are hidden, and those with a lower bound above 0 or with an upper bound, be it 0; none beside a belief."""
    problem = example().replace(
        pairs=[
            veil.Pair("free", BLIND),
            veil.Pair("none", BLIND, min=0.0),
            veil.Pair("low", BLIND, min=0.25),
            veil.Pair("high", BLIND, max=0.0),
        ]
    )

    def names(*hide: str) -> list[str]:
        found = claimed_pairs(problem, hide)
        assert found is not None
        return [one.name for one in found]

    assert names("own") == ["low", "high"]
    assert names("own", "free") == ["free", "low", "high"]
    assert names("none") == ["none", "low", "high"]
    believing = problem.replace(pairs=[*problem.pairs, veil.Pair("naive", belief=veil.Belief(doubt=0.1))])
    assert claimed_pairs(believing, ("own",)) is not None
    assert claimed_pairs(believing, ("naive",)) is None


# Numbers that fit each other.


def test_what_a_policy_that_misses_its_bounds_may_hide_beyond_the_upper_bound(plain: Certificate):
    """`H ≤ U + Σ_k λ_k s_k (δ_k − V_k)`: the price of each miss, and nothing for what is met."""
    assert plain.witness is not None
    missing = replace(LIMIT, value=2.5, met=False)
    two = replace(PAIR, min=0.5, lower=0.25)
    witness = replace(plain.witness, others=(replace(plain.witness, pair="two", weight=4.0),))

    def highest(prices: tuple[float, ...] = (), price: float = 3.0, **changes: Any) -> Fraction:
        return _highest(replace(plain, **{"threshold": None} | changes), 0.75, price, prices)

    assert highest() == Fraction(3, 4)
    assert highest(threshold=1.5, feasible=False) == Fraction(3, 4) + 3 * Fraction(5, 8)
    assert highest(threshold=1.5, feasible=True) == Fraction(3, 4)
    assert highest(threshold=0.5, feasible=False) == Fraction(3, 4)
    assert highest((2.0,), constraints=(missing,)) == Fraction(3, 4) + 2 * Fraction(5, 8)
    assert highest((2.0, 8.0), constraints=(LIMIT, missing)) == Fraction(3, 4) + 8 * Fraction(5, 8)
    assert highest(pairs=(two,), witness=witness) == Fraction(3, 4) + 4 * Fraction(1, 4)
    for met in (replace(two, min=0.25), replace(two, min=None, max=0.5), replace(two, min=0.125, max=0.5)):
        assert highest(pairs=(met,), witness=witness) == Fraction(3, 4)
    assert highest(pairs=(two,)) == Fraction(3, 4)  # its observer has no weight in the bound
    assert highest(pairs=(two,), witness=None) == Fraction(3, 4)
    for prices, limits, words in (
        ((), (LIMIT,), "not one for each constraint"),
        ((1.0,), (), "not one for each constraint"),
        ((math.nan,), (LIMIT,), "a price is nan"),
    ):
        with pytest.raises(CertificateError, match=words):
            highest(prices, constraints=limits)
    heavy = replace(witness, others=(replace(witness.others[0], weight=math.inf),))
    with pytest.raises(CertificateError, match="the weight of two is inf"):
        highest(pairs=(two,), witness=heavy)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 0),
        ({"met": False}, 0),
        ({"value": 3.0}, 0),
        ({"value": 3.0, "met": False}, Fraction(9, 8)),
        ({"value": 2.0, "met": False}, Fraction(1, 8)),
        ({"relation": "≥", "met": False}, Fraction(9, 8)),
        ({"relation": "≥", "value": 2.0, "met": False}, Fraction(1, 8)),
        ({"relation": "≥", "value": 3.0, "met": False}, 0),
        ({"relation": "≥"}, 0),
    ],
)
def test_by_how_much_a_quantity_may_miss_its_bound(changes: dict[str, Any], expected: Fraction):
    """The bound is 2, the error 1/8; nothing where it is met."""
    assert _missing(replace(LIMIT, **changes)) == expected


def test_bounds_that_just_fit_each_other():
    problem, policy = example(), veil.MarkovPolicy.uniform(example())
    proof = certify(problem, policy, 5.0)
    good = replace(proof, best_known=None)
    for change in ({"lower": good.upper}, {"lower": 0.0}, {"best_known": good.upper + 1e-9}, {"best_known": 0.0}):
        check_claim(dressed(problem, replace(good, **cast(Any, change)), policy), problem, policy)
    for change, words in (
        ({"lower": math.nextafter(good.upper, 2)}, "do not fit each other"),
        ({"lower": -5e-324}, "do not fit each other"),
        ({"best_known": math.nextafter(good.upper + 1e-9, 2)}, "is above the upper bound"),
    ):
        with pytest.raises(CertificateError, match=words):
            check_claim(dressed(problem, replace(good, **cast(Any, change)), policy), problem, policy)


def test_a_bound_over_agents_that_learn_late_just_fits(plain: Certificate):
    """It is at most that over all policies, and the policy may hide as much and no more."""
    assert plain.witness is not None
    blind = veil.MarkovPolicy.uniform(example())

    def check(late: DelayedBound | None, **changes: Any) -> None:
        _check_delayed(replace(plain, delayed=late, **changes), example(), blind)

    late = DelayedBound(1, 0.5, plain.witness)
    check(late)
    check(replace(late, upper=0.75))
    check(replace(late, upper=0.25))
    for wrong, words in (
        (replace(late, upper=math.nextafter(0.75, 1)), "expected a number up to 0.75"),
        (replace(late, upper=math.nan), "expected a number up to 0.75"),
        (replace(late, upper=math.nextafter(0.25, 0)), "do not fit each other"),
        (replace(late, delay=2), "the delay is .*, expected 1"),
        (replace(late, delay=0), "the delay is .*, expected 1"),
        (replace(late, delay=cast(Any, True)), "the delay is .*, expected 1"),
        (replace(late, delay=cast(Any, 1.0)), "the delay is .*, expected 1"),
        (replace(late, witness=cast(Any, 3)), "no observer's rule of the own pair"),
        (replace(late, witness=replace(plain.witness, multiplier=math.inf)), "its price is not a finite number"),
        (replace(late, witness=replace(plain.witness, prices=(1.0,))), "prices are not one for each constraint"),
        (cast(Any, plain.witness), "expected a bound, beside"),
        (None, "expected a bound, beside"),
    ):
        with pytest.raises(CertificateError, match=words):
            check(wrong)
    with pytest.raises(CertificateError, match="expected a bound, beside"):
        check(late, goal="transparent")
    with pytest.raises(CertificateError, match="no observer's rule of the own pair"):
        check(late, hide=("two",))
    seeing = example().replace(agent_sees="state+observations")
    watching = veil.MemoryPolicy.uniform(seeing, veil.ObservationMemory(1, clock=False))
    with pytest.raises(CertificateError, match="the policy acts on the observations"):
        _check_delayed(replace(plain, delayed=late), seeing, watching)
    reading = example().replace(agent_sees="observations")
    with pytest.raises(CertificateError, match="the policy acts on the observations"):
        _check_delayed(replace(plain, delayed=late), reading, veil.MarkovPolicy.uniform(reading))


def test_pairs_of_a_claim_are_those_of_the_problem(plain: Certificate):
    """With its bounds; nothing is said of one with a belief, or with the other goal."""
    problem = example().replace(pairs=[veil.Pair("two", BLIND, min=0.25, max=0.5), veil.Pair("free", BLIND)])
    two = replace(PAIR, min=0.25, max=0.5)
    good = replace(plain, pairs=(two,))

    def check(problem: veil.Problem = problem, **changes: Any) -> None:
        _check_pairs(replace(good, **changes), problem)

    check()
    check(pairs=())  # nothing is then said of other pairs
    check(hide=("two",))
    check(hide=("own", "free"), pairs=(two, replace(PAIR, name="free")))
    check(pairs=(replace(two, lower=0.0, upper=0.0, prune=0.0),))
    for changes, words in (
        ({"pairs": [two]}, "expected tuples"),
        ({"hide": ["own"]}, "expected tuples"),
        ({"hide": ()}, "hide: it is"),
        ({"hide": ("own", "own")}, "hide: it is"),
        ({"hide": ("own", "nobody")}, "hide: it is"),
        ({"hide": ("nobody",)}, "hide: it is"),
        ({"hide": (1,)}, "hide: it is"),
        ({"goal": "transparent"}, "nothing is proven of them with this goal"),
        ({"hide": ("two",), "pairs": ()}, "pairs: expected \\['two'\\]"),
        ({"pairs": (two, two)}, "pairs: expected \\['two'\\]"),
        ({"pairs": (replace(two, min=0.5),)}, "expected 'two' with the bounds 0.25 and 0.5"),
        ({"pairs": (replace(two, max=0.25),)}, "expected 'two' with the bounds 0.25 and 0.5"),
        ({"pairs": (replace(two, max=None),)}, "expected 'two' with the bounds 0.25 and 0.5"),
        ({"pairs": (replace(two, name="free"),)}, "expected 'two' with the bounds 0.25 and 0.5"),
        ({"pairs": (plain,)}, "expected 'two' with the bounds 0.25 and 0.5"),
        ({"pairs": (replace(two, lower=-5e-324),)}, "lower of two is"),
        ({"pairs": (replace(two, upper=math.inf),)}, "upper of two is"),
        ({"pairs": (replace(two, prune=-1.0),)}, "prune of two is"),
        ({"pairs": (replace(two, merge=-1),)}, "out of range"),
    ):
        with pytest.raises(CertificateError, match=words):
            check(**cast(Any, changes))
    believing = problem.replace(pairs=[*problem.pairs, veil.Pair("naive", belief=veil.Belief(doubt=0.1))])
    with pytest.raises(CertificateError, match="an observer with a belief has a loss"):
        check(believing, hide=("naive",))


def test_what_no_computation_checks_is_sealed(plain: Certificate):
    """What the solver knew, the versions, and every observer's memory in words."""
    assert plain.witness is not None
    other = replace(plain.witness, pair="two", memory="other")
    late = DelayedBound(1, 0.5, replace(plain.witness, memory="late"))
    full = replace(plain, witness=replace(plain.witness, others=(other,)), delayed=late, best_known=0.5)
    assert full.witness is not None
    changed = [
        replace(full, best_known=None),
        replace(full, best_known=0.25),
        replace(full, versions={}),
        replace(full, witness=None),
        replace(full, witness=replace(full.witness, memory="all")),
        replace(full, witness=replace(full.witness, others=())),
        replace(full, witness=replace(full.witness, others=(replace(other, memory="all"),))),
        replace(full, delayed=None),
        replace(full, delayed=replace(late, witness=replace(late.witness, memory="all"))),
    ]
    assert len({seal_of(one) for one in (full, *changed)}) == 1 + len(changed)
    assert seal_of(replace(full, lower=0.0)) == seal_of(full)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"met": 1}, "constraints: met is 1, expected a truth value"),
        ({"met": None}, "constraints: met is None, expected a truth value"),
        ({"met": False}, "feasible: it is True, and a constraint is not met"),
        ({"bound": 3.0}, "constraints: the bound of energy is 3.0, and the problem's is 2.0"),
        ({"name": "gain"}, "constraints: .* is claimed, expected"),
        ({"relation": "≥"}, "constraints: .* is claimed, expected"),
        ({"error": 0.0}, ""),
        ({"error": -5e-324}, "error of energy is"),
        ({"value": -7.0}, ""),
    ],
)
def test_constraints_of_a_claim_are_those_of_the_problem(changes: dict[str, Any], words: str):
    problem = make_problem([veil.Return(max=2.0, reward="energy")], 3, 2).replace(min_return=None)
    policy = veil.MarkovPolicy.uniform(problem)
    proof = certify(problem, policy, 0.0)
    [one] = proof.constraints
    assert one.name == "energy"
    assert one.met
    assert proof.feasible

    def check(claim: Certificate, words: str) -> None:
        claim = dressed(problem, claim, policy)
        if words:
            with pytest.raises(CertificateError, match=words):
                check_claim(claim, problem, policy)
        else:
            check_claim(claim, problem, policy)

    check(replace(proof, constraints=(replace(one, **changes),)), words)
    if changes.get("met") is False:
        check(replace(proof, constraints=(replace(one, met=False),), feasible=False), "")
    check(replace(proof, feasible=False), "there is no threshold to miss, and no constraint")
    check(replace(proof, feasible=cast(Any, 1)), "feasible: it is .*, expected a truth value")
    check(replace(proof, constraints=cast(Any, [one])), "constraints: expected a tuple of them")
    for wrong in ((), (one, one)):
        check(replace(proof, constraints=wrong), "constraints: they are")


def test_goals_and_rules_that_fit_each_other():
    """A rule for the goal that needs one, and none for the other."""
    problem, policy = example(), veil.MarkovPolicy.uniform(example())
    opaque, clear = certify(problem, policy, 0.0), certify(problem, policy, 0.0, goal="transparent")
    check_claim(opaque, problem, policy)
    check_claim(clear, problem, policy)
    for wrong in (
        replace(opaque, witness=None),
        replace(clear, witness=opaque.witness),
        replace(clear, goal="secret", bound_class=bound_words(problem, "secret")),
    ):
        with pytest.raises(CertificateError, match="goal: it is"):
            check_claim(dressed(problem, wrong, policy), problem, policy)
    for name in ("problem_hash", "policy_hash", "policy_class", "bound_class"):
        with pytest.raises(CertificateError, match=f"{name}: the certificate says"):
            check_claim(replace(opaque, **cast(Any, {name: "other"})), problem, policy)
    with pytest.raises(CertificateError, match="threshold: the certificate says"):
        check_claim(dressed(problem, replace(opaque, threshold=0.0), policy), problem, policy)
    with pytest.raises(CertificateError, match="claim: the words are"):
        check_claim(replace(opaque, claim="hides all"), problem, policy)
    with pytest.raises(CertificateError, match="seal: "):
        check_claim(replace(opaque, seal=""), problem, policy)


def test_what_a_claim_says_of_constraints_is_true():
    """Of each one: a number that the quantity is proven to reach, within its bound, and on the side that matters."""
    rng = np.random.default_rng(8)
    rewards = {"return": rng.uniform(size=(3, 2)), "energy": rng.uniform(size=(3, 2))}
    model = veil.Model(rng.dirichlet(np.ones(3), (3, 2)), rewards, [1, 0, 0])
    bounds = [
        veil.Return(min=0.2, reward="energy"),
        veil.Return(max=1.9, reward="energy"),
        veil.Probability("F s2", 0.1),
    ]
    problem = veil.Problem(model, veil.Observer(np.eye(3)[[0, 1, 1]]), veil.LastState({0}), 2, constraints=bounds)
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, 2, progress=False).claim
    for one in veil.constraint_values(problem, policy):
        side, sign = ("least", 1) if one.relation == "≥" else ("most", -1)
        (found,) = re.findall(rf"{re.escape(one.name)} is at {side} ([0-9.e-]+[0-9])\.", claim)
        assert sign * one.bound <= sign * float(found) <= sign * one.value
        assert float(found) == pytest.approx(one.value, abs=1e-6)
    shown = veil.certify(problem, policy, 2, goal="transparent", progress=False)
    assert "minimum of a concave function" in shown.bound_class
    assert "even if they know the state" in veil.certify(problem, policy, 2, progress=False).bound_class
