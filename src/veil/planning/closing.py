"""What the answer of a search hides, evaluated by itself: exactly where that fits the time, else on new sequences."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock
from ..measure.evaluate import opacity
from ..measure.pairs import PairValue, pair_value
from ..measure.result import Opacity
from ..measure.sampled import opacity_of_posteriors
from ..problem.pairs import Pair
from .backend import Backend, Draw
from .bits import GRADIENT_PASSES, LANE, in_lanes
from .channels import Asked, counted_seconds, pair_backend
from .objective import Objective
from .options import SolveOptions
from .policy_class import Space, make_space

CLOSING_SECONDS = 1.0
"""Seconds that the answer may take after the search was interrupted, and each check of it in any case."""
AFTER_SECONDS = 20.0
"""Seconds in which an answer is measured, and in which it is proven, where no limit leaves less: as `veil.opacity` takes."""

_MORE = 10  # times the sequences of an evaluation, on which an answer is measured: a third of its error
# Seconds for each number of a time-dependent table in which an answer is checked and its return is evaluated, after its bits
# are (measured: 3e-8 to 5e-8).
_PER_NUMBER = 6e-8


@dataclass(frozen=True, eq=False)
class Bits:
    """What an answer hides, evaluated by itself: in the problem's own pair, and in the others."""

    own: Opacity
    pairs: tuple[PairValue, ...] = ()


def measured(objective: Objective, table: Float[np.ndarray, "T C A"], options: SolveOptions, seconds: float) -> Bits:
    """What a table hides, as it was searched or by what fits so many seconds, shared out to all channels on samples."""
    space, problem, seed = objective.space, objective.space.problem, options.seed
    policy, backend, count = space.policy(table), objective.backend, 1 + len(problem.pairs)
    if objective.is_sampled:
        own = sampled_answer(space, table, options, seconds / count)
    elif backend.kind == "exact" and backend.cost_seconds / GRADIENT_PASSES <= seconds:
        own = opacity(problem, policy, "exact")
    else:
        own = opacity(problem, policy, time_limit=min(seconds, AFTER_SECONDS), seed=seed + 1)
    pairs = list[PairValue]()
    for pair, one in zip(problem.pairs, objective.channels.backends[1:], strict=True):
        if objective.is_sampled:
            pairs.append(_sampled_pair(space, pair, one, table, options, seconds / count))
        elif one is not None:
            pairs.append(pair_value(problem, pair, policy, method="exact"))
        else:
            pairs.append(pair_value(problem, pair, policy, seed=seed, time_limit=seconds / (count - 1)))
    return Bits(own, tuple(pairs))


def _sampled_pair(
    space: Space, pair: Pair, backend: Backend | None, table: np.ndarray, options: SolveOptions, seconds: float
) -> PairValue:
    """What a table that was searched on samples hides in a pair, and the loss of its observer if that may be wrong."""
    alone = make_space(space.problem.only(pair.name), options.memory)
    hidden = sampled_answer(alone, table, options, seconds if pair.belief is None else seconds / 2)
    value = PairValue(pair.name, hidden, pair.min, pair.max)
    if pair.belief is None:
        return value
    drawn = hidden.num_sequences if hidden.method == "sampled" else options.sequences
    backend = backend or pair_backend(space, pair, Asked(evaluation="sampled"))
    loss = backend(table[None], UNLIMITED, Draw(drawn, options.seed + 1), gradient=False)
    return replace(value, loss_bits=float(loss.values[0]), loss_std_error=float(loss.errors[0]))


def sampled_answer(space: Space, table: Float[np.ndarray, "T C A"], options: SolveOptions, seconds: float) -> Opacity:
    """The opacity of a table that was searched on samples: exact where that fits the seconds, else a large sample.

    The sample is of sequences that the search has not seen: as many as fit the seconds, at least 64.
    """
    chain, sequences, seed = space.chain(table), num_closing_sequences(options), options.seed
    if counted_seconds(space, chain, seconds) <= min(AFTER_SECONDS, seconds / 2):
        return opacity(space.problem, space.policy(table), "exact")
    if space.hidden.each is not None or space.hidden.path is not None:
        given = {"sequences": sequences, "seed": seed + 1, "time_limit": max(CLOSING_SECONDS, seconds)}
        return opacity(space.problem, space.policy(table), "sampled", **given)
    lane = LANE if space.on_device is None else space.on_device.chunk
    found = in_lanes(
        lambda count, generator: space.layers.posteriors(table, space.layers.draw(table, count, generator)),
        sequences, lane, seed, seconds,
    )  # fmt: skip
    return opacity_of_posteriors(space.layers.prior(table), found)


def num_closing_sequences(options: SolveOptions) -> int:
    """On how many new sequences an answer is measured if the time suffices."""
    return _MORE * max(options.sequences, SolveOptions.sequences)


def closing_seconds(space: Space, closing: Clock) -> float:
    """What a clock leaves to measure an answer, half of `CLOSING_SECONDS` at least."""
    return max(closing.left - seconds_of_policy(space), CLOSING_SECONDS / 2)


def seconds_of_policy(space: Space) -> float:
    """The forecast for making a policy of a table, with the rows that are not searched, and for its return."""
    summed = space.hidden.horizon * space.hidden.paid[0].reward.size
    return _PER_NUMBER * max(summed, space.shape[0] * space.problem.available.size)
