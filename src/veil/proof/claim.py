"""What a certificate says in words, and whether its form is right: hashes, numbers and words that fit each other."""

import hashlib
import json
from fractions import Fraction

from ..common.rounding import lower_text, rounded_down, upper_text
from ..policy.policy import Policy
from ..problem.fingerprint import fingerprint
from ..problem.pairs import OWN, Pair
from ..problem.problem import Problem
from .arithmetic import require
from .certificate import Certificate, DelayedBound, ProvenConstraint, ProvenPair
from .reading import is_finite
from .witness import Witness


def policy_words(problem: Problem, policy: Policy) -> str:
    """The class of a policy, and what its agent must see."""
    if not policy.executable:
        return policy.describe()
    known = "its state" if problem.agent.sees_state else "readings of its own, not its state"
    if not problem.agent.sees_state and not problem.agent.apart:
        known = "what the observer sees, not its state"
    known += " and the model that runs" if problem.agent.knows_model else ""
    known += f" and the state of {_automaton(problem)}" if problem.agent.register.size > 1 else ""
    return f"{policy.describe()}; its agent sees {known}{policy.more_seen()}"


def _automaton(problem: Problem) -> str:
    return "the automata of the secret and the constraints" if problem.others else "the secret's automaton"


_CLOCKLESS = "; of an observer without a clock the lower bound is that of one with a clock, who knows at least as much"


def bound_words(problem: Problem, goal: str, *, several: bool = False) -> str:
    """Which policies the bound over all policies is about; `several`: the bits of several observers are counted."""
    if goal == "transparent":
        return (
            "all policies: how little they can hide is the minimum of a concave function, which the game does not bound"
        )
    more = len(problem.models) > 1 or len(problem.secret_table.memory_names) > 1
    hidden = f", the model that runs and the state of {_automaton(problem)}" if more else ""
    seen = "all that each observer sees, independently given the states" if several else "all that the observer sees"
    clockless = _CLOCKLESS if any(one.observer.untimed for one in problem.channels) else ""
    return f"all policies, with any memory, even if they know the state, the start{hidden} and {seen}{clockless}"


def claim_words(claim: Certificate) -> str:
    """The claim in two sentences: bits rounded outward, returns in full."""
    limits = [] if claim.threshold is None else [f"return ≥ {float(claim.threshold)!r}"]
    limits += [one.text for one in claim.constraints]
    limits += [f"H({one.name}) ≥ {float(one.min)!r}" for one in claim.pairs if one.min]
    limit = f" with {', '.join(limits)}" if limits else ""
    reached = " ".join([_return_words(claim), *map(_constraint_words, claim.constraints), *_pair_words(claim)])
    if claim.goal == "transparent":
        return (
            f"hides at most {upper_text(claim.upper)} bits (proven); over all policies{limit} only the lower bound 0 is"
            f" proven. {reached}"
        )
    several, clock = len(claim.hide) > 1, ", even if the observer has a clock" * (_CLOCKLESS in claim.bound_class)
    where = f" in {'each of ' * several}{' and '.join(claim.hide)}" if claim.hide != (OWN,) else ""
    least = " on the least of them" if several else where
    own = (
        f"hides at least {lower_text(claim.lower)} bits{where} (proven{clock})"
        if claim.proves_policy
        else "What the policy hides is not proven within the time limit: allow more time"
    )
    attached = "; ".join(one for one in ("witness attached", claim.trivial) if one)
    return (
        f"{own}; proven upper bound{least} over all policies{limit}:"
        f" {upper_text(claim.upper)} bits ({attached}){_delayed_words(claim)}. {reached}"
    )


def _delayed_words(claim: Certificate) -> str:
    """The smaller bound, where there is one."""
    if claim.delayed is None:
        return ""
    return f", over those that do not see the current observation: {upper_text(claim.delayed.upper)} bits (witness attached)"


def _return_words(claim: Certificate) -> str:
    """What is proven of the return: at least a number; less than the threshold, or how far from it where neither is."""
    low, high = least_return(claim), Fraction(claim.expected_return) + Fraction(claim.return_error)
    at_least = f"Its return is at least {rounded_down(low)!r}."
    if claim.feasible or claim.threshold is None:
        return at_least
    if high < Fraction(claim.threshold):
        return f"Its return is at most {-rounded_down(-high)!r}, which misses the threshold."
    if not all(one.met for one in claim.constraints):  # and so nothing is claimed of the threshold
        return at_least
    off = upper_text(float(max(high - Fraction(claim.threshold), Fraction(claim.threshold) - low)), significant=2)
    return f"Whether it reaches the threshold is not proven: the return lies within {off} of it."


