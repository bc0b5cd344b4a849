"""A result folder that is believed: its certificate verified, and its document made anew from what is proven."""

import math
from typing import Any

import numpy as np

from ...common.errors import CertificateError, InputError
from ...common.logs import entropy_bits, log2_of_count
from ...engine.chain import make_chain
from ...measure.constrained import ConstraintValue
from ...measure.each_time import EachValue
from ...measure.exact import Budget
from ...measure.pairs import pair_values
from ...policy.policy import Policy
from ...problem.pairs import hidden_names
from ...problem.problem import Problem
from ...problem.terms import terms_of, with_task
from ...proof.certificate import Certificate
from ...proof.checking import Verification
from ...proof.verify import verify
from .document import certificate_document, problem_document
from .folder import Result

_ROUNDING = 1e-9  # what two ways to compute the same number may differ by
_TOLD = ("name", "relation", "bound", "value")  # of a constraint; its price tells of the search


def verified_certificate(result: Result, problem: Problem) -> Certificate | None:
    """The certificate in a folder, verified, with the document compared; None where there is none.

    **Raises:** `CertificateError` saying what does not hold.
    """
    if result.certificate is None:
        return None
    certificate, policy = Certificate.load(result.certificate), result.policy()
    check_document(result, certificate, verify(certificate, problem, policy), problem, policy)
    return certificate


def check_document(
    result: Result, certificate: Certificate, found: Verification, problem: Problem, policy: Policy
) -> None:
    """Raise `CertificateError` where the document of a result says something else than the files beside it.

    All that follows from the problem, the policy and the certificate is made anew and compared. The rest tells of the search
    (status, method, settings, iterations, time) or is an estimate, which must not contradict what is proven.
    """
    document = result.document.model_dump(mode="json")
    answer, opacity = document["answer"], document["answer"]["opacity"]
    prior, most = _prior_range(problem, policy, opacity["prior_bits"])
    named = result.document.problem
    expected: dict[str, tuple[object, object]] = {
        f"problem.{key}": (document["problem"][key], value)
        for key, value in problem_document(problem, named.scenario, named.changes).items()
    }
    expected |= {
        "answer.feasible": (answer["feasible"] and not certificate.likely_feasible, False),
        "answer.threshold": (answer["threshold"], certificate.threshold),
        "answer.goal": (answer["goal"], certificate.goal),
        "answer.needs_observations": (answer["needs_observations"], policy.needs_observations),
        "answer.hide": (hidden_names(problem.pairs, answer["hide"]), certificate.hide),
        "answer.task": (_factors(problem, answer["task"]), _factors(problem, certificate.task)),
    }
    check_told(result, certificate)
    _check_equal(result, expected)
    earned, error = certificate.expected_return, certificate.return_error + _ROUNDING * abs(certificate.expected_return)
    drawn = found.sampled.get(0)
    low, high = found.policy.lower - _ROUNDING, found.policy.upper + _ROUNDING
    if drawn is not None:  # an estimate must not contradict the verifier's own draws either
        low, high = max(low, drawn.lower - _ROUNDING), min(high, drawn.upper + _ROUNDING)
    exact = opacity["method"] == "exact"
    chance, bits = 6 * (opacity["std_error"] or 0.0), math.nan if opacity["bits"] is None else opacity["bits"]
    ranges = {
        "expected_return": (answer["expected_return"], earned - error, earned + error),
        "opacity.prior_bits": (opacity["prior_bits"], prior - _ROUNDING, most + _ROUNDING),
        "opacity.bits": (bits, low - chance, high + chance),
        "opacity.std_error": (chance, 0, 0 if exact else math.inf),
        "opacity.lower": (opacity["lower"], low if exact else -_ROUNDING, found.policy.upper + _ROUNDING),
        "opacity.upper": (opacity["upper"], found.policy.lower - _ROUNDING, high if exact else math.inf),
        "opacity.leakage_bits": (
            opacity["leakage_bits"], prior - bits - _ROUNDING, prior - bits + _ROUNDING,
        ),
    }  # fmt: skip
    if answer["constraints"] or certificate.constraints:
        ranges |= _constraint_ranges(answer, certificate)
    ranges |= _pair_ranges(answer, problem, policy) | _task_range(answer, certificate)
    for place, (told, least, most) in ranges.items():
        if not isinstance(told, float | int) or not least <= told <= most:
            raise CertificateError(
                f"{result.folder}: answer.{place} in result.json is {told}, expected {least} … {most}"
            )


def _factors(problem: Problem, task: str) -> dict[int, float]:
    """The factor of each quantity that a task counts; none where it cannot be read."""
    found: dict[int, float] = {}
    try:
        asked = with_task(problem, task or None)
        terms = terms_of(asked, task or None)
    except InputError:
        return {-1: 0.0}
    for factor, number in terms:
        found[number] = found.get(number, 0.0) + factor
    return found


def _task_range(answer: dict[str, Any], certificate: Certificate) -> dict[str, tuple[object, float, float]]:
    """The value of the task as the document tells it, and between which numbers it must lie."""
    counted = [one for one in certificate.quantities if one.factor]
    if not counted:
        return {} if answer["task_value"] is None else {"task_value": (answer["task_value"], math.inf, math.inf)}
    value = math.fsum(one.factor * one.value for one in counted)
    off = math.fsum(abs(one.factor) * (one.error + _ROUNDING * (1 + abs(one.value))) for one in counted)
    return {"task_value": (answer["task_value"], value - off, value + off)}


