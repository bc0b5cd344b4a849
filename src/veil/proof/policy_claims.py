"""The search for what is claimed of a policy: of every quantity and in every channel, proven, or drawn where that falls short.

All ways to bound the bits of a channel are tried in the order of the time that they are expected to take: all histories; none,
which only gives the quantities; then wider and wider windows, and more and more histories that are kept apart where others
are merged.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..common.clock import Clock, OutOfTime
from ..common.errors import TooLargeError
from ..policy.policy import Policy
from .arithmetic import FLOOR, UNIT
from .checked_policy import channels_heard
from .checked_problem import Bounds, CheckedProblem
from .claims import ProvenChannel, ProvenQuantity, Sampled
from .forward import MOST_MOVES
from .policy_values import PolicyContent, PolicyValues, ProvenValue, policy_values
from .record import Record
from .sampling import DOUBT, Sampler, interval

SLACK = 2.0**-40  # bits between a claim and what is proven here: machines differ in the last digit of a logarithm
# Shares of the time: of the whole search for the bits; of that for all histories; of the whole for the quantities in any case,
# without which there is no certificate; of what is left after the bits for draws.
_POLICY_SHARE, _EXACT_SHARE, _RETURN_SHARE, _SAMPLE_SHARE = 1 / 4, 1 / 3, 0.7, 1 / 2
# Seconds more than such a part: for the bits, as small problems need them; for all channels together; for the quantities.
_GRACE, _LATEST, _RETURN_SECONDS = 0.5, 0.75, 0.5
_MOST_MOVES = 2**23  # of a step with histories: a few seconds, at about 80 bytes each
_PRUNINGS = (FLOOR, 1e-12, 1e-10, 1e-8, 1e-7)  # of a window, in turn until it fits: the first costs least bits
_MERGINGS, _MERGE_PRUNE = (
    (256, 1024, 4096, 16384),
    1e-12,
)  # histories that a layer keeps apart, and rarer weights left out
_GROWTH, _FELT = 4, 2.0  # times as long takes the next way of its kind at most; seconds from which on it has to gain
_GAIN = 1 / 20  # of the gap asked for, which the last way of a kind must have gained then
_SEQUENCES, _LEAST_SEQUENCES = 20_000, 256  # of a statistical claim
_WORTH_DRAWING = 0.02  # bits between the proven bound and the mean of draws from which on one is made
_MARGIN = 1.8  # widths between the mean and what is claimed, so that other draws bear it out


class Way(NamedTuple):
    """How the bits of a policy are bounded; see `policy_values`."""

    window: tuple[int, int]
    prune: float = FLOOR
    merge: int = 0


@dataclass(eq=False)
class PolicyClaims:
    """What is claimed of a policy. **Attributes:** `heard`: the channels that it acts on; `finished`: no interrupt ended it."""

    record: Record
    policy: Policy
    content: PolicyContent
    values: np.ndarray | None
    bounds: Bounds
    goal: str
    gap: float
    clock: Clock

    def __post_init__(self) -> None:
        self.heard, self.finished = channels_heard(self.record, *self.content), True
        self.random, self.latest = np.random.default_rng(0), self.clock.share(more=_LATEST)

    def all(self, numbers: tuple[int, ...]) -> tuple[tuple[ProvenChannel, ...], tuple[ProvenQuantity, ...]]:
        """The channels of these numbers, of which the own one is the first, and all quantities."""
        share = self.clock if self.goal == "transparent" else self.clock.share(_POLICY_SHARE)
        parts = [_Part(self, CheckedProblem(self.record, (number,), self.heard)) for number in numbers]
        for place, part in enumerate(parts):
            part.search(share.share(1 / (len(parts) - place)))
        quantities = self._quantities(parts[0])
        claims = len(parts) + sum(one.sequences > 0 for one in quantities)
        share, channels = self.clock.share(_SAMPLE_SHARE), list[ProvenChannel]()
        for place, part in enumerate(parts):
            channels.append(part.claim(share.share(1 / (len(parts) - place)), claims))
        return tuple(channels), quantities

    def _quantities(self, own: "_Part") -> tuple[ProvenQuantity, ...]:
        """What is claimed of each quantity: proven, or drawn where that did not fit in the time."""
        found, drawn = own.best[0].quantities, 0
        if not found:
            found, drawn = self._earned(own.problem), _SEQUENCES
        return tuple(
            ProvenQuantity(each.name, each.relation, bound, one.value, error, one.met, drawn)
            for each, bound, one in zip(self.record.quantities, self.bounds, found, strict=True)
            for error in [one.error if drawn else _widened(one.error, one.value)]
        )

    def _earned(self, problem: CheckedProblem) -> tuple[ProvenValue, ...]:
        """What the policy earns with confidence."""
        sampler, found = Sampler(problem, self.content), list[ProvenValue]()
        try:
            sums = sampler.earn(_SEQUENCES, self.random, self.clock.share(more=_RETURN_SECONDS))
        except OutOfTime:
            raise self.no_return("found", self.clock) from None
        for k, bound in enumerate(self.bounds):
            drawn = interval(sums[k], *sampler.range(k), DOUBT / 2 / (len(self.bounds) + 1))
            error, sign = _MARGIN * drawn.width, self.record.quantities[k].sign
            met = bound is None or sign * (drawn.mean - bound) >= error * (1 + 1e-9)
            found.append(ProvenValue(drawn.mean, error, met))
        return tuple(found)

    def no_return(self, what: str, clock: Clock) -> TooLargeError:
        """The error where there is no certificate."""
        return TooLargeError(
            f"the return of the policy could not be {what} in {clock.spent:.1f} s, and without it there is no certificate:"
            " allow a longer time_limit, or shorten the horizon"
        )


def _widened(error: float, value: float) -> float:
    """The error that is claimed for a value: larger than what is found, for machines that round otherwise."""
    return 2 * error + 8 * UNIT * abs(value)


class _Part:
    """The search for the bits of one channel; with the own one also for the quantities.

    **Attributes:** `best`: what is proven, and the way; they are replaced as one, so that no interrupt can mix two.
    """

    def __init__(self, claims: PolicyClaims, problem: CheckedProblem):
        self.claims, self.problem = claims, problem
        self.whole = Way((-1, problem.horizon + 1))
        # The observer is told the secret's state: nothing is hidden.
        self.best = PolicyValues(-np.inf, np.inf, ()), Way(_around(problem, 0))

    def search(self, clock: Clock) -> None:
        """All ways that fit in the time; the quantities may take longer than this `clock`.

        **Raises:** `TooLargeError` where not even the return of an infinite horizon can be proven.
        """
        claims = self.claims
        try:
            if self._tried([self.whole], claims.latest.within(_EXACT_SHARE * clock.left + _GRACE)) is not None:
                return
            least = claims.clock.share(_RETURN_SHARE, more=_RETURN_SECONDS)
            if self._tried([self.best[1]], least, MOST_MOVES) is not None:
                self._grow(claims.latest.within(clock.left + _GRACE))
            elif self.problem.endless:
                raise claims.no_return("proven", least)
        except KeyboardInterrupt:
            if np.isinf(self.best[0].upper):
                raise
            claims.finished = False

    def _gain(self, found: PolicyValues) -> float:
        return found.lower if self.claims.goal == "opaque" else -found.upper

    def _tried(self, ways: list[Way], clock: Clock, most_moves: int = _MOST_MOVES) -> float | None:
        """What the first of some ways proves that fits, which is kept if it is better than the best; None if none fits."""
        claims, is_own = self.claims, self.problem.asked == (0,)
        for way in ways:
            try:
                found = policy_values(
                    self.problem, claims.content, way.window, way.prune, claims.values,
                    bounds=claims.bounds if is_own else (), goal=claims.goal, merge=way.merge, clock=clock,
                    most_moves=most_moves, quantities=is_own,
                )  # fmt: skip
            except (TooLargeError, OutOfTime):
                continue
            if self._gain(found) > self._gain(self.best[0]):
                self.best = found, way
            return self._gain(found)
        return None

    def _grow(self, clock: Clock) -> None:
        """Windows and merged histories, what takes least time first, while there is time and they gain."""
        gap = self.claims.gap
        ahead = {
            self._windows(): (0.0, -np.inf),
            self._mergings(): (0.0, -np.inf),
        }  # seconds of the next, what the last proved
        while ahead and self.best[0].upper - self.best[0].lower > gap:
            kind = min(ahead, key=lambda kind: ahead[kind][0])
            (_, before), ways, begin = ahead.pop(kind), next(kind, []), clock.spent
            gain = self._tried(ways, clock)
            if gain is None:
                continue
            seconds = _GROWTH * (clock.spent - begin)
            if seconds <= clock.left and (seconds <= _FELT or before <= 0 or gain - before >= _GAIN * gap):
                ahead[kind] = seconds, gain

    def _windows(self) -> Iterator[list[Way]]:
        """Wider and wider windows around the secret's time; one holds only the last part of a path, so there are none."""
        problem = self.problem
        # At the edge of its window the observer is told the agent's memory, which should then be small.
        for radius in range(self.claims.policy.memory_span(problem.secret_time), problem.horizon + 2):
            window = _around(problem, radius)
            if problem.path is None:
                yield [Way(window, prune) for prune in _PRUNINGS]
            if window == self.whole.window:
                return

    def _mergings(self) -> Iterator[list[Way]]:
        """All times, with more and more histories that are kept apart."""
        for most in _MERGINGS:
            yield [self.whole._replace(prune=_MERGE_PRUNE, merge=most)]

    def claim(self, clock: Clock, claims: int) -> ProvenChannel:
        """What is claimed of the channel, of so many statistical claims at most: also with confidence, where the proven bounds
        are far from the mean of draws."""
        (number,), problem, (found, way) = self.problem.asked, self.problem, self.best
        one, most = self.claims.record.channels[number], self.problem.most_bits
        lower, upper = max(0.0, found.lower - SLACK), min(most, found.upper + SLACK)
        drawn = None
        if way != self.whole and not problem.endless and self.claims.finished:
            drawn = self._drawn(lower, upper, clock, claims)
        return ProvenChannel(number, one.name, one.min, one.max, lower, upper, *way, drawn)

    def _drawn(self, least: float, largest: float, clock: Clock, claims: int) -> Sampled | None:
        """Bounds with confidence that are worth more than the proven ones; None if there is no time, or they are not."""
        problem, random = self.problem, self.claims.random
        sampler, most = Sampler(problem, self.claims.content), problem.most_bits
        try:
            size = sampler.batch
            sampler.draw(2, random, clock)  # makes the steps
            begin = clock.spent
            bits = sampler.draw(size, random, clock)
            pace = (clock.spent - begin) / size
            count = int(min(_SEQUENCES, 0.8 * clock.left / max(pace, 1e-9)))
            if count >= _LEAST_SEQUENCES:
                bits = sampler.draw(count, random, clock)
        except (OutOfTime, TooLargeError):
            return None
        found = interval(bits, 0.0, most, DOUBT / 2 / claims, sampler.error)
        lower = max(0.0, found.mean - _MARGIN * found.width)
        upper = most if problem.untimed else min(most, found.mean + _MARGIN * found.width)
        opaque = self.claims.goal == "opaque"
        far, gained = (found.mean - least, lower - least) if opaque else (largest - found.mean, largest - upper)
        return Sampled(lower, upper, len(bits)) if far > _WORTH_DRAWING and gained > 0 else None


def _around(problem: CheckedProblem, radius: int) -> tuple[int, int]:
    """The window of a radius around the secret's time; a secret settled first or last needs one side only, one with a value at
    every time the steps before each."""
    if problem.each is not None:
        return (radius if radius < problem.horizon else -1, problem.horizon + 1)
    time, horizon = problem.secret_time, problem.horizon
    left, right = max(time - radius, -1), min(time + radius, horizon + 1)
    return (-1 if time == 0 else left, horizon + 1 if time == horizon else right)
