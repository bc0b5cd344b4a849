"""What the answer of a search hides, evaluated by itself: exactly where that fits the time, else on new sequences."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock
from ..measure.evaluate import opacity
from ..measure.pairs import PairValue, pair_value
from ..measure.result import Opacity
from ..measure.sampled import opacity_of_posteriors
from .backend import Draw
from .channels import Asked, counted_seconds, pair_backend
from .objective import Objective
from .options import SolveOptions
from .policy_class import Space, make_space
from .sampled_bits import LANE, in_lanes

CLOSING_SECONDS = 1.0
"""Seconds that the answer may take after the search was interrupted, and each check of it in any case."""
AFTER_SECONDS = 20.0
"""Seconds in which an answer is measured, and in which it is proven, where no limit leaves less: as `veil.opacity` takes."""

# Seconds for each number of a time-dependent table in which an answer is checked and its return is evaluated, after its bits
# are (measured: 3e-8 to 5e-8).
_PER_NUMBER = 6e-8


@dataclass(frozen=True, eq=False)
class Bits:
    """What an answer hides, evaluated by itself: in the problem's own pair, and in the others."""

    own: Opacity
    pairs: tuple[PairValue, ...] = ()


def closing_bits(
    objective: Objective, table: np.ndarray, options: SolveOptions, closing: Clock
) -> tuple[Bits, Float[np.ndarray, "T C A"]]:
    """What the answer hides, as it was searched or by what fits the time that is left, and the answer.

    A search on samples ends with an estimate of the bits of its answer and of those of the policy it began from; the answer
    is the better one of the two.
    """
    space, backend = objective.space, objective.backend
    left = max(closing.left - seconds_of_policy(space), 0.5 * CLOSING_SECONDS)
    if objective.is_sampled:
        return best_on_samples(objective, table, options, left)
    policy, seed = space.policy(table), options.seed + 1
    if backend.kind == "exact" and backend.cost_seconds / 3 <= left:
        own = opacity(space.problem, policy, "exact")
    else:
        own = opacity(space.problem, policy, time_limit=min(left, AFTER_SECONDS), seed=seed)
    counted = zip(space.problem.pairs, objective.channels.backends[1:], strict=True)
    exact: dict[str, Any] = {"method": "exact"}
    limited: dict[str, Any] = {"seed": options.seed, "time_limit": left / max(1, len(space.problem.pairs))}
    ways = ((pair, exact if backend else limited) for pair, backend in counted)
    return Bits(own, tuple(pair_value(space.problem, pair, policy, **way) for pair, way in ways)), table


def seconds_of_policy(space: Space) -> float:
    """The forecast for making a policy of a table, with the rows that are not searched, and for its return."""
    summed = space.hidden.horizon * space.hidden.paid[0].reward.size
    return _PER_NUMBER * max(summed, space.shape[0] * space.problem.available.size)


def best_on_samples(
    objective: Objective, table: np.ndarray, options: SolveOptions, left: float
) -> tuple[Bits, Float[np.ndarray, "T C A"]]:
    """The better one of the answer and the policy that the search began from, with its bits on new sequences."""
    tables = [table]
    if options.start is not None and objective.min_opacity is None:
        begun = objective.space.table_of(options.start)
        tables += [begun] if meets_linear(objective, begun) and np.any(begun != table) else []
    count, earned = num_closing_sequences(options), np.zeros(len(tables))
    if objective.terms:
        earned = objective.sums(np.stack(tables), gradient=False).score * objective.score_unit
    found = list[tuple[tuple[bool, float], Bits, np.ndarray]]()
    for one, more in zip(tables, earned.tolist(), strict=True):
        bits = _sampled_bits(objective, one, count, options, left / len(tables))
        found.append((_merit(objective, bits, more, options), bits, one))
    return max(found, key=lambda one: one[0])[1:]


def num_closing_sequences(options: SolveOptions) -> int:
    """On how many new sequences an answer is measured if the time suffices."""
    return max(10 * options.sequences, 20_000)


def _sampled_bits(objective: Objective, table: np.ndarray, count: int, options: SolveOptions, left: float) -> Bits:
    """The bits of a table that was searched on samples, the time shared out to all pairs."""
    problem, seconds = objective.space.problem, left / (1 + len(objective.space.problem.pairs))
    own = sampled_answer(objective.space, table, count, options.seed, seconds)
    asked, found = Asked(evaluation="sampled", draw=Draw(options.sequences, options.seed)), list[PairValue]()
    for pair, backend in zip(problem.pairs, objective.channels.backends[1:], strict=True):
        made = pair_backend(objective.space, pair, asked) if backend is None else backend
        alone = make_space(problem.only(pair.name), options.memory)
        first = seconds if pair.belief is None else seconds / 2
        hidden = sampled_answer(alone, table, count, options.seed, first)
        value = PairValue(pair.name, hidden, pair.min, pair.max)
        if pair.belief is not None:
            drawn = hidden.num_sequences if hidden.method == "sampled" else options.sequences
            loss = made(table[None], UNLIMITED, Draw(drawn, options.seed + 1), gradient=False)
            value = replace(value, loss_bits=float(loss.values[0]), loss_std_error=float(loss.errors[0]))
        found.append(value)
    return Bits(own, tuple(found))


def _merit(objective: Objective, found: Bits, earned: float, options: SolveOptions) -> tuple[bool, float]:
    """By which answers are compared: whether every bound on pairs is met, then what is maximised, of bits and the objective."""
    columns = [found.own.bits, *(one.bits for one in found.pairs)]
    hidden = columns[0] - (found.own.prior_bits if options.objective == "leakage" else 0.0)
    if objective.channels.least:
        hidden = min(columns[one.column] for one in objective.channels.least)
    score = (
        objective.weight * hidden + earned + sum(factor * columns[place] for factor, place in objective.channels.terms)
    )
    return all(one.met for one in found.pairs), score


def meets_linear(objective: Objective, table: Float[np.ndarray, "T C A"]) -> bool:
    """Whether a table meets all constraints but those on bits."""
    return bool(np.all(objective.sums(table[None], gradient=False).slack >= 0))


def sampled_answer(
    space: Space, table: Float[np.ndarray, "T C A"], sequences: int, seed: int, seconds: float
) -> Opacity:
    """The opacity of a table that was searched on samples: exact where that fits the seconds, else a large sample.

    The sample is of sequences that the search has not seen: as many as fit the seconds, at least 64.
    """
    chain = space.chain(table)
    if counted_seconds(space, chain, seconds) <= min(AFTER_SECONDS, 0.5 * seconds):
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