def check_told(result: Result, certificate: Certificate) -> None:
    """Raise `CertificateError` where the document of a result tells of another certificate than the one beside it."""
    document = result.document.model_dump(mode="json")
    told = document["certificate"] or {}
    claimed = certificate_document(certificate).items()
    expected: dict[str, tuple[object, object]] = {
        f"certificate.{key}": (told.get(key), value) for key, value in claimed
    }
    expected["problem.fingerprint"] = document["problem"]["fingerprint"], certificate.problem_hash
    _check_equal(result, expected)


def _check_equal(result: Result, expected: dict[str, tuple[object, object]]) -> None:
    for place, (told, is_so) in expected.items():
        if told != is_so:
            raise CertificateError(f"{result.folder}: {place} in result.json is {told!r}, expected {is_so!r}")


def _prior_range(problem: Problem, policy: Policy, told: object) -> tuple[float, float]:
    """The entropy of the secret before anything is seen, and the most that it can be said to be.

    That of a whole path may be a bound, where the sequences are too many: any number up to that of all paths alike is taken.
    """
    path = problem.secret_table.path
    if problem.secret_table.each is not None:
        prior = EachValue(make_chain(problem, policy)).prior_bits(Budget())
        return prior, prior
    if path is None:
        prior = float(entropy_bits(make_chain(problem, policy).prior))
        return prior, prior
    most = (problem.horizon + 1) * log2_of_count(len(np.unique(path)))
    return (min(max(float(told), 0.0), most) if isinstance(told, float | int) else 0.0), most


def _pair_ranges(answer: dict[str, Any], problem: Problem, policy: Policy) -> dict[str, tuple[object, float, float]]:
    """Each number of the pairs as the document tells it, and between which numbers it must lie, computed anew.

    **Raises:** `CertificateError` where other pairs or bounds are told than the problem has, or one is met by its words alone.
    """
    values, told = pair_values(problem, policy), answer["pairs"]
    if [(one["name"], one["min"], one["max"]) for one in told] != [(one.name, one.min, one.max) for one in values]:
        raise CertificateError(
            f"answer.pairs in result.json: expected {[one.name for one in values]} with their bounds"
        )
    ranges: dict[str, tuple[object, float, float]] = {}
    for number, (claimed, is_so) in enumerate(zip(told, values, strict=True)):
        place, off = f"pairs.{number}", 6 * ((claimed["opacity"]["std_error"] or 0.0) + is_so.opacity.std_error)
        exact = is_so.opacity.method == "exact"
        low, high = (is_so.opacity.bits - off, is_so.opacity.bits + off) if exact else is_so.opacity.interval(1 - 1e-9)
        ranges[f"{place}.opacity.bits"] = (claimed["opacity"]["bits"], low - off - _ROUNDING, high + off + _ROUNDING)
        if math.isinf(is_so.loss_bits) and claimed["loss_bits"] != "inf":
            raise CertificateError(f"answer.{place}.loss_bits in result.json: expected 'inf'")
        if math.isfinite(is_so.loss_bits):
            loss, off = is_so.loss_bits, _ROUNDING + 6 * ((claimed["loss_std_error"] or 0.0) + is_so.loss_std_error)
            ranges[f"{place}.loss_bits"] = (claimed["loss_bits"], loss - off, loss + off)
        if exact and (claimed["met"] or answer["feasible"]) and not is_so.met:
            raise CertificateError(f"answer.{place}.met in result.json: {is_so.text} is not met")
    return ranges


def _constraint_ranges(answer: dict[str, Any], certificate: Certificate) -> dict[str, tuple[float, float, float]]:
    """Each number of the constraints as the document tells it, and between which numbers it must lie.

    **Raises:** `CertificateError` where other constraints are told than are proven, or one is met by its words alone.
    """
    values = [one for one in certificate.quantities if one.bound is not None]
    told = [ConstraintValue(**{key: one[key] for key in _TOLD}) for one in answer["constraints"]]
    if [(one.name, one.relation) for one in told] != [(one.name, one.relation) for one in values]:
        raise CertificateError(f"answer.constraints in result.json: expected {[one.text for one in values]}")
    ranges: dict[str, tuple[float, float, float]] = {}
    for number, (claimed, is_so) in enumerate(zip(told, values, strict=True)):
        for name, value in (("bound", is_so.bound or 0.0), ("value", is_so.value)):
            off = is_so.error + _ROUNDING * (1 + abs(value))
            ranges[f"constraints.{number}.{name}"] = (getattr(claimed, name), value - off, value + off)
        if not (isinstance(claimed.value, float) and isinstance(claimed.bound, float)):
            continue  # outside of its range
        if answer["constraints"][number]["met"] != claimed.met:
            raise CertificateError(f"answer.constraints.{number}.met in result.json: expected {claimed.met}")
        if claimed.met and is_so in certificate.constraints and not is_so.met:
            raise CertificateError(f"answer.constraints.{number}.met in result.json: {is_so.text} is not proven")
    return ranges
