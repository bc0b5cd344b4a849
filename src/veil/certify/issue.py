"""`certify`: makes a certificate for any policy; every number in it comes from the verifier's own functions."""

import time as clock
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Literal

import numpy as np

from ..engine.public import DEFAULT_MEMORY
from ..engine.returns import optimal_values
from ..logs import log2_of_count
from ..policy.tables import check_fits
from ..problem.checks import Defects, is_number
from ..problem.errors import InputError, TooLargeError
from ..problem.fingerprint import fingerprint
from ..problem.problem import Problem
from ..solve.game import GameResult, solve_game
from ..solve.game_memory import LongGameResult
from ..solve.game_refine import EnclosedGame, RefinedGameResult, enclose_game
from ..solve.max_return import threshold as threshold_of
from .certificate import Certificate, Witness
from .claim import ROUNDING, bound_words, claim_words, missing_return, policy_hash, policy_words
from .verify import PolicyValues, policy_values, rule_bound
from .world import FLOOR, UNIT, World

Game = GameResult | LongGameResult | RefinedGameResult | EnclosedGame

_SECONDS = 60.0
_QUICK_MOVES = 2**20  # branches of a layer up to which the whole horizon is tried at once
_MOST_MOVES = 2**23  # and up to which a window is
_PRUNINGS = (1e-12, 1e-10, 1e-8, 1e-7)
_MERGINGS, _MERGE_PRUNE = (256, 1024, 4096, 16384), 1e-9  # histories that a layer keeps, and those too rare to count
_SLACK = 2.0**-40  # bits that claims stay away from what is proven here: machines differ in their last digits
_MARGIN = 2.0**-39  # bits added to each cost, for Kraft's inequality to hold with room to spare


def certify(
    problem: Problem,
    policy: Any,
    time_limit: float | None = None,
    gap: float = 1e-3,
    *,
    goal: Literal["opaque", "transparent"] = "opaque",
    game: Game | None = None,
    memory_bytes: int = DEFAULT_MEMORY,
) -> Certificate:
    """Prove how much a policy hides, and that no policy whatever hides much more under the same threshold.

    The lower bound is the policy's own opacity, exact where the observation tree fits and from a window around the secret
    otherwise. The upper bound is proven by a watcher: its rule comes from the game, on the whole history where that fits
    and on a bounded memory otherwise, and holds for all policies. With goal "transparent" a minimum is wanted, for which
    the game has no bound: the certificate then holds the policy's own value and says so.

    **Arguments:** `policy`: a Markov, timed, memory or history policy; `time_limit` in seconds for the search of a rule, 60
    by default; `gap`: the search stops where it knows the best policy to this many bits; `game`: a game of this problem that
    was already played, whose watcher is then used; `memory_bytes` for the game.

    **Returns:** a `Certificate`, which `veil.verify(certificate, problem, policy)` accepts.

    **Raises:** `InputError` where the policy does not fit; `InfeasibleError` where no policy reaches the threshold;
    `CertificateError` where the verifier refuses the problem or the policy.
    """
    _check(policy, problem, goal, time_limit, gap)
    world, seconds = World(problem), _SECONDS if time_limit is None else float(time_limit)
    values = np.stack([optimal_values(one) for one in problem.models]) if problem.return_over == "infinite" else None
    found, how = _policy_part(world, policy, values, goal, seconds / 3, gap)
    wanted, most = threshold_of(problem), world.most_bits
    claim = Certificate(
        goal=goal,
        lower=max(0.0, found.lower - _SLACK),
        upper=min(most, found.upper + _SLACK),
        expected_return=found.expected_return,
        return_error=2 * found.return_error + 8 * UNIT * abs(found.expected_return),
        threshold=wanted,
        feasible=True,
        best_known=None,
        policy_class=policy_words(problem, policy),
        bound_class=bound_words(problem, goal),
        **how,
        problem_hash=fingerprint(problem),
        policy_hash=policy_hash(policy),
        versions={"veil": version("veil"), "numpy": np.__version__},
        claim="",
        values=values,
    )
    claim = replace(claim, feasible=missing_return(claim) <= ROUNDING * (1 + abs(wanted or 0.0)))
    if goal == "opaque":
        witness, upper, known = _best_watcher(world, _games(problem, wanted, gap, seconds, memory_bytes, game), values)
        if claim.feasible and (known is None or claim.lower > known):
            known = claim.lower
        claim = replace(claim, witness=witness, upper=min(most, upper + _SLACK), best_known=known)
    else:
        claim = replace(claim, lower=0.0)
    return replace(claim, claim=claim_words(claim))


def _check(policy: Any, problem: Problem, goal: Any, time_limit: Any, gap: Any) -> None:
    defects = Defects("certify")
    if goal not in ("opaque", "transparent"):
        defects.add(f"goal is {goal!r}, expected 'opaque' or 'transparent'")
    if time_limit is not None and not (is_number(time_limit) and time_limit >= 0):
        defects.add(f"time_limit is {time_limit!r}, expected seconds, 0 or more")
    if not (is_number(gap) and gap >= 0):
        defects.add(f"gap is {gap!r}, expected bits, 0 or more")
    if hasattr(policy, "decisions") and policy.horizon != problem.horizon:
        defects.add(f"the policy makes {policy.horizon} decisions, and the horizon is {problem.horizon}")
    defects.raise_if_any()
    if not hasattr(policy, "decisions"):
        check_fits(policy, problem)


