"""Where searches begin.

Where evaluations are cheap: near the uniform policy, random, bold in single cells, and near the policy of largest return. On
samples: policies of convex games (`game_starts`), and soft policies (`soft_starts`).
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..engine.additive import expected_sums
from ..engine.return_range import is_blind, max_return, threshold
from ..policy.markov import MarkovPolicy, TimedPolicy
from ..problem.pairs import OWN
from .best_returns import best_stationary_return, discounted_table, greedy_table
from .game_starts import game_starts
from .objective import Objective
from .options import SolveOptions
from .parameters import logits
from .policy_class import Space, make_space
from .soft_starts import soft_starts

_BOLD = 3.0  # logit of an action that a start all but fixes: far enough to be another policy, near enough to come back
_MANY_STATES = 300  # above which the search for a stationary policy of large return has a limit of time: by judgement
# Tables to begin from in a search on samples on a device, and soft ones for each channel: by judgement.
_SAMPLED_STARTS, _SOFT_STARTS = 5, 2
# Of a time limit, for all of them; for less where one is given, which is the answer of a smaller class as a rule: by judgement.
_SHARE_OF_STARTS, _SHARE_OF_GIVEN = 0.2, 0.1
_SHARE_OF_RICHEST = 0.25  # of a time limit, for a search for a stationary policy of large return: by judgement


def richest_table(space: Space, clock: Clock = UNLIMITED) -> Float[np.ndarray, "T C A"]:
    """The table of largest return known for the class: by backward induction if it is time-dependent, else by a search.

    The search ends at its share of the time. Over many states greedy tables are tried first, and it ends well inside the
    threshold; over few they serve if it had no time at all.
    """
    problem = space.problem
    if not space.stationary:
        return space.table_of(TimedPolicy(greedy_table(problem)))
    best, wanted, enough = (-np.inf, None), threshold(problem), np.inf
    if space.hidden.num_states > _MANY_STATES:
        enough = -np.inf if wanted is None else (wanted + max_return(problem)) / 2
        best = max(_greedy_returns(space, enough), key=lambda found: found[0], default=best)
    if best[1] is None or best[0] < enough:
        part = clock.share(_SHARE_OF_RICHEST) if np.isfinite(clock.time_limit) else clock
        found = best_stationary_return(problem, enough=enough, clock=part)
        if found[0] == best[0] == -np.inf:
            best = max(_greedy_returns(space, enough), key=lambda found: found[0], default=best)
        # The one found first: without time for its return it counts as -inf, like none.
        best = max((found[0], space.table_of(MarkovPolicy(found[1]))), best, key=lambda found: found[0])
    assert best[1] is not None
    return best[1]


def _greedy_returns(space: Space, enough: float) -> Iterator[tuple[float, Float[np.ndarray, "1 C A"]]]:
    """Stationary tables that are greedy for the return, each with its return, up to the first whose return is enough."""
    problem, hidden = space.problem, space.hidden
    if is_blind(problem) or problem.return_over == "infinite" or problem.horizon == 0:
        return
    for make in (lambda problem: greedy_table(problem)[0], discounted_table):  # the second takes five times as long
        table = space.table_of(MarkovPolicy(make(problem)))
        value = expected_sums(hidden, table[None], hidden.paid[:1], stationary=True)[0, 0]
        yield float(value), table
        if value >= enough:
            return


def spread_starts(
    space: Space, richest: Float[np.ndarray, "T C A"], count: int, seed: int
) -> Float[np.ndarray, "B T C A"]:
    """`count` starting tables, the same for the same seed, for searches whose evaluations are cheap.

    A nearly uniform one; a mixture of the richest table with the uniform one; then, three to
    one, ones that are uniform but for one cell of consequence (a secret or a rewarding one) where one action is all but
    fixed, since what is done there decides which local optimum is found, and random or rich ones.
    """
    generator = np.random.default_rng(seed)
    starts: list[np.ndarray] = []
    anything, bold, rich = _random(space, generator), _bold(space, generator), _rich(space, richest)
    starts += [next(anything), next(rich)]
    while len(starts) < count:
        source = bold if len(starts) % 4 else rich if len(starts) % 8 else anything
        found = next(source, None)
        starts.append(next(anything) if found is None else found)
    return space.softmax(np.stack(starts[: max(count, 1)]))


def exact_starts(
    objective: Objective, safe: Float[np.ndarray, "T C A"], count: int, seed: int
) -> list[Float[np.ndarray, "T C A"]]:
    """So many tables: at most a quarter of them those of convex games, the others spread."""
    games = list[np.ndarray]()
    with contextlib.suppress(OutOfTime):
        games += itertools.islice(game_starts(objective, objective.clock.share(_SHARE_OF_GIVEN)), count // 4)
    return [*spread_starts(objective.space, safe, count - len(games), seed), *games]


def sampled_starts(
    objective: Objective, safe: Float[np.ndarray, "T C A"], options: SolveOptions, given: Sequence[np.ndarray]
) -> list[Float[np.ndarray, "T C A"]]:
    """Tables to begin from where evaluations are samples: those given, those of convex games, and soft policies.

    The first is of the game that promises most, the second a soft one, since the two kinds lead to different optima. As many
    as their share of the time allows; the safe table where there is no other.
    """
    found = list(given) + [safe] * objective.channels.has_friends  # the others hide from all
    most = _SAMPLED_STARTS if options.starts is None else options.starts
    share = _SHARE_OF_GIVEN if given else _SHARE_OF_STARTS
    clock = objective.clock.share(share)
    games, soft = game_starts(objective, clock), _soft(objective, objective.clock.share(share / 2))
    for source, count in ((games, 1), (soft, 1), (games, most), (soft, most)):
        with contextlib.suppress(OutOfTime):
            found += itertools.islice(source, max(0, min(count, most - len(found))))
    return found[:most] or [safe]


def _soft(objective: Objective, clock: Clock) -> Iterator[np.ndarray]:
    """The first soft policies for each channel of which more bits are wanted."""
    names = [OWN, *(pair.name for pair in objective.space.problem.pairs)]
    for column in objective.channels.raised:
        space = objective.space
        if column:
            space = make_space(space.problem.only(names[column]), space.memory)
        yield from itertools.islice(soft_starts(replace(objective, space=space), clock), _SOFT_STARTS)


def _random(space: Space, generator: np.random.Generator) -> Iterator[np.ndarray]:
    for scale in _cycle((0.1, 0.5, 1.0, 1.5)):
        yield scale * generator.normal(size=space.shape)


def _rich(space: Space, richest: np.ndarray) -> Iterator[np.ndarray]:
    for share in (0.5, 0.2, 0.8):
        yield logits(space, richest, share)


def _bold(space: Space, generator: np.random.Generator) -> Iterator[np.ndarray]:
    cells = special_cells(space)
    pairs = [(cell, action) for cell in cells for action in np.flatnonzero(space.available[cell])]
    for index in generator.permutation(len(pairs)):
        cell, action = pairs[index]
        start = 0.01 * generator.normal(size=space.shape)
        start[:, cell, action] += _BOLD
        yield start


def special_cells(space: Space) -> Int[np.ndarray, " k"]:
    """Cells with a choice where the secret or the reward differs from what is usual."""
    hidden = space.hidden
    value = hidden.label.argmax(axis=1)
    usual = np.bincount(value).argmax()
    earned = hidden.paid[0]
    reward = earned.reward.max(axis=1) + earned.discount * earned.terminal
    special = (value != usual) | (reward != np.median(reward))
    cells = np.unique(hidden.cell[special])
    return cells[space.available[cells].sum(axis=1) > 1]


def _cycle(values: tuple[float, ...]) -> Iterator[float]:
    while True:
        yield from values
