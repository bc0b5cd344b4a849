"""Certificates of bits and a task together: bounds from both sides, in both verifiers, and what is false refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import veil
from tests.game.test_tasks import random_problem
from tests.proof.lies import dressed
from tests.proof.plain import code, saved
from tests.seeds import in_blocks
from veil.common.errors import CertificateError, InputError
from veil.formats.results.folder import read_result
from veil.formats.results.verified import verified_certificate


@in_blocks(4, 40)
def test_a_result_with_a_task_is_proven(seed: int, tmp_path: Path):
    problem, task = random_problem(seed)
    given: dict[str, Any] = {"method": "game"} if seed % 2 else {"memory": "timed", "starts": 1, "iterations": 20}
    found = veil.solve(problem, task=task, progress=False, certificate_time_limit=3.0, **given)
    claim = found.certificate
    assert claim is not None, found.certificate_note
    worth = found.opacity.bits + (found.task_value or 0.0)
    assert claim.lower <= worth + 1e-9
    assert claim.lower == pytest.approx(worth, abs=1e-6)
    assert worth <= claim.upper + 1e-9
    assert claim.upper - claim.lower < 0.2
    found.save(tmp_path / "result")
    assert code(tmp_path / "result") == 0
    again = veil.load_result(tmp_path / "result", problem)
    assert again.certificate is not None
    veil.verify(again.certificate, problem, found.policy)
    assert verified_certificate(read_result(tmp_path / "result"), problem) is not None


def test_what_a_task_adds_is_not_said_to_be_hidden(tmp_path: Path):
    """Bits and a task are told apart: no sum is called bits that the policy hides."""
    model = veil.Model(np.full((2, 1, 2), 0.5), [[5.0], [5.0]], [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({1}), 2)
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, 1, task="return")
    assert (claim.lower, claim.upper) == pytest.approx((11.0, 11.0), abs=1e-9)
    assert claim.hidden_bits[0] <= 1
    assert claim.claim.startswith("hides at least 0.9999 bits (proven); bits plus 1.0*return are at least")
    veil.verify(claim, problem, policy)


def test_false_tasks_are_refused():
    model = veil.Model(np.full((2, 1, 2), 0.5), [[5.0], [5.0]], [0.5, 0.5])
    problem = veil.Problem(model, veil.Observer(np.ones((2, 1))), veil.LastState({1}), 2)
    policy = veil.MarkovPolicy.uniform(problem)
    claim = veil.certify(problem, policy, 1)
    quantity = claim.quantities[0]
    for factor in (1.0, -1.0, float("nan"), float("inf"), 1e300):  # the rules prove another sum
        told = dressed(replace(claim, quantities=(replace(quantity, factor=factor),), best_known=None))
        if factor == -1.0:
            told = replace(told, bounds=(replace(claim.bounds[0], upper=-9.5),))
        with pytest.raises(CertificateError):
            veil.verify(dressed(told), problem, policy)
    drawn = replace(quantity, factor=1.0, sequences=1000, error=1.0)
    told = replace(claim, quantities=(drawn,), bounds=(replace(claim.bounds[0], upper=12.0),), best_known=None)
    with pytest.raises(CertificateError, match="has to be proven"):
        veil.verify(dressed(told), problem, policy)


def test_bits_in_a_task_have_no_bound():
    problem = veil.gallery.load("two-rooms")
    with pytest.raises(InputError, match="no bound for bits in a task"):
        veil.certify(problem, veil.MarkovPolicy.uniform(problem), 1, task="return - H(own)")
    with pytest.raises(InputError, match="no bound for a sum"):
        veil.certify(problem, veil.MarkovPolicy.uniform(problem), 1, goal="transparent", task="return")


@in_blocks(4, 60)
def test_no_policy_has_more_of_a_task_over_an_infinite_horizon(seed: int, tmp_path: Path):
    """What a task takes away counts with the continuation that is worst for the return, what it adds with the best one."""
    rng = np.random.default_rng([seed, 3])
    model = veil.Model(
        rng.dirichlet(np.ones(3), size=(3, 2)), rng.normal(size=(3, 2)), rng.dirichlet(np.ones(3)), discount=0.8
    )
    observer = veil.Observer(rng.dirichlet(np.ones(2), size=3))
    problem = veil.Problem(model, observer, veil.LastState({0}), 2, return_over="infinite")
    factor = float(rng.choice((-2.0, -0.1, 0.5)))
    policies = [veil.MarkovPolicy(rng.dirichlet(np.full(2, 0.1), size=3)) for _ in range(12)]
    claim = veil.certify(problem, policies[0], 1, task=f"{factor!r}*return", progress=False)
    veil.verify(claim, problem, policies[0])
    assert code(saved(tmp_path / "result", problem, policies[0], claim)) == 0
    most = max(
        veil.opacity(problem, one, "exact").bits + factor * veil.expected_return(problem, one) for one in policies
    )
    assert claim.lower - 1e-9 <= most <= claim.upper + 1e-9
