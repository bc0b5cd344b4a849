"""What a certificate says in words, made from its numbers."""

import hashlib
import json
from fractions import Fraction

from ..common.errors import CertificateError
from ..common.rounding import lower_text, rounded_down, upper_text
from .arithmetic import require
from .certificate import CONFIDENCE, Certificate, likely_bits
from .claims import ProvenQuantity
from .reading import is_finite
from .record import Record

_CLOCKLESS = (
    "; of an observer without a clock the lower bound is that of one with a clock, which knows at least as much"
)


def automaton_words(several: bool) -> str:
    """What remembers more than the state; `several`: with constraints."""
    return "the automata of the secret and the constraints" if several else "the secret's automaton"


def bound_words(record: Record, goal: str, *, several: bool = False, beliefs: bool = False) -> str:
    """Which policies the bound over all policies is about; `several`: the bits of several observers are counted;
    `beliefs`: a lower bound comes from beliefs."""
    if goal == "transparent" and beliefs:
        return "all policies of an agent that sees what the observer sees, its own actions included, and nothing else"
    if goal == "transparent":
        return (
            "all policies: how little they can hide is the minimum of a concave function, which the game does not bound"
        )
    more = record.size > record.states
    automaton = automaton_words(len(record.quantities) > 1)
    hidden = f", the model that runs and the state of {automaton}" if more else ""
    seen = "all that each observer sees, independently given the states" if several else "all that the observer sees"
    clockless = _CLOCKLESS if any(record.observers[one.receives].untimed for one in record.channels) else ""
    return f"all policies, with any memory, even if they know the state, the start{hidden} and {seen}{clockless}"


def claim_words(claim: Certificate) -> str:
    """The claim in two sentences: bits rounded outward, returns in full."""
    limits = [one.text for one in claim.quantities if one.bound is not None]
    limits += [f"H({one.name}) ≥ {float(one.min)!r}" for one in claim.channels if one.min]
    limit = f" with {', '.join(limits)}" if limits else ""
    earned, *others = claim.quantities
    reached = " ".join([_return_words(claim, earned), *map(_constraint_words, others), *_channel_words(claim)])
    if claim.goal == "transparent":
        likely = f", at most {upper_text(claim.likely_upper)} bits {CONFIDENCE}" * (claim.likely_upper < claim.upper)
        least = f"over all policies{limit} only the lower bound 0 is proven"
        if claim.beliefs is not None:
            least = (
                f"proven lower bound over all policies that see what the observer sees{limit}:"
                f" {lower_text(claim.lower)} bits (beliefs attached)"
            )
        return f"hides at most {upper_text(claim.upper)} bits (proven){likely}; {least}. {reached}"
    several, clock = len(claim.hidden) > 1, ", even if the observer has a clock" * (_CLOCKLESS in claim.bound_class)
    where = f" in {'each of ' * several}{' and '.join(claim.hide)}" if claim.hidden != (0,) else ""
    least = " on the least of them" if several else where
    least += f" on bits plus {claim.task}" if claim.task else ""
    attached = "; ".join(one for one in ("rules attached", claim.trivial) if one)
    return (
        f"{_own_words(claim, where, clock)}; proven upper bound{least} over all policies{limit}:"
        f" {upper_text(claim.upper)}{' bits' * (not claim.task)} ({attached}){_delayed_words(claim)}. {reached}"
    )


def _own_words(claim: Certificate, where: str, clock: str) -> str:
    """What the policy hides: proven, and beside that with confidence."""
    bits, likely = claim.hidden_bits
    found = f"hides at least {lower_text(bits)} bits{where} (proven{clock})"
    if likely > bits:
        drawn = f"{CONFIDENCE}, over the verifier's own draws; proven: at least {lower_text(bits)}{clock}"
        found = f"hides at least {lower_text(likely)} bits{where} ({drawn})"
    elif not claim.proves_policy:
        found = "What the policy hides is not proven within the time limit: allow more time"
    if not claim.task:
        return found
    how = CONFIDENCE if likely > bits else "proven"
    return f"{found}; bits plus {claim.task} are at least {lower_text(claim.likely_lower)} ({how})"