def _constraint_words(one: ProvenConstraint) -> str:
    """What is proven of the quantity of a constraint: how far inside its bound it is, or that it is not proven to be."""
    low, high = Fraction(one.value) - Fraction(one.error), Fraction(one.value) + Fraction(one.error)
    worst = max(low, Fraction(one.bound)) if one.relation == "≥" else min(high, Fraction(one.bound))
    if one.met:
        most = rounded_down(worst) if one.relation == "≥" else -rounded_down(-worst)
        return f"{one.name} is at {'least' if one.relation == '≥' else 'most'} {most!r}."
    return f"{one.name} is not proven to be {one.relation} {float(one.bound)!r}: it is {float(one.value)!r}."


def _pair_words(claim: Certificate) -> list[str]:
    """What is proven of the bounds of pairs."""
    found = []
    for one in claim.pairs:
        if not one.text:
            continue
        within = f"between {lower_text(one.lower)} and {upper_text(one.upper)}"
        said = f"H({one.name}) is {within}" if one.met else f"Not proven: {one.text}; it is {within}"
        free = "" if one.max is None else ", a bound that the upper bound over all policies leaves out"
        found.append(f"{said} bits{free}.")
    return found


def claimed_pairs(problem: Problem, hide: tuple[str, ...]) -> tuple[Pair, ...] | None:
    """The pairs that a certificate tells of: those that are hidden or have bounds; None where one of them has a belief."""
    found = tuple(one for one in problem.pairs if one.name in hide or one.min or one.max is not None)
    return None if any(one.belief is not None for one in found) else found


def seal_of(claim: Certificate) -> str:
    """SHA-256 of what no computation can check: `best_known`, the versions, the memories in words."""
    said = [claim.best_known, claim.versions, None if claim.witness is None else claim.witness.memory]
    said += [] if claim.witness is None else [one.memory for one in claim.witness.others]
    said += [] if claim.delayed is None else [claim.delayed.witness.memory]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def check_claim(claim: Certificate, problem: Problem, policy: Policy) -> None:
    """Raise `CertificateError` unless the claim has the right form, belongs to both, and its parts fit each other."""
    _check_numbers(claim)
    expected: dict[str, object] = {
        "problem_hash": fingerprint(problem),
        "policy_hash": policy.digest(),
        "policy_class": policy_words(problem, policy),
        "bound_class": bound_words(problem, claim.goal, several=bool(claim.witness and claim.witness.others)),
    }
    if not isinstance(problem.min_return, str):
        expected["threshold"] = problem.min_return
    for name, value in expected.items():
        found = getattr(claim, name)
        require(found == value, f"{name}: the certificate says {found!r}, and what is given has {value!r}")
    _check_constraints(claim, problem)
    _check_pairs(claim, problem)
    stated = "threshold" in expected or claim.threshold is not None
    require(stated, f"threshold: it is None, expected the number that {problem.min_return} is")
    fits = claim.goal in ("opaque", "transparent") and (claim.goal == "opaque") == (claim.witness is not None)
    require(fits, f"goal: it is {claim.goal!r}, with{'out' if claim.witness is None else ''} an observer's rule")
    require(
        claim.feasible is True or claim.feasible is False, f"feasible: it is {claim.feasible!r}, expected a truth value"
    )
    met = all(one.met for one in claim.constraints)
    require(met or not claim.feasible, "feasible: it is True, and a constraint is not met")
    some = claim.threshold is not None or not met
    require(claim.feasible or some, "feasible: there is no threshold to miss, and no constraint")
    highest = _highest(claim, claim.upper, claim.price, claim.prices)
    require(0 <= claim.lower <= highest, f"bounds: lower {claim.lower} and upper {claim.upper} do not fit each other")
    if claim.delayed is not None:
        _check_delayed(claim, problem, policy)
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
    _check_way(claim)


def _check_way(claim: Certificate | ProvenPair) -> None:
    """Raise `CertificateError` unless the window and the number of merged histories are such."""
    for name, value in (("merge", claim.merge), ("window", claim.window[0]), ("window", claim.window[-1])):
        whole = isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 2**31
        require(whole, f"{name}: it is {_short(value)}, expected a whole number")
    require(len(claim.window) == 2 and claim.merge >= 0, "window or merge: out of range")


def _check_constraints(claim: Certificate, problem: Problem) -> None:
    """Raise `CertificateError` unless the constraints are those of the problem, with numbers that can be computed with."""
    require(type(claim.constraints) is tuple, "constraints: expected a tuple of them")
    names = [one.name for one in claim.constraints]
    require(len(names) == len(problem.others), f"constraints: they are {names}, expected {len(problem.others)}")
    for one, wanted in zip(claim.constraints, problem.others, strict=True):
        said = one.name, one.relation
        expected = wanted.name, wanted.relation
        require(said == expected, f"constraints: {said} is claimed, expected {expected}")
        for name in ("bound", "value", "error"):
            number = getattr(one, name)
            good = is_finite(number) and (name != "error" or number >= 0)
            require(good, f"constraints: {name} of {one.name} is {_short(number)}, expected a finite number")
        same = isinstance(wanted.bound, str) or one.bound == wanted.bound
        require(same, f"constraints: the bound of {one.name} is {one.bound}, and the problem's is {wanted.bound}")
        require(one.met is True or one.met is False, f"constraints: met is {one.met!r}, expected a truth value")


