"""The pairs (what the observer remembers, hidden state) that some policy can reach, and the steps between them.

On a public graph, the observation tree or an automaton, the agent's decision problem is one over the pairs (node, x):
flows and backward inductions are sparse products over them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, Pace
from ..common.errors import TooLargeError
from ..common.numbering import number_keys, number_true
from ..engine.chain import Chain
from ..engine.hidden import Hidden
from ..engine.listed import refuse_each_time
from ..engine.moves import Layer, Moves, labelled
from ..engine.supports import CountedSets, Supports
from .public_graph import FullHistory as FullHistory
from .public_graph import GivenGraph as GivenGraph
from .public_graph import LastEvents as LastEvents
from .public_graph import ObserverMemory, PublicGraph, TailEvents, check_memory

DEFAULT_MEMORY = 2**31
_MOST_SETS = 50_000  # different sets of states of one time, up to which histories are counted
_BYTES_A_MOVE, _BYTES_A_ROW = 12, 40  # of a step: a float and a column each; and of a (pair, action), with its flows
_BYTES_A_PATH_MOVE = 100  # where a path is secret: its arrivals and the entries of its rule, with masses and costs
_BYTES_AN_EDGE = 10  # of a (node, event): the node that it leads to, and what is needed to number it
_BYTES_AT_WORK = 60  # for each move, while its step is made
_SECONDS_A_MOVE = 3e-7  # to make a step: measured on one core


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of all layers and the steps between them.

    `start[p]` is the probability of pair p of layer 0. `steps[t]` has a row for each (action, pair of layer t), row
    `a · n + p`, and a column for each pair of layer t + 1: `P(x'|x,a) b(e|x')`, summed over the events that lead to the
    same node. Rows of actions that are not available are empty. Layers and steps that repeat are stored once.
    """

    hidden: Hidden
    graph: PublicGraph
    start: Float[np.ndarray, " n"]
    layers: tuple[Layer, ...]
    steps: tuple[sp.csr_array, ...]

    @property
    def num_pairs(self) -> int:
        """How many pairs there are in all layers."""
        return sum(len(layer) for layer in self.layers)

    @property
    def span(self) -> int:
        """How many numbers `state_of` may give."""
        return self.hidden.num_states * self.hidden.num_values

    def state_of(self, layer: Layer) -> Int[np.ndarray, " n"]:
        """A number for (x, value of the secret once settled) of each pair of a layer of these or other nodes."""
        return layer.x.astype(np.int64) * self.hidden.num_values + np.maximum(layer.z, 0)

    def keys_of(self, layer: Layer) -> Int[np.ndarray, " n"]:
        """A number for each pair (node, x, value once settled), in the order of pairs."""
        return layer.node.astype(np.int64) * self.span + self.state_of(layer)

    def states(self, time: int) -> Int[np.ndarray, " n"]:
        """Those of the pairs of a time."""
        return self.state_of(self.layers[time])

    def keys(self, time: int) -> Int[np.ndarray, " n"]:
        """Those of the pairs of a time."""
        return self.keys_of(self.layers[time])


def make_pairs(
    hidden: Hidden,
    memory: ObserverMemory,
    memory_bytes: int = DEFAULT_MEMORY,
    *,
    told_at: int | None = None,
    clock: Clock = UNLIMITED,
) -> Pairs:
    """The graph of a memory and its pairs, built together from the start: only what some policy can reach.

    Example: state 0 goes to 0 or 1, state 1 stays, the observer sees the state and remembers everything, T = 1, start in
    state 0. Layer 0 has the one pair (node of "0", x = 0); layer 1 has two nodes, "00" and "01", and the two pairs
    (0, 0) and (1, 1); `steps[0]` is `(A · 1, 2)`, for each action the row of its probabilities (P(0|0,a), P(1|0,a)).

    **Arguments:** `told_at`: a time at which the observer is told the hidden state, None for never. `clock` is checked before
    each layer, with a forecast of its time.

    Cost: linear in the transitions between pairs, about 300 ns each.

    **Raises:** `TooLargeError` before a layer is built that does not fit the budget, for the whole history before any is;
    `OutOfTime`; `InputError` if the observer has no clock and the memory needs one.
    """
    assert told_at is None or isinstance(memory, (FullHistory, TailEvents)), "other memories number their own nodes"
    if hidden.each is not None and hidden.each.ahead:
        refuse_each_time(hidden)
    check_memory(hidden, memory)
    if isinstance(memory, FullHistory):
        size = count_tree(hidden, memory_bytes, clock)
        if not size.exact or size.num_bytes > memory_bytes:
            where = f"with at least {size.num_histories:.3g} histories and {size.num_pairs:.3g} pairs"
            raise _too_large(memory.kind, where, size.num_bytes, memory_bytes)
    moves = Moves.of(hidden)
    first = memory.begin(np.asarray((hidden.root > 0).any(axis=0)))
    layer, start = _first_layer(hidden, first)
    sizes = [int(first.max()) + 1]
    told = None
    if told_at == 0:
        told, layer = _tell(hidden, layer, sizes)
    layers, steps, following = [layer], [], []
    used, pace = 0, Pace(clock, _SECONDS_A_MOVE)
    for time in range(hidden.horizon):
        clock.check()
        count, where = moves.count(layer), f"at step {time + 1} of {hidden.horizon}"
        edges = _BYTES_AN_EDGE * sizes[-1] * hidden.num_events
        if used + edges > memory_bytes:
            raise _too_large(memory.kind, where, used + edges, memory_bytes)
        possible = moves.possible(layer, sizes[-1])
        table = memory.step(time, possible)
        again = (time > hidden.split_time + 1 or hidden.split_time == hidden.horizon > time + 1) and _repeats(
            time, layers, following, table
        )
        if again:
            layer, table, step = layers[-1], following[-1], steps[-1]
        else:
            used += edges + _move_bytes(hidden) * count + _BYTES_A_ROW * hidden.kernel.num_actions * len(layer)
            if used + _BYTES_AT_WORK * count > memory_bytes:
                raise _too_large(memory.kind, where, used + _BYTES_AT_WORK * count, memory_bytes)
            with pace.step(count):
                layer, step = moves.advance(hidden, time, layer, table)
        sizes.append(int(table.max()) + 1)
        if told_at == time + 1:
            told, layer = _tell(hidden, layer, sizes)
        layers.append(layer)
        steps.append(step)
        following.append(table)
    graph = PublicGraph(
        first, tuple(following), tuple(sizes), memory.is_tree and told_at is None, memory.kind, told_at, told
    )
    return Pairs(hidden, graph, start, tuple(layers), tuple(steps))


