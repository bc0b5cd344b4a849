"""The observation tree: every possible history, as scaled messages, walked within a memory budget; and its adjoint.

A walk goes from a root block of messages through levels; each level extends every message by every event that is
possible. `Prefixes` walks histories `o_0 … o_t` forward with `α`, `Suffixes` walks continuations `o_{t+1} … o_T`
backward with `β`. A side that passes the time of the secret is lifted there: from then on it carries one message for
each value of the secret, so that the two sides may meet at any time.

Messages are scaled, a weight beside each node holds the scale, and nodes of probability zero never branch. Slopes are
taken in the unscaled messages, where they are free of the scale: `H` is homogeneous of degree one in `P(z,y)`, so
`∂H/∂α` depends on the posterior alone.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import divergence_bits
from .chain import Chain, Slopes, sum_over
from .hidden import Emitter
from .step import Extension, Step, adder

PullBack = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Block:
    """Nodes of the tree at one level: true messages = `weight · message`; `count` histories merged into the node.

    A node has V messages: one, or one for each value of the secret once it is lifted.
    """

    weight: Float[np.ndarray, " n"]
    message: Float[np.ndarray, "n V N"]
    count: Float[np.ndarray, " n"]
    events: Int[np.ndarray, "n L"] | None

    def __len__(self) -> int:
        return len(self.weight)

    def part(self, begin: int, end: int) -> "Block":
        """Some consecutive rows."""
        events = None if self.events is None else self.events[begin:end]
        return Block(self.weight[begin:end], self.message[begin:end], self.count[begin:end], events)

    def span(self, begin: int, end: int) -> slice:
        """Where some consecutive rows lie in an array like `message`."""
        return slice(begin, end)

    @property
    def true(self) -> Float[np.ndarray, "n V N"]:
        """The unscaled messages."""
        return self.weight[:, None, None] * self.message

    def merged(self, index: Int[np.ndarray, " m"], inverse: Int[np.ndarray, " n"], *, forward: bool) -> "Block":
        """The sums of rows: row i goes into row `inverse[i]`, whose events are those of row `index[j]`.

        Forward messages are scaled to sum to one, backward ones to a maximum of one.
        """
        flat, size = self.message.reshape(len(self), -1), len(index)
        summed = np.zeros((size, flat.shape[1]))
        np.add.at(summed, inverse, self.weight[:, None] * flat)
        scale = summed.sum(axis=1) if forward else summed.max(axis=1)
        message = np.divide(summed, scale[:, None], out=np.zeros_like(summed), where=scale[:, None] > 0)
        count = np.bincount(inverse, weights=self.count, minlength=size)
        events = None if self.events is None else self.events[index]
        return Block(scale, message.reshape(size, *self.message.shape[1:]), count, events)

    def lifted(self, label: Float[np.ndarray, "N Z"]) -> "Block":
        """One message for each value of the secret, from one message and the label of the hidden states."""
        return Block(self.weight, self.message * label.T, self.count, self.events)


class Direction(Protocol):
    """One way through the tree: where it begins, how many levels it has, and how a block is extended."""

    @property
    def levels(self) -> int:
        """How many levels lie below the root."""
        ...

    def root(self) -> Any:
        """The block at level 0."""
        ...

    def expand(self, block: Any, level: int) -> tuple[Any, PullBack]:
        """The children of a block, and the way back from a gradient in the children to the gradient in the block."""
        ...


class Merger(Protocol):
    """A rule by which rows of a level become one, and the bits by which that may have raised H, added up."""

    error_bits: float

    def apply(self, block: Block, prior: np.ndarray | None, time: int) -> tuple[Block, np.ndarray | None]:
        """The merged block and, for each row of the old one, its row in the new one (None: nothing merged).

        **Arguments:** `prior`, `(N,)`: `P(x_t)`, which turns backward messages into posteriors; None for forward ones; `time`:
        t.
        """
        ...


@dataclass
class Merging:
    """Rows whose scaled messages agree to `tolerance` become one, and what that may have changed is added up.

    Merging two histories hides from the observer which of them occurred, so it can only raise H; by the data-processing
    inequality it raises H by at most `I(X_t; branch | merged) = Σ_i w_i KL(p_i || p̄)`, the sum kept in `error_bits`.
    """

    tolerance: float = 0.0
    error_bits: float = 0.0

    def apply(self, block: Block, prior: np.ndarray | None, time: int) -> tuple[Block, np.ndarray | None]:
        """See `Merger`."""
        if self.tolerance <= 0 or len(block) < 2:
            return block, None
        beliefs, mass = beliefs_of(block, prior)
        # A belief and its rounding agree to the tolerance; backward messages may differ where the prior is zero.
        keys = np.round(beliefs / self.tolerance)
        _, index, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        inverse = inverse.ravel()
        if len(index) == len(block):
            return block, None
        mean = means(beliefs, mass, inverse)
        self.error_bits += max(0.0, float(mass @ divergence_bits(beliefs, mean[inverse])))
        return block.merged(index, inverse, forward=prior is None), inverse


def beliefs_of(block: Block, prior: np.ndarray | None) -> tuple[Float[np.ndarray, "n VN"], Float[np.ndarray, " n"]]:
    """The posteriors of the states that the rows of a block leave, and the probability of each row; see `Merger`."""
    flat = block.message.reshape(len(block), -1)
    weighted = flat if prior is None else flat * np.tile(prior, block.message.shape[1])
    totals = weighted.sum(axis=1)
    beliefs = np.divide(weighted, totals[:, None], out=np.zeros_like(weighted), where=totals[:, None] > 0)
    return beliefs, block.weight * totals


def means(
    beliefs: Float[np.ndarray, "n K"], mass: Float[np.ndarray, " n"], inverse: Int[np.ndarray, " n"]
) -> Float[np.ndarray, "m K"]:
    """The mean of the beliefs that become one, for each row of the merged block."""
    size = inverse.max() + 1
    mean = np.zeros((size, beliefs.shape[1]))
    np.add.at(mean, inverse, mass[:, None] * beliefs)
    total = np.bincount(inverse, weights=mass, minlength=size)
    return np.divide(mean, total[:, None], out=np.zeros_like(mean), where=total[:, None] > 0)


@dataclass
class _Side:
    """One side of the tree, up to the time `meet` or from it on; it is lifted at the secret's time."""

    chain: Chain
    meet: int
    merging: Merger = field(default_factory=Merging)
    slopes: Slopes | None = None
    keep_events: bool = False


