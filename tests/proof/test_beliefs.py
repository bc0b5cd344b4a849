"""Bounds from both sides for agents that see what their observer sees: known values, all plans, and nothing false accepted."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import veil
from tests.proof.lies import dressed, mutated
from tests.proof.plain import code, saved
from tests.querying.test_best import TOYS, by_all_plans, random_asked, toy
from tests.seeds import in_blocks
from veil.common.errors import CertificateError, InputError, TooLargeError
from veil.proof.certificate import Certificate
from veil.proof.claims import BeliefBound, Beliefs


@pytest.mark.parametrize(("kind", "ahead"), TOYS)
def test_known_values_are_proven_from_both_sides(kind: int, ahead: int, tmp_path: Path):
    problem = toy(kind, ahead)
    plan = veil.best_queries(problem, time_limit=20, gap=1e-7)
    claim = plan.certify()
    assert claim.lower == pytest.approx(TOYS[kind, ahead][0], abs=1e-6)
    assert claim.upper == pytest.approx(claim.lower, abs=1e-6)
    assert veil.verify(claim, problem, plan.policy).beliefs is not None
    assert "proven lower bound over all policies that see what the observer sees" in claim.summary()
    assert code(saved(tmp_path / "result", problem, plan.policy, claim)) == 0


def asked(seed: int, price: float | None = None) -> tuple[veil.Problem, float, float]:
    """A problem of queries, a price (of a budget) and the least bits by all plans, less what the price allows for."""
    given, price = random_asked(seed), (0.1 if seed % 4 == 3 else 0.0) if price is None else price
    problem, walker, tables, _, _ = given
    sensors = {"left": veil.Observer(tables[0]), "right": veil.Observer(tables[1])}
    made = veil.Querying(walker=walker, sensors=sensors, costs={"left": 0.5, "right": 1.0}).apply(problem)
    made = made.replace(constraints=[veil.Return(max=1.0)]) if price else made
    return made, price, by_all_plans(given, (0.5, 1.0), price) - price * 1.0


@in_blocks(12, 240)
def test_equal_all_plans(seed: int, tmp_path: Path):
    problem, price, expected = asked(seed)
    plan = veil.best_queries(problem, gap=1e-9, price=price)
    claim = plan.certify()
    assert expected - 1e-7 <= claim.lower + (0 if expected > 0 else np.inf)
    assert claim.lower <= max(0.0, expected) + 1e-12
    veil.verify(claim, problem, plan.policy)
    assert code(saved(tmp_path / "result", problem, plan.policy, claim)) == 0
    few = plan.certify(most_numbers=20)
    assert few.lower <= claim.lower + 1e-9
    veil.verify(few, problem, plan.policy)


@in_blocks(6, 200)
def test_false_bounds_are_refused(seed: int, tmp_path: Path):
    """One to three changes of the witness, and bounds that are higher by much or little: none is accepted that is false."""
    rng, (problem, price, expected) = random.Random(seed), asked(seed)
    plan = veil.best_queries(problem, gap=1e-9, price=price)
    claim, refused = plan.certify(), 0
    assert claim.beliefs is not None
    for number in range(40):
        beliefs = claim.beliefs
        for _ in range(rng.choice((0, 1, 1, 3))):
            beliefs = mutated(rng, beliefs) if type(beliefs) is BeliefBound else beliefs
        if type(beliefs) is BeliefBound:
            by, least = 10.0 ** rng.uniform(-7, 0), expected
            if price and type(beliefs.prices) is tuple:  # a bound at another price may be larger and true
                least = max(
                    (asked(seed, one)[2] for one in beliefs.prices[1:] if type(one) in (float, int) and 0 <= one < 99),
                    default=0.0,
                )
            beliefs = replace(beliefs, lower=max(0.0, expected, least) + by)
        told = dressed(replace(claim, beliefs=beliefs))
        if rng.random() < 0.5:
            channel = replace(claim.channels[0], upper=1.0)
            told = dressed(replace(told, channels=(channel,)))
        with pytest.raises((CertificateError, TooLargeError)):
            veil.verify(told, problem, plan.policy)
        refused += 1
        if number % 4 == 0 and beliefs is not None:  # without beliefs nothing false is claimed, only words are wrong
            try:
                folder = saved(tmp_path / "result", problem, plan.policy, told)
            except Exception:  # what no file can hold
                continue
            assert code(folder) in (2, 5), (seed, number)
    assert refused


def test_an_agent_that_sees_more_has_no_such_bound(tmp_path: Path):
    """The beliefs are those of one who sees only the observations: an agent that knows its state reveals more."""
    problem, _, _ = asked(1)
    plan = veil.best_queries(problem)
    claim = plan.certify()
    seeing = problem.replace(agent_sees="state+observations")
    policy = veil.MarkovPolicy.uniform(seeing)
    own = veil.certify(seeing, policy, 1, goal="transparent")
    told: Certificate = dressed(replace(own, beliefs=claim.beliefs))
    with pytest.raises(CertificateError):
        veil.verify(told, seeing, policy)
    assert code(saved(tmp_path / "result", seeing, policy, told)) == 5
    opaque = veil.certify(problem, plan.policy, 1)
    with pytest.raises(CertificateError, match="bound only transparent"):
        veil.verify(dressed(replace(opaque, beliefs=claim.beliefs)), problem, plan.policy)


def test_beliefs_after_the_last_decision_are_refused(tmp_path: Path):
    problem, _, _ = asked(1)
    plan = veil.best_queries(problem, gap=1e-9)
    claim = plan.certify()
    assert claim.beliefs is not None
    points, none = claim.beliefs.points, np.zeros(0, dtype=np.int64)
    empty = Beliefs(
        np.zeros(1, dtype=np.int64), none, np.zeros(0), np.zeros((0, points[0].child.shape[1]), dtype=np.int64)
    )
    for count, holds in ((problem.horizon, True), (problem.horizon + 1, False)):
        longer = (*points, *[empty] * (count - len(points)))
        told = dressed(replace(claim, beliefs=replace(claim.beliefs, points=longer)))
        assert code(saved(tmp_path / "result", problem, plan.policy, told)) == (0 if holds else 5)
        if holds:
            veil.verify(told, problem, plan.policy)
            continue
        with pytest.raises(CertificateError, match="too many times"):
            veil.verify(told, problem, plan.policy)


def test_a_price_needs_a_budget():
    problem, _, _ = asked(0)
    plan = veil.best_queries(problem, price=0.1, time_limit=1)
    with pytest.raises(InputError, match="budget"):
        plan.certify()


def test_the_whole_way_through_files(tmp_path: Path):
    problem = toy(3, 1)
    plan = veil.best_queries(problem, time_limit=5)
    claim = plan.certify()
    claim.save(tmp_path / "proof.json")
    again = Certificate.load(tmp_path / "proof.json")
    assert veil.verify(again, problem, plan.policy).beliefs == pytest.approx(claim.lower, abs=1e-9)
