"""Exact backends: all sequences for many tables side by side, or one table after the other, and sums over times."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from ..common.clock import Clock
from ..common.errors import InputError
from ..common.logs import entropy_bits, log2_of_count, log2_or_zero, surprisal_bits
from ..engine.batch import BatchTree
from ..engine.chain import Chain
from ..engine.event_entropy import UnifilarEntropy
from ..engine.joint import JointWalk, Objective, Walk
from ..engine.size import TreeSize
from ..engine.sparse_walk import SparseWalk
from ..engine.string_walk import StringBatch
from ..measure.each_time import EachValue
from ..measure.exact import Budget
from ..measure.loss import Rule
from ..problem.belief import Belief
from .backend import ALL_AT_ONCE, Draw, Estimate, Tables
from .options import Objective as Goal
from .policy_class import Space, any_table

Measure = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A function of joint tables `(B, Y, Z)`, and its derivative in each entry."""

# The sharpness of the smooth maximum that stands for the best guess: within Z^(1/p) of it.
SHARPNESS = 64.0
_PER_ENTRY = 1e-8  # seconds for each transition and time of a sum over times (measured on one core)


def entropy_of_rows(joint: Float[np.ndarray, "B Y Z"]) -> tuple[np.ndarray, np.ndarray]:
    """`H(Z|Y)`, with derivative `−log2 P(z|y)`."""
    gradient = surprisal_bits(joint)
    return np.einsum("byz,byz->b", joint, gradient), gradient


def entropy_of_sequences(joint: Float[np.ndarray, "B Y 1"]) -> tuple[np.ndarray, np.ndarray]:
    """`H(Y)`, and its derivative up to a constant that changes no policy."""
    gradient = -log2_or_zero(joint)
    return np.einsum("byz,byz->b", joint, gradient), gradient