@dataclass
class Prefixes(_Side):
    """Histories from the first observation to that of time `meet`, as `α` messages scaled to sum to one.

    `α_0(x) = μ_0(x) b_x(o_0)`, `α_{t+1}(x') = Σ_x α_t(x) K_t^e(x,x')` (the paper's forward messages); a scaled row is the
    observer's belief, its weight the probability of the history.
    """

    @property
    def levels(self) -> int:
        """One level a step."""
        return self.meet

    def _lifts_at(self, time: int) -> bool:
        return time == self.chain.hidden.split_time < self.meet

    def root(self) -> Block:
        """All possible first observations."""
        joint = self.chain.hidden.root
        chance = joint.sum(axis=0)
        possible = np.flatnonzero(chance > 0)
        message = joint[:, possible].T / chance[possible, None]
        events = possible[:, None].astype(np.int32) if self.keep_events else None
        block = Block(chance[possible], message[:, None], np.ones(len(possible)), events)
        return block.lifted(self.chain.hidden.label) if self._lifts_at(0) else block

    def root_slope(self, slope: Float[np.ndarray, "F V N"]) -> Float[np.ndarray, "F N"]:
        """The gradient in `hidden.root` (its possible events, in order) from the gradient in the root block."""
        return np.sum(slope * self.chain.hidden.label.T, axis=1) if self._lifts_at(0) else slope[:, 0]

    def expand(self, block: Block, level: int) -> tuple[Block, PullBack]:
        """The children of a block: each history extended by each event that can follow it, ordered by event.

        n nodes with messages `(n, V, N)` are moved one step, `(n, V, N)` for each emitter; this gives the probability of
        each event, `(n, E)`, and m ≤ n·E children with messages `(m, V, N)`.

        Example: `two-rooms` with the uniform policy has N = 2 (office, vault) and E = 2 (silence, beep); the vault beeps
        with probability 0.75. The root has one node, silence at time 0: weight `[1]`, message `[[[1, 0]]]`. Moved one step it
        is `[[[0.5, 0.5]]]`, and the events have the probabilities `[[0.625, 0.375]]`. So there are two children, with
        weights `[0.625, 0.375]` and messages `[[[0.8, 0.2]], [[0, 1]]]`: silence leaves the vault with probability 0.2, a
        beep makes it certain.
        """
        hidden, step, shape = self.chain.hidden, Step.of(self.chain, level), block.message.shape
        moved = step.moved(block.message)
        pairs = zip(moved, hidden.emitters, strict=True)
        chance = sum_over(_rows(rows) @ emitter.emission for rows, emitter in pairs)
        chance = chance.reshape(*shape[:2], -1).sum(axis=1)
        events, nodes = np.nonzero(chance.T)  # ordered by event: one event's nodes have distinct parents
        probability = chance[nodes, events]
        extension = Extension(nodes, events)
        message = step.emitted(moved, extension)
        message /= probability[:, None, None]
        history = None if block.events is None else np.column_stack([block.events[nodes], events.astype(np.int32)])
        children = Block(block.weight[nodes] * probability, message, block.count[nodes], history)
        lifts = self._lifts_at(level + 1)
        children, merged = self.merging.apply(children.lifted(hidden.label) if lifts else children, None, level + 1)

        def pull_back(slope: np.ndarray) -> np.ndarray:
            slope = _through(slope, merged, hidden.label if lifts else None)
            return step.pull_forward(block.true, extension, slope, adder(self.slopes, level))

        return children, pull_back