def _check_pairs(claim: Certificate, problem: Problem) -> None:
    """Raise `CertificateError` unless the pairs are those of the problem with its bounds, and what is hidden is one of them."""
    require(type(claim.pairs) is tuple and type(claim.hide) is tuple, "pairs: expected tuples")
    names = (OWN, *(one.name for one in problem.pairs))
    right = bool(claim.hide) and all(type(name) is str and name in names for name in claim.hide)
    require(
        right and len(set(claim.hide)) == len(claim.hide), f"hide: it is {_short(claim.hide)}, expected some of {names}"
    )
    require(not claim.pairs or claim.goal == "opaque", "pairs: nothing is proven of them with this goal")
    if claim.hide == (OWN,) and not claim.pairs:
        return
    wanted = claimed_pairs(problem, claim.hide)
    require(wanted is not None, "pairs: an observer with a belief has a loss, of which nothing is proven")
    assert wanted is not None
    require(len(wanted) == len(claim.pairs), f"pairs: expected {[one.name for one in wanted]}")
    for one, asked in zip(claim.pairs, wanted, strict=True):
        require(type(one) is ProvenPair and (one.name, one.min, one.max) == (asked.name, asked.min, asked.max),
                f"pairs: expected {asked.name!r} with the bounds {asked.min} and {asked.max}")  # fmt: skip
        for name in ("lower", "upper", "prune"):
            good = is_finite(getattr(one, name)) and getattr(one, name) >= 0
            require(good, f"pairs: {name} of {one.name} is {_short(getattr(one, name))}, expected a number, 0 or more")
        _check_way(one)


def _check_delayed(claim: Certificate, problem: Problem, policy: Policy) -> None:
    """Raise `CertificateError` unless the bound over agents that learn observations late has its form and fits the rest."""
    late = claim.delayed
    require(
        type(late) is DelayedBound and claim.goal == "opaque",
        "delayed: expected a bound, beside that over all policies",
    )
    assert late is not None
    require(type(late.delay) is int and late.delay == 1, f"delayed: the delay is {_short(late.delay)}, expected 1")
    require(type(late.witness) is Witness and OWN in claim.hide, "delayed: it has no observer's rule of the own pair")
    require(not policy.reads(problem), "delayed: the policy acts on the observations, and the bound is not about it")
    good = is_finite(late.upper) and late.upper <= claim.upper
    require(good, f"delayed: its upper bound is {_short(late.upper)}, expected a number up to {claim.upper}")
    require(is_finite(late.witness.multiplier), "delayed: its price is not a finite number")
    highest = _highest(claim, late.upper, late.witness.multiplier, late.witness.prices)
    require(claim.lower <= highest, f"delayed: lower {claim.lower} and upper {late.upper} do not fit each other")


def _highest(claim: Certificate, upper: float, price: float, prices: tuple[float, ...]) -> Fraction:
    """What the policy can hide at most by an upper bound: `H ≤ U(q,λ) + Σ_k λ_k s_k (δ_k − V_k)` for every policy."""
    highest = Fraction(upper) + Fraction(price) * missing_return(claim)
    require(len(prices) == len(claim.constraints), "rule: its prices are not one for each constraint")
    for one, constraint in zip(prices, claim.constraints, strict=True):
        require(is_finite(one), f"rule: a price is {_short(one)}, expected a finite number")
        highest += Fraction(one) * _missing(constraint)
    weights = {one.pair: one.weight for one in (() if claim.witness is None else claim.witness.rules)}
    for pair in claim.pairs:
        weight = weights.get(pair.name, 0.0)
        require(is_finite(weight), f"rule: the weight of {pair.name} is {_short(weight)}, expected a finite number")
        missed = Fraction(0) if pair.met or pair.min is None else Fraction(pair.min) - Fraction(pair.lower)
        highest += Fraction(weight) * max(Fraction(0), missed)
    return highest


def _missing(one: ProvenConstraint) -> Fraction:
    """By how much a quantity may miss its bound; 0 where it does not."""
    sign = 1 if one.relation == "≥" else -1
    short = sign * (Fraction(one.bound) - Fraction(one.value)) + Fraction(one.error)
    return Fraction(0) if one.met else max(Fraction(0), short)


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
