"""The search for the observers of several pairs: those whose rules and weights prove the smallest upper bound in a time."""

import math
from dataclasses import replace
from fractions import Fraction

from ..common.clock import ENDED_BY_CALLER, UNLIMITED, Clock, OutOfTime, interruptible
from ..common.errors import CertificateError, InputError, TooLargeError
from ..game.ascent import PairRule
from ..game.bounds import Bounds as GameBounds
from ..game.enclose import enclose
from ..problem.apart import joinable
from ..problem.problem import Problem
from .backward import rule_bound
from .checked_problem import CheckedProblem
from .claims import ObserverRule, ProvenBound
from .compiled import record_of
from .observers import LEAST_SECONDS, MARGIN, Asked, ObserverBound, best_observer

_GAME_SHARE = 0.8  # of the time, for the game of all pairs, where an induction over its tree follows


def best_observers(
    problem: Problem,
    hidden: tuple[int, ...],
    kept: dict[int, float],
    asked: Asked,
    clock: Clock,
    game: GameBounds | None = None,
) -> ObserverBound:
    """The observers with the smallest bound on the least of the pairs `hide` that is found in the time.

    Those of the game against all pairs, of which those that must keep bits have prices; where that does not fit, or there is
    none (`joinable`), the best observer of one of the pairs `hide` alone, whose bound holds for the least of all.

    **Arguments:** as for `best_observer`; `kept`: the bits of pairs that are not hidden and must keep some.
    """
    hide, others = ([problem.channels[number].name for number in part] for part in (hidden, kept))
    alone = None if game is None or game.best.rules or len(hidden) > 1 or kept else game
    game, interrupted = game if game is not None and game.best.rules else None, False
    try:
        with interruptible():
            if game is None and _is_played(problem, (*hide, *others)):
                limits = {"gap": asked.gap, "memory_bytes": asked.memory_bytes, "task": asked.task}
                game = enclose(problem, tuple(hide), **limits, clock=clock.share(_GAME_SHARE))
                interrupted = game.stopped in ENDED_BY_CALLER
            if game is not None:
                found = _proven(problem, game, kept, asked, clock.share(more=LEAST_SECONDS))
                return replace(found, interrupted=interrupted)
    except OutOfTime as end:
        interrupted = interrupted or end.reason in ENDED_BY_CALLER
        clock = Clock(0.0)  # interrupted: one pair alone has a bound without any time
    except (TooLargeError, InputError, CertificateError):
        pass  # one pair alone has a bound in any case
    best = _best_of_one(problem, hidden, asked, clock, alone)
    best = replace(best, interrupted=interrupted or best.interrupted)
    return best if len(hide) == 1 and not kept else replace(best, known=None)


def _best_of_one(
    problem: Problem, hidden: tuple[int, ...], asked: Asked, clock: Clock, game: GameBounds | None
) -> ObserverBound:
    """The smallest bound that the observer of one pair alone proves; `interrupted` where any of the searches was."""
    found = list[ObserverBound]()
    for number, channel in enumerate(hidden):
        own = clock.share(1 / (len(hidden) - number))
        found.append(best_observer(problem, asked, own, game, channel=channel))
    best = min(found, key=lambda one: one.upper)
    return replace(best, interrupted=any(one.interrupted for one in found))


def _is_played(problem: Problem, names: tuple[str, ...]) -> bool:
    """Whether there is a game of several of these pairs."""
    return len(joinable(problem, names)) > 1 and problem.only(names[0]).secret_table.path is None


def _proven(
    problem: Problem,
    game: GameBounds,
    kept: dict[int, float],
    asked: Asked,
    clock: Clock = UNLIMITED,
) -> ObserverBound:
    """The observers of a game, and the bound that the verifier's own induction finds for them."""
    bound = _bound(problem, game, kept, len(asked.bounds))
    checked = CheckedProblem(record_of(problem), tuple(one.channel for one in bound.rules))
    upper = rule_bound(checked, bound, asked.bounds, asked.values, kept, asked.factors, clock)
    upper = upper if asked.task else min(upper, checked.most_bits)
    return ObserverBound(replace(bound, upper=upper), None if game.lower == -math.inf else min(game.lower, upper))


def _bound(problem: Problem, game: GameBounds, kept: dict[int, float], quantities: int) -> ProvenBound:
    """The rules of a game, with weights of the hidden channels that sum to one or more, exactly."""
    numbers = {one.name: number for number, one in enumerate(problem.channels)}
    solved = game.games[0]
    weights = [one.weight for one in solved.rules]
    hidden = [number for number, one in enumerate(solved.rules) if numbers[one.name] not in kept]
    largest = max(hidden, key=lambda number: weights[number])
    while sum(Fraction(weights[number]) for number in hidden) < 1:
        weights[largest] = math.nextafter(weights[largest], math.inf)
    if len(weights) == 1:
        weights = [1.0]
    rules = tuple(_rule(one, numbers[one.name], weight) for one, weight in zip(solved.rules, weights, strict=True))
    prices = solved.multiplier, *solved.prices
    return ProvenBound(0, 0.0, (*prices, *(0.0,) * (quantities - len(prices))), rules)


def _rule(one: PairRule, channel: int, weight: float) -> ObserverRule:
    return ObserverRule(one.first, one.following, one.costs + MARGIN, "the whole history", channel, weight)