def _policy_part(
    world: World, policy: Any, values: Any, goal: str, seconds: float, gap: float
) -> tuple[PolicyValues, dict[str, Any]]:
    """The policy's values and how they were found: exact if that fits, else the best window, or merged histories."""
    whole, end = (-1, world.horizon + 1), clock.monotonic() + seconds
    exact = {"window": whole, "prune": FLOOR, "merge": 0}
    found = _tried(world, policy, values, goal, [exact], _QUICK_MOVES)
    if found is not None:
        return found
    for radius in range(world.horizon + 2):
        begin, window = clock.monotonic(), _around(world, radius)
        ways = [{"window": window, "prune": prune, "merge": 0} for prune in (FLOOR, *_PRUNINGS)]
        wider = _tried(world, policy, values, goal, ways)
        if wider is None:
            break
        gained = np.inf if found is None else _gain(wider[0], goal) - _gain(found[0], goal)
        found = wider if gained > 0 else found
        # A window costs a few times what the one before it took.
        following = 3 * (clock.monotonic() - begin)
        if window == whole or clock.monotonic() + following > end or (following > 2 and gained < gap / 20):
            break
    for most in _MERGINGS if found is None or found[1] != exact else ():
        begin = clock.monotonic()
        merged = _tried(world, policy, values, goal, [{"window": whole, "prune": _MERGE_PRUNE, "merge": most}])
        if merged is not None and (found is None or _gain(merged[0], goal) > _gain(found[0], goal)):
            found = merged
        if merged is None or clock.monotonic() + 4 * (clock.monotonic() - begin) > end:
            break
    if found is None:
        raise TooLargeError("not even one step around the secret can be followed: the problem is too large to certify")
    return found


def _gain(found: PolicyValues, goal: str) -> float:
    return found.lower if goal == "opaque" else -found.upper


def _around(world: World, radius: int) -> tuple[int, int]:
    time, horizon = world.problem.secret_table.time, world.horizon
    left, right = max(time - radius, -1), min(time + radius, horizon + 1)
    return (-1 if time == 0 else left, horizon + 1 if time == horizon else right)


def _tried(
    world: World, policy: Any, values: Any, goal: str, ways: list[dict[str, Any]], most: int = _MOST_MOVES
) -> tuple[PolicyValues, dict[str, Any]] | None:
    """The values by the first way that fits; None if none does."""
    for how in ways:
        try:
            return policy_values(
                world, policy, how["window"], how["prune"], values, goal=goal, merge=how["merge"], most=most
            ), how
        except TooLargeError:
            continue
    return None


def _best_watcher(
    world: World, games: Iterator[tuple[Witness, float | None]], values: Any
) -> tuple[Witness, float, float | None]:
    """The watcher with the smallest bound, which the verifier's induction finds, and the most that is known to be hidden."""
    wanted = threshold_of(world.problem)
    best, known = _even_odds(world), None
    upper = rule_bound(world, best, wanted, values)
    for witness, hidden in games:
        bound = rule_bound(world, witness, wanted, values)
        if bound < upper:
            best, upper = witness, bound
        if hidden is not None and (known is None or hidden > known):
            known = hidden
    return best, upper, None if known is None else min(known, upper)


def _even_odds(world: World) -> Witness:
    """The watcher who remembers nothing and holds every value for equally likely: `log2 |Z|`."""
    first = np.zeros(
        world.problem.observer.num_observations if world.problem.observer.sees_first else 1, dtype=np.int32
    )
    table, even = np.zeros((1, world.events), dtype=np.int32), log2_of_count(world.values) + _MARGIN
    return Witness(first, (table,) * world.horizon, np.full((1, world.values), even), 0.0, "nothing")


def _games(
    problem: Problem, wanted: float | None, gap: float, seconds: float, memory_bytes: int, game: Game | None
) -> Iterator[tuple[Witness, float | None]]:
    """Watchers with what their games know to be hidden: the given one, or the best that can be had in the time."""
    if game is None:
        settings: dict[str, Any] = {
            "threshold": wanted,
            "gap": gap,
            "time_limit": seconds,
            "memory_bytes": memory_bytes,
        }
        try:
            game = solve_game(problem, **settings)
        except TooLargeError:
            try:
                game = enclose_game(problem, **settings)
            except TooLargeError:
                return  # even odds are all that is left
    parts = (game.stretches, game.refined) if isinstance(game, EnclosedGame) else (game,)
    for part in parts:
        if part is not None:
            yield _witness(problem, part), part.lower


def _witness(problem: Problem, game: GameResult | LongGameResult | RefinedGameResult) -> Witness:
    """The watcher of a game, over the whole horizon: one who stops looking stays where it is."""
    if isinstance(game, LongGameResult):
        game = game.forgetful
    elif isinstance(game, RefinedGameResult):
        game = game.bounding
    graph = game.graph
    if graph.told is not None:
        raise InputError("game", ["its watcher is told the hidden state, which proves nothing about others"])
    following = list(graph.following)
    if len(following) < problem.horizon:
        observer = problem.observer
        events = observer.num_observations * (problem.num_actions if observer.sees_actions else 1)
        stay = np.repeat(np.arange(graph.sizes[-1], dtype=np.int32)[:, None], events, axis=1)
        following += [stay] * (problem.horizon - len(following))
    costs = np.where(game.pairs.reachable, game.costs + _MARGIN, np.inf)
    return Witness(graph.first, tuple(following), costs, game.price, graph.kind)
