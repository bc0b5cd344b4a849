"""Where searches begin.

Where evaluations are cheap: near the uniform policy, random, bold in single cells, near the policy of largest return, and
policies of convex games. On samples: policies of convex games, and soft policies (`soft_starts`).

Against an observer whose memory is finite the best policy is the optimum of a convex game (`game.solve`), found in seconds
on a thousand states. As a policy of the class it may hide little, since an observer who remembers more sees through it; as
a start it leads to better optima than any bonus on the secret alone, since it is seen where the other values of the secret
are seen. The games of one and two observations are played, then of one at thresholds on either side of the one asked for: a
search that comes from a poorer or a richer policy may end elsewhere on the way along the frontier.
"""

import contextlib
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import Clock, OutOfTime, Stop
from ..common.errors import VeilError
from ..common.memo import memo
from ..engine.return_range import return_extremes
from ..game.ascent import GameResult
from ..game.pairs import DEFAULT_MEMORY, TailEvents
from ..game.responses import AgentProblem
from ..game.solve import solve_game
from ..problem.problem import Problem
from .backend import PER_ENTRY
from .objective import Objective
from .options import SolveOptions
from .parameters import NOISE, logits
from .plan import SHARE
from .policy_class import Space, Table, make_space
from .soft_starts import soft_starts

_BOLD = (
    3.0  # logit of an action that a start all but fixes: another policy, from which a search comes back; by judgement
)
_SAMPLED_STARTS = 5  # tables to begin from in a search on samples on a device: by judgement
# At which a game ends: one run in five of a start acts at random at some time (`parameters`), which costs more bits than this.
_GAP_BITS, _ITERATIONS = 0.05, 80
_ASIDE = 0.4  # of the way to the freest and to the strictest threshold, for the games on either side: by judgement
_MOST_STATES = 100_000  # over all times they are millions, no longer a matter of seconds


def spread_starts(space: Space, richest: Table, count: int, seed: int) -> Float[np.ndarray, "B T C A"]:
    """`count` starting tables, the same for the same seed, for searches whose evaluations are cheap.

    A nearly uniform one; an even mixture of the richest table with the uniform one; then, three to one, ones that are uniform
    but for one cell of consequence (a secret or a rewarding one) where one action is all but fixed, since what is done there
    decides which local optimum is found, and in turn mixtures that halve the share of the uniform table each time, and random
    ones, whose logits have a third of half such an action's size, two thirds, or all of it.
    """
    generator = np.random.default_rng(seed)
    scales = itertools.cycle(_BOLD / 2 * np.arange(1, 4) / 3)
    anything = (scale * generator.normal(size=space.shape) for scale in scales)
    bold, rich = _bold(space, generator), (logits(space, richest, 2.0**-count) for count in itertools.count(1))
    starts = [NOISE * generator.normal(size=space.shape), next(rich)]
    while len(starts) < count:
        source = bold if len(starts) % 4 else rich if len(starts) % 8 else anything
        found = next(source, None)
        starts.append(next(anything) if found is None else found)
    return space.softmax(np.stack(starts[: max(count, 1)]))


