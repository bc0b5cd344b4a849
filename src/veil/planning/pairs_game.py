"""The game against the observers of several pairs: what it covers, and its answer as a policy on what all of them see."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..common.checks import Defects
from ..common.clock import Clock
from ..engine.return_range import max_return
from ..engine.return_range import threshold as wanted_return
from ..game.ascent import GameResult
from ..game.pairs import DEFAULT_MEMORY
from ..measure.evaluate import opacity
from ..policy.history import HistoryPolicy
from ..problem.apart import joinable
from ..problem.pairs import OWN, find_pair
from ..problem.problem import Problem
from ..problem.return_rounding import return_rounding
from .solution import Solution

_BYTES = 2**28, 2**24, DEFAULT_MEMORY  # of a game: in any case, for each second of the limit, and at most
# Of several pairs: their policy is measured in each of them and then proven, at some microseconds for each move.
_PAIRS_BYTES = 0, 2**21, 2**29
REMEDY = "use method='ascent', whose certificate bounds all policies, or leave the pair out"


def played_pairs(problem: Problem, hide: tuple[str, ...]) -> tuple[str, ...]:
    """The pairs of the game: those that are hidden, then those that must keep bits.

    **Raises:** `InputError` if there is no game of them.
    """
    names = (*hide, *(one.name for one in problem.pairs if one.min and one.name not in hide))
    defects, known = Defects("method='game'"), joinable(problem, names)
    for name in dict.fromkeys((*names, OWN, *(one.name for one in problem.pairs))):
        part = defects.under(where=f"pair {name!r}")
        if name != OWN and (bound := find_pair(name, problem.pairs).max) is not None:
            part.add(f"H({name}) ≤ {bound:g} is not convex, and there is no bound for it: {REMEDY}")
        elif name in names and name not in known:
            part.add(
                f"it has a belief, or a whole path or several models and another secret than {names[0]!r}: {REMEDY}"
            )
    defects.raise_if_any()
    return names


def with_clocks(problem: Problem) -> Problem:
    """The same problem with observers who all have a clock, and know at least as much."""
    pairs = [one if one.observer is None else replace(one, observer=one.observer.with_clock()) for one in problem.pairs]
    return problem.replace(observer=problem.observer.with_clock(), pairs=pairs)


def aimed_return(problem: Problem) -> float | None:
    """The return that a game is played for: the threshold, and twice what rounding may take of it where policies earn that.

    Floats then tell that the threshold is reached, without the verifier. With other bounds the rounds of games keep a
    distance from all of them.
    """
    wanted = wanted_return(problem)
    if wanted is None or problem.others:
        return wanted
    return max(wanted, min(wanted + 2 * return_rounding(problem), max_return(problem)))


def game_bytes(clock: Clock, *, several: bool) -> int:
    """The memory of a game: a larger one leaves no time to play it, to measure its policy and to prove it."""
    least, a_second, most = _PAIRS_BYTES if several else _BYTES
    return int(min(most, max(least, a_second * max(1.0, clock.left))))


def pair_prices(problem: Problem, game: GameResult) -> tuple[float, ...]:
    """The prices of the bits that pairs must keep, in the order of the pairs."""
    weights = {one.name: one.weight for one in game.rules}
    return tuple(weights.get(one.name, 0.0) for one in problem.pairs if one.min)


def watching(problem: Problem, policy: HistoryPolicy, name: str) -> HistoryPolicy:
    """A policy of `problem.only(name)` as one of the problem, which acts on what the observer of that pair sees."""
    events = policy.following[0].shape[1] if policy.following else 0
    views: Mapping[str, tuple[np.ndarray, np.ndarray]] = {name: (np.arange(len(policy.first)), np.arange(events))}
    return HistoryPolicy(
        policy.first,
        policy.following,
        policy.decisions,
        executable=policy.executable,
        told_at=policy.told_at,
        told=policy.told,
        views=views,
    )


def least_hidden(problem: Problem, solution: Solution, hide: tuple[str, ...]) -> float:
    """A lower bound, or a cautious estimate, of the least that a policy hides in some pairs."""
    found = [solution.opacity if name == OWN else opacity(problem, solution.policy, pair=name) for name in hide]
    return min(one.interval()[0] for one in found)