def row_measure(objective: Goal) -> Measure:
    """The objective as a function of whole joint tables.

    `entropy`: `H(Z|Y)`. `leakage`: `−I(Z;Y) = H(Z|Y) − H(Z)`, derivative `−log2 P(z|y) + log2 P(z)` (the constants cancel).
    `guess`: minus a smooth maximum `Σ_y (Σ_z P(z,y)^p)^{1/p}`, which is at least the chance `Σ_y max_z P(z,y)` of guessing
    right and at most `Z^{1/p}` times it.
    """

    def leakage(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gradient = surprisal_bits(joint) + log2_or_zero(joint.sum(axis=1, keepdims=True))
        return np.einsum("byz,byz->b", joint, gradient), gradient

    def guess(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        top = joint.max(axis=-1, keepdims=True)
        shares = joint / np.where(top > 0, top, 1.0)
        sums = np.sum(shares**SHARPNESS, axis=-1, keepdims=True)
        roots = np.where(top > 0, sums, 1.0) ** (1 / SHARPNESS)
        gradient = shares ** (SHARPNESS - 1) * roots / np.where(top > 0, sums, 1.0)
        return -np.sum(top * roots, axis=(1, 2)), -gradient

    return {"entropy": entropy_of_rows, "leakage": leakage, "guess": guess}[objective]


class Tree:
    """All sequences, or all strings of an observer without a clock, for all tables side by side."""

    kind = "exact"

    def __init__(self, tree: BatchTree | StringBatch, measure: Measure, most_bits: float = np.inf):
        self.tree, self._measure, self.most_bits = tree, measure, most_bits
        self.at_once, self.cost_seconds = tree.at_once, tree.cost_seconds
        is_tree = isinstance(tree, BatchTree)
        what = "sequences, policies side by side" if is_tree else "strings of an observer without a clock"
        self.reason = f"all {tree.num_sequences:,.0f} possible {what}"

    def __call__(self, tables: Tables, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Estimate:
        """See `Backend`."""
        return Estimate.exact(*self.tree.evaluate(tables, self._measure, clock))


def loss_measure(tree: BatchTree | StringBatch, space: Space, belief: Belief) -> Measure:
    """The loss of an observer who may be wrong: a fixed cost `c(z,y) = −log2 q(z|y)` for each pair of secret and observations.

    The observer's rule q does not depend on the policy that acts, so `E[c] = Σ P(z,y) c(z,y)` is linear in the joint table.

    **Raises:** `InputError` if the observer rules out what some policy brings about, so that the loss has no largest value.
    """
    costs = Rule(space.problem, belief).costs_bits(tree.events())
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
    """A measure of rows, fed by a walk over the sequences of one table; the prior of a leakage is known beforehand."""

    def __init__(self, objective: Goal, prior: Float[np.ndarray, " Z"]):
        self.bits = 0.0
        self._prior = log2_or_zero(prior) if objective == "leakage" else np.zeros(len(prior))
        self._measure = row_measure("guess" if objective == "guess" else "entropy")

    def __call__(self, joint: np.ndarray, events: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """See `engine.joint.Objective`."""
        values, gradient = self._measure(joint[None])
        self.bits += float(values[0]) + float(np.sum(joint @ self._prior))
        return gradient[0] + self._prior


class OneByOne:
    """One table after the other, on what suits its chain: for trees and models that do not fit a batch, windows, and priors.

    **Arguments:** `bits`: those of a chain, and their gradient in its table, while a clock allows; the others are attributes
    of `Backend`.
    """

    at_once = 1

    def __init__(
        self,
        space: Space,
        bits: Callable[[Chain, Clock], tuple[float, Float[np.ndarray, "T C A"]]],
        reason: str,
        cost_seconds: float,
        most_bits: float = np.inf,
        kind: str = "exact",
    ):
        self._space, self._bits = space, bits
        self.kind, self.reason, self.cost_seconds, self.most_bits = kind, reason, cost_seconds, most_bits

    def __call__(self, tables: Tables, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Estimate:
        """See `Backend`."""
        bits, gradients = np.empty(len(tables)), np.empty(tables.shape)
        for number, table in enumerate(tables):
            clock.check()
            bits[number], gradients[number] = self._bits(self._space.chain(table), clock)
        return Estimate.exact(bits, gradients)


def walked(
    space: Space,
    make: Callable[[Float[np.ndarray, " Z"]], Objective],
    seconds: float,
    sequences: str,
    size: TreeSize | None = None,
    *,
    keep_events: bool = False,
    most_bits: float = np.inf,
) -> OneByOne:
    """A walk over all sequences.

    **Arguments:** `make`: what adds up the bits of one table, given the prior of the secret; `sequences`: their number, in
    words; `size`: of the tree, where it was counted: dense messages then, else rows with sparse support.
    """

    def bits(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
        if size is None:
            walk: Walk = SparseWalk(chain, clock=clock, keep_events=keep_events)
        else:
            walk = JointWalk(chain, clock=clock, meet=size.meet, outer=size.outer)
        objective = make(chain.prior)
        gradient = walk.run(objective, gradient=True)
        assert gradient is not None
        return objective.bits, gradient  # pyright: ignore[reportAttributeAccessIssue]

    return OneByOne(space, bits, f"all {sequences} possible sequences", seconds, most_bits)


def each_time(space: Space, seconds: float) -> OneByOne:
    """`Σ_t w_t H(Z_t | o_0 … o_t)` on all sequences until each time; `seconds`: the forecast of one gradient."""

    def bits(chain: Chain, clock: Clock) -> tuple[float, np.ndarray]:
        found = EachValue(chain).exact(Budget(), gradient=True)
        assert found.gradient is not None
        return found.opacity.bits, found.gradient

    return OneByOne(space, bits, "all possible sequences, until each time", seconds, most_hidden(space))


def prior(space: Space) -> OneByOne:
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

    return OneByOne(space, bits, "the prior of the secret", _seconds_of_a_sum(space), most_hidden(space))


def most_hidden(space: Space) -> float:
    """No policy hides more, whatever is observed: the logarithm of the number of values, at each time that counts."""
    hidden = space.hidden
    times = 1.0 if hidden.each is None else float(hidden.each.weights.sum())
    return times * log2_of_count(hidden.num_values)


def _seconds_of_a_sum(space: Space) -> float:
    """The forecast of a sum over times of what depends on the occupancies."""
    return _PER_ENTRY * space.hidden.horizon * space.hidden.kernel.num_entries


class OverTimes:
    """An entropy that is a sum over times of terms of the occupancies, for all tables side by side."""

    kind, at_once = "exact", ALL_AT_ONCE
    reason, most_bits = "a sum over times", np.inf

    def __init__(self, space: Space, entropy: UnifilarEntropy):
        self._entropy, self._stationary = entropy, space.stationary
        self.cost_seconds = _seconds_of_a_sum(space)

    def __call__(self, tables: Tables, clock: Clock, draw: Draw | None = None, *, gradient: bool = True) -> Estimate:
        """See `Backend`."""
        clock.check()
        found = self._entropy.evaluate(tables, stationary=self._stationary, gradient=gradient)
        return Estimate.exact(*found)
