"""`certify`: makes a certificate for any policy; the verifier's own functions compute and round its numbers."""

# pyright: reportUnnecessaryIsInstance=false
# Users without a type checker are told at run time what is wrong with an argument.

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Literal, TypedDict

import numpy as np

from ..common.checks import Defects, is_number
from ..common.clock import Clock, OutOfTime, Progress, ProgressOption
from ..common.errors import InputError, TooLargeError
from ..engine.feasibility import check_constraints, other_targets
from ..game.pairs import DEFAULT_MEMORY
from ..game.records import RecordsResult
from ..game.refine import SolvedGame
from ..policy.policy import Policy
from ..problem.fingerprint import fingerprint
from ..problem.pairs import OWN, Pair, hidden_names
from ..problem.problem import Problem
from .arithmetic import FLOOR, UNIT
from .certificate import Certificate, DelayedBound, ProvenConstraint, ProvenPair
from .checked_problem import Bounds, CheckedProblem, checked_for
from .claim import bound_words, claim_words, claimed_pairs, policy_words, seal_of
from .feasibility import after_horizon, bounds_of
from .forward import MOST_MOVES
from .observers import best_observer
from .pair_observers import best_observers
from .policy_values import PolicyValues, policy_values

_SECONDS = 60.0  # of the whole search by default
_POLICY_SHARE = 1 / 3  # of the time, for the policy's own opacity
# Of that, to follow all histories, and seconds more, which small problems need, and small windows after a short limit.
_EXACT_SHARE, _GRACE = 1 / 3, 0.5
_RETURN_SECONDS = 1.0  # for the policy's return in any case, without which there is no certificate
_PATH_SHARE = 1 / 2  # the same where a whole path is secret: a window holds only its last part, so there are none
_WINDOWS_SHARE = 1 / 2  # of what is then left, for windows; merged histories, better where memory lasts, get the rest
_MOST_MOVES = 2**23  # of a step with histories: a few seconds, at about 80 bytes each
_PRUNINGS = (1e-12, 1e-10, 1e-8, 1e-7)  # of a window that does not fit, from the one that costs least bits
_MERGINGS, _MERGE_PRUNE = (256, 1024, 4096, 16384), 1e-9  # histories that a layer keeps apart, and rarer ones left out
_SLACK = 2.0**-40  # bits between a claim and what is proven here: machines differ in the last digit of a logarithm


def certify(
    problem: Problem,
    policy: Policy,
    time_limit: float | None = None,
    gap: float = 1e-3,
    *,
    goal: Literal["opaque", "transparent"] = "opaque",
    hide: str = OWN,
    game: SolvedGame | RecordsResult | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    progress: ProgressOption = None,
) -> Certificate:
    """Prove how much a policy hides, and that no policy hides much more under the same constraints.

    The lower bound is the policy's own opacity, exact where the observation tree fits and from a window around the secret
    otherwise. The upper bound is proven by an observer: its rule comes from the game, on the whole history where that fits
    and on a bounded memory otherwise, and holds for all policies. For a policy that does not see the observations a second
    observer proves a smaller bound over agents that do not see the current observation (`certificate.delayed`), where that
    is smaller and the observations depend on the state alone. With goal "transparent" a minimum is wanted, for which
    the game has no bound: the certificate then holds the policy's own value and says so. With pairs (`hide`, or lower bounds
    on pairs of the problem) both bounds are about the least of what is hidden in the pairs, under all of their lower bounds.

    **Arguments:**

    - `policy`: a Markov, time-dependent, memory or history policy.
    - `time_limit`: seconds, 60 by default. At most a third is used for the policy's own opacity, the rest for the search
      for rules. One pass over the horizon, for the return, must fit (one second more is allowed for it).
    - `goal`: `"opaque"` or `"transparent"`, as for `veil.solve`.
    - `hide`: the pairs whose least is proven, separated by commas, as for `veil.solve`.
    - `gap`: the search for a rule ends when its bounds are this many bits apart.
    - `game`: a game of this problem that was already solved (`Solution.proof`), whose observer is then used.
    - `memory_bytes`: for the game.
    - `progress`: as for `veil.solve`.

    **Returns:** a `Certificate`, which `veil.verify(certificate, problem, policy)` accepts. Where there is no time for a
    game, the bound is `log2 |Z|` or what the first event tells of the start. A keyboard interrupt ends the search with the
    best proof so far; it is passed on where nothing is proven of the policy yet.

    **Raises:** `InputError` where the policy does not fit; `InfeasibleError` where no policy meets the constraints;
    `CertificateError` where the verifier refuses the problem or the policy; `TooLargeError` where not even the policy's return
    can be proven in the time.
    """
    return prove(
        problem, policy, time_limit, gap, goal=goal, hide=hide, game=game, memory_bytes=memory_bytes, progress=progress
    )[0]


