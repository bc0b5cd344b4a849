"""The game as a solver: the best policy with any memory, with the bound that proves how good it is.

Against the observers of several channels its answer is a policy on what all of them see.
"""

import math
from dataclasses import replace

import numpy as np

from ..common.checks import Defects
from ..common.clock import UNLIMITED, Clock
from ..common.errors import InfeasibleError, InputError, TooLargeError, VeilError
from ..common.rounding import lower_text, upper_text
from ..engine.chain import make_chain
from ..engine.feasibility import check_constraints
from ..engine.return_range import max_return
from ..engine.return_range import threshold as wanted_return
from ..game.ascent import GameResult
from ..game.bounds import Bounds
from ..game.enclose import LONG_SECONDS, enclose
from ..game.pairs import DEFAULT_MEMORY
from ..game.responses import AgentProblem, Task
from ..measure.constrained import quantity_values
from ..measure.evaluate import expected_return, opacity
from ..measure.exact import Budget
from ..measure.result import Opacity
from ..measure.trajectory import path_bits
from ..policy.history import HistoryPolicy
from ..policy.policy import Policy
from ..problem.apart import joinable
from ..problem.pairs import OWN, find_pair, hidden_names
from ..problem.problem import Problem
from ..problem.return_rounding import return_rounding
from ..problem.terms import hidden_terms, terms_of
from ..problem.trivial import trivial_bound
from ..proof.feasibility import meets_constraints, stated_return
from .methods import METHODS, options_of
from .options import SolveOptions
from .plan import AFTER_SECONDS, CLOSING_SECONDS, SHARE_AFTER
from .solution import History, Solution, Status

_STATUS = {
    "gap reached": Status.CONVERGED,
    "whole horizon": Status.CONVERGED,
    "iterations": Status.ITERATION_LIMIT,
    "interrupted": Status.INTERRUPTED,
}
_TREE = "all policies that remember the start and every event"
_PAIRS = "all policies that remember the start and every event of each observer"
_LONG = "policies with finite memory of the events"
# Seconds of the limit for a game of the full memory: a smaller limit leaves no time to play it, to measure its policy and to
# prove it (by judgement). Of n pairs it has a share of 1/n²: their policy is larger, and is measured and proven in each.
_SECONDS_OF_MEMORY = 128
REMEDY = "use method='ascent', whose certificate bounds all policies, or leave the pair out"


class GameMethod:
    """The game as a method of `veil.solve`: the entropy, over all policies."""

    summary = "the best over all policies with any memory, between proven bounds, as a convex game against the observer"
    goals = ("opaque",)
    objectives = ("entropy",)
    memories = ("history",)
    options = options_of("game")

    def solve(self, problem: Problem, options: SolveOptions) -> Solution:
        """See `Method`.

        The answer is not worse than what `"ascent"` finds for time-dependent policies in a quarter of the time limit, or in all
        that is left where the game ends before it reaches its gap. Without a limit a game that reaches its gap ends there: no
        policy hides more than that gap above its answer.
        """
        limit, clock = options.time_limit, Clock(options.time_limit)
        hide, task = hidden_names(problem.pairs, options.hide), _linear_task(problem, options.task)
        seconds = None if limit is None else (1 - SHARE_AFTER) * limit
        played = Clock(seconds, iterations=options.iterations, progress=options.progress)
        try:
            found = search_game(problem, hide, task, gap=options.gap, clock=played)
        except TooLargeError as error:
            found = _timed(problem, options, None if limit is None else clock.left)
            words = f"{found.policy_class}, found by ascent: the game does not fit"
            return replace(found, policy_class=words, method="game", detail=str(error))
        proven = limit is None and found.status is Status.CONVERGED and found.proof is not None
        if proven or found.status is Status.INTERRUPTED:
            return found
        seconds = min(SHARE_AFTER * (LONG_SECONDS if limit is None else limit), clock.left)
        if limit is not None and found.status is not Status.CONVERGED:
            seconds = clock.left
        if limit is not None and found.feasible and seconds < SHARE_AFTER * SHARE_AFTER * limit:
            return found  # less than a quarter of its share is left: it would find nothing, and take longer than that
        try:
            other = _timed(problem, options, seconds)
        except KeyboardInterrupt:
            return replace(found, status=Status.INTERRUPTED)
        except VeilError:  # the search cannot be made
            return found
        return replace(_better(problem, hide, task, found, other), seconds=clock.spent) if other.feasible else found