def _delayed_words(claim: Certificate) -> str:
    """The smaller bound, where there is one."""
    if claim.delayed is None:
        return ""
    unit = " bits" * (not claim.task)
    return f", over those that do not see the current observation: {upper_text(claim.delayed.upper)}{unit} (rules attached)"


def _return_words(claim: Certificate, one: ProvenQuantity) -> str:
    """What is claimed of the return: at least a number; less than the threshold, or how far from it where neither is."""
    low, high = Fraction(one.value) - Fraction(one.error), Fraction(one.value) + Fraction(one.error)
    drawn, bound = f" {CONFIDENCE}" * bool(one.sequences), low if one.bound is None else Fraction(one.bound)
    if one.met or one.bound is None:
        return f"Its return is at least {rounded_down(max(low, bound))!r}{drawn}."
    if high < bound:
        return f"Its return is at most {-rounded_down(-high)!r}{drawn}, which misses the threshold."
    off = upper_text(float(max(high - bound, bound - low)), significant=2)
    return f"Whether it reaches the threshold is not proven: the return lies within {off} of it{drawn}."


def _constraint_words(one: ProvenQuantity) -> str:
    """What is claimed of the quantity of a constraint: how far inside its bound it is, or that it is not known to be."""
    bound, drawn = one.bound or 0.0, f" {CONFIDENCE}" * bool(one.sequences)
    low, high = Fraction(one.value) - Fraction(one.error), Fraction(one.value) + Fraction(one.error)
    worst = max(low, Fraction(bound)) if one.sign > 0 else min(high, Fraction(bound))
    if one.met:
        most = rounded_down(worst) if one.sign > 0 else -rounded_down(-worst)
        return f"{one.name} is at {'least' if one.sign > 0 else 'most'} {most!r}{drawn}."
    return f"{one.name} is not proven to be {one.relation} {float(bound)!r}: it is {float(one.value)!r}."


def _channel_words(claim: Certificate) -> list[str]:
    """What is claimed of the bounds of channels."""
    found = []
    for one in claim.channels:
        given = [(sign, bound) for sign, bound in (("≥", one.min), ("≤", one.max)) if bound is not None]
        if not given:
            continue
        text = " and ".join(f"H({one.name}) {sign} {float(bound)!r}" for sign, bound in given)
        met = one.keeps(*likely_bits(one))
        drawn = met and not one.met
        lower, upper = likely_bits(one) if drawn else (one.lower, one.upper)
        within = f"between {lower_text(lower)} and {upper_text(upper)}"
        said = f"H({one.name}) is {within}" if met else f"Not proven: {text}; it is {within}"
        free = "" if one.max is None else ", a bound that the upper bound over all policies leaves out"
        found.append(f"{said} bits{f' {CONFIDENCE}' * drawn}{free}.")
    return found


def seal_of(claim: Certificate) -> str:
    """SHA-256 of what no computation can check: `best_known`, the versions, the memories in words."""
    said: list[object] = [claim.best_known, claim.versions, claim.policy_class]
    said += [one.memory for bound in claim.bounds for one in bound.rules]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def check_words(claim: Certificate, record: Record) -> None:
    """Raise `CertificateError` unless the words of a certificate are those of its numbers, and the rest is unchanged."""
    several, beliefs = bool(claim.bounds) and len(claim.bounds[0].rules) > 1, claim.beliefs is not None
    try:
        bound_class = bound_words(record, claim.goal, several=several, beliefs=beliefs)
        expected = {"bound_class": bound_class, "claim": claim_words(claim)}
        seal = seal_of(claim)
    except (TypeError, ValueError, AttributeError) as error:
        raise CertificateError(f"claim: it has no words ({error})") from None
    for name, value in expected.items():
        found = getattr(claim, name)
        require(found == value, f"{name}: the certificate says {found!r}, and the numbers say {value!r}")
    known = claim.best_known is None or (is_finite(claim.best_known) and claim.best_known <= claim.upper + 1e-9)
    require(known, f"best_known: {claim.best_known!r} is no number up to the upper bound {claim.upper}")
    words = "seal: best_known, the versions, or the words for the policy or an observer's memory were changed"
    require(claim.seal == seal, words)
