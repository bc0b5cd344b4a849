"""How a solver evaluates many tables at once: the secrecy and its slope, exactly, by a window, or on fixed samples."""

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
from jaxtyping import Float

from ..common.clock import UNLIMITED, Clock, OutOfTime
from ..common.errors import InputError, TooLargeError
from ..common.logs import log2_or_zero, surprisal_bits
from ..common.workers import ALONE, Team
from ..engine.batch import BatchTree
from ..engine.chain import Chain, with_clock
from ..engine.joint import DEFAULT_MEMORY, JointWalk, Walk
from ..engine.size import TreeSize, tree_size
from ..engine.sparse_walk import SparseWalk
from ..engine.string_walk import StringBatch
from ..engine.window import Cut, Window
from ..measure.bracket import end_gradient
from ..measure.evaluate import opacity
from ..measure.exact import COUNTED_STATES, Budget, refuse_if_too_large, sparse_seconds, try_sparse
from ..measure.result import Opacity
from ..measure.sampled import opacity_of_posteriors
from .each_values import make_each_secrecy
from .options import Evaluation, Objective
from .path_values import make_path_secrecy
from .policy_class import Space, all_strings, any_table
from .sampled_values import LANE, SampledPath, in_lanes, make_sampled

# An exact ascent makes about this many gradients. `auto` enumerates all sequences where they are forecast to take at most
# this many seconds, or the time limit where that is shorter; else it samples.
_EXACT_GRADIENTS, _EXACT_SECONDS = 1000, 300.0
# Over more states, counting the sequences can take longer than an attempt to enumerate them (a minute at 1,000 states): that
# is tried first, and the count is then given up after so many seconds, or this share of a time limit.
_COUNTED_STATES, _COUNT_SECONDS, _COUNT_SHARE = 300, 2.0, 0.03
_GUESS_SECONDS = 1.0
_ALWAYS_EXACT_SECONDS = 0.02  # of one gradient: as fast as a sampled one
_MOST_SECONDS = 300.0  # of one exact gradient, where it was asked for
_WINDOW_SECONDS = 0.3
_WINDOW_STATES = 2000
_BATCH_NUMBERS = 2**24
_ANSWER_SECONDS = 5.0  # forecast, up to which the answer of a sampled search is evaluated exactly
# The sharpness of the smooth maximum that stands for the best guess: within Z^(1/p) of it.
SHARPNESS = 64.0

Slopes = Float[np.ndarray, "B T C A"]


class Secrecy(Protocol):
    """The secrecy of tables and its slope; larger is more opaque."""

    kind: str
    reason: str
    cost_seconds: float
    at_once: int
    """Tables that one share has: what is found for them does not depend on the others that are evaluated."""

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[Float[np.ndarray, " B"], Slopes]:
        """Values `(B,)` and slopes; `clock` is checked every second or so."""
        ...


ALL_AT_ONCE = sys.maxsize  # tables of a share where they are cheap, or evaluated side by side: there is one share
_SPREAD_SECONDS = (
    0.1  # of an evaluation, from which it is worth its messages: two for each share, a few milliseconds each
)


def evaluated(secrecy: Secrecy, tables: Slopes, clock: Clock, team: Team) -> tuple[Float[np.ndarray, " B"], Slopes]:
    """`secrecy(tables, clock)`, shared by a team where that is worth it; the same numbers to the last bit."""
    step = secrecy.at_once
    if team.alone or len(tables) <= step or secrecy.cost_seconds * len(tables) < _SPREAD_SECONDS:
        return secrecy(tables, clock)
    parts = (tables[begin : begin + step] for begin in range(0, len(tables), step))
    found = list(team.shares(_evaluated_part, secrecy, parts, clock))
    return np.concatenate([values for values, _ in found]), np.concatenate([slopes for _, slopes in found])


def _evaluated_part(secrecy: Secrecy, tables: Slopes, clock: Clock) -> tuple[Float[np.ndarray, " B"], Slopes]:
    return secrecy(tables, clock)