@dataclass
class Suffixes(_Side):
    """Continuations from the observation after time `meet` to the last, as `β` messages scaled to a maximum of one.

    `β_T = 1`, `β_t(x) = Σ_x' K_t^e(x,x') β_{t+1}(x')` (the paper's backward messages), on the states that can be reached
    at time t; elsewhere zero, so that continuations which cannot occur never branch.
    """

    @property
    def levels(self) -> int:
        """One level a step."""
        return self.chain.hidden.horizon - self.meet

    def _lifts_at(self, time: int) -> bool:
        return time == self.chain.hidden.split_time >= self.meet

    def root(self) -> Block:
        """The empty continuation."""
        hidden = self.chain.hidden
        reachable = self.chain.occupancies[hidden.horizon] > 0
        message = np.eye(hidden.num_states)[reachable] if hidden.reveals_last else np.where(reachable, 1.0, 0.0)[None]
        events = np.zeros((len(message), 0), dtype=np.int32) if self.keep_events else None
        block = Block(np.ones(len(message)), message[:, None], np.ones(len(message)), events)
        return block.lifted(hidden.label) if self._lifts_at(hidden.horizon) else block

    def expand(self, block: Block, level: int) -> tuple[Block, PullBack]:
        """One observation more, in front."""
        hidden = self.chain.hidden
        time = hidden.horizon - 1 - level
        occupied, step, shape = self.chain.occupancies[time], Step.of(self.chain, time), block.message.shape
        if level == 0 and hidden.reveals_last and len(hidden.emitters) == 1:
            # Who is told x_T learns nothing more from what it emits.
            silent = sp.csr_array(np.ones((hidden.num_states, 1)))
            step = Step(step.matrices, [Emitter(hidden.emitters[0].actions, silent)])
        messages, extensions, every = [], [], np.arange(len(block))
        for event in range(len(step.emitters[0].emits)):
            rows = step.backward(block.message, Extension.by(event, every))
            rows *= occupied > 0
            possible = np.flatnonzero(rows.any(axis=(1, 2)))
            messages.append(rows[possible])
            extensions.append(Extension.by(event, possible))
        message, parents = np.concatenate(messages), np.concatenate([one.parent for one in extensions])
        scale = message.max(axis=(1, 2), initial=0.0)
        message /= scale[:, None, None]
        history = None
        if block.events is not None:
            newest = np.concatenate([one.event for one in extensions]).astype(np.int32)
            history = np.column_stack([newest, block.events[parents]])
        children = Block(block.weight[parents] * scale, message, block.count[parents], history)
        lifts = self._lifts_at(time)
        children, merged = self.merging.apply(children.lifted(hidden.label) if lifts else children, occupied, time)

        def pull_back(slope: np.ndarray) -> np.ndarray:
            slope = _through(slope, merged, hidden.label if lifts else None)
            result, true, begin = np.zeros(shape), block.true, 0
            for one in extensions:
                part = slope[begin : begin + len(one.parent)]
                begin += len(one.parent)
                if len(part):
                    step.pull_backward(true, one, part, adder(self.slopes, time), result)
            return result

        return children, pull_back


