"""The verifier: recomputes what a certificate claims, from the arrays of a problem and of a policy alone.

One forward pass (`forward.py`, `policy_values.py`) evaluates the policy against the observer, one backward induction
(`backward.py`) maximises over all policies against the observers' rules; both bound their own rounding errors.
`exact_return.py` decides in whole numbers what floats cannot; `attainable.py` recomputes what percentages are shares of;
`sampling.py` draws the sequences of statistical claims. What this module reaches, through others too, is all that has to be
believed; `tests/proof/test_trusted_base.py` counts its lines. It knows nothing of scenarios, formulas, grids and players: that
the arrays are those of a scenario is another question, which `verify` answers by hashes.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ..common.pace import Watch
from ..common.verdicts import CertificateError
from .agent import Agent
from .arithmetic import UNIT, require
from .attainable import SAME_RETURN, attainable, rounding_of
from .backward import rule_bound
from .belief_bound import belief_bound
from .checked_policy import channels_heard
from .checked_problem import CheckedProblem, Paid, most_bits
from .claims import Claim, ProvenBound, ProvenChannel, ProvenQuantity, Register
from .form import check_claim
from .policy_values import PolicyValues, ProvenValue, policy_values
from .reading import MALFORMED
from .record import Record
from .sampling import DOUBT, ROUNDS, Interval, Sampler


@dataclass(frozen=True)
class Draws:
    """How the verifier draws sequences for statistical claims.

    **Attributes:** `doubt`: what is left of 1 by the confidence, for all claims together; `sequences` of the first round, None
    for those of the claim; `seed`: for a reproducible rerun; None draws from the randomness of the system.
    """

    doubt: float = DOUBT
    sequences: int | None = None
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Verification:
    """What was recomputed.

    **Attributes:** `channels`: for each channel of the certificate, by number, the values of the policy that are proven;
    `uppers`: each upper bound; `sampled`: for each statistical claim on bits the interval that the verifier drew, by number of
    the channel; `beliefs`: the lower bound over all policies of agents that see what the observer sees; `record`: the problem.
    """

    record: Record = field(repr=False, compare=False)
    channels: dict[int, PolicyValues]
    uppers: tuple[float, ...]
    sampled: dict[int, Interval]
    beliefs: float | None = None

    @property
    def policy(self) -> PolicyValues:
        """What is proven of the policy in the problem's own channel."""
        return self.channels[0]

    @property
    def upper(self) -> float:
        """The upper bound over all policies; without one, that on the policy."""
        return self.uppers[0] if self.uppers else self.channels[0].upper

    @property
    def delayed(self) -> float | None:
        """The upper bound over agents that do not see the current observation, where it is claimed."""
        return self.uppers[1] if len(self.uppers) > 1 else None

    def least(self, hidden: tuple[int, ...]) -> float:
        """The least lower bound of the policy over some channels."""
        return min(self.channels[number].lower for number in hidden)


def check(
    claim: Claim, record: Record, agent: Agent, register: Register | None,
    draws: Draws | None = None, clock: Watch | None = None,
) -> Verification:  # fmt: skip
    """Recompute what a certificate claims of a policy in a problem.

    **Arguments:** `register`: what the policy remembers; `draws`: for statistical claims; `clock`: checked about every second.

    **Raises:** `CertificateError` saying what failed, the most basic defect first; `OutOfTime`.
    """
    try:
        require(agent.digest == claim.policy_hash, "policy_hash: the certificate is about another policy")
        check_claim(claim, record, heard=bool(channels_heard(record, agent, register)) or record.blind)
        return _Check(claim, record, agent, register, draws or Draws(), clock).all()
    except CertificateError:
        raise
    except MALFORMED as error:
        raise CertificateError(f"rule: it cannot be followed ({error})") from error


