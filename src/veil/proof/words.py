"""What a certificate says in words, made from its numbers."""

import hashlib
import json
from fractions import Fraction

from ..common.errors import CertificateError
from ..common.exact import rounded_down
from ..common.rounding import lower_text, upper_text
from .arithmetic import require
from .claims import ProvenQuantity
from .reading import is_finite
from .record import Record
from .statement import CONFIDENCE, Statement, likely_bits

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


def claim_words(claim: Statement) -> str:
    """The claim in two sentences, numbers rounded outward."""
    given = [one for one in claim.quantities if one.bound is not None]  # rounded so that no more policies keep it
    limits = [f"{one.name} {one.relation} {_shown(one.bound, up=one.sign > 0)}" for one in given]
    limits += [f"H({one.name}) ≥ {float(one.min)!r}" for one in claim.channels if one.min]
    limit = f" with {', '.join(limits)}" if limits else ""
    names = ["Its return", *(one.name for one in claim.quantities[1:])]
    reached = " ".join([*map(_quantity_words, claim.quantities, names), *_channel_words(claim)])
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


def _own_words(claim: Statement, where: str, clock: str) -> str:
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


def _delayed_words(claim: Statement) -> str:
    """The smaller bound, where there is one."""
    if claim.delayed is None:
        return ""
    unit = " bits" * (not claim.task)
    return f", over those that do not see the current observation: {upper_text(claim.delayed.upper)}{unit} (rules attached)"


def _quantity_words(one: ProvenQuantity, subject: str) -> str:
    """What is claimed of a quantity: what it is at least or at most, that it misses its bound, or that neither is proven."""
    low, high = Fraction(one.value) - Fraction(one.error), Fraction(one.value) + Fraction(one.error)
    drawn, falls = f" {CONFIDENCE}" * bool(one.sequences), one.sign < 0
    worst, best = (high, low) if falls else (low, high)
    if one.met or one.bound is None:
        worst = worst if one.bound is None else (min if falls else max)(worst, Fraction(one.bound))
        return f"{subject} is at {'most' if falls else 'least'} {_shown(worst, up=falls)}{drawn}."
    beyond = one.sign * (best - Fraction(one.bound))
    if beyond < 0:
        ends = f"{'least' if falls else 'most'} {_shown(best, up=not falls)}{drawn}"
        return f"{subject} is at {ends}, which misses the threshold."
    off = upper_text(float(max(beyond, high - low - beyond)), significant=2)
    return f"Whether the {one.name} keeps its threshold is not proven: the {one.name} lies within {off} of it{drawn}."


def _shown(value: float | Fraction | None, *, up: bool) -> str:
    """A bound on a quantity in nine digits, rounded up or down."""
    sign = -1 if up else 1
    return (upper_text if up else lower_text)(sign * rounded_down(sign * Fraction(value or 0)), significant=9)


def _channel_words(claim: Statement) -> list[str]:
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


def seal_of(claim: Statement) -> str:
    """SHA-256 of what no computation can check: `best_known`, the versions, the memories in words."""
    said: list[object] = [claim.best_known, claim.versions, claim.policy_class]
    said += [one.memory for bound in claim.bounds for one in bound.rules]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def check_words(claim: Statement, record: Record) -> None:
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
