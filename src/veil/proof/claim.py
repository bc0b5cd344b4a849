"""What a certificate says in words, and whether its form is right: numbers, names and words that fit each other."""

import hashlib
import json
from collections.abc import Sequence
from fractions import Fraction

from ..common.rounding import lower_text, rounded_down, upper_text
from .arithmetic import require
from .certificate import CONFIDENCE, Certificate
from .claims import ObserverRule, ProvenBound, ProvenChannel, ProvenQuantity, Register, Sampled
from .reading import is_finite
from .record import ChannelRecord, Record
from .sampling import MOST_SEQUENCES

_CLOCKLESS = "; of an observer without a clock the lower bound is that of one with a clock, who knows at least as much"


def automaton_words(several: bool) -> str:
    """What remembers more than the state; `several`: with constraints."""
    return "the automata of the secret and the constraints" if several else "the secret's automaton"


def bound_words(record: Record, goal: str, *, several: bool = False) -> str:
    """Which policies the bound over all policies is about; `several`: the bits of several observers are counted."""
    if goal == "transparent":
        return (
            "all policies: how little they can hide is the minimum of a concave function, which the game does not bound"
        )
    more = len(record.models) > 1 or len(record.channels[0].step) > 1
    automaton = automaton_words(len(record.quantities) > 1)
    hidden = f", the model that runs and the state of {automaton}" if more else ""
    seen = "all that each observer sees, independently given the states" if several else "all that the observer sees"
    clockless = _CLOCKLESS if any(one.observer.untimed for one in record.channels) else ""
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
        return (
            f"hides at most {upper_text(claim.upper)} bits (proven){likely}; over all policies{limit} only the lower bound 0"
            f" is proven. {reached}"
        )
    several, clock = len(claim.hidden) > 1, ", even if the observer has a clock" * (_CLOCKLESS in claim.bound_class)
    where = f" in {'each of ' * several}{' and '.join(claim.hide)}" if claim.hidden != (0,) else ""
    least = " on the least of them" if several else where
    attached = "; ".join(one for one in ("rules attached", claim.trivial) if one)
    return (
        f"{_own_words(claim, where, clock)}; proven upper bound{least} over all policies{limit}:"
        f" {upper_text(claim.upper)} bits ({attached}){_delayed_words(claim)}. {reached}"
    )


def _own_words(claim: Certificate, where: str, clock: str) -> str:
    """What the policy hides: proven, and beside that with confidence."""
    proven = f"hides at least {lower_text(claim.lower)} bits{where} (proven{clock})"
    if claim.likely_lower > claim.lower:
        also = f"proven: at least {lower_text(claim.lower)}{clock}"
        drawn = f"{CONFIDENCE}, over the verifier's own draws; {also}"
        return f"hides at least {lower_text(claim.likely_lower)} bits{where} ({drawn})"
    return (
        proven if claim.proves_policy else "What the policy hides is not proven within the time limit: allow more time"
    )


def _delayed_words(claim: Certificate) -> str:
    """The smaller bound, where there is one."""
    if claim.delayed is None:
        return ""
    return (
        f", over those that do not see the current observation: {upper_text(claim.delayed.upper)} bits (rules attached)"
    )


def _return_words(claim: Certificate, one: ProvenQuantity) -> str:
    """What is claimed of the return: at least a number; less than the threshold, or how far from it where neither is."""
    low, high, drawn = least_of(one), Fraction(one.value) + Fraction(one.error), f" {CONFIDENCE}" * bool(one.sequences)
    at_least = f"Its return is at least {rounded_down(low)!r}{drawn}."
    if one.met or one.bound is None:
        return at_least
    if high < Fraction(one.bound):
        return f"Its return is at most {-rounded_down(-high)!r}{drawn}, which misses the threshold."
    off = upper_text(float(max(high - Fraction(one.bound), Fraction(one.bound) - low)), significant=2)
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
        if not one.text:
            continue
        drawn = one.likely_met and not one.met
        lower, upper = one.likely if drawn else (one.lower, one.upper)
        within = f"between {lower_text(lower)} and {upper_text(upper)}"
        said = f"H({one.name}) is {within}" if one.likely_met else f"Not proven: {one.text}; it is {within}"
        free = "" if one.max is None else ", a bound that the upper bound over all policies leaves out"
        found.append(f"{said} bits{f' {CONFIDENCE}' * drawn}{free}.")
    return found