def search_game(
    problem: Problem,
    hide: tuple[str, ...] = (OWN,),
    task: Task = (),
    *,
    gap: float | None = None,
    clock: Clock | None = None,
) -> Solution:
    """The globally best opacity over all policies, between two proven bounds, on the full tree or by finite memory.

    With pairs it is the largest least of those in `hide`, under the lower bounds of others, on the tree of what their observers
    see together. An observer without a clock remembers its string. Several pairs with such an observer, or a whole path, are
    played as if it had a clock, and so is a game whose strings do not fit; then there is no upper bound.

    **Arguments:** `hide`; `task`: factors of quantities whose sum is maximised beside the bits; `gap`: bits between the bounds
    at which the search ends, by default 0.001 on the tree and 0.05 where the tree does not fit and automata take its place;
    `clock`, by default without a limit, and of 600 s there.

    **Raises:** `InfeasibleError` where no policy reaches the threshold; `InputError` where there is no game of the pairs;
    `TooLargeError` where the tree of several observers does not fit, or of one not even the game without memory.
    """
    names, clock = _played_pairs(problem, hide), clock or Clock()
    check_constraints(problem)
    untimed = any(problem.channel(name).observer.untimed for name in names)
    if untimed and (len(names) > 1 or problem.channel(hide[0]).table.path is not None):
        return _against_clocks(problem, hide, task, gap, clock)
    if len(names) == 1 and hide != (OWN,):  # the one pair that is played is hidden
        found = search_game(problem.only(hide[0]), task=task, gap=gap, clock=clock)
        assert isinstance(found.policy, HistoryPolicy)
        policy = _watching(problem, found.policy, hide[0])
        return replace(found, policy=policy, opacity=_own_opacity(problem, policy, clock))
    threshold, memory_bytes = _aimed_return(problem), _game_bytes(clock, len(names))
    with clock:
        try:
            bounds = enclose(
                problem, hide, threshold=threshold, gap=gap, memory_bytes=memory_bytes, task=task, clock=clock
            )
        except TooLargeError:
            if untimed:  # automata of events need a clock
                return _against_clocks(problem, hide, task, gap, clock)
            raise
        return _answer(problem, bounds, task, clock)


def _linear_task(problem: Problem, text: str | None) -> Task:
    """The factors of a task with the numbers of their quantities. **Raises:** `InputError` where it counts bits of pairs."""
    for factor, name in hidden_terms(problem, text):
        raise InputError("task", [f"{factor:g}*H({name}): method='game' has no bound for bits in a task: {REMEDY}"])
    return tuple(terms_of(problem, text))


def _against_clocks(problem: Problem, hide: tuple[str, ...], task: Task, gap: float | None, clock: Clock) -> Solution:
    """The answer of the game against observers with a clock, who know at least as much, measured against those without."""
    try:
        found = search_game(_with_clocks(problem), hide, task, gap=gap, clock=clock)
    except InfeasibleError as error:  # one without a clock may be left with the bits that a pair must keep
        raise TooLargeError(f"against observers with a clock: {error}") from error
    return replace(
        found,
        opacity=_own_opacity(problem, found.policy, clock),
        price_bits=float("nan"),
        prices=(),
        pair_prices=(),
        pairs=(),
        upper_bits=float("nan"),
        proof=None,
        detail="the game was played against observers with a clock, which know at least as much as those without: how much the"
        " best policy hides is not bounded from above",
    )


