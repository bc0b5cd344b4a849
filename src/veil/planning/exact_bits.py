"""Backends without samples: all sequences for many tables side by side or one after the other, sums over times, and windows.

Of windows it is the lower end of the bracket of a fixed one: what a policy hides at least, at any horizon.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from ..common.clock import Clock
from ..common.errors import InputError, TooLargeError
from ..common.logs import entropy_bits, log2_of_count, log2_or_zero, surprisal_bits
from ..engine.batch import BatchTree
from ..engine.chain import Chain, with_clock
from ..engine.each_time import AtTime, times_of
from ..engine.event_entropy import UnifilarEntropy
from ..engine.joint import DEFAULT_MEMORY, JointWalk, Walk
from ..engine.size import TreeSize, tree_size
from ..engine.sparse_walk import SparseWalk
from ..engine.string_walk import StringBatch
from ..engine.window import Cut, Window
from ..measure.bracket import end_gradient
from ..measure.each_time import EachValue
from ..measure.exact import Budget
from ..measure.loss import Rule
from .backend import ALL_AT_ONCE, LEAST_SECONDS, PER_ENTRY, UNBOUNDED, Draw, Ends, Estimate, Tables
from .policy_class import Space, any_table

Measure = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A function of joint tables `(B, Y, Z)`, and its derivative in each entry."""

MOST_NUMBERS = 2**24
"""Of joint tables that are side by side: 128 MiB."""

GRADIENT_PASSES = 3
"""A value and its gradient take so many times as long as the value: forward, the gradient, and back."""

# The sharpness of the smooth maximum that stands for the best guess: within Z^(1/p) of it.
SHARPNESS = 64.0


def entropy_of_rows(joint: Float[np.ndarray, "B Y Z"]) -> tuple[np.ndarray, np.ndarray]:
    """`H(Z|Y)`, with derivative `−log2 P(z|y)`."""
    gradient = surprisal_bits(joint)
    return np.einsum("byz,byz->b", joint, gradient), gradient


def entropy_of_sequences(joint: Float[np.ndarray, "B Y 1"]) -> tuple[np.ndarray, np.ndarray]:
    """`H(Y)`, and its derivative up to a constant that changes no policy."""
    gradient = -log2_or_zero(joint)
    return np.einsum("byz,byz->b", joint, gradient), gradient


def guess_of_rows(joint: Float[np.ndarray, "B Y Z"]) -> tuple[np.ndarray, np.ndarray]:
    """Minus a smooth maximum `Σ_y (Σ_z P(z,y)^p)^{1/p}`, and its derivative.

    It is at least the chance `Σ_y max_z P(z,y)` of guessing right, and at most `Z^{1/p}` times it.
    """
    top = joint.max(axis=-1, keepdims=True)
    shares = joint / np.where(top > 0, top, 1.0)
    sums = np.sum(shares**SHARPNESS, axis=-1, keepdims=True)
    roots = np.where(top > 0, sums, 1.0) ** (1 / SHARPNESS)
    gradient = shares ** (SHARPNESS - 1) * roots / np.where(top > 0, sums, 1.0)
    return -np.sum(top * roots, axis=(1, 2)), -gradient