def claimed_channels(record: Record, hidden: Sequence[int]) -> tuple[int, ...] | None:
    """The channels that a certificate tells of: its own, those that are hidden, and those with bounds; None where nothing can
    be proven of one of them, whose observer has a belief."""
    channels = record.channels
    found = tuple(n for n, one in enumerate(channels) if n == 0 or n in hidden or one.min or one.max is not None)
    return None if any(channels[number].believes for number in found) else found


def seal_of(claim: Certificate) -> str:
    """SHA-256 of what no computation can check: `best_known`, the versions, the memories in words."""
    said: list[object] = [claim.best_known, claim.versions, claim.policy_class]
    said += [one.memory for bound in claim.bounds for one in bound.rules]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def check_claim(claim: Certificate, record: Record, *, heard: bool) -> None:
    """Raise `CertificateError` unless the claim has the right form, belongs to the problem, and its parts fit each other.

    **Arguments:** `heard`: the policy acts on observations.
    """
    _check_types(claim)
    several = bool(claim.bounds) and len(claim.bounds[0].rules) > 1
    expected = {"problem_hash": record.digest, "bound_class": bound_words(record, claim.goal, several=several)}
    for name, value in expected.items():
        found = getattr(claim, name)
        require(found == value, f"{name}: the certificate says {found!r}, and what is given has {value!r}")
    _check_quantities(claim, record)
    _check_channels(claim, record)
    _check_bounds(claim, heard)
    known = claim.best_known is None or (is_finite(claim.best_known) and claim.best_known <= claim.upper + 1e-9)
    require(known, f"best_known: {_short(claim.best_known)} is no number up to the upper bound {claim.upper}")
    require(
        claim.seal == seal_of(claim),
        "seal: best_known, the versions, or the words for the policy or an observer's memory were changed",
    )
    words = claim_words(claim)
    require(claim.claim == words, f"claim: the words are {claim.claim!r}, and the numbers say {words!r}")


def _check_types(claim: Certificate) -> None:
    """Raise `CertificateError` unless every item is of its type, and every number one that can be computed with."""
    lists = ((claim.quantities, ProvenQuantity), (claim.channels, ProvenChannel), (claim.bounds, ProvenBound))
    for items, kind in lists:
        good = type(items) is tuple and all(type(one) is kind for one in items)
        require(good, f"{kind.__name__}: expected a tuple of them")
    whole = type(claim.hidden) is tuple and all(type(one) is int for one in claim.hidden)
    require(whole and len(set(claim.hidden)) == len(claim.hidden) > 0, f"hidden: it is {_short(claim.hidden)}")
    require(claim.goal in ("opaque", "transparent"), f"goal: it is {_short(claim.goal)}")
    require(claim.register is None or type(claim.register) is Register, "register: it is no register")
    for one in claim.quantities:
        _check_finite(f"quantities: {_short(one.name)}", [one.value, one.error], [one.error], [one.bound])
        require(type(one.met) is bool, f"quantities: met is {_short(one.met)}, expected a truth value")
        _check_count(one.sequences, "sequences", 0, MOST_SEQUENCES)
    for one in claim.channels:
        what = f"channels: {_short(one.name)}"
        _check_finite(what, [], [one.lower, one.upper, one.prune], [one.min, one.max])
        require(one.lower <= one.upper, f"{what}: lower {one.lower} and upper {one.upper}")
        _check_count(one.number, "number", 0)
        _check_count(one.merge, "merge", 0)
        require(type(one.window) is tuple and len(one.window) == 2, f"{what}: the window is {_short(one.window)}")
        for end in one.window:
            _check_count(end, "window", -1)
        require(type(one.sampled) in (Sampled, type(None)), f"{what}: what is sampled is {_short(one.sampled)}")
        if one.sampled is not None:
            _check_finite(what, [], [one.sampled.lower, one.sampled.upper], [])
            _check_count(one.sampled.sequences, "sequences", 2, MOST_SEQUENCES)
            require(one.sampled.lower <= one.sampled.upper, f"{what}: the sampled bounds do not fit each other")
    for one in claim.bounds:
        good = type(one.prices) is tuple and type(one.rules) is tuple and len(one.rules) > 0
        require(good and all(type(rule) is ObserverRule for rule in one.rules), "bounds: one has no prices or rules")
        weights = [rule.weight for rule in one.rules]
        _check_finite("bounds", [one.upper], [*one.prices, *weights], [])
        for rule in one.rules:
            _check_count(rule.channel, "channel", 0)
        _check_count(one.delay, "delay", 0, 1)


def _check_finite(what: str, numbers: Sequence[object], positive: Sequence[object], optional: Sequence[object]) -> None:
    given = [*numbers, *positive, *(one for one in optional if one is not None)]
    for one in given:
        require(is_finite(one), f"{what}: a number is {_short(one)}, expected a finite one")
    for one in positive:
        require(isinstance(one, float | int) and one >= 0, f"{what}: a number is {_short(one)}, expected 0 or more")