def _timed(problem: Problem, options: SolveOptions, seconds: float | None) -> Solution:
    """The best time-dependent policy that a search finds in so many seconds, on samples if need be."""
    own = replace(options, method="ascent", memory="timed", gap=None, time_limit=seconds)
    return METHODS.get("ascent")().solve(problem, own)


def _better(problem: Problem, hide: tuple[str, ...], task: Task, game: Solution, ascent: Solution) -> Solution:
    """Of two answers the feasible one, or the one that is known to be worth more; the bound is the game's in any case."""
    met = game.feasible
    stopped = ascent.status if not met or ascent.status is Status.INTERRUPTED else game.status
    known = _worth(problem, game, hide, task)
    if met and known >= _worth(problem, ascent, hide, task):
        return replace(game, status=stopped)
    words = f"has {known:.6g} with its task" if task else f"hides {lower_text(known, 6)} bits"
    own = words if met else "does not meet the constraints"
    return replace(
        ascent,
        policy_class=f"{game.policy_class}; the best known is one of {ascent.policy_class}, found by ascent",
        method="game",
        detail=f"the game's own policy {own}; {game.detail}",
        status=stopped,
        iterations=game.iterations,
        history=game.history,
        settings=game.settings,
        upper_bits=game.upper_bits,
        proof=game.proof,
    )


def _worth(problem: Problem, solution: Solution, hide: tuple[str, ...], task: Task) -> float:
    """A lower bound, or a cautious estimate, of the least that a policy hides in some pairs, and of a task."""
    found = [solution.opacity if name == OWN else opacity(problem, solution.policy, pair=name) for name in hide]
    values = quantity_values(problem, solution.policy) if task else []
    return min(one.interval()[0] for one in found) + sum(factor * values[number] for factor, number in task)


def _hidden(problem: Problem, bounds: Bounds, policy: HistoryPolicy, clock: Clock) -> Opacity:
    """What the best policy known hides: measured anew unless its game says what that is, or encloses it."""
    game = bounds.best
    if bounds.is_exact and not game.views:
        graph = game.graph
        reason = "the game on the whole observation tree" if graph.is_tree else f"the game on {graph.kind}"
        return _bracket(game, bounds.lower, bounds.lower, "exact", int(graph.sizes[-1]), reason)
    if not game.views and game.pairs.hidden.path is None and game.pairs.hidden.each is None:
        reason = "the game by finite memory: the tree does not fit"
        return _bracket(game, bounds.lower, bounds.upper, "bracket", 0, reason)
    try:
        return _own_opacity(problem, policy, clock)
    except TooLargeError:
        if game.views:
            raise
        return _bracket(game, game.task_value, bounds.upper, "bracket", 0, "there was no time to measure it")


def _bracket(game: GameResult, lower: float, upper: float, method: str, size: int, reason: str) -> Opacity:
    """What a game's policy hides, from bounds on it with its task; no more than the secret before anything is seen."""
    prior, lower, upper = _prior_bits(game), lower - game.task_value, upper - game.task_value
    return Opacity(lower, lower, max(lower, min(upper, prior)), prior, method, size, reason=reason)


def _own_opacity(problem: Problem, policy: Policy, clock: Clock) -> Opacity:
    return opacity(problem, policy, time_limit=max(CLOSING_SECONDS, min(clock.left, AFTER_SECONDS)))


def _prior_bits(game: GameResult) -> float:
    """The entropy of the secret before anything is seen; of a path that of all paths alike, where the time does not suffice."""
    if game.pairs.hidden.path is not None:
        return path_bits(make_chain(game.problem, game.policy()), Budget(time_limit=CLOSING_SECONDS))
    agent = AgentProblem(game.problem, game.pairs)
    return agent.table.prior_bits(agent.outcome(game.tables).joint)


