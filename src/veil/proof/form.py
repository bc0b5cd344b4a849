"""Whether a certificate has the right form: items, types, names and numbers that fit the problem and each other."""

from collections.abc import Sequence
from fractions import Fraction

from .arithmetic import require
from .claims import Claim
from .reading import check_form, forms_of
from .record import Record


def claimed_channels(record: Record, hidden: Sequence[int]) -> tuple[int, ...] | None:
    """The channels that a certificate tells of: its own, those that are hidden, and those with bounds; None where nothing can
    be proven of one of them, such as one whose observer has a belief."""
    channels = record.channels
    found = tuple(n for n, one in enumerate(channels) if n == 0 or n in hidden or one.min or one.max is not None)
    return None if any(channels[number].refused for number in found) else found


def check_claim(claim: Claim, record: Record, *, heard: bool) -> None:
    """Raise `CertificateError` unless the claim has the right form, belongs to the problem, and its parts fit each other.

    **Arguments:** `heard`: the policy acts on observations.
    """
    for name, found, value in (("problem_hash", claim.problem_hash, record.problem),
                               ("record_hash", claim.record_hash, record.digest)):  # fmt: skip
        require(found == value, f"{name}: the certificate says {found!r}, the problem has {value!r}")
    for name, form in forms_of(Claim).items():
        check_form(getattr(claim, name), form, name)
    _check_quantities(claim, record)
    _check_channels(claim, record)
    _check_bounds(claim, heard)


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
        alone = claim.goal == "opaque" and not one.sequences
        words = f"quantities: a task counts {one.name}, so that its value has to be proven, and the goal opaque"
        require(alone or not one.factor, words)


def _check_channels(claim: Claim, record: Record) -> None:
    """Raise `CertificateError` unless the channels are those of the problem, with its bounds, the hidden ones among them."""
    inside = all(number < len(record.channels) for number in claim.hidden)
    once = len(set(claim.hidden)) == len(claim.hidden) > 0
    require(inside and once, f"hidden: it is {claim.hidden}, expected numbers of channels")
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
        require(len(one.window) == 2, f"channels: the window of {one.name} is {one.window}")


def _check_bounds(claim: Claim, heard: bool) -> None:
    """Raise `CertificateError` unless the bounds are one over all policies, and perhaps a smaller one, that fit the rest."""
    if claim.beliefs is not None:
        require(claim.goal == "transparent", "beliefs: they bound only transparent policies")
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
        require(len(one.prices) == len(claim.quantities), "bounds: the prices are not one for each quantity")
        weights = {rule.channel: rule.weight for rule in one.rules}
        # `H ≤ U(q,λ) + Σ_k λ_k s_k (δ_k − V_k)` for every policy, so also for one that misses a bound.
        missed = [(price, each.missing) for price, each in zip(one.prices, claim.quantities, strict=True)]
        missed += [(weights.get(each.number, 0.0), max(0, Fraction(each.min or 0) - Fraction(each.lower)))
                   for each in claim.channels]  # fmt: skip
        highest = Fraction(one.upper) + sum(Fraction(price) * Fraction(by) for price, by in missed)
        require(claim.lower <= highest, f"bounds: lower {claim.lower} and upper {one.upper} do not fit each other")
