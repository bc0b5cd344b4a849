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

from ..common.clock import Clock, OutOfTime
from ..problem.pairs import OWN
from .game_starts import game_starts
from .objective import Objective
from .options import SolveOptions
from .parameters import NOISE, logits
from .plan import SHARE
from .policy_class import Space, make_space
from .soft_starts import soft_starts

_BOLD = 3.0  # logit of an action that a start all but fixes: far enough to be another policy, near enough to come back
# Scales of random starts in turn, and shares of the uniform policy in those near the policy of largest return: by judgement.
_SCALES, _SHARES = (0.1, 0.5, 1.0, 1.5), (0.5, 0.2, 0.8)
_SAMPLED_STARTS = 5  # tables to begin from in a search on samples on a device: by judgement


def spread_starts(
    space: Space, richest: Float[np.ndarray, "T C A"], count: int, seed: int
) -> Float[np.ndarray, "B T C A"]:
    """`count` starting tables, the same for the same seed, for searches whose evaluations are cheap.

    A nearly uniform one; an even mixture of the richest table with the uniform one; then, three to one, ones that are uniform
    but for one cell of consequence (a secret or a rewarding one) where one action is all but fixed, since what is done there
    decides which local optimum is found, and in turn mixtures of the richest table and random ones.
    """
    generator = np.random.default_rng(seed)
    anything = (scale * generator.normal(size=space.shape) for scale in itertools.cycle(_SCALES))
    bold, rich = _bold(space, generator), (logits(space, richest, share) for share in _SHARES)
    starts: list[np.ndarray] = [next(anything), next(rich)]
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
        games += itertools.islice(game_starts(objective, objective.clock.share(SHARE)), count // 4)
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
    share = SHARE / 2 if given else SHARE  # what is given is the answer of a smaller class as a rule
    clock = objective.clock.share(share)
    games, soft = game_starts(objective, clock), _soft(objective, objective.clock.share(share / 2))
    for source, count in ((games, 1), (soft, 1), (games, most), (soft, most)):
        with contextlib.suppress(OutOfTime):
            found += itertools.islice(source, max(0, min(count, most - len(found))))
    return found[:most] or [safe]


def _soft(objective: Objective, clock: Clock) -> Iterator[np.ndarray]:
    """Soft policies for each channel of which more bits are wanted."""
    names = [OWN, *(pair.name for pair in objective.space.problem.pairs)]
    for column in objective.channels.raised:
        space = objective.space
        if column:
            space = make_space(space.problem.only(names[column]), space.memory)
        yield from soft_starts(replace(objective, space=space), clock)


def _bold(space: Space, generator: np.random.Generator) -> Iterator[np.ndarray]:
    cells = special_cells(space)
    pairs = [(cell, action) for cell in cells for action in np.flatnonzero(space.available[cell])]
    for index in generator.permutation(len(pairs)):
        cell, action = pairs[index]
        start = NOISE * generator.normal(size=space.shape)
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
