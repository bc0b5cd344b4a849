"""Whether a certificate has the right form: items, types, names and numbers that fit the problem and each other."""

from collections.abc import Sequence
from fractions import Fraction

from .arithmetic import require
from .claims import BeliefBound, Claim, ObserverRule, ProvenBound, ProvenChannel, ProvenQuantity, Register, Sampled
from .reading import is_finite
from .record import Record

MOST_SEQUENCES = 10**7  # of a statistical claim


def claimed_channels(record: Record, hidden: Sequence[int]) -> tuple[int, ...] | None:
    """The channels that a certificate tells of: its own, those that are hidden, and those with bounds; None where nothing can
    be proven of one of them, such as one whose observer has a belief."""
    channels = record.channels
    found = tuple(n for n, one in enumerate(channels) if n == 0 or n in hidden or one.min or one.max is not None)
    return None if any(channels[number].refused for number in found) else found


def check_form(claim: Claim, record: Record, *, heard: bool) -> None:
    """Raise `CertificateError` unless the claim has the right form, belongs to the problem, and its parts fit each other.

    **Arguments:** `heard`: the policy acts on observations.
    """
    for name, found, value in (("problem_hash", claim.problem_hash, record.problem),
                               ("record_hash", claim.record_hash, record.digest)):  # fmt: skip
        require(found == value, f"{name}: the certificate says {found!r}, and what is given has {value!r}")
    _check_types(claim)
    _check_quantities(claim, record)
    _check_channels(claim, record)
    _check_bounds(claim, heard)


def _check_types(claim: Claim) -> None:
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
        what = f"quantities: {_short(one.name)}"
        _check_finite(what, [one.value, one.error, one.factor], [one.error], [one.bound])
        require(type(one.met) is bool, f"quantities: met is {_short(one.met)}, expected a truth value")
        _check_count(one.sequences, "sequences", 0, MOST_SEQUENCES)
        alone = claim.goal == "opaque" and not one.sequences
        require(
            alone or not one.factor,
            f"{what}: a task counts it, so that its value has to be proven, and the goal opaque",
        )
    for one in claim.channels:
        _check_channel(one)
    for one in claim.bounds:
        good = type(one.prices) is tuple and type(one.rules) is tuple and len(one.rules) > 0
        require(good and all(type(rule) is ObserverRule for rule in one.rules), "bounds: one has no prices or rules")
        _check_finite("bounds", [one.upper], [*one.prices, *(rule.weight for rule in one.rules)], [])
        for rule in one.rules:
            _check_count(rule.channel, "channel", 0)
        _check_count(one.delay, "delay", 0, 1)


def _check_channel(one: ProvenChannel) -> None:
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


def _check_finite(what: str, numbers: Sequence[object], positive: Sequence[object], optional: Sequence[object]) -> None:
    given = [*numbers, *positive, *(one for one in optional if one is not None)]
    for one in given:
        require(is_finite(one), f"{what}: a number is {_short(one)}, expected a finite one")
    for one in positive:
        require(isinstance(one, float | int) and one >= 0, f"{what}: a number is {_short(one)}, expected 0 or more")


def _check_count(value: object, name: str, least: int, most: int = 2**31) -> None:
    whole = type(value) is int and least <= value <= most
    require(whole, f"{name}: it is {_short(value)}, expected a whole number from {least}")


def _check_quantities(claim: Claim, record: Record) -> None:
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


def _check_channels(claim: Claim, record: Record) -> None:
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
        asked = record.channels[one.number]
        said, expected = (one.name, one.min, one.max), (asked.name, asked.min, asked.max)
        require(said == expected, f"channels: {said} is claimed, expected {expected}")


def _check_bounds(claim: Claim, heard: bool) -> None:
    """Raise `CertificateError` unless the bounds are one over all policies, and perhaps a smaller one, that fit the rest."""
    beliefs = claim.beliefs
    if beliefs is not None:
        require(
            claim.goal == "transparent" and type(beliefs) is BeliefBound,
            "beliefs: they bound only transparent policies",
        )
        _check_finite("beliefs", [beliefs.lower], [], [])
        require(type(beliefs.prices) is tuple and type(beliefs.points) is tuple, "beliefs: they are no lists")
        require(claim.lower <= claim.upper, f"beliefs: lower {claim.lower} and upper {claim.upper}")
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


def _highest(claim: Claim, bound: ProvenBound) -> Fraction:
    """What the policy can hide at most by an upper bound: `H ≤ U(q,λ) + Σ_k λ_k s_k (δ_k − V_k)` for every policy."""
    require(len(bound.prices) == len(claim.quantities), "bounds: the prices are not one for each quantity")
    highest = Fraction(bound.upper)
    for number, price in enumerate(bound.prices):
        highest += Fraction(price) * Fraction(claim.quantities[number].missing)
    weights = {one.channel: one.weight for one in bound.rules}
    for one in claim.channels:
        missed = Fraction(0) if one.met or one.min is None else Fraction(one.min) - Fraction(one.lower)
        highest += Fraction(weights.get(one.number, 0.0)) * max(Fraction(0), missed)
    return highest


def _short(value: object) -> str:
    """A value for a message; a number of thousands of digits is not written out."""
    text = f"a number of {value.bit_length()} bits" if isinstance(value, int) and abs(value) > 2**64 else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
