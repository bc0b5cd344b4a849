"""What a certificate says in words, and whether its form is right: hashes, numbers and words that fit each other."""

import hashlib
import json

from ..common.rounding import lower_text, upper_text
from ..policy.policy import Policy
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from .arithmetic import require
from .certificate import Certificate
from .reading import is_finite

ROUNDING = 1e-9  # of a return, relative to 1 + |δ|: what may be missing where a policy meets its threshold exactly


def policy_words(problem: Problem, policy: Policy) -> str:
    """The class of a policy, and what its agent must see."""
    if not policy.executable:
        return policy.describe()
    known = "its state"
    if problem.secret_table.agent_knows:
        known += " and the model that runs" if len(problem.models) > 1 else " and the state of the secret's automaton"
    return f"{policy.describe()}; its agent sees {known}{policy.more_seen()}"


def bound_words(problem: Problem, goal: str) -> str:
    """Which policies the bound over all policies is about."""
    if goal == "transparent":
        return (
            "all policies: how little they can hide is the minimum of a concave function, which the game does not bound"
        )
    more = len(problem.models) > 1 or len(problem.secret_table.memory_names) > 1
    hidden = ", the model that runs and the state of the secret's automaton" if more else ""
    return (
        f"all policies, with any memory, even if they know the state, the start{hidden} and all that the observer sees"
    )


def claim_words(claim: Certificate) -> str:
    """The claim in two sentences, bounds rounded outward."""
    limit = "" if claim.threshold is None else f" with return ≥ {_threshold_text(claim.threshold)}"
    missed = "" if claim.feasible else ", which misses the threshold"
    earned = f"Its return is {claim.expected_return:.6g}{missed}."
    if claim.goal == "transparent":
        return (
            f"hides at most {upper_text(claim.upper)} bits (proven); over all policies{limit} only the lower bound 0 is"
            f" proven. {earned}"
        )
    return (
        f"hides at least {lower_text(claim.lower)} bits (proven); proven upper bound over all policies{limit}:"
        f" {upper_text(claim.upper)} bits (witness attached). {earned}"
    )


def _threshold_text(threshold: float) -> str:
    """A threshold in few digits, never below itself: the claim is about policies with at least this return."""
    text = f"{threshold:.6g}"
    return text if float(text) >= threshold else repr(float(threshold))


def seal_of(claim: Certificate) -> str:
    """SHA-256 of what no computation can check: `best_known`, the versions, the memory in words."""
    said = [claim.best_known, claim.versions, None if claim.witness is None else claim.witness.memory]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def check_claim(claim: Certificate, problem: Problem, policy: Policy) -> None:
    """Raise `CertificateError` unless the claim has the right form, belongs to both, and its parts fit each other."""
    _check_numbers(claim)
    expected: dict[str, object] = {
        "problem_hash": fingerprint(problem),
        "policy_hash": policy.digest(),
        "policy_class": policy_words(problem, policy),
        "bound_class": bound_words(problem, claim.goal),
    }
    if not isinstance(problem.min_return, str):
        expected["threshold"] = problem.min_return
    for name, value in expected.items():
        found = getattr(claim, name)
        require(found == value, f"{name}: the certificate says {found!r}, and what is given has {value!r}")
    stated = "threshold" in expected or claim.threshold is not None
    require(stated, f"threshold: it is None, expected the number that {problem.min_return} is")
    fits = claim.goal in ("opaque", "transparent") and (claim.goal == "opaque") == (claim.witness is not None)
    require(fits, f"goal: it is {claim.goal!r}, with{'out' if claim.witness is None else ''} an observer's rule")
    missing = missing_return(claim)
    feasible = missing <= ROUNDING * (1 + abs(claim.threshold or 0.0))
    require(
        claim.feasible is feasible, f"feasible: {claim.feasible} is claimed, and {missing:.3g} is missing of the return"
    )
    # For every policy H ≤ U(q,λ) + λ (δ − V).
    ordered = -1e-12 <= claim.lower <= claim.upper + claim.price * missing + 1e-9
    require(ordered, f"bounds: lower {claim.lower} and upper {claim.upper} do not fit each other")
    known = claim.best_known is None or claim.best_known <= claim.upper + 1e-9
    require(known, f"best_known: {claim.best_known} is above the upper bound {claim.upper}")
    require(
        claim.seal == seal_of(claim),
        "seal: best_known, the versions or the words for the observer's memory were changed",
    )
    words = claim_words(claim)
    require(claim.claim == words, f"claim: the words are {claim.claim!r}, and the numbers say {words!r}")


def _check_numbers(claim: Certificate) -> None:
    """Raise `CertificateError` unless every number is one that can be computed with, and in its range."""
    for name in ("lower", "upper", "expected_return", "return_error", "prune", "threshold", "best_known", "price"):
        value = getattr(claim, name, None)
        absent = value is None and name in ("threshold", "best_known")
        require(absent or is_finite(value), f"{name}: it is {_short(value)}, expected a finite number")
    for name in ("return_error", "prune"):
        require(getattr(claim, name) >= 0, f"{name}: it is {getattr(claim, name)}, expected 0 or more")
    for name, value in (("merge", claim.merge), ("window", claim.window[0]), ("window", claim.window[-1])):
        whole = isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 2**31
        require(whole, f"{name}: it is {_short(value)}, expected a whole number")
    require(len(claim.window) == 2 and claim.merge >= 0, "window or merge: out of range")


def _short(value: object) -> str:
    """A value for a message; a number of thousands of digits is not written out."""
    text = f"a number of {value.bit_length()} bits" if isinstance(value, int) else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def missing_return(claim: Certificate) -> float:
    """By how much the proven return may miss the threshold; 0 where it does not."""
    if claim.threshold is None:
        return 0.0
    return max(0.0, claim.threshold - (claim.expected_return - claim.return_error))
