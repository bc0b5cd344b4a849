"""`certify`: makes a certificate for any policy; the verifier's own functions compute and round its numbers."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Literal, TypedDict

import numpy as np

from ..common.checks import Defects, is_number
from ..common.clock import Clock, OutOfTime, Progress, ProgressOption
from ..common.errors import InputError, TooLargeError
from ..engine.feasibility import check_constraints
from ..game.bounds import Bounds as GameBounds
from ..game.pairs import DEFAULT_MEMORY
from ..game.responses import Task
from ..policy.policy import Policy, check_call
from ..problem.pairs import OWN, hidden_names
from ..problem.problem import Problem
from ..problem.terms import hidden_terms, terms_of, with_task
from .arithmetic import FLOOR, UNIT
from .belief_bound import belief_bound
from .certificate import Certificate
from .checked_policy import channels_heard
from .checked_problem import Bounds, CheckedProblem
from .claims import BeliefBound, ProvenChannel, ProvenQuantity, Sampled
from .compiled import free_quantities, record_of
from .described import described, policy_words
from .feasibility import after_horizon, bounds_of
from .form import claimed_channels
from .forward import MOST_MOVES
from .observers import Asked, best_observers
from .policy_values import PolicyContent, PolicyValues, ProvenValue, policy_values
from .record import Record
from .sampling import DOUBT, Sampler, interval
from .words import bound_words, claim_words, seal_of

_SECONDS = 60.0  # of the whole search by default
_POLICY_SHARE = 1 / 3  # of the time, for the policy's own opacity
# Of that, to follow all histories, and seconds more, which small problems need, and small windows after a short limit.
_EXACT_SHARE, _GRACE = 1 / 3, 0.5
_LATEST = 0.75  # seconds after the limit, for all of these together
_RETURN_SHARE, _RETURN_SECONDS = 0.7, 0.5  # for the policy's return in any case, without which there is no certificate
_PATH_SHARE = 1 / 2  # the same where a whole path is secret: a window holds only its last part, so there are none
_WINDOWS_SHARE = 1 / 2  # of what is then left, for windows; merged histories, better where memory lasts, get the rest
_MOST_MOVES = 2**23  # of a step with histories: a few seconds, at about 80 bytes each
_PRUNINGS = (1e-12, 1e-10, 1e-8, 1e-7)  # of a window that does not fit, from the one that costs least bits
_MERGINGS, _MERGE_PRUNE = (256, 1024, 4096, 16384), 1e-9  # histories that a layer keeps apart, and rarer ones left out
_SAMPLE_SHARE = 1 / 2  # of the time that is then left, for statistical claims
_SEQUENCES, _LEAST_SEQUENCES = 20_000, 256  # of a statistical claim
_WORTH_DRAWING = 0.02  # bits between the proven bound and the mean of draws from which on one is made
_MARGIN = 1.8  # widths between the mean and what is claimed, so that other draws bear it out
_SLACK = 2.0**-40  # bits between a claim and what is proven here: machines differ in the last digit of a logarithm


def certify(
    problem: Problem,
    policy: Policy,
    time_limit: float | None = None,
    gap: float = 1e-3,
    *,
    goal: Literal["opaque", "transparent"] = "opaque",
    hide: str = OWN,
    task: str | None = None,
    game: GameBounds | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    progress: ProgressOption = None,
) -> Certificate:
    """Prove how much a policy hides, and that no policy hides much more under the same constraints.

    The lower bound is the policy's own opacity, exact if the observation tree fits and from a window around the secret
    otherwise. The upper bound is proven by an observer: its rule comes from the game, on the whole history if that fits
    and on a bounded memory otherwise, and holds for all policies. For a policy that does not see the observations a second
    observer proves a smaller bound over agents that do not see the current observation (`certificate.delayed`), if that
    is smaller and the observations depend on the state alone. With goal "transparent" a minimum is wanted, for which
    the game has no bound: the certificate then holds the policy's own value and says so. With pairs (`hide`, or lower bounds
    on pairs of the problem) both bounds are about the least of what is hidden in the pairs, under all of their lower bounds.

    **Arguments:**

    - `policy`: a Markov, time-dependent, memory or history policy.
    - `time_limit`: seconds, 60 by default. At most a third is used for the policy's own opacity, the rest for the search
      for rules. One pass over the horizon, for the return, must fit (or be drawn; one second more is allowed for it).
    - `goal`: `"opaque"` or `"transparent"`, as for `veil.solve`.
    - `hide`: the pairs of which the smallest opacity is proven, separated by commas, as for `veil.solve`.
    - `task`: a sum of rewards and probabilities that counts beside the bits, as for `veil.solve`: both bounds are then on what
      is hidden and that sum together. There is no bound for bits in a task.
    - `gap`: the search for a rule ends when its bounds are this many bits apart.
    - `game`: a game of this problem that was already solved (`Solution.proof`), whose observer is then used.
    - `memory_bytes`: for the game.
    - `progress`: as for `veil.solve`.

    **Returns:** a `Certificate`, which `veil.verify(certificate, problem, policy)` accepts. If there is no time for a
    game, the bound is `log2 |Z|` or what the first event tells of the start. A keyboard interrupt ends the search with the
    best proof so far; it is passed on if nothing is proven of the policy yet.

    **Raises:** `InputError` if the policy does not fit; `InfeasibleError` if no policy meets the constraints;
    `CertificateError` if the verifier refuses the problem or the policy; `TooLargeError` if not even the policy's return
    can be proven in the time.
    """
    return prove(
        problem, policy, time_limit, gap, goal=goal, hide=hide, task=task, game=game, memory_bytes=memory_bytes,
        progress=progress,
    )[0]  # fmt: skip


def prove(
    problem: Problem,
    policy: Policy,
    time_limit: float | None = None,
    gap: float = 1e-3,
    *,
    goal: Literal["opaque", "transparent"] = "opaque",
    hide: str = OWN,
    task: str | None = None,
    game: GameBounds | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    progress: ProgressOption = None,
    beliefs: BeliefBound | None = None,
) -> tuple[Certificate, bool]:
    """`certify`, and whether an interrupt ended it before its time, so that the bounds may be weaker than they could be.

    **Arguments:** `beliefs`: with goal "transparent" the witness of a lower bound over all policies, whose number is found
    here.
    """
    _check(policy, problem, goal, time_limit, gap, memory_bytes)
    clock = Clock(_SECONDS if time_limit is None else float(time_limit))
    problem, terms = _counted(problem, task, goal)
    names = [one.name for one in problem.channels]
    hidden = tuple(names.index(name) for name in hidden_names(problem.pairs, hide))
    record, content = record_of(problem), described(problem, policy)
    numbers = _claimed(problem, policy, record, hidden, goal)
    if len(problem.models) == 1 or problem.agent.knows_model:
        check_constraints(problem)  # the bound is also about agents who know the model, who may earn more
    values, bounds = after_horizon(problem), bounds_of(problem)
    proving = _Proving(record, policy, content, values, bounds, goal, gap, clock)
    channels, quantities, finished = proving.all(numbers)
    quantities = _with_factors(problem, quantities, terms)
    claim = Certificate(
        goal=goal,
        hidden=hidden,
        quantities=quantities,
        channels=channels,
        bounds=(),
        best_known=None,
        policy_class=policy_words(problem, policy),
        bound_class=bound_words(record, goal),
        problem_hash=record.problem,
        record_hash=record.digest,
        policy_hash=content[0].digest,
        versions={"veil": version("veil"), "numpy": np.__version__},
        claim="",
        seal="",
        values=values,
        register=content[1],
    )
    if goal == "opaque":
        with Clock(progress=progress) as line:
            left = clock.left if finished else 0.0
            reports = Clock(left, progress=_proof_reports(line, left))
            factors = tuple(one.factor for one in quantities)
            asked = Asked(bounds, values, gap, memory_bytes, terms, factors, hidden, claim.kept)
            # Bounds for agents who are told more hold for those who see less.
            best = best_observers(problem.informed, asked, reports, game, delay=0 if proving.heard else 1)
        finished = finished and not best.interrupted
        found = [best.bound, *([] if best.delayed is None else [best.delayed.bound])]
        most = CheckedProblem(record, hidden[:1]).most_bits if len(best.bound.rules) == 1 and not terms else np.inf
        uppers = tuple(replace(one, upper=min(most, one.upper + _SLACK * max(1.0, abs(one.upper)))) for one in found)
        known = best.known
        if known is not None and claim.feasible and all(one.met for one in channels):
            known = max(known, claim.lower)
        words = bound_words(record, goal, several=len(best.bound.rules) > 1)
        claim = replace(claim, bounds=uppers, best_known=known, bound_class=words)
    elif beliefs is not None:
        found = belief_bound(CheckedProblem(record), beliefs, bounds)
        claim = replace(claim, beliefs=replace(beliefs, lower=min(claim.upper, found - _SLACK)))
        claim = replace(claim, bound_class=bound_words(record, goal, beliefs=True))
    return replace(claim, claim=claim_words(claim), seal=seal_of(claim)), not finished


def _counted(problem: Problem, task: str | None, goal: str) -> tuple[Problem, Task]:
    """The problem with the quantities of a task, and the factors of these.

    **Raises:** `InputError` where there is no bound for such a task.
    """
    if not task:
        return problem, ()
    if goal != "opaque":
        raise InputError("task", ["with goal='transparent' there is no bound for a sum of bits and a task"])
    for factor, name in hidden_terms(problem, task):
        raise InputError("task", [f"{factor:g}*H({name}): certificates have no bound for bits in a task"])
    problem = with_task(problem, task)
    return problem, tuple(terms_of(problem, task))


def _with_factors(problem: Problem, quantities: tuple[ProvenQuantity, ...], task: Task) -> tuple[ProvenQuantity, ...]:
    """The quantities with the factors by which a task counts them: each where it comes first.

    **Raises:** `TooLargeError` where one of them is not proven.
    """
    numbers = [0, *(one.quantity for one in problem.others), *free_quantities(problem)]
    found = list(quantities)
    for factor, number in task:
        place = numbers.index(number)
        if found[place].sequences:
            raise TooLargeError("the task could not be proven in the time: allow a longer time_limit")
        found[place] = replace(found[place], factor=found[place].factor + factor)
    return tuple(found)


def _claimed(problem: Problem, policy: Policy, record: Record, hidden: tuple[int, ...], goal: str) -> tuple[int, ...]:
    """The channels that the certificate tells of; the own one alone where nothing can be said of another.

    **Raises:** `InputError` where nothing can be proven of a channel that is hidden.
    """
    found, defects = claimed_channels(record, hidden), Defects("hide")
    if goal != "opaque":
        found = None
    if hidden != (0,) and goal != "opaque":
        defects.add("with goal='transparent' a certificate is about the problem's own pair")
    elif hidden != (0,) and found is None:
        defects.add("the loss of an observer with a belief is no entropy: certificates are about pairs without one")
    try:
        for number in found or ():
            policy.acting_in(problem, problem.channels[number].name)
    except InputError as error:
        if hidden != (0,):
            defects.take(error)
        found = None
    defects.raise_if_any()
    return found or (0,)


@dataclass(eq=False)
class _Proving:
    """What is claimed of the policy: in each channel, and of each quantity."""

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

    def all(self, numbers: tuple[int, ...]) -> tuple[tuple[ProvenChannel, ...], tuple[ProvenQuantity, ...], bool]:
        """The channels of these numbers, all quantities, and whether no interrupt ended the search."""
        share = self.clock if self.goal == "transparent" else self.clock.share(_POLICY_SHARE)
        parts, quantities = list[tuple[CheckedProblem, ProvenChannel]](), tuple[ProvenQuantity, ...]()
        for place, number in enumerate(numbers):
            problem = CheckedProblem(self.record, (number,), self.heard)
            part = _PolicyPart(self, problem, number == 0)
            found, way = part.best(share.share(1 / (len(numbers) - place)))
            if number == 0:
                quantities = self._quantities(found.quantities, problem)
            parts.append((problem, self._channel(number, found, way, problem)))
        claims = len(parts) + sum(one.sequences > 0 for one in quantities)
        share, channels = self.clock.share(_SAMPLE_SHARE), list[ProvenChannel]()
        for place, (problem, one) in enumerate(parts):
            channels.append(self._drawn(problem, one, share.share(1 / (len(parts) - place)), claims))
        return tuple(channels), quantities, self.finished

    def _channel(self, number: int, found: PolicyValues, way: "_Way", problem: CheckedProblem) -> ProvenChannel:
        one = self.record.channels[number]
        lower, upper = max(0.0, found.lower - _SLACK), min(problem.most_bits, found.upper + _SLACK)
        return ProvenChannel(number, one.name, one.min, one.max, lower, upper, **way)

    def _quantities(self, found: tuple[ProvenValue, ...], problem: CheckedProblem) -> tuple[ProvenQuantity, ...]:
        """What is claimed of each quantity: proven, or drawn where that did not fit in the time."""
        wanted, drawn = self.record.quantities, 0
        if not found:
            found, drawn = self._earned(problem), _SEQUENCES
        return tuple(
            ProvenQuantity(each.name, each.relation, bound, one.value, error, one.met, drawn)
            for each, bound, one in zip(wanted, self.bounds, found, strict=True)
            for error in [one.error if drawn else _widened(one.error, one.value)]
        )

    def _earned(self, problem: CheckedProblem) -> tuple[ProvenValue, ...]:
        """What the policy earns with confidence."""
        sampler, found = Sampler(problem, self.content), list[ProvenValue]()
        try:
            sums = sampler.earn(_SEQUENCES, self.random, self.clock.share(more=_RETURN_SECONDS))
        except OutOfTime:
            spent = self.clock.spent
            raise TooLargeError(
                f"the return of the policy could not be found in {spent:.1f} s, and without it there is no certificate: allow a"
                " longer time_limit, or shorten the horizon"
            ) from None
        for k, bound in enumerate(self.bounds):
            drawn = interval(sums[k], *sampler.range(k), DOUBT / 2 / (len(self.bounds) + 1))
            error, sign = _MARGIN * drawn.width, self.record.quantities[k].sign
            met = bound is None or sign * (drawn.mean - bound) >= error * (1 + 1e-9)
            found.append(ProvenValue(drawn.mean, error, met))
        return tuple(found)

    def _drawn(self, problem: CheckedProblem, one: ProvenChannel, clock: Clock, claims: int) -> ProvenChannel:
        """The channel with a statistical claim, where the proven bounds are far from the mean of draws."""
        exact = one.window == (-1, problem.horizon + 1) and one.prune <= FLOOR and not one.merge
        if exact or problem.endless or not self.finished:
            return one
        sampler = Sampler(problem, self.content)
        try:
            size = sampler.batch
            sampler.draw(2, self.random, clock)  # makes the steps
            begin = clock.spent
            bits = sampler.draw(size, self.random, clock)
            pace = (clock.spent - begin) / size
            count = int(min(_SEQUENCES, 0.8 * clock.left / max(pace, 1e-9)))
            if count >= _LEAST_SEQUENCES:
                bits = sampler.draw(count, self.random, clock)
        except (OutOfTime, TooLargeError):
            return one
        found = interval(bits, 0.0, problem.most_bits, DOUBT / 2 / claims, sampler.error)
        lower = max(0.0, found.mean - _MARGIN * found.width)
        upper = problem.most_bits if problem.untimed else min(problem.most_bits, found.mean + _MARGIN * found.width)
        far = found.mean - one.lower if self.goal == "opaque" else one.upper - found.mean
        gains = lower > one.lower if self.goal == "opaque" else upper < one.upper
        if far <= _WORTH_DRAWING or not gains:
            return one
        return replace(one, sampled=Sampled(lower, upper, len(bits)))


def _widened(error: float, value: float) -> float:
    """The error that is claimed for a value: larger than what is found, for machines that round otherwise."""
    return 2 * error + 8 * UNIT * abs(value)


PROVING = "proving"
"""The phase of a report that is about the upper bound over all policies, and not about the policy that was found."""


def _proof_reports(line: Clock, time_limit: float) -> Callable[[Progress], None]:
    """Reports of a game as those of a proof: the share that is done is that of the time."""
    seconds = max(1, round(min(time_limit, 1e9)))

    def report(news: Progress) -> None:
        spent = line.spent
        line.report(replace(news, phase=PROVING, iteration=min(seconds, int(spent)), of=seconds, seconds=spent))

    return report


def _check(
    policy: Policy, problem: Problem, goal: str, time_limit: float | None, gap: float, memory_bytes: float
) -> None:
    check_call(problem, policy)
    defects = Defects("certify")
    if goal not in ("opaque", "transparent"):
        defects.add(f"goal is {goal!r}, expected 'opaque' or 'transparent'")
    if time_limit is not None and not (is_number(time_limit) and time_limit >= 0):
        defects.add(f"time_limit is {time_limit!r}, expected seconds, 0 or more")
    if not (is_number(gap) and gap >= 0):
        defects.add(f"gap is {gap!r}, expected bits, 0 or more")
    if not (is_number(memory_bytes) and memory_bytes >= 0):
        defects.add(f"memory_bytes is {memory_bytes!r}, expected a number, 0 or more")
    defects.raise_if_any()
    policy.check(problem)


class _Way(TypedDict):
    """How a policy's opacity is bounded; see `policy_values`."""

    window: tuple[int, int]
    prune: float
    merge: int


