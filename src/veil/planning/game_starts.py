"""Starts from the convex side: policies that hide most from an observer who remembers the last observations alone.

Against an observer whose memory is finite the best policy is the optimum of a convex game (`game.solve`), found in seconds
on a thousand states. As a policy of the class it may hide little, since an observer who remembers more sees through it; as
a start it leads to better optima than any bonus on the secret alone, since it is seen where the other values of the secret
are seen. The games of one and two observations are played, then of one at thresholds on either side of the one asked for: a
search that comes from a poorer or a richer policy may end elsewhere on the way along the frontier.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import Clock, OutOfTime, Stop
from ..common.errors import VeilError
from ..common.memo import memo
from ..engine.compile import build
from ..engine.return_range import averaged_table, normalised, return_extremes
from ..game.ascent import GameResult
from ..game.pairs import DEFAULT_MEMORY, TailEvents
from ..game.responses import AgentProblem
from ..game.solve import solve_game
from ..policy.markov import MarkovPolicy, TimedPolicy
from ..policy.tables import uniform_table
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .backend import PER_ENTRY
from .objective import Objective
from .policy_class import Space

# At which a game ends: one run in five of a start acts at random at some time (`parameters`), which costs more bits than this.
_GAP_BITS, _ITERATIONS = 0.05, 80
_ASIDE = 0.4  # of the way to the freest and to the strictest threshold, for the games on either side: by judgement
_MOST_STATES = 100_000  # hidden states over all times, in millions, are no longer a matter of seconds


def play_games(objective: Objective, clock: Clock) -> bool:
    """Play the games of a problem within the time, so that the searches of all classes begin from their policies."""
    for _ in _played_games(objective, clock):
        pass
    return True


def game_starts(objective: Objective, clock: Clock) -> Iterator[Float[np.ndarray, "T C A"]]:
    """Tables of the class, the most promising first; none where no such game can be played in the time.

    Cost: about 80 rounds of five backward inductions each, unless the games were played before.
    """
    for problem, result in _played_games(objective, clock):
        if result is not None:
            yield table_of_game(objective.space, problem, result)


def _played_games(objective: Objective, clock: Clock) -> Iterator[tuple[Problem, GameResult | None]]:
    """The games one after the other as long as they are forecast to fit; none after one that the time cut short."""
    for problem, memory, threshold in _games(objective):
        part = clock.silent()  # the first promises most
        if objective.is_sampled and _game_seconds(objective) > part.left:
            return
        result = _solved(problem, memory, threshold, part)
        yield problem, result
        if clock.left <= 0 or (result is not None and result.stopped == Stop.TIME_LIMIT):
            return


def _game_seconds(objective: Objective) -> float:
    """The least that a game takes, an induction for each of its rounds: all of them are about as large, since the observer
    remembers the end alone.
    """
    entries = max(space.layers.num_entries for space in objective.sampled)
    return _ITERATIONS * PER_ENTRY * entries * objective.space.hidden.kernel.num_actions


def _games(objective: Objective) -> Iterator[tuple[Problem, int, float | None]]:
    """Problem, remembered observations and threshold of each game, in turn for all channels of which more bits are wanted."""
    if objective.weight < 0 or objective.space.hidden.num_states > _MOST_STATES:
        return
    names = [OWN, *(pair.name for pair in objective.space.problem.pairs)]
    problems = [_played(objective.space.problem.informed, names[column]) for column in objective.channels.raised]
    wanted = objective.aim if objective.num_returns else None
    horizon = objective.space.problem.horizon
    for memory in (1, 2):
        if memory <= horizon:
            yield from ((problem, memory, wanted) for problem in problems)
    if wanted is None or not horizon:
        return
    extremes = return_extremes(objective.space.problem)
    for edge in (extremes.smallest, extremes.largest):
        yield from ((problem, 1, wanted + _ASIDE * (edge - wanted)) for problem in problems)


def _played(problem: Problem, name: str) -> Problem:
    return (problem if name == OWN else problem.only(name)).with_clock()


def _solved(problem: Problem, memory: int, threshold: float | None, clock: Clock) -> GameResult | None:
    """The game, kept with the problem; None where it cannot be played in the time."""

    def solve() -> GameResult | None:
        try:
            return solve_game(
                problem,
                TailEvents(problem.horizon - memory),
                threshold=-np.inf if threshold is None else threshold,
                gap=_GAP_BITS,
                iterations=_ITERATIONS,
                memory_bytes=DEFAULT_MEMORY // 2,
                clock=clock,
            )
        except (VeilError, OutOfTime):  # such as a secret that is a whole path, or a tree that does not fit
            return None

    found = memo(problem, (_solved, memory, threshold), solve, keep=lambda found: found is not None or clock.left > 0)
    if found is not None and found.stopped == Stop.TIME_LIMIT:  # also if it was played before
        clock.note_late()
    return found


def table_of_game(space: Space, problem: Problem, result: GameResult) -> Float[np.ndarray, "T C A"]:
    """The policy of a game, averaged over what the class does not tell apart, as a table of the class."""
    flows = AgentProblem(problem, result.pairs).flows(result.tables).flows
    layers = zip(result.pairs.layers, flows, strict=False)
    return table_of_flows(space, problem, ((layer.x, flow.T) for layer, flow in layers))


def table_of_flows(
    space: Space, played: Problem, flows: Iterable[tuple[Any, Float[np.ndarray, "n A"]]]
) -> Float[np.ndarray, "T C A"]:
    """The table whose policy takes each action as often as flows in the problem of an agent that sees its state do.

    **Arguments:** `played`: that problem; `flows`: at each time some of its hidden states, and the flows of their actions.
    """
    given, problem, hidden = space.problem, space.problem.informed, build(played)
    by_cell, even = np.zeros((problem.horizon, hidden.num_cells, problem.num_actions)), uniform_table(problem)
    for found, (states, flow) in zip(by_cell, flows, strict=False):
        np.add.at(found, hidden.cell[states], flow)
    restricted = space.rows is not None and given.agent.sees_state
    if restricted:  # the rows that are searched alone: a hundredth of all, perhaps
        by_cell, even = by_cell[:, space.rows], even[space.rows]
    stationary = normalised(by_cell.sum(axis=0), even)
    timed = np.stack([normalised(one, stationary) for one in by_cell])
    if restricted:
        return stationary[None] if space.stationary else timed
    if space.stationary:
        table = stationary if given.agent.sees_state else averaged_table(given, timed).mean(axis=0)
        return space.table_of(MarkovPolicy(table))
    return space.table_of(TimedPolicy(averaged_table(given, timed)))