def row_measure(objective: Objective) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The objective as a function of whole joint tables `(B, Y, Z)`, with its slope in each entry.

    `entropy`: `H(Z|Y)`, slope `−log2 P(z|y)`. `leakage`: `−I(Z;Y) = H(Z|Y) − H(Z)`, slope `−log2 P(z|y) + log2 P(z)` (the
    constants cancel). `guess`: minus a smooth maximum `Σ_y (Σ_z P(z,y)^p)^{1/p}`, which is at least the chance
    `Σ_y max_z P(z,y)` of guessing right and at most `Z^{1/p}` times it.
    """

    def entropy(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slope = surprisal_bits(joint)
        return np.einsum("byz,byz->b", joint, slope), slope

    def leakage(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prior = joint.sum(axis=1, keepdims=True)
        slope = surprisal_bits(joint) + log2_or_zero(prior)
        return np.einsum("byz,byz->b", joint, slope), slope

    def guess(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        top = joint.max(axis=-1, keepdims=True)
        shares = joint / np.where(top > 0, top, 1.0)
        sums = np.sum(shares**SHARPNESS, axis=-1, keepdims=True)
        roots = np.where(top > 0, sums, 1.0) ** (1 / SHARPNESS)
        slope = shares ** (SHARPNESS - 1) * roots / np.where(top > 0, sums, 1.0)
        return -np.sum(top * roots, axis=(1, 2)), -slope

    return {"entropy": entropy, "leakage": leakage, "guess": guess}[objective]


class _RowObjective:
    """A `row_measure` fed by a walk, one policy at a time; the prior of a leakage is known beforehand."""

    def __init__(self, objective: Objective, prior: np.ndarray):
        self.total = 0.0
        self._prior = log2_or_zero(prior) if objective == "leakage" else np.zeros(len(prior))
        rows: Objective = "guess" if objective == "guess" else "entropy"
        self._measure = row_measure(rows)

    def __call__(self, joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """See `engine.joint.Objective`."""
        values, slope = self._measure(joint[None])
        self.total += float(values[0]) + float(np.sum(joint @ self._prior))
        return slope[0] + self._prior


class NoSecrecy:
    """No bits at all: for searches that maximise a task alone."""

    kind, reason, cost_seconds, at_once = "exact", "", 1e-3, ALL_AT_ONCE

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[np.ndarray, Slopes]:
        """See `Secrecy`."""
        clock.check()
        return np.zeros(len(tables)), np.zeros(tables.shape)


class BatchSecrecy:
    """All sequences, for all policies side by side."""

    kind = "exact"

    def __init__(self, tree: BatchTree | StringBatch, objective: Objective):
        self.tree, self._measure, self.at_once = tree, row_measure(objective), tree.at_once
        what = (
            "sequences, policies side by side"
            if isinstance(tree, BatchTree)
            else "strings of an observer without a clock"
        )
        self.reason, self.cost_seconds = f"all {tree.num_sequences:,.0f} possible {what}", tree.cost_seconds

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[np.ndarray, Slopes]:
        """See `Secrecy`."""
        return self.tree.evaluate(tables, self._measure, clock)


class WalkSecrecy:
    """All sequences, one policy after the other: for trees and models that do not fit a batch."""

    kind, at_once = "exact", 1

    def __init__(
        self, space: Space, objective: Objective, seconds: float, sequences: str, size: TreeSize | None = None
    ):
        self._space, self._size = space, size
        self._objective: Objective = objective
        self.reason, self.cost_seconds = f"all {sequences} possible sequences", seconds

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[np.ndarray, Slopes]:
        """See `Secrecy`."""
        values, slopes = np.empty(len(tables)), np.empty(tables.shape)
        for number, table in enumerate(tables):
            clock.check()
            chain = self._space.chain(table)
            walk = self._walk(chain, clock)
            objective = _RowObjective(self._objective, chain.prior)
            found = walk.run(objective, gradient=True)
            assert found is not None
            values[number], slopes[number] = objective.total, found
        return values, slopes

    def _walk(self, chain: Chain, clock: Clock) -> Walk:
        """Dense messages where the sequences were counted, rows with sparse support where those were tried."""
        if self._size is None:
            return SparseWalk(chain, clock=clock)
        return JointWalk(chain, clock=clock, meet=self._size.meet, outer=self._size.outer)


class WindowSecrecy:
    """The lower end of the bracket of one fixed window: what the policy hides at least, whatever the horizon."""

    kind, at_once = "bracket", 1

    def __init__(self, space: Space, radius: int, seconds: float):
        self._space, self.radius, self.cost_seconds = space, radius, seconds
        self.reason = f"the lower end of the bracket of {radius} steps around the secret's time"

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[np.ndarray, Slopes]:
        """See `Secrecy`."""
        values, slopes = np.empty(len(tables)), np.empty(tables.shape)
        for number, table in enumerate(tables):
            clock.check()
            values[number], slopes[number] = end_gradient(
                with_clock(self._space.chain(table)),
                radius=self.radius,
                reveal=True,
                memory_bytes=DEFAULT_MEMORY,
                clock=clock,
            )
        return values, slopes


def make_secrecy(
    space: Space,
    objective: Objective = "entropy",
    evaluation: Evaluation = "auto",
    *,
    sequences: int = 2000,
    seed: int = 0,
    time_limit: float | None = None,
    team: Team = ALONE,
) -> Secrecy:
    """The evaluation that fits the class of policies: exact where the ascent is forecast to end within the time, else sampled.

    **Raises:** `InputError` where the evaluation asked for cannot serve the objective; `TooLargeError` where `"exact"`
    would take more than five minutes a gradient.
    """
    fits = _exact_seconds(objective, time_limit)
    if space.hidden.each is not None:
        return make_each_secrecy(space, objective, evaluation, fits)
    if space.hidden.path is not None:
        sample = partial(make_sampled, space, objective, sequences, seed, team=team)
        return make_path_secrecy(space, objective, evaluation, sample, fits, time_limit)
    hidden, chain = space.hidden, space.chain(any_table(space))
    enumerates = evaluation in ("auto", "exact")
    if enumerates and hidden.written is not None:
        strings = all_strings(space, _MOST_SECONDS if evaluation == "exact" else _COUNT_SECONDS, time_limit)
        if strings is not None and strings.cost_seconds <= (fits if evaluation == "auto" else _MOST_SECONDS):
            return BatchSecrecy(strings, objective)
        if evaluation == "exact":
            raise TooLargeError(
                "one exact gradient over all strings of an observer without a clock takes more than five minutes, or they do"
                " not fit the memory: use evaluation='sampled', or 'bracket', a bound that holds against one with a clock too"
            )
        enumerates = False
    if enumerates and hidden.num_states > (_COUNTED_STATES if evaluation == "auto" else COUNTED_STATES):
        limit = fits if evaluation == "auto" else _MOST_SECONDS
        # The prior of a large chain takes seconds, and only a leakage depends on it.
        prior = chain.prior if objective == "leakage" else np.zeros(hidden.num_values)
        tried = try_sparse(chain, Budget(), lambda: _RowObjective(objective, prior), limit, gradient=True)
        if tried is not None:
            return WalkSecrecy(space, objective, sparse_seconds(tried[1]), f"{tried[1].num_sequences:,.0f}")
        enumerates = hidden.num_states <= COUNTED_STATES
    size = _counted(chain, time_limit) if enumerates else None
    seconds = size.seconds(chain, gradient=True) if size is not None and size.exact else math.inf
    if evaluation == "exact" or (evaluation == "auto" and seconds <= fits):
        if seconds > _MOST_SECONDS:
            if size is not None:
                refuse_if_too_large(chain, size, Budget(), gradient=True)  # says what else there is
            raise TooLargeError(
                "one exact gradient takes more than five minutes: use evaluation='bracket' or 'sampled'"
            )
        assert size is not None
        if not hidden.kernel.is_sparse and size.num_sequences * hidden.label.shape[1] <= _BATCH_NUMBERS:
            tree = BatchTree(hidden, space.available, stationary=space.stationary)
            return BatchSecrecy(tree, objective)
        return WalkSecrecy(space, objective, seconds, size.text(), size)
    if evaluation == "bracket":
        if objective == "entropy" and hidden.num_states <= _WINDOW_STATES:
            return WindowSecrecy(space, *_window(with_clock(chain)))
        why = f"bounds the entropy only, not {objective!r}"
        if objective == "entropy":
            why = f"needs a chain of {_WINDOW_STATES} states or fewer, and this one has {hidden.num_states}"
        raise InputError("evaluation", [f"'bracket' {why}: use 'exact' or 'sampled'"])
    if objective == "guess":
        raise InputError(
            "objective",
            ["'guess' needs all sequences, which are too many here: use objective='entropy' or a shorter horizon"],
        )
    why = "asked for"
    if evaluation == "auto":
        cost = f"an exact gradient is forecast to take {seconds:.2g} s"
        if math.isinf(seconds):
            late = enumerates and size is None
            cost = "they could not be counted in the time for it" if late else "too many to enumerate"
        why = f"{cost}, and exact ascent is used up to {fits:.2g} s"
    return make_sampled(space, objective, sequences, seed, why, team)


def _counted(chain: Chain, time_limit: float | None) -> TreeSize | None:
    """How many sequences are possible; None where counting them over many states takes too long."""
    large, limit = chain.hidden.num_states > _COUNTED_STATES, math.inf if time_limit is None else time_limit
    try:
        return tree_size(chain, Clock(min(_COUNT_SECONDS, _COUNT_SHARE * limit)) if large else UNLIMITED)
    except OutOfTime:
        return None


def _exact_seconds(objective: Objective, time_limit: float | None) -> float:
    """The forecast seconds of one exact gradient up to which `auto` takes it."""
    if objective == "guess":  # there is no other way
        return _GUESS_SECONDS
    whole = _EXACT_SECONDS if time_limit is None else min(_EXACT_SECONDS, time_limit)
    return max(_ALWAYS_EXACT_SECONDS, whole / _EXACT_GRADIENTS)


def _window(chain: Chain) -> tuple[int, float]:
    """The widest window whose gradient is forecast to take a fraction of a second, and that forecast."""
    best = (0, 1e-3)
    for radius in range(chain.hidden.horizon + 2):
        cut = Cut(chain, Window.around(chain, radius), reveal=True)
        size = tree_size(cut.chain)
        seconds = size.seconds(cut.chain, gradient=True)
        if not size.exact or seconds > _WINDOW_SECONDS:
            break
        best = (radius, seconds)
    return best


def final_opacity(space: Space, table: Float[np.ndarray, "T C A"], secrecy: Secrecy, seed: int) -> Opacity:
    """The opacity of the chosen table, as it was searched."""
    policy, problem = space.policy(table), space.problem
    if secrecy.kind == "exact":
        return opacity(problem, policy, "exact")
    return opacity(problem, policy, "auto", time_limit=20, seed=seed + 1)


def sampled_answer(
    space: Space, table: Float[np.ndarray, "T C A"], sequences: int, seed: int, seconds: float
) -> Opacity:
    """The opacity of a table that was searched on samples: exact where that fits the seconds, else a large sample.

    The sample is of sequences that the search has not seen: as many as fit the seconds, at least 64.
    """
    chain, hidden, forecast = space.chain(table), space.hidden, math.inf
    if hidden.written is not None:
        strings = all_strings(space, _COUNT_SECONDS, seconds)
        forecast = math.inf if strings is None else strings.cost_seconds
    elif hidden.num_states <= COUNTED_STATES:
        size = _counted(chain, seconds)
        forecast = size.seconds(chain, gradient=False) if size is not None and size.exact else math.inf
    if forecast <= min(_ANSWER_SECONDS, 0.5 * seconds):
        return opacity(space.problem, space.policy(table), "exact")
    if hidden.path is not None:
        return SampledPath(space, "entropy", sequences, seed, "").answer(table, sequences, seconds)
    lane = LANE if space.on_device is None else space.on_device.chunk
    found = in_lanes(
        lambda count, generator: space.layers.posteriors(table, space.layers.draw(table, count, generator)),
        sequences, lane, seed, seconds,
    )  # fmt: skip
    return opacity_of_posteriors(space.layers.prior(table), found)