class _Check:
    """The check of one certificate."""

    def __init__(
        self, claim: Claim, record: Record, agent: Agent, register: Register | None, draws: Draws, clock: Watch | None
    ):
        self.claim, self.record, self.policy, self.draws, self.clock = claim, record, (agent, register), draws, clock
        self.heard, self.bounds = channels_heard(record, agent, register), tuple(one.bound for one in claim.quantities)
        self.random, self.own = np.random.default_rng(draws.seed), CheckedProblem(record)

    def acting(self, number: int) -> CheckedProblem:
        """The problem in which the policy acts and one channel counts."""
        alone = number == 0 and set(self.heard) <= {0}
        return self.own if alone else CheckedProblem(self.record, (number,), self.heard)

    def all(self) -> Verification:
        """Every item of the lists."""
        claim, channels, sampled = self.claim, dict[int, PolicyValues](), dict[int, Interval]()
        for one, wanted, paid in zip(claim.quantities, self.record.quantities, self.own.paid, strict=True):
            if isinstance(wanted.bound, str) and one.bound is not None:
                self._check_percentage(one.bound, wanted.bound, paid)
        for one in claim.channels:
            problem, told = self.acting(one.number), one.sampled
            channels[one.number] = self._check_channel(one, problem)
            if told is not None:
                what = f"channel {one.name}"
                sampled[one.number] = self._drawn(what, told.sequences, told.lower, told.upper, problem)
        for k, one in enumerate(claim.quantities):
            if one.sequences:
                low, high = Fraction(one.value) - Fraction(one.error), Fraction(one.value) + Fraction(one.error)
                self._drawn(one.name, one.sequences, low, high, self.acting(0), k)
                met = one.bound is None or (low >= one.bound if one.sign > 0 else high <= one.bound)
                words = f"met is {one.met} for {one.text}, and the value is {one.value} ± {one.error} with confidence"
                require(one.met is met, f"quantities: {words}")
        uppers, beliefs = tuple(self._check_upper(one) for one in claim.bounds), None
        if (told := claim.beliefs) is not None:
            beliefs = belief_bound(self.own, told, self.bounds, self.clock)
            require(told.lower <= beliefs, f"beliefs: a lower bound of {told.lower} is claimed, and {beliefs} is found")
        return Verification(self.record, channels, uppers, sampled, beliefs)

    def _check_percentage(self, bound: float, wanted: str, paid: Paid) -> None:
        """Raise `CertificateError` where a bound is not the share of its quantity's range that the problem asks for."""
        ends, share = attainable(self.own, paid, self.claim.values), float(wanted.removesuffix("%")) / 100
        rounding = SAME_RETURN * (ends.largest - ends.smallest) + 2 * ends.error + 4 * rounding_of(self.own, paid)
        found = ends.at(share)
        require(abs(bound - found) <= rounding, f"threshold: {bound} is claimed for {wanted}, and {found} is found")

    def _check_channel(self, one: ProvenChannel, problem: CheckedProblem) -> PolicyValues:
        """What is proven of a channel, and of the quantities where it is the own one."""
        claim = self.claim
        proven = [k for k, each in enumerate(claim.quantities) if one.number == 0 and not each.sequences]
        found = policy_values(
            problem, self.policy, one.window, one.prune, claim.values, bounds=self.bounds, goal=claim.goal, merge=one.merge,
            clock=self.clock, quantities=bool(proven), bits=one.lower > 0 or one.upper < problem.most_bits,
        )  # fmt: skip
        words = f"{one.lower} … {one.upper} is claimed, {found.lower} … {found.upper} is found"
        require(one.lower <= found.lower and found.upper <= one.upper, f"channel {one.name}: {words}")
        for k in proven:
            _check_quantity(claim.quantities[k], found.quantities[k])
        return found

    def _drawn(
        self, what: str, sequences: int, low: float | Fraction, high: float | Fraction, problem: CheckedProblem,
        quantity: int | None = None,
    ) -> Interval:  # fmt: skip
        """An interval from the verifier's own draws within what is claimed of the bits, or of a quantity: of some rounds, each
        with four times the sequences and half of the doubt."""
        claims = sum(each.sampled is not None for each in self.claim.channels)
        claims += sum(each.sequences > 0 for each in self.claim.quantities)
        sampler, count, found = Sampler(problem, self.policy), self.draws.sequences or sequences, None
        for number in range(ROUNDS):
            doubt = self.draws.doubt / claims / 2 ** (number + 1)
            found = sampler.interval(count * 4**number, doubt, self.random, self.clock, quantity)
            if low <= found.lower and found.upper <= high:
                return found
        assert found is not None
        where = f"{found.lower} … {found.upper} is found in {count * 4 ** (ROUNDS - 1):,} sequences"
        raise CertificateError(f"{what}: {float(low)} … {float(high)} is claimed with confidence, {where}")

    def _check_upper(self, bound: ProvenBound) -> float:
        """The bound that rules prove, or `log2 |Z|`, which needs none; raises `CertificateError` where less is claimed."""
        claim, channels = self.claim, tuple(one.channel for one in bound.rules)
        factors = tuple(one.factor for one in claim.quantities)
        ahead = self.own.each is not None and self.own.each.ahead
        if claim.hidden == (0,) and ahead and not any((*bound.prices, *factors)):
            require(bound.upper >= self.own.most_bits, "upper bound: no rule is known for values that lie ahead")
            return self.own.most_bits
        fits = {*channels} <= {*claim.hidden, *claim.kept} and 0 < len({*channels}) == len(channels)
        require(fits, f"rule: its channels are {channels}, expected others")
        other = bound.delay or channels != (0,)
        problem = CheckedProblem(self.record, (0,) if bound.delay else channels, (), bound.delay) if other else self.own
        found = rule_bound(problem, bound, self.bounds, claim.values, claim.kept, factors, self.clock)
        words = "upper bound: a rule excludes something that a policy can reach, and so proves nothing"
        require(found < math.inf, words)
        most = min(most_bits(self.record, self.record.channels[number]) for number in claim.hidden)
        least = found if any(factors) else min(found, most)
        words = f"upper bound: {bound.upper} is claimed with delay {bound.delay}, and {least} is found"
        require(bound.upper >= least, words)
        return least


def _check_quantity(one: ProvenQuantity, found: ProvenValue) -> None:
    """Raise `CertificateError` unless a quantity is claimed within an error that holds and is not needlessly large, and its
    bound as it is."""
    value, error = found.value, found.error
    off, words = abs(Fraction(one.value) - Fraction(value)) + Fraction(error), f"{one.name}: {one.value} ± {one.error}"
    require(off <= Fraction(one.error), f"{words} is claimed, and {value} ± {error} is found")
    most = 4 * error + 32 * UNIT * abs(value)
    require(one.error <= most, f"{one.name}: an error of {one.error} is claimed, and {most} is the most")
    words = f"met is {one.met} for {one.text}, and a value of {value} ± {error} is found"
    require(one.met is found.met, f"quantities: {words}")
