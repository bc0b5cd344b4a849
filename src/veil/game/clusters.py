"""Clusters of beliefs: an observer who remembers one of a few, and the opacity of a policy when histories are merged.

Let a policy play on the nodes M of a graph, and let C be any finer memory (C_t determines M_t). Merging histories into C
hides from the observer at most what it loses about the hidden state at each step,

    H(Z|C_T) − Σ_t I(X_{t+1}; C_t, O_{t+1} | C_{t+1})  ≤  H(Z|Y)  ≤  H(Z|C_T),

since given (C_{t+1}, X_{t+1}) neither the secret nor any later event depends on how that node was reached.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, Pace
from ..common.errors import TooLargeError
from ..common.logs import code_lengths_bits, conditional_entropy_bits, entropy_bits, log2_or_zero
from ..common.numbering import number_keys
from ..engine.beliefs import merge_histories
from ..engine.kernel import num_columns, num_rows
from ..engine.moves import Moves
from .arrivals import arrivals_at
from .pairs import DEFAULT_MEMORY, GivenGraph, Pairs, PublicGraph
from .responses import AgentProblem, Tables

_UNIFORM_SHARE = 1e-3  # of a uniform choice, so that every history that some policy makes possible has a belief
_ROUNDS = 2  # of moving the centres after they are chosen; each costs as much as choosing them
_SMOOTHING = 1e-3  # of the mean belief in each centre: one that excludes a state would be infinitely far from the rest
_BYTES_A_CHILD = 120  # of an entry (history, event, pair) while histories are extended and merged
_SECONDS_A_CHILD = 4e-7  # to extend and merge it: measured on one core
_COPIES = 6  # of the table of beliefs that are alive at once while it is clustered
_SECONDS_A_NUMBER = 2e-8  # of that table, to find rows that are the same
_DISTANCES = 2**22  # from beliefs to centres that are computed between two looks at the clock


@dataclass(frozen=True)
class OpacityBound:
    """A proven lower bound on `H(Z|Y)` of a policy: `bits`, from which `lost_bits` of merging are already subtracted."""

    bits: float
    lost_bits: float
    num_beliefs: int


def opacity_lower_bound(
    pairs: Pairs,
    tables: Tables,
    most: int = 4096,
    prune_below: float = 1e-8,
    clock: Clock = UNLIMITED,
    memory_bytes: int = DEFAULT_MEMORY,
) -> OpacityBound:
    """A lower bound on the opacity of a policy on a graph, against an observer who remembers everything.

    Histories in the same node whose beliefs agree to a tolerance are merged, by the smallest tolerance at which at most
    `most` of them remain in a layer, or fewer where so many would not fit the memory one step later; each merging is charged
    what it loses about the hidden state. Histories rarer than `prune_below` are left out: what they hide is not counted.
    `clock` is checked before each step, with a forecast of its time.

    Cost: `T · most · E` beliefs. **Raises:** `TooLargeError`, `OutOfTime`.
    """
    layer, moves = pairs.layers[0], Moves.of(pairs.hidden)
    messages, lost, largest, pace = first_messages(pairs), 0.0, 0, Pace(clock, _SECONDS_A_CHILD)
    for time, table in enumerate(tables):
        layer, step = pairs.layers[time + 1], arrivals_at(pairs, moves, time).by_event(table, moves.num_events)
        count = _count_children(messages, step, memory_bytes)
        with pace.step(count):
            row, pair, mass = _children(messages, step, len(layer))
            state = numbered_state(pairs, time + 1)
            fitting = int(num_rows(messages) * memory_bytes / (2 * _BYTES_A_CHILD * max(1, count)))
            messages, charge = merge_histories(
                row, pair, mass, state, max(1, min(most, fitting)), apart=layer.node, prune_below=prune_below
            )
        lost, largest = lost + charge, max(largest, num_rows(messages))
    values = np.zeros((len(layer), pairs.hidden.num_values))
    values[np.arange(len(layer)), layer.z] = 1.0
    return OpacityBound(max(0.0, conditional_entropy_bits(messages @ values) - lost), lost, largest)


def first_messages(pairs: Pairs) -> sp.csr_array:
    """`P(first event, pair)`: a row for each first event that is possible, a column for each pair of layer 0."""
    hidden, layer = pairs.hidden, pairs.layers[0]
    possible = np.flatnonzero(hidden.root.any(axis=0))
    x, event = np.nonzero(hidden.root[:, possible])
    keys = layer.node.astype(np.int64) * hidden.num_states + layer.x
    pair = np.searchsorted(keys, pairs.graph.first[possible[event]].astype(np.int64) * hidden.num_states + x)
    shape = (len(possible), len(layer))
    return sp.csr_array(sp.coo_array((hidden.root[x, possible[event]], (event, pair)), shape=shape))


def _count_children(messages: sp.csr_array, step: sp.csr_array, memory_bytes: int) -> int:
    """How many entries `_children` makes at most. **Raises:** `TooLargeError` where they do not fit."""
    count = int(np.diff(step.indptr)[messages.indices].sum())
    if _BYTES_A_CHILD * count > memory_bytes:
        raise TooLargeError(
            f"the histories of one time have {count:,} successors, which need {_BYTES_A_CHILD * count / 2**30:.2g} GiB, and the"
            f" budget is {memory_bytes / 2**30:.2g} GiB: fewer nodes, or memory_bytes=…"
        )
    return count


def _children(messages: sp.csr_array, step: sp.csr_array, num_pairs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each history by each event, as entries (`history · E + event`, next pair, mass)."""
    product = sp.coo_array(messages @ step)
    event, pair = np.divmod(product.col.astype(np.int64), num_pairs)
    return product.row.astype(np.int64) * (num_columns(step) // num_pairs) + event, pair, product.data


def numbered_state(pairs: Pairs, time: int) -> Int[np.ndarray, " n"]:
    """A number for (x, value of the secret once settled) of each pair of a layer."""
    layer = pairs.layers[time]
    return layer.x.astype(np.int64) * pairs.hidden.num_values + np.maximum(layer.z, 0)


@dataclass(frozen=True, eq=False)
class Clustered:
    """The memory of clusters, and how a policy on other pairs moves through it: `messages[t][node, pair] = P(node, pair)`."""

    memory: GivenGraph
    messages: tuple[sp.csr_array, ...]

    def moved(self, old: Pairs, tables: Tables, new: AgentProblem) -> list[Float[np.ndarray, "A n"]]:
        """The policy on the pairs of this graph: at each the mean of what it does at the old pairs that lie in it.

        **Arguments:** `old`, `tables`: the policy; `new`, the agent on the pairs of this graph.
        """
        flows = []
        for time, table in enumerate(tables):
            part = sp.coo_array(self.messages[time])
            states = old.hidden.num_states * old.hidden.num_values
            layer = new.pairs.layers[time]
            keys = layer.node.astype(np.int64) * states + numbered_state(new.pairs, time)
            place = np.searchsorted(keys, part.row.astype(np.int64) * states + numbered_state(old, time)[part.col])
            flows.append(np.stack([np.bincount(place, part.data * row[part.col], len(keys)) for row in table]))
        return new.tables(flows)


def clustered_graph(
    agent: AgentProblem,
    tables: Tables,
    nodes: int,
    clock: Clock = UNLIMITED,
    memory_bytes: int = DEFAULT_MEMORY,
) -> Clustered:
    """A graph of at most `nodes` nodes a layer: clusters of the beliefs that a policy leads an observer to.

    **Arguments:** `tables`, a policy on the pairs of `agent`. A small share of the uniform policy is mixed in, so that every
    history that some policy makes possible has a belief and a place. `clock` is checked in every loop.

    **Raises:** `TooLargeError` before a table of beliefs is made that does not fit; `OutOfTime`.
    """
    pairs = agent.pairs
    spread = agent.spread(tables, _UNIFORM_SHARE)
    events, states = pairs.hidden.num_events, pairs.hidden.num_states * pairs.hidden.num_values
    possible = pairs.hidden.root.any(axis=0)
    first = np.where(possible, np.cumsum(possible) - 1, -1).astype(np.int32)  # each first event in a node of its own
    following, messages = [], [first_messages(pairs)]
    pace, moves = Pace(clock, _SECONDS_A_CHILD), Moves.of(pairs.hidden)
    for time in range(pairs.hidden.horizon):
        after, step = pairs.layers[time + 1], arrivals_at(pairs, moves, time).by_event(spread[time], events)
        with pace.step(_count_children(messages[-1], step, memory_bytes)):
            row, pair, mass = _children(messages[-1], step, len(after))
            rows, number = number_keys(row)
        need = 8 * _COPIES * len(rows) * states
        if need > memory_bytes:
            raise TooLargeError(
                f"the beliefs of {len(rows):,} histories over {states:,} states need {need / 2**30:.2g} GiB, and the budget is"
                f" {memory_bytes / 2**30:.2g} GiB: fewer nodes, or memory_bytes=…"
            )
        number, state = number.astype(np.int64), numbered_state(pairs, time + 1)
        beliefs = np.bincount(number * states + state[pair], weights=mass, minlength=len(rows) * states)
        cluster = cluster_beliefs(beliefs.reshape(len(rows), states), nodes, clock)
        table = np.full(num_rows(messages[-1]) * events, -1, dtype=np.int32)
        table[rows] = cluster
        following.append(table.reshape(-1, events))
        shape = (int(cluster.max()) + 1, len(after))
        messages.append(sp.csr_array(sp.coo_array((mass, (cluster[number], pair)), shape=shape)))
    sizes = tuple(num_rows(part) for part in messages)
    graph = PublicGraph(first, tuple(following), sizes, False, f"one of {nodes} clusters of beliefs")
    return Clustered(GivenGraph(graph), tuple(messages))


def cluster_beliefs(weights: Float[np.ndarray, "R N"], most: int, clock: Clock = UNLIMITED) -> Int[np.ndarray, " R"]:
    """A cluster for each row such that `Σ mass · KL(belief ‖ mean belief of its cluster)` is small.

    Rows are beliefs times their mass; equal beliefs share a cluster. Centres are chosen greedily where the loss is largest
    and then moved a few times. Cost: `R · most · N`; `clock` is checked in every loop.

    Example: the rows (0.9, 0.1), (0.88, 0.12), (0.1, 0.9) with `most` = 2 give two clusters, the first two rows in one.
    """
    clock.check(ahead=_SECONDS_A_NUMBER * weights.size)
    mass = weights.sum(axis=1)
    beliefs = weights / mass[:, None]
    _, index, inverse = np.unique(np.round(beliefs, 12), axis=0, return_index=True, return_inverse=True)
    inverse = inverse.ravel()
    if len(index) <= most:
        return inverse.astype(np.int32)
    mass = np.bincount(inverse, weights=mass)
    beliefs = beliefs[index]
    own = -entropy_bits(beliefs)
    lengths = -log2_or_zero((1 - _SMOOTHING) * beliefs + _SMOOTHING * (mass @ beliefs) / mass.sum())
    chosen = int(np.argmax(mass))
    nearest = np.zeros(len(mass), dtype=np.int32)
    distance = own + beliefs @ lengths[chosen]  # KL(belief ‖ centre)
    size = 1
    for number in range(1, most):
        clock.check()
        loss = mass * distance
        chosen = int(np.argmax(loss))
        if loss[chosen] <= 0:
            break
        size += 1
        other = own + beliefs @ lengths[chosen]
        closer = other < distance
        nearest[closer], distance = number, np.minimum(distance, other)
        nearest[chosen], distance[chosen] = number, 0.0
    for _ in range(_ROUNDS):
        nearest = _reassigned(beliefs, mass, nearest, size, clock)
    _, nearest = np.unique(nearest, return_inverse=True)
    return nearest.ravel().astype(np.int32)[inverse]


def _reassigned(beliefs: np.ndarray, mass: np.ndarray, nearest: np.ndarray, size: int, clock: Clock) -> np.ndarray:
    """Each belief to the nearest mean of the clusters as they are."""
    overall = (mass @ beliefs) / mass.sum()
    groups = sp.csr_array(sp.coo_array((mass, (nearest, np.arange(len(mass)))), shape=(size, len(mass))))
    sums = np.asarray(groups @ beliefs)
    totals = sums.sum(axis=1, keepdims=True)
    means = (1 - _SMOOTHING) * sums / np.where(totals > 0, totals, 1.0) + _SMOOTHING * overall
    lengths = code_lengths_bits(np.maximum(means, 1e-300)).T
    result = np.empty(len(beliefs), dtype=np.int32)
    at_once = max(1, _DISTANCES // size)
    for begin in range(0, len(beliefs), at_once):
        clock.check()
        part = slice(begin, begin + at_once)
        result[part] = np.argmin(beliefs[part] @ lengths, axis=1)
    return result