def _through(slope: np.ndarray, merged: np.ndarray | None, label: np.ndarray | None) -> np.ndarray:
    """The gradient before messages were lifted by a label and merged."""
    if merged is not None:
        slope = slope[merged]
    return slope if label is None else np.sum(slope * label.T, axis=1, keepdims=True)


@dataclass
class _Frame:
    block: Any
    level: int
    share: float = 1.0  # of the whole tree, if all rows of a block had equally many leaves
    position: int = 0
    pending: tuple[int, int, PullBack] | None = None
    slope: np.ndarray | None = None


def walk(
    direction: Direction,
    leaf: Callable[[Any], np.ndarray | None],
    *,
    rows_at_once: int | Callable[[Any, int, int], int],
    with_slopes: bool = False,
    clock: Clock = UNLIMITED,
    done: Callable[[float], None] | None = None,
) -> np.ndarray | None:
    """Walk a tree depth-first in blocks and hand each block of leaves to `leaf`.

    With `with_slopes`, `leaf` returns the gradient in the leaves' true messages, and the walk pulls it back to the root,
    which fills the direction's `slopes`, and returns the gradient in the root's messages. Blocks are visited in the same
    order each time.

    **Arguments:** `rows_at_once`: parents extended at a time, memory being bounded by this times the levels; or a
    function of (block, first row, level).
    `clock` is checked before each block; `done` is told the share of the whole that each block of leaves is, if all rows
    of a block had equally many leaves.
    """
    stack = [_Frame(direction.root(), 0)]
    while stack:
        frame = stack[-1]
        block = frame.block
        clock.check()
        if frame.level < direction.levels and frame.position < len(frame.block):
            if frame.slope is None and with_slopes:
                frame.slope = np.zeros_like(frame.block.message)
            most = rows_at_once if isinstance(rows_at_once, int) else rows_at_once(block, frame.position, frame.level)
            end = min(frame.position + most, len(frame.block))
            part = frame.block if end - frame.position == len(frame.block) else frame.block.part(frame.position, end)
            children, pull_back = direction.expand(part, frame.level)
            frame.pending = (frame.position, end, pull_back)
            share = frame.share * (end - frame.position) / len(frame.block)
            frame.position = end
            stack.append(_Frame(children, frame.level + 1, share))
            continue
        if frame.level == direction.levels:
            frame.slope = leaf(frame.block)
            if done is not None:
                done(frame.share)
        stack.pop()
        if not stack:
            return frame.slope
        if with_slopes:
            parent = stack[-1]
            assert parent.pending is not None
            assert parent.slope is not None
            begin, end, pull_back = parent.pending
            slope = np.zeros_like(frame.block.message) if frame.slope is None else frame.slope
            parent.slope[parent.block.span(begin, end)] = pull_back(slope)
    return None


def _rows(messages: Float[np.ndarray, "n V N"]) -> Float[np.ndarray, "nV N"]:
    """All messages of all nodes as rows of one matrix."""
    return messages.reshape(-1, messages.shape[-1])