@dataclass(eq=False)
class Exact:
    """A backend without samples.

    **Attributes:** `evaluate`: the bits of tables and their gradients, while a clock allows, and if gradients are wanted;
    `tree`: of whose sequences for all tables side by side; the others are those of `Backend`.
    """

    evaluate: Callable[[Tables, Clock, bool], tuple[Float[np.ndarray, " B"], Any]]
    reason: str
    cost_seconds: float
    ends: Ends = UNBOUNDED
    at_once: int = 1
    kind: str = "exact"
    tree: BatchTree | StringBatch | None = None

    def __call__(self, tables: Tables, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Estimate:
        """See `Backend`."""
        clock.check()
        return Estimate.exact(*self.evaluate(tables, clock, gradient))


def on_tree(tree: BatchTree | StringBatch, measure: Measure, ends: Ends) -> Exact:
    """All sequences, or all strings of an observer without a clock, for all tables side by side."""
    is_tree = isinstance(tree, BatchTree)
    what = "sequences, policies side by side" if is_tree else "strings of an observer without a clock"
    words = f"all {tree.num_sequences:,.0f} possible {what}"
    return Exact(partial(_on_tree, tree, measure), words, tree.cost_seconds, ends, tree.at_once, tree=tree)


def _on_tree(
    tree: BatchTree | StringBatch, measure: Measure, tables: Tables, clock: Clock, gradient: bool
) -> tuple[np.ndarray, np.ndarray]:
    return tree.evaluate(tables, measure, clock)


def loss_measure(tree: BatchTree | StringBatch, space: Space, rule: Rule) -> Measure:
    """The loss of an observer who may be wrong: a fixed cost `c(z,y) = −log2 q(z|y)` for each pair of secret and observations.

    The observer's rule q does not depend on the policy that acts, so `E[c] = Σ P(z,y) c(z,y)` is linear in the joint table.

    **Raises:** `InputError` if the observer rules out what some policy brings about, so that the loss has no largest value.
    """
    costs = rule.costs_bits(tree.events())
    possible = _possible(tree, any_table(space))
    if np.isinf(costs[possible]).any():
        raise ruled_out()
    fixed = np.where(possible, costs, 0.0)
    return lambda joint: (np.einsum("byz,yz->b", joint, fixed), np.broadcast_to(fixed, joint.shape))


def ruled_out() -> InputError:
    """The error of an observer whose loss has no largest value."""
    words = (
        "the observer rules out what some policy makes happen, so its loss is infinite: give it a doubt, for example"
    )
    return InputError("belief", [f"{words} veil.Belief(…, doubt=0.01)"])


def _possible(tree: BatchTree | StringBatch, table: Float[np.ndarray, "T C A"]) -> Bool[np.ndarray, "Y Z"]:
    """Which pairs of observations and secret have a positive probability under a table that takes every action."""
    found: list[np.ndarray] = []

    def note(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found.append(joint[0] > 0)
        return np.zeros(len(joint)), np.zeros(joint.shape)

    tree.evaluate(table[None], note)
    return found[0]


class Rows:
    """A measure of rows, fed by a walk over the sequences of one table."""

    def __init__(self, measure: Measure):
        self.bits, self._measure = 0.0, measure

    def __call__(self, joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """See `engine.joint.Objective`."""
        values, gradient = self._measure(joint[None])
        self.bits += float(values[0])
        return gradient[0]


def one_by_one(
    space: Space, bits: Callable[[Chain, Clock], tuple[float, Float[np.ndarray, "T C A"]]]
) -> Callable[[Tables, Clock, bool], tuple[np.ndarray, np.ndarray]]:
    """One table after the other: trees and models that do not fit a batch, windows, and priors; `bits`: those of a chain."""

    def evaluate(tables: Tables, clock: Clock, gradient: bool) -> tuple[np.ndarray, np.ndarray]:
        values, gradients = np.empty(len(tables)), np.empty(tables.shape)
        for number, table in enumerate(tables):
            clock.check()
            values[number], gradients[number] = bits(space.chain(table), clock)
        return values, gradients

    return evaluate


def walked(
    space: Space,
    measure: Measure,
    seconds: float,
    sequences: str,
    size: TreeSize | None = None,
    *,
    keep_events: bool = False,
    ends: Ends = UNBOUNDED,
) -> Exact:
    """A walk over all sequences, one table after the other.

    **Arguments:** `sequences`: their number, in words; `size`: of the tree, if it was counted: dense messages then, else rows
    with sparse support.
    """

    def bits(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
        if size is None:
            walk: Walk = SparseWalk(chain, clock=clock, keep_events=keep_events)
        else:
            walk = JointWalk(chain, clock=clock, meet=size.meet, outer=size.outer)
        rows = Rows(measure)
        gradient = walk.run(rows, gradient=True)
        assert gradient is not None
        return rows.bits, gradient

    return Exact(one_by_one(space, bits), f"all {sequences} possible sequences", seconds, ends)


def each_time(space: Space, seconds: float) -> Exact:
    """`Σ_t w_t H(Z_t | o_0 … o_t)` on all sequences until each time; `seconds`: the forecast of one gradient."""

    def bits(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
        found = EachValue(chain).exact(Budget(), gradient=True)
        assert found.gradient is not None
        return found.opacity.bits, found.gradient

    return Exact(one_by_one(space, bits), "all possible sequences, until each time", seconds, hidden_ends(space))


def prior(space: Space) -> Exact:
    """`H(Z)` before anything is observed; its derivative in `P(z)` is `−log2 P(z)`."""

    def bits(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
        hidden, result = chain.hidden, np.zeros(chain.table.shape)
        value = hidden.label @ -log2_or_zero(chain.prior)
        for time in range(hidden.split_time - 1, -1, -1):
            ahead = (hidden.kernel.stacked @ value).reshape(hidden.num_states, -1)
            row = result[0 if chain.stationary else time]
            np.add.at(row, hidden.cell, chain.occupancies[time][:, None] * ahead)
            value = chain.pull(value, time)
        return float(entropy_bits(chain.prior)), result

    return Exact(one_by_one(space, bits), "the prior of the secret", _seconds_of_a_sum(space), hidden_ends(space))


def hidden_ends(space: Space) -> Ends:
    """Between which all policies hide: nothing, and the logarithm of the number of values, at each time that counts."""
    hidden = space.hidden
    times = 1.0 if hidden.each is None else float(hidden.each.weights.sum())
    return 0.0, times * log2_of_count(hidden.num_values)


def _seconds_of_a_sum(space: Space) -> float:
    """The forecast of a sum over times of what depends on the occupancies."""
    return GRADIENT_PASSES * PER_ENTRY * space.hidden.horizon * space.hidden.kernel.num_entries


def over_times(space: Space, entropy: UnifilarEntropy) -> Exact:
    """An entropy that is a sum over times of terms of the occupancies, for all tables side by side."""

    evaluate = partial(_over_times, entropy, space.stationary)
    return Exact(evaluate, "a sum over times", _seconds_of_a_sum(space), at_once=ALL_AT_ONCE)


def _over_times(
    entropy: UnifilarEntropy, stationary: bool, tables: Tables, clock: Clock, gradient: bool
) -> tuple[np.ndarray, Any]:
    return entropy.evaluate(tables, stationary=stationary, gradient=gradient)


def windowed(space: Space, most_seconds: float) -> Exact:
    """The lower ends of the brackets of one fixed window around each time that counts, the widest whose gradients are forecast
    to take so many seconds together.
    """
    radius, seconds = _widest(with_clock(space.chain(any_table(space))), most_seconds)

    def bits(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
        total, gradient = 0.0, np.zeros(chain.table.shape)
        for one in times_of(with_clock(chain)):
            given = {"radius": _radius(one, radius), "reveal": True, "memory_bytes": DEFAULT_MEMORY, "clock": clock}
            found, slope = end_gradient(one.with_slopes, **given)
            total, gradient = total + one.weight * found, gradient + one.weight * one.in_table(slope)
        return total, gradient

    where = "around the secret's time" if space.hidden.each is None else "before each time"
    words = f"the lower end of the bracket of {radius} steps {where}"
    return Exact(one_by_one(space, bits), words, seconds, hidden_ends(space), kind="bracket")


def _widest(chain: Chain, most_seconds: float) -> tuple[int, float]:
    """See `windowed`; and the forecast."""
    best, times = (0, LEAST_SECONDS), times_of(chain)
    for radius in range(chain.hidden.horizon + 2):
        seconds, left = 0.0, most_seconds
        try:
            for one in times:
                cut = Cut(one.chain, Window.around(one.chain, _radius(one, radius)), reveal=True)
                size = tree_size(cut.chain, most_seconds=left)
                left -= size.counting_seconds
                seconds += size.seconds(cut.chain, gradient=True) if size.exact else math.inf
        except TooLargeError:
            break
        if seconds > most_seconds:
            break
        best = radius, seconds
    return best


def _radius(one: AtTime, radius: int) -> int:
    """That of the window of one time: of a value at every time the run ends there, or with the choice of a forecast."""
    if one.whole.hidden.each is None:
        return radius
    return radius + one.is_forecast if one.time else radius + 2