def prove(
    problem: Problem,
    policy: Policy,
    time_limit: float | None = None,
    gap: float = 1e-3,
    *,
    goal: Literal["opaque", "transparent"] = "opaque",
    hide: str = OWN,
    game: SolvedGame | RecordsResult | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
    progress: ProgressOption = None,
) -> tuple[Certificate, bool]:
    """`certify`, and whether an interrupt ended it before its time, so that the bounds may be weaker than they could be."""
    _check(policy, problem, goal, time_limit, gap)
    clock = Clock(_SECONDS if time_limit is None else float(time_limit))
    names = hidden_names(problem.pairs, hide)
    wanted = _claimed(problem, policy, names, goal)
    if len(problem.models) == 1 or problem.agent.knows_model:
        check_constraints(problem)  # the bound is also about agents who know the model, who may earn more
    checked, values = CheckedProblem(problem), after_horizon(problem)
    share = clock if goal == "transparent" else clock.share(_POLICY_SHARE)
    bounds, most = bounds_of(problem), checked.most_bits
    part = share.share(1 / (1 + len(wanted)))
    acting = checked_for(problem, policy, own=checked)
    found, how, finished = _PolicyPart(acting, policy, values, bounds, goal).best(part, gap, clock)
    parts = [
        _pair(problem, policy, values, one, (share.share(1 / (len(wanted) - number)), clock), gap)
        for number, one in enumerate(wanted)
    ]
    pairs = tuple(pair for pair, _ in parts)
    finished = finished and all(ended for _, ended in parts)
    lowers = {OWN: max(0.0, found.lower - _SLACK)} | {one.name: one.lower for one in pairs}
    claim = Certificate(
        goal=goal,
        lower=min(lowers[name] for name in names),
        upper=min(most, found.upper + _SLACK),
        expected_return=found.expected_return,
        return_error=_widened(found.return_error, found.expected_return),
        threshold=bounds[0],
        feasible=found.feasible,
        best_known=None,
        policy_class=policy_words(problem, policy),
        bound_class=bound_words(problem, goal),
        **how,
        problem_hash=fingerprint(problem),
        policy_hash=policy.digest(),
        versions={"veil": version("veil"), "numpy": np.__version__},
        claim="",
        seal="",
        values=values,
        constraints=_constraints(problem, found),
        hide=names,
        pairs=pairs,
    )
    if goal == "opaque":
        several = names != (OWN,) or bool(claim.kept)
        with Clock(progress=progress) as line:
            left = clock.left if finished else 0.0
            proving = Clock(left, progress=_proving(line, left))
            delay = 0 if policy.reads(problem) or several else 1
            if several:
                best = best_observers(problem, names, claim.kept, bounds, values, gap, proving, memory_bytes, game)
            else:
                single = None if isinstance(game, RecordsResult) else game
                best = best_observer(checked, bounds, values, gap, proving, memory_bytes, single, delay)
        finished = finished and not best.interrupted
        known, upper = best.known, best.upper + _SLACK
        if known is not None and claim.feasible and all(one.met for one in pairs):
            known = max(known, claim.lower)
        if not several:
            upper = min(most, upper)
        words = bound_words(problem, goal, several=bool(best.witness.others))
        claim = replace(claim, witness=best.witness, upper=upper, best_known=known, bound_class=words)
        if best.delayed is not None:
            late = DelayedBound(delay, best.delayed.upper + _SLACK, best.delayed.witness)
            claim = replace(claim, delayed=late)
    else:
        claim = replace(claim, lower=0.0)
    return replace(claim, claim=claim_words(claim), seal=seal_of(claim)), not finished


def _claimed(problem: Problem, policy: Policy, names: tuple[str, ...], goal: str) -> tuple[Pair, ...]:
    """The pairs that the certificate tells of; none where nothing can be said of one of them and the own pair is hidden.

    **Raises:** `InputError` where nothing can be proven of a pair that is hidden.
    """
    found, defects = claimed_pairs(problem, names), Defects("hide")
    if goal != "opaque":
        found = None
    if names != (OWN,) and goal != "opaque":
        defects.add("with goal='transparent' a certificate is about the problem's own pair")
    elif names != (OWN,) and found is None:
        defects.add("the loss of an observer with a belief is no entropy: certificates are about pairs without one")
    try:
        for one in found or ():
            policy.acting_in(problem, one.name)
    except InputError as error:
        if names != (OWN,):
            defects.take(error)
        found = None
    defects.raise_if_any()
    return found or ()


def _pair(
    problem: Problem, policy: Policy, values: np.ndarray | None, pair: Pair, clocks: tuple[Clock, Clock], gap: float
) -> tuple[ProvenPair, bool]:
    """What is proven of one pair under the policy, and whether no interrupt ended the search.

    **Arguments:** `clocks`: of this pair, and of the whole proof.
    """
    checked = checked_for(problem, policy, pair.name)
    found, how, finished = _PolicyPart(checked, policy, values, (), "opaque").best(clocks[0], gap, clocks[1])
    lower, upper = max(0.0, found.lower - _SLACK), min(checked.most_bits, found.upper + _SLACK)
    return ProvenPair(pair.name, pair.min, pair.max, lower, upper, **how), finished


