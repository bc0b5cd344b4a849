"""What a certificate says in words, and whether its form is right: hashes, numbers and words that fit each other."""

import hashlib
import json
import math
from typing import Any

from ..common.errors import CertificateError
from ..policy.policy import Policy
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem

ROUNDING = 1e-9  # of a return: what may be missing where a policy reaches its threshold exactly
_DIGITS = 4


def down(bits: float) -> str:
    """A number of bits, rounded down."""
    return f"{math.floor(bits * 10**_DIGITS) / 10**_DIGITS:.{_DIGITS}f}"


def up(bits: float) -> str:
    """A number of bits, rounded up; what is above by less than a millionth is not shown."""
    return f"{math.ceil(bits * 10**_DIGITS - 0.01) / 10**_DIGITS:.{_DIGITS}f}"


HISTORY = "a history policy"  # how `HistoryPolicy.describe` begins


def policy_words(problem: Problem, policy: Policy) -> str:
    """Which kind of policy it is, and what its agent must see."""
    if not policy.executable:
        return policy.describe()
    known = "its state"
    if problem.secret_table.agent_knows:
        known += " and the model that runs" if len(problem.models) > 1 else " and the state of the secret's automaton"
    return f"{policy.describe()}; its agent sees {known}{policy.more_seen()}"


def bound_words(problem: Problem, goal: str) -> str:
    """Who the bound on all others is about."""
    if goal == "transparent":
        return (
            "all policies: how little they can hide is the minimum of a concave function, which the game does not bound"
        )
    more = len(problem.models) > 1 or len(problem.secret_table.memory_names) > 1
    hidden = ", the model that runs and the state of the secret's automaton" if more else ""
    return (
        f"all policies, with any memory, even if they know the state, the start{hidden} and all that the observer sees"
    )


def claim_words(claim: Any) -> str:
    """The claim in one or two sentences."""
    limit = "" if claim.threshold is None else f" with return ≥ {claim.threshold:.6g}"
    missed = "" if claim.feasible else ", which misses the threshold"
    gained = f"Its return is {claim.expected_return:.6g}{missed}."
    if claim.goal == "transparent":
        return (
            f"hides at most {up(claim.upper)} bits, which is proven; the game gives no certificate for a minimum, and for"
            f" other policies{limit} nothing holds but that they hide 0 bits or more. {gained}"
        )
    most = f" of at most {up(claim.upper)}" if claim.feasible else ""
    return (
        f"hides {down(claim.lower)}{most} bits; no policy{limit} can hide more than {up(claim.upper)}, because of the"
        f" attached observer. {gained}"
    )


def seal_of(claim: Any) -> str:
    """SHA-256 of what no computation can check: what the solver knows of others, the versions, the memory in words."""
    said = [claim.best_known, claim.versions, None if claim.witness is None else claim.witness.memory]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def check_claim(claim: Any, problem: Problem, policy: Policy) -> None:
    """Raise `CertificateError` unless the claim is of the right form, belongs to both, and fits itself."""
    for name in ("lower", "upper", "expected_return", "return_error", "prune", "merge"):
        value = getattr(claim, name, None)
        if not isinstance(value, (float, int)) or isinstance(value, bool) or not math.isfinite(value):
            raise CertificateError(f"{name}: it is {value!r}, expected a finite number")
    expected: dict[str, Any] = {
        "problem_hash": fingerprint(problem),
        "policy_hash": policy.digest(),
        "policy_class": policy_words(problem, policy),
        "bound_class": bound_words(problem, claim.goal),
    }
    if not isinstance(problem.min_return, str):
        expected["threshold"] = problem.min_return
    for name, value in expected.items():
        if getattr(claim, name) != value:
            raise CertificateError(
                f"{name}: the certificate says {getattr(claim, name)!r}, and what is given has {value!r}"
            )
    if claim.goal not in ("opaque", "transparent") or (claim.goal == "opaque") != (claim.witness is not None):
        raise CertificateError(
            f"goal: it is {claim.goal!r}, with{'out' if claim.witness is None else ''} an observer's rule"
        )
    if isinstance(problem.min_return, str) and not (
        isinstance(claim.threshold, float) and math.isfinite(claim.threshold)
    ):
        raise CertificateError(
            f"threshold: it is {claim.threshold!r}, expected the number that {problem.min_return} is"
        )
    missing = missing_return(claim)
    if claim.feasible is not (missing <= ROUNDING * (1 + abs(claim.threshold or 0.0))):
        raise CertificateError(f"feasible: {claim.feasible} is claimed, and {missing:.3g} is missing of the return")
    # Whatever the policy: H ≤ U(q,λ) + λ (δ − V).
    if (
        not -1e-12
        <= claim.lower
        <= claim.upper + (0.0 if claim.witness is None else claim.witness.price * missing) + 1e-9
    ):
        raise CertificateError(f"bounds: lower {claim.lower} and upper {claim.upper} do not fit each other")
    if claim.best_known is not None and not claim.best_known <= claim.upper + 1e-9:
        raise CertificateError(f"best_known: {claim.best_known} passes the upper bound {claim.upper}")
    if claim.seal != seal_of(claim):
        raise CertificateError("seal: best_known, the versions or the words for the observer's memory were changed")
    if claim.claim != claim_words(claim):
        raise CertificateError(f"claim: the words are {claim.claim!r}, and the numbers say {claim_words(claim)!r}")


def missing_return(claim: Any) -> float:
    """By how much the proven return may miss the threshold; 0 where it does not."""
    if claim.threshold is None:
        return 0.0
    return max(0.0, claim.threshold - (claim.expected_return - claim.return_error))