def _check_count(value: object, name: str, least: int, most: int = 2**31) -> None:
    whole = type(value) is int and least <= value <= most
    require(whole, f"{name}: it is {_short(value)}, expected a whole number from {least}")


def _check_quantities(claim: Certificate, record: Record) -> None:
    """Raise `CertificateError` unless the quantities are those of the problem, with its bounds where these are numbers."""
    names = [one.name for one in claim.quantities]
    require(len(names) == len(record.quantities), f"quantities: they are {names}, expected {len(record.quantities)}")
    for one, wanted in zip(claim.quantities, record.quantities, strict=True):
        said, expected = (one.name, one.relation), (wanted.name, wanted.relation)
        require(said == expected, f"quantities: {said} is claimed, expected {expected}")
        same = isinstance(wanted.bound, str) or (type(one.bound) is type(wanted.bound) and one.bound == wanted.bound)
        require(same, f"quantities: the bound of {one.name} is {one.bound!r}, and the problem's is {wanted.bound!r}")
        require(one.bound is not None or wanted.bound is None, f"quantities: the bound of {one.name} is None")
        require(one.bound is not None or one.met, f"quantities: {one.name} has no bound to miss")


def _check_channels(claim: Certificate, record: Record) -> None:
    """Raise `CertificateError` unless the channels are those of the problem, with its bounds, the hidden ones among them."""
    inside = all(0 <= number < len(record.channels) for number in claim.hidden)
    require(inside, f"hidden: it is {claim.hidden}, expected numbers of channels")
    numbers = tuple(one.number for one in claim.channels)
    wanted = claimed_channels(record, claim.hidden)
    if claim.hidden == (0,) and numbers == (0,):
        wanted = (0,)  # nothing is said of other channels
    require(numbers == wanted, f"channels: they are {numbers}, expected {wanted}")
    require(claim.goal == "opaque" or numbers == (0,), "channels: nothing is proven of others with this goal")
    for one in claim.channels:
        asked: ChannelRecord = record.channels[one.number]
        said, expected = (one.name, one.min, one.max), (asked.name, asked.min, asked.max)
        require(said == expected, f"channels: {said} is claimed, expected {expected}")


def _check_bounds(claim: Certificate, heard: bool) -> None:
    """Raise `CertificateError` unless the bounds are one over all policies, and perhaps a smaller one, that fit the rest."""
    if claim.goal == "transparent":
        require(not claim.bounds, "bounds: there are some, and none is known with this goal")
        return
    delays = [one.delay for one in claim.bounds]
    require(delays in ([0], [0, 1]), f"bounds: their delays are {delays}, expected 0, and perhaps 1")
    if len(delays) > 1:
        require(0 in claim.hidden, "bounds: that with a delay is not about the problem's own channel")
        require(not heard, "bounds: the policy acts on the observations, and that with a delay is not about it")
        require(claim.bounds[1].upper <= claim.bounds[0].upper, "bounds: that with a delay is above the other")
    for one in claim.bounds:
        highest = _highest(claim, one)
        require(claim.lower <= highest, f"bounds: lower {claim.lower} and upper {one.upper} do not fit each other")


def _highest(claim: Certificate, bound: ProvenBound) -> Fraction:
    """What the policy can hide at most by an upper bound: `H ≤ U(q,λ) + Σ_k λ_k s_k (δ_k − V_k)` for every policy."""
    require(len(bound.prices) == len(claim.quantities), "bounds: the prices are not one for each quantity")
    highest = Fraction(bound.upper)
    for number, price in enumerate(bound.prices):
        highest += Fraction(price) * Fraction(claim.missing(number))
    weights = {one.channel: one.weight for one in bound.rules}
    for one in claim.channels:
        missed = Fraction(0) if one.met or one.min is None else Fraction(one.min) - Fraction(one.lower)
        highest += Fraction(weights.get(one.number, 0.0)) * max(Fraction(0), missed)
    return highest


def _short(value: object) -> str:
    """A value for a message; a number of thousands of digits is not written out."""
    text = f"a number of {value.bit_length()} bits" if isinstance(value, int) and abs(value) > 2**64 else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def least_of(one: ProvenQuantity) -> Fraction:
    """The smallest value that the claim allows for: where it says that the bound is reached, no less than that."""
    low = Fraction(one.value) - Fraction(one.error)
    return max(low, Fraction(one.bound)) if one.met and one.bound is not None and one.sign > 0 else low