def _widened(error: float, value: float) -> float:
    """The error that is claimed for a value: larger than what is found, for machines that round otherwise."""
    return 2 * error + 8 * UNIT * abs(value)


def _constraints(problem: Problem, found: PolicyValues) -> tuple[ProvenConstraint, ...]:
    """The bounds beside the threshold with what is proven of each."""
    return tuple(
        ProvenConstraint(
            one.name, wanted.relation, one.bound, proven.value, _widened(proven.error, proven.value), proven.met
        )
        for wanted, one, proven in zip(problem.others, other_targets(problem), found.others, strict=True)
    )


PROVING = "proving"
"""The phase of a report that is about the upper bound over all policies, and not about the policy that was found."""


def _proving(line: Clock, time_limit: float) -> Callable[[Progress], None]:
    """Reports of a game as those of a proof: the share that is done is that of the time."""
    seconds = max(1, round(min(time_limit, 1e9)))

    def report(news: Progress) -> None:
        spent = line.spent
        line.report(replace(news, phase=PROVING, iteration=min(seconds, int(spent)), of=seconds, seconds=spent))

    return report


def _check(policy: Policy, problem: Problem, goal: str, time_limit: float | None, gap: float) -> None:
    defects = Defects("certify")
    if goal not in ("opaque", "transparent"):
        defects.add(f"goal is {goal!r}, expected 'opaque' or 'transparent'")
    if time_limit is not None and not (is_number(time_limit) and time_limit >= 0):
        defects.add(f"time_limit is {time_limit!r}, expected seconds, 0 or more")
    if not (is_number(gap) and gap >= 0):
        defects.add(f"gap is {gap!r}, expected bits, 0 or more")
    if not isinstance(policy, Policy):
        defects.add(f"policy is a {type(policy).__name__}, expected a policy: veil.MarkovPolicy(probabilities)")
    defects.raise_if_any()
    policy.check(problem)


class _Way(TypedDict):
    """How a policy's opacity is bounded; see `policy_values`."""

    window: tuple[int, int]
    prune: float
    merge: int


class _PolicyPart:
    """The search for the best bound on a policy's own opacity: exact if that fits, else a window, or merged histories."""

    def __init__(
        self,
        problem: CheckedProblem,
        policy: Policy,
        values: np.ndarray | None,
        bounds: Bounds,
        goal: str,
    ):
        self.problem, self.policy, self.values, self.bounds, self.goal = problem, policy, values, bounds, goal
        self.whole = (-1, problem.horizon + 1)
        self.found: tuple[PolicyValues, _Way] | None = None

    def best(self, clock: Clock, gap: float, whole: Clock | None = None) -> tuple[PolicyValues, _Way, bool]:
        """The values, how they were found, and whether the search went to its end without an interrupt.

        **Arguments:** `clock` of this search; `whole`, that of the proof, in which the return has to be found.
        """
        try:
            share = _EXACT_SHARE if self.problem.path is None else _PATH_SHARE
            if not self._try([self._way(FLOOR)], clock.share(share, more=_GRACE)):
                # The observer is told the secret's state: nothing is hidden, and only the return is found.
                least = (whole or clock).share(more=_RETURN_SECONDS)
                if not self._try([self._way(FLOOR, window=_around(self.problem, 0))], least, MOST_MOVES):
                    raise TooLargeError(
                        f"the return of the policy could not be proven in {least.spent:.1f} s, and without it there is no"
                        " certificate: allow a longer time_limit, or shorten the horizon"
                    )
                if self.problem.path is None:
                    self._widen(clock.share(_WINDOWS_SHARE, more=_GRACE), gap)
                self._merge(clock)
            finished = True
        except KeyboardInterrupt:
            if self.found is None:
                raise
            finished = False
        assert self.found is not None
        return *self.found, finished

    def _way(self, prune: float, merge: int = 0, window: tuple[int, int] | None = None) -> _Way:
        return {"window": self.whole if window is None else window, "prune": prune, "merge": merge}

    def _try(self, ways: list[_Way], clock: Clock, most_moves: int = _MOST_MOVES) -> bool:
        """Keep the values by the first way that fits, if they are better; says whether one fits."""
        for how in ways:
            try:
                values = policy_values(
                    self.problem,
                    self.policy,
                    values=self.values,
                    bounds=self.bounds,
                    goal=self.goal,
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
        return values.lower if self.goal == "opaque" else -values.upper

    def _widen(self, clock: Clock, gap: float) -> None:
        """Wider and wider windows, while there is time and they gain."""
        assert self.found is not None
        # At the edge of its window the observer is told the agent's memory, which should then be small.
        first = self.policy.memory_span(self.problem.secret_time)
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
    """The window of a radius around the secret's time; a secret settled first or last needs one side only."""
    time, horizon = problem.secret_time, problem.horizon
    left, right = max(time - radius, -1), min(time + radius, horizon + 1)
    return (-1 if time == 0 else left, horizon + 1 if time == horizon else right)