class _PolicyPart:
    """The search for the best bound on a policy's own opacity: exact if that fits, else a window, or merged histories."""

    def __init__(self, proving: _Proving, problem: CheckedProblem, is_own: bool):
        self.proving, self.problem, self.is_own = proving, problem, is_own
        self.whole = (-1, problem.horizon + 1)
        self.found: tuple[PolicyValues, _Way] | None = None

    @property
    def trivial(self) -> "_Way":
        """How nothing is proven: the observer is told the secret's state."""
        return self._way(FLOOR, window=_around(self.problem, 0))

    def best(self, clock: Clock) -> "tuple[PolicyValues, _Way]":
        """The values, and how they were found; the return, without which there is no proof, may take longer than this `clock`.

        **Raises:** `TooLargeError` where not even the return of an infinite horizon can be proven.
        """
        proving = self.proving
        try:
            share = _EXACT_SHARE if self.problem.path is None else _PATH_SHARE
            if not self._try([self._way(FLOOR)], self._part(clock, share)):
                # The observer is told the secret's state: nothing is hidden, and only the return is found.
                least = proving.clock.share(_RETURN_SHARE, more=_RETURN_SECONDS)
                if not self._try([self.trivial], least, MOST_MOVES):
                    if self.problem.endless:
                        raise TooLargeError(
                            f"the return of the policy could not be proven in {least.spent:.1f} s, and without it there is no"
                            " certificate: allow a longer time_limit, or shorten the horizon"
                        )
                    return PolicyValues(0.0, self.problem.most_bits, ()), self.trivial
                if self.problem.path is None:
                    self._widen(self._part(clock, _WINDOWS_SHARE))
                self._merge(clock)
        except KeyboardInterrupt:
            if self.found is None:
                raise
            proving.finished = False
        assert self.found is not None
        return self.found

    def _part(self, clock: Clock, share: float) -> Clock:
        """A share of the time, and the seconds more that the limit allows."""
        return self.proving.latest.within(share * clock.left + _GRACE)

    def _way(self, prune: float, merge: int = 0, window: tuple[int, int] | None = None) -> _Way:
        return {"window": self.whole if window is None else window, "prune": prune, "merge": merge}

    def _try(self, ways: list[_Way], clock: Clock, most_moves: int = _MOST_MOVES) -> bool:
        """Keep the values by the first way that fits, if they are better; says whether one fits."""
        proving = self.proving
        for how in ways:
            try:
                values = policy_values(
                    self.problem,
                    proving.content,
                    values=proving.values,
                    bounds=proving.bounds if self.is_own else (),
                    goal=proving.goal,
                    quantities=self.is_own,
                    clock=clock,
                    most_moves=most_moves,
                    **how,
                )
            except (TooLargeError, OutOfTime):
                continue
            if self.found is None or self._gain(values) > self._gain(self.found[0]):
                self.found = values, how
            return True
        return False

    def _gain(self, values: PolicyValues) -> float:
        return values.lower if self.proving.goal == "opaque" else -values.upper

    def _widen(self, clock: Clock) -> None:
        """Wider and wider windows, while there is time and they gain."""
        assert self.found is not None
        # At the edge of its window the observer is told the agent's memory, which should then be small.
        first, gap = self.proving.policy.memory_span(self.problem.secret_time), self.proving.gap
        for radius in range(first, self.problem.horizon + 2):
            begin, window, before = clock.spent, _around(self.problem, radius), self._gain(self.found[0])
            ways = [self._way(prune, window=window) for prune in (FLOOR, *_PRUNINGS)]
            if not self._try(ways, clock):
                break
            # A window costs a few times what the one before it took.
            following = 3 * (clock.spent - begin)
            small = before > 0 and self._gain(self.found[0]) - before < gap / 20
            if window == self.whole or following > clock.left or (following > 2 and small):
                break

    def _merge(self, clock: Clock) -> None:
        """The whole horizon with histories merged, more and more of them kept apart."""
        assert self.found is not None
        for most in _MERGINGS if self.found[1] != self._way(FLOOR) else ():
            begin = clock.spent
            fits = self._try([self._way(_MERGE_PRUNE, most)], clock)
            if not fits or 4 * (clock.spent - begin) > clock.left:
                break


def _around(problem: CheckedProblem, radius: int) -> tuple[int, int]:
    """The window of a radius around the secret's time; a secret settled first or last needs one side only, one with a value at
    every time the steps before each."""
    if problem.each is not None:
        return (radius if radius < problem.horizon else -1, problem.horizon + 1)
    time, horizon = problem.secret_time, problem.horizon
    left, right = max(time - radius, -1), min(time + radius, horizon + 1)
    return (-1 if time == 0 else left, horizon + 1 if time == horizon else right)