def _first_layer(hidden: Hidden, first: Int[np.ndarray, " F"]) -> tuple[Layer, Float[np.ndarray, " n"]]:
    """The pairs of time 0 and their probabilities, in the order of (node, x)."""
    x, event = np.nonzero(hidden.root > 0)
    key, number = number_keys(first[event].astype(np.int64) * hidden.num_states + x)
    node, state = np.divmod(key, hidden.num_states)
    layer = labelled(hidden, 0, Layer(node.astype(np.int32), state.astype(np.int32), np.full(len(key), -1)))
    return layer, np.bincount(number, weights=hidden.root[x, event])


def _tell(hidden: Hidden, layer: Layer, sizes: list[int]) -> tuple[np.ndarray, Layer]:
    """The layer after the observer is told x: a node for each (node, x); the size of the layer is set to their number."""
    key = layer.node.astype(np.int64) * hidden.num_states + layer.x
    possible = np.zeros((sizes[-1], hidden.num_states), dtype=bool)
    possible.ravel()[key] = True
    told = number_true(possible)
    sizes[-1] = int(possible.sum())
    return told, Layer(told.ravel()[key], layer.x, layer.z)


def _repeats(time: int, layers: list[Layer], following: list[np.ndarray], table: np.ndarray) -> bool:
    """Whether this step is equal to the one before: the layer after it is then the layer before it."""
    return time > 0 and np.array_equal(table, following[-1]) and layers[-1].equals(layers[-2])


@dataclass(frozen=True)
class TreePairs:
    """How large the tree of all histories is: exact, or a lower bound where counting was given up."""

    num_histories: float
    num_pairs: float
    num_bytes: float
    exact: bool


def count_tree(hidden: Hidden, enough: float = np.inf, clock: Clock = UNLIMITED) -> TreePairs:
    """Count the nodes and pairs of the observation tree without building it: equal sets of states count together.

    Counting stops where the bytes pass `enough` or the different sets are too many to go on. `clock` is checked in
    every loop.
    """
    degree = Moves.of(hidden).degree.sum(axis=0)
    pairs = kept = need = 0.0
    histories = 1.0
    exact = True
    every = np.ones((1, hidden.num_cells, hidden.kernel.num_actions))
    supports = Supports(Chain(hidden, every, stationary=True), clock)
    layer = CountedSets.once(supports.first()[:, None])  # of (value once settled, x), `(n, Z|1, N)`
    for time in range(hidden.horizon + 1):
        if time == hidden.split_time < hidden.horizon:
            layer = CountedSets(layer.sets & (hidden.label.T > 0), layer.counts)
        layer = layer.united()
        sets, counts, histories = layer.sets, layer.counts, layer.total
        here = float(counts @ sets.sum(axis=(1, 2)))
        pairs += here
        if time < hidden.horizon:
            count = float(counts @ (sets.sum(axis=1) @ degree))
            kept += _BYTES_AN_EDGE * histories * hidden.num_events
            kept += _move_bytes(hidden) * count + _BYTES_A_ROW * hidden.kernel.num_actions * here
            need = max(need, kept + _BYTES_AT_WORK * count)
        if need > enough or len(sets) > _MOST_SETS:
            exact = False
            break
        if time < hidden.horizon:
            layer = layer.extended(supports.ahead, time)
    return TreePairs(histories, pairs, need, exact)


def _move_bytes(hidden: Hidden) -> int:
    return _BYTES_A_MOVE if hidden.path is None else _BYTES_A_PATH_MOVE


def _too_large(kind: str, where: str, need: float, limit: float) -> TooLargeError:
    return TooLargeError(
        f"the game on {kind} needs more than {need / 2**30:.2g} GiB {where}, and the budget is {limit / 2**30:.2g} GiB."
        " Instead: an observer of bounded memory (a shorter window, fewer nodes), a shorter horizon, or memory_bytes=…"
    )