def _answer(problem: Problem, bounds: Bounds, task: Task, clock: Clock) -> Solution:
    """The best policy known, with the upper bound of all."""
    result, proving, upper, stopped = bounds.best, bounds.games[0], bounds.upper, bounds.stopped
    policy, wanted = bounds.policy(problem), wanted_return(problem)
    hidden, weights = _hidden(problem, bounds, policy, clock), {one.name: one.weight for one in result.rules}
    if wanted is not None and result.threshold is not None:  # the game was played for a little more return
        upper += max(part.multiplier for part in bounds.games) * max(0.0, result.threshold - wanted)
    # To evaluate a policy on a large graph anew takes longer than the game: under a limit its own evaluation is taken.
    known = not result.views and not problem.others and math.isfinite(clock.time_limit)
    value = result.expected_return if known else expected_return(problem, policy)
    limited = Clock(max(CLOSING_SECONDS, clock.left)) if known else UNLIMITED
    feasible = meets_constraints(problem, policy, value, limited)
    rows = [(one.iteration, one.opacity_bits, np.nan, one.multiplier, np.nan, one.seconds) for one in result.history]
    these = "that meets all constraints" if problem.others else "with this return"
    most = (
        f"has more than {upper_text(upper, 6)} in bits and task"
        if task
        else f"hides more than {upper_text(upper, 6)} bits"
    )
    detail = f"no policy of any kind {these} {most} ({stopped})"
    trivial = "" if task else trivial_bound(problem, upper)
    detail += f"; {trivial}: the search found no bound" if trivial else ""
    if not result.executable:
        detail += "; the policy acts on more than the agent knows: it is a bound, not a plan"
    return Solution(
        policy=policy,
        policy_class=_PAIRS if result.views else _TREE if result.is_whole else _LONG,
        opacity=hidden,
        expected_return=stated_return(value, wanted, feasible),
        threshold=wanted,
        feasible=feasible,
        status=_STATUS.get(stopped, Status.TIME_LIMIT) if feasible else Status.INFEASIBLE,
        method="game",
        detail=detail,
        price_bits=proving.multiplier,
        prices=(*(() if wanted is None else (proving.multiplier,)), *proving.prices),
        pair_prices=tuple(weights.get(one.name, 0.0) for one in problem.pairs if one.min and result.views),
        iterations=result.iterations,
        seconds=clock.spent,
        needs_observations=True,
        history=History.of(rows),
        upper_bits=upper,
        proof=bounds,
    )


def _played_pairs(problem: Problem, hide: tuple[str, ...]) -> tuple[str, ...]:
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


def _with_clocks(problem: Problem) -> Problem:
    """The same problem with observers who all have a clock, and know at least as much."""
    pairs = [one if one.observer is None else replace(one, observer=one.observer.with_clock()) for one in problem.pairs]
    return problem.replace(observer=problem.observer.with_clock(), pairs=pairs)


def _aimed_return(problem: Problem) -> float | None:
    """The return that a game is played for: the threshold, and twice what rounding may take of it where policies earn that.

    Floats then tell that the threshold is reached, without the verifier. With other bounds the rounds of games keep a
    distance from all of them.
    """
    wanted = wanted_return(problem)
    if wanted is None or problem.others:
        return wanted
    return max(wanted, min(wanted + 2 * return_rounding(problem), max_return(problem)))


def _game_bytes(clock: Clock, num_pairs: int) -> int:
    """The memory of a game."""
    share = min(1.0, max(AFTER_SECONDS, clock.left) / _SECONDS_OF_MEMORY)
    return int(share * DEFAULT_MEMORY / num_pairs**2)


def _watching(problem: Problem, policy: HistoryPolicy, name: str) -> HistoryPolicy:
    """A policy of `problem.only(name)` as one of the problem, which acts on what the observer of that pair sees."""
    events = policy.following[0].shape[1] if policy.following else 0
    view = np.arange(len(policy.first)), np.arange(events)
    return HistoryPolicy(
        policy.first,
        policy.following,
        policy.decisions,
        executable=policy.executable,
        told_at=policy.told_at,
        told=policy.told,
        views={name: view},
    )
