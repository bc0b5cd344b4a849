"""The verifier: recomputes what a certificate claims, from the arrays of a problem and of a policy alone.

One forward pass (`forward.py`, `policy_values.py`) evaluates the policy against the observer, one backward induction
(`backward.py`) maximises over all policies against the observers' rules; both bound their own rounding errors.
`exact_return.py` decides in whole numbers what floats cannot; `attainable.py` recomputes what percentages are shares of;
`sampling.py` draws the sequences of statistical claims. What this module reaches, through others too, is all that has to be
believed; `tests/proof/test_trusted_base.py` counts its lines. It knows nothing of scenarios, formulas, grids and players: that
the arrays are those of a scenario is another question, which `verify` answers by hashes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from ..common.errors import CertificateError, InputError
from ..common.pace import Watch
from .agent import Agent
from .arithmetic import UNIT, require
from .attainable import SAME_RETURN, attainable, rounding_of
from .backward import rule_bound
from .belief_bound import belief_bound
from .checked_policy import channels_heard
from .checked_problem import CheckedProblem, Paid, most_bits
from .claims import Claim, ProvenBound, ProvenChannel, ProvenQuantity, Register, Sampled
from .form import check_form
from .policy_values import PolicyValues, policy_values
from .reading import MALFORMED
from .record import Record
from .sampling import DOUBT, ROUNDS, Interval, Sampler, interval


@dataclass(frozen=True)
class Draws:
    """How the verifier draws sequences for statistical claims.

    **Attributes:** `doubt`: what is left of 1 by the confidence, for all claims together; `sequences` of the first round, None
    for those of the claim; `seed`: for a reproducible rerun; None draws from the randomness of the system.
    """

    doubt: float = DOUBT
    sequences: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        defects = []
        if not (isinstance(self.doubt, float) and 0 < self.doubt < 1):
            defects.append(f"confidence leaves {self.doubt!r}, expected a number between 0 and 1")
        if self.sequences is not None and not (type(self.sequences) is int and 2 <= self.sequences <= 10**7):
            defects.append(f"sequences is {self.sequences!r}, expected a whole number, 2 to 10,000,000")
        if self.seed is not None and not (type(self.seed) is int and self.seed >= 0):
            defects.append(f"seed is {self.seed!r}, expected a whole number, 0 or more")
        if defects:
            raise InputError("verify", defects)


@dataclass(frozen=True, eq=False)
class Verification:
    """What was recomputed.

    **Attributes:** `channels`: for each channel of the certificate, by number, the values of the policy that are proven;
    `uppers`: each upper bound; `sampled`: for each statistical claim on bits the interval that the verifier drew, by number of
    the channel; `beliefs`: the lower bound over all policies of agents that see what the observer sees.
    """

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
    claim: Claim,
    record: Record,
    agent: Agent,
    register: Register | None,
    draws: Draws | None = None,
    clock: Watch | None = None,
) -> Verification:
    """Recompute what a certificate claims of a policy in a problem.

    **Arguments:** `register`: what the policy remembers; `draws`: for statistical claims; `clock`: checked about every second.

    **Raises:** `CertificateError` saying what failed, the most basic defect first; `OutOfTime`.
    """
    try:
        require(agent.digest == claim.policy_hash, "policy_hash: the certificate is about another policy")
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
        self.heard = channels_heard(record, agent, register)
        self.random = np.random.default_rng(draws.seed)

    @cached_property
    def own(self) -> CheckedProblem:
        """The problem of the own channel."""
        return CheckedProblem(self.record)

    def acting(self, number: int) -> CheckedProblem:
        """The problem in which the policy acts and one channel counts."""
        return (
            self.own
            if number == 0 and not set(self.heard) - {0}
            else CheckedProblem(self.record, (number,), self.heard)
        )

    def all(self) -> Verification:
        claim = self.claim
        check_form(claim, self.record, heard=bool(self.heard) or self.record.blind)
        for one, wanted, paid in zip(claim.quantities, self.record.quantities, self.own.paid, strict=True):
            if isinstance(wanted.bound, str) and one.bound is not None:
                self._check_percentage(one.bound, wanted.bound, paid)
        channels, sampled = dict[int, PolicyValues](), dict[int, Interval]()
        for one in claim.channels:
            problem = self.acting(one.number)
            channels[one.number] = self._check_channel(one, problem)
            if one.sampled is not None:
                sampled[one.number] = self._check_draws(one, one.sampled, problem)
        for k, one in enumerate(claim.quantities):
            if one.sequences:
                self._check_drawn_value(one, k)
        uppers = tuple(self._check_upper(one) for one in claim.bounds)
        return Verification(channels, uppers, sampled, self._check_beliefs())

    def _check_beliefs(self) -> float | None:
        """The lower bound over all policies that beliefs prove, where it is claimed."""
        claim, told = self.claim, self.claim.beliefs
        if told is None:
            return None
        found = belief_bound(self.own, told, tuple(one.bound for one in claim.quantities), self.clock)
        require(told.lower <= found, f"beliefs: a lower bound of {told.lower} is claimed, and {found} is found")
        return found

    def _check_percentage(self, bound: float, wanted: str, paid: Paid) -> None:
        """Raise `CertificateError` where a bound is not the share of its quantity's range that the problem asks for."""
        ends, share = attainable(self.own, paid, self.claim.values), float(wanted.removesuffix("%")) / 100
        rounding = SAME_RETURN * (ends.largest - ends.smallest) + 2 * ends.error + 4 * rounding_of(self.own, paid)
        found = ends.at(share)
        require(abs(bound - found) <= rounding, f"threshold: {bound} is claimed for {wanted}, and {found} is found")

    def _check_channel(self, one: ProvenChannel, problem: CheckedProblem) -> PolicyValues:
        """What is proven of a channel, and of the quantities where it is the own one."""
        claim, bounds = self.claim, tuple(each.bound for each in self.claim.quantities)
        proven = [k for k, each in enumerate(claim.quantities) if one.number == 0 and not each.sequences]
        found = policy_values(
            problem, self.policy, one.window, one.prune, claim.values, bounds=bounds, goal=claim.goal, merge=one.merge,
            clock=self.clock, quantities=bool(proven), bits=one.lower > 0 or one.upper < problem.most_bits,
        )  # fmt: skip
        within = one.lower <= found.lower and found.upper <= one.upper
        require(
            within, f"channel {one.name}: {one.lower} … {one.upper} is claimed, {found.lower} … {found.upper} is found"
        )
        for k in proven:
            each, is_so = claim.quantities[k], found.quantities[k]
            _check_value(each, is_so.value, is_so.error)
            words = f"met is {each.met} for {each.text}, and a value of {is_so.value} ± {is_so.error} is found"
            require(each.met is is_so.met, f"quantities: {words}")
        return found

    def _check_draws(self, one: ProvenChannel, told: Sampled, problem: CheckedProblem) -> Interval:
        """What is claimed of a channel with confidence."""
        sampler = Sampler(problem, self.policy)

        def bits(count: int, doubt: float) -> Interval:
            draws = sampler.draw(count, self.random, self.clock)
            found = interval(draws, 0.0, problem.most_bits, doubt, sampler.error)
            return (
                replace(found, upper=problem.most_bits) if problem.untimed else found
            )  # one with a clock may know more

        return self._borne_out(told.sequences, told.lower, told.upper, f"channel {one.name}", bits)

    def _check_drawn_value(self, one: ProvenQuantity, number: int) -> None:
        """What is claimed of a quantity with confidence."""
        sampler = Sampler(self.acting(0), self.policy)

        def value(count: int, doubt: float) -> Interval:
            return interval(sampler.earn(count, self.random, self.clock)[number], *sampler.range(number), doubt)

        low, high = Fraction(one.value) - Fraction(one.error), Fraction(one.value) + Fraction(one.error)
        self._borne_out(one.sequences, low, high, one.name, value)
        met = one.bound is None or (low >= one.bound if one.sign > 0 else high <= one.bound)
        words = f"met is {one.met} for {one.text}, and the value is {one.value} ± {one.error} with confidence"
        require(one.met is met, f"quantities: {words}")

    def _borne_out(
        self,
        sequences: int,
        low: float | Fraction,
        high: float | Fraction,
        what: str,
        draw: Callable[[int, float], Interval],
    ) -> Interval:
        """An interval from the verifier's own draws within what is claimed: of some rounds, each with four times the sequences
        and half of the doubt."""
        claims = sum(each.sampled is not None for each in self.claim.channels)
        claims += sum(each.sequences > 0 for each in self.claim.quantities)
        found, count = Interval(-math.inf, math.inf, 0.0), self.draws.sequences or sequences
        for number in range(ROUNDS):
            found = draw(count * 4**number, self.draws.doubt / claims / 2 ** (number + 1))
            if low <= found.lower and found.upper <= high:
                return found
        where = f"{found.lower} … {found.upper} is found in {count * 4 ** (ROUNDS - 1):,} sequences"
        raise CertificateError(f"{what}: {float(low)} … {float(high)} is claimed with confidence, {where}")

    def _check_upper(self, bound: ProvenBound) -> float:
        """The bound that rules prove, or `log2 |Z|`, which needs none; raises `CertificateError` where less is claimed."""
        claim, channels = self.claim, tuple(one.channel for one in bound.rules)
        bounds, factors = (tuple(getattr(one, name) for one in claim.quantities) for name in ("bound", "factor"))
        ahead = self.own.each is not None and self.own.each.ahead
        if claim.hidden == (0,) and ahead and not any((*bound.prices, *factors)):
            require(bound.upper >= self.own.most_bits, "upper bound: no rule is known for values that lie ahead")
            return self.own.most_bits
        wrong = [one for one in channels if one not in claim.hidden and one not in claim.kept]
        require(
            not wrong and len(set(channels)) == len(channels), f"rule: its channels are {channels}, expected others"
        )
        if bound.delay:
            problem = CheckedProblem(self.record, delay=bound.delay)
        else:
            problem = self.own if channels == (0,) else CheckedProblem(self.record, channels)
        found = rule_bound(problem, bound, bounds, claim.values, claim.kept, factors, self.clock)
        require(
            found < math.inf, "upper bound: a rule excludes something that a policy can reach, and so proves nothing"
        )
        most = min(most_bits(self.record, self.record.channels[number]) for number in claim.hidden)
        least = found if any(factors) else min(found, most)
        words = f"upper bound: {bound.upper} is claimed with delay {bound.delay}, and {least} is found"
        require(bound.upper >= least, words)
        return least


def _check_value(one: ProvenQuantity, found: float, error: float) -> None:
    """Raise `CertificateError` unless a quantity is claimed within an error that holds and is not needlessly large."""
    off = abs(Fraction(one.value) - Fraction(found)) + Fraction(error)
    require(
        off <= Fraction(one.error), f"{one.name}: {one.value} ± {one.error} is claimed, and {found} ± {error} is found"
    )
    most = 4 * error + 32 * UNIT * abs(found)
    require(one.error <= most, f"{one.name}: an error of {one.error} is claimed, and {most} is the most")