def exact_starts(objective: Objective, safe: Table, count: int, seed: int) -> list[Table]:
    """So many tables: at most a quarter of them those of convex games, the others spread."""
    games = list[np.ndarray]()
    with contextlib.suppress(OutOfTime):
        games += itertools.islice(game_starts(objective, objective.clock.share(SHARE)), count // 4)
    return [*spread_starts(objective.space, safe, count - len(games), seed), *games]


def sampled_starts(
    objective: Objective, safe: Table, options: SolveOptions, given: Sequence[np.ndarray]
) -> list[Table]:
    """Tables to begin from where evaluations are samples: those given, those of convex games, and soft policies.

    The first is of the game that promises most, the second a soft one, since the two kinds lead to different optima. As many
    as their share of the time allows; the safe table where there is no other.
    """
    found = list(given) + [safe] * objective.channels.has_friends  # the others hide from all
    most = _SAMPLED_STARTS if options.starts is None else options.starts
    share = SHARE / 2 if given else SHARE  # what is given is the answer of a smaller class as a rule
    clock = objective.clock.share(share)
    games, soft = game_starts(objective, clock), _soft(objective, objective.clock.share(share / 2))
    for source, count in ((games, 1), (soft, 1), (games, most), (soft, most)):
        with contextlib.suppress(OutOfTime):
            found += itertools.islice(source, max(0, min(count, most - len(found))))
    return found[:most] or [safe]


def _soft(objective: Objective, clock: Clock) -> Iterator[np.ndarray]:
    """Soft policies for each channel of which more bits are wanted."""
    space, problem = objective.space, objective.space.problem
    for column in objective.channels.raised:
        own = make_space(problem.only(problem.channels[column].name), space.memory) if column else space
        yield from soft_starts(replace(objective, space=own), clock)


def _bold(space: Space, generator: np.random.Generator) -> Iterator[np.ndarray]:
    cells = _special_cells(space)
    pairs = [(cell, action) for cell in cells for action in np.flatnonzero(space.available[cell])]
    for index in generator.permutation(len(pairs)):
        cell, action = pairs[index]
        start = NOISE * generator.normal(size=space.shape)
        start[:, cell, action] += _BOLD
        yield start


def _special_cells(space: Space) -> Int[np.ndarray, " k"]:
    """Cells with a choice where the secret or the reward differs from what is usual."""
    hidden = space.hidden
    value = hidden.label.argmax(axis=1)
    usual = np.bincount(value).argmax()
    earned = hidden.paid[0]
    reward = earned.reward.max(axis=1) + earned.discount * earned.terminal
    special = (value != usual) | (reward != np.median(reward))
    cells = np.unique(hidden.cell[special])
    return cells[space.available[cells].sum(axis=1) > 1]


# Convex games.


def play_games(objective: Objective, clock: Clock) -> bool:
    """Play the games of a problem within the time, so that the searches of all classes begin from their policies."""
    deque(game_starts(objective, clock), maxlen=0)
    return True


def game_starts(objective: Objective, clock: Clock) -> Iterator[Table]:
    """Tables of the class, the most promising first, of games that are forecast to fit the time; none after one that it cut.

    Cost: about 80 rounds of five backward inductions for each game, unless it was played before.
    """
    for problem, memory, threshold in _games(objective):
        part = clock.silent()
        if objective.is_sampled and _game_seconds(objective) > part.left:
            return
        result = _solved(problem, memory, threshold, part)
        if result is not None:
            flows = AgentProblem(problem, result.pairs).flows(result.tables).flows
            layers = zip(result.pairs.layers, flows, strict=False)
            yield objective.space.table_of_flows(problem, ((layer.x, flow.T) for layer, flow in layers))
        if clock.left <= 0 or (result is not None and result.stopped == Stop.TIME_LIMIT):
            return


def _game_seconds(objective: Objective) -> float:
    """The least that a game takes, an induction for each of its rounds: all of them are about as large, since the observer
    remembers the end alone.
    """
    entries = max(one.space.layers.num_entries for one in objective.sampled)
    return _ITERATIONS * PER_ENTRY * entries * objective.space.hidden.kernel.num_actions


def _games(objective: Objective) -> Iterator[tuple[Problem, int, float]]:
    """Problem, remembered observations and threshold of each game, in turn for all channels of which more bits are wanted."""
    problem, wanted = objective.space.problem, objective.aim if objective.num_returns else -np.inf
    if objective.weight < 0 or objective.space.hidden.num_states > _MOST_STATES:
        return
    games = [(1, wanted), (2, wanted)]
    if objective.num_returns:
        extremes = return_extremes(problem)
        games += [(1, wanted + _ASIDE * (edge - wanted)) for edge in (extremes.smallest, extremes.largest)]
    names, seen = [one.name for one in problem.channels], problem.informed
    for memory, threshold in games:
        for column in objective.channels.raised if memory <= problem.horizon else ():
            yield (seen.only(names[column]) if column else seen).with_clock(), memory, threshold


def _solved(problem: Problem, memory: int, threshold: float, clock: Clock) -> GameResult | None:
    """The game, kept with the problem; None where it cannot be played in the time."""

    def solve() -> GameResult | None:
        try:
            return solve_game(
                problem,
                TailEvents(problem.horizon - memory),
                threshold=threshold,
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
