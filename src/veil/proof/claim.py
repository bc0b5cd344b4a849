"""What a certificate says in words, and whether its form is right: hashes, numbers and words that fit each other."""

import hashlib
import json
from fractions import Fraction

from ..common.rounding import lower_text, rounded_down, upper_text
from ..policy.policy import Policy
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from .arithmetic import require
from .certificate import Certificate
from .reading import is_finite


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
    """The claim in two sentences: bits rounded outward, returns in full."""
    limit = "" if claim.threshold is None else f" with return ≥ {float(claim.threshold)!r}"
    if claim.goal == "transparent":
        return (
            f"hides at most {upper_text(claim.upper)} bits (proven); over all policies{limit} only the lower bound 0 is"
            f" proven. {_return_words(claim)}"
        )
    own = (
        f"hides at least {lower_text(claim.lower)} bits (proven)"
        if claim.proves_policy
        else "What the policy hides is not proven within the time limit: allow more time"
    )
    return (
        f"{own}; proven upper bound over all policies{limit}:"
        f" {upper_text(claim.upper)} bits (witness attached). {_return_words(claim)}"
    )


def _return_words(claim: Certificate) -> str:
    """What is proven of the return: at least a number; less than the threshold, or how far from it where neither is."""
    low, high = least_return(claim), Fraction(claim.expected_return) + Fraction(claim.return_error)
    if claim.feasible or claim.threshold is None:
        return f"Its return is at least {rounded_down(low)!r}."
    if high < Fraction(claim.threshold):
        return f"Its return is at most {-rounded_down(-high)!r}, which misses the threshold."
    off = upper_text(float(max(high - Fraction(claim.threshold), Fraction(claim.threshold) - low)), significant=2)
    return f"Whether it reaches the threshold is not proven: the return lies within {off} of it."


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
    require(
        claim.feasible is True or claim.feasible is False, f"feasible: it is {claim.feasible!r}, expected a truth value"
    )
    require(claim.feasible or claim.threshold is not None, "feasible: there is no threshold to miss")
    # For every policy H ≤ U(q,λ) + λ (δ − V).
    highest = Fraction(claim.upper) + Fraction(claim.price) * missing_return(claim)
    require(0 <= claim.lower <= highest, f"bounds: lower {claim.lower} and upper {claim.upper} do not fit each other")
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


def least_return(claim: Certificate) -> Fraction:
    """The smallest return that the claim allows for: where it says that the threshold is reached, no less than that."""
    low = Fraction(claim.expected_return) - Fraction(claim.return_error)
    return max(low, Fraction(claim.threshold)) if claim.feasible and claim.threshold is not None else low


def missing_return(claim: Certificate) -> Fraction:
    """By how much the proven return may miss the threshold; 0 where it does not."""
    return Fraction(0) if claim.threshold is None else max(Fraction(0), Fraction(claim.threshold) - least_return(claim))
