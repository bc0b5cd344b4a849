"""Clusters of beliefs: an observer who remembers one of a few, and the opacity of a policy when histories are merged.

Let a policy play on the nodes M of a graph, and let C be any finer memory (C_t determines M_t). Merging histories into C
hides from the observer at most what it loses about the hidden state at each step,

    H(Z|C_T) − Σ_t I(X_{t+1}; C_t, O_{t+1} | C_{t+1})  ≤  H(Z|Y)  ≤  H(Z|C_T),

since given (C_{t+1}, X_{t+1}) neither the secret nor any later event depends on how that node was reached.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock, Pace
from ..common.errors import TooLargeError
from ..common.logs import code_lengths_bits, conditional_entropy_bits, entropy_bits, log2_or_zero, mean_log_ratio_bits
from ..common.merging import merge_beliefs
from ..common.numbering import number_keys, number_true
from ..engine.kernel import num_rows
from ..engine.moves import Layer, Moves, labelled
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


Children = tuple[Int[np.ndarray, " m"], Int[np.ndarray, " m"], Float[np.ndarray, " m"]]
"""Of histories that are extended by an event: `history · E + event`, next pair and mass of each entry."""


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

    Histories in the same node are merged by their beliefs, so that at most `most` remain in a layer, or fewer where so many
    would not fit the memory one step later; each merging is charged what it loses about the hidden state. Histories rarer
    than `prune_below` are left out: what they hide is not counted. `clock` is checked before each step, with a forecast of
    its time.

    Cost: `T · most · E` beliefs. **Raises:** `TooLargeError`, `OutOfTime`.
    """
    histories, messages, lost, largest = _Histories(pairs, clock, memory_bytes), first_messages(pairs), 0.0, 0
    for time, table in enumerate(tables):
        with histories.children(messages, table, time) as children:
            fitting = int(num_rows(messages) * memory_bytes / (2 * _BYTES_A_CHILD * max(1, len(children[0]))))
            messages, charge = _merged(pairs, time + 1, children, max(1, min(most, fitting)), prune_below)
        lost, largest = lost + charge, max(largest, num_rows(messages))
    values = np.zeros((len(pairs.layers[-1]), pairs.hidden.num_values))
    values[np.arange(len(values)), pairs.layers[-1].z] = 1.0
    return OpacityBound(max(0.0, conditional_entropy_bits(messages @ values) - lost), lost, largest)


def _merged(pairs: Pairs, time: int, children: Children, most: int, prune_below: float) -> tuple[sp.csr_array, float]:
    """Messages `P(cluster of histories, pair)` of a time, and what merging loses about the hidden state, in bits."""
    (row, pair, mass), layer, states = children, pairs.layers[time], pairs.states(time)
    number = number_keys(row)[1]
    kept = (np.bincount(number, weights=mass) > prune_below)[number]
    number, pair, mass = number_keys(number[kept])[1], pair[kept], mass[kept]
    arrived = np.bincount(number, weights=mass)
    node = np.zeros(len(arrived), dtype=np.int64)
    node[number] = layer.node[pair]
    cluster = merge_beliefs(number, states[pair], mass, most, node)
    messages = sp.csr_array(
        sp.coo_array((mass, (cluster[number], pair)), shape=(cluster.max(initial=-1) + 1, len(layer)))
    )
    together, mean = np.bincount(cluster, weights=arrived), np.asarray(messages[cluster[number], pair]).ravel()
    lost = mean_log_ratio_bits(mass, mass / arrived[number], mean / together[cluster[number]])
    return messages, max(0.0, lost)


def first_messages(pairs: Pairs) -> sp.csr_array:
    """`P(first event, pair)`: a row for each first event that is possible, a column for each pair of layer 0."""
    hidden = pairs.hidden
    possible = np.flatnonzero(hidden.root.any(axis=0))
    x, event = np.nonzero(hidden.root[:, possible])
    node = pairs.graph.first[possible[event]]
    layer = labelled(hidden, 0, Layer(node, x, np.full(len(x), -1)))
    places = event, np.searchsorted(pairs.keys(0), pairs.keys_of(layer))
    return sp.csr_array(
        sp.coo_array((hidden.root[x, possible[event]], places), shape=(len(possible), len(pairs.layers[0])))
    )


class _Histories:
    """The children of histories under a policy: each by each event, as entries of (history, event, next pair)."""

    def __init__(self, pairs: Pairs, clock: Clock, memory_bytes: int):
        self._pairs, self._moves, self._memory_bytes = pairs, Moves.of(pairs.hidden), memory_bytes
        self._pace = Pace(clock, _SECONDS_A_CHILD)

    @contextmanager
    def children(self, messages: sp.csr_array, table: Float[np.ndarray, "A n"], time: int) -> Iterator[Children]:
        """Those of `messages[history, pair]` of a time; the clock is checked with a forecast of the time inside.

        **Raises:** `TooLargeError` where they do not fit; `OutOfTime`.
        """
        part = arrivals_at(self._pairs, self._moves, time)
        step = part.under(table)
        count = int(np.diff(step.indptr)[messages.indices].sum())
        if _BYTES_A_CHILD * count > self._memory_bytes:
            raise TooLargeError(
                f"the histories of one time have {count:,} successors, which need {_BYTES_A_CHILD * count / 2**30:.2g} GiB, and"
                f" the budget is {self._memory_bytes / 2**30:.2g} GiB: fewer nodes, or memory_bytes=…"
            )
        with self._pace.step(count):
            product = sp.coo_array(messages @ step)
            row = product.row.astype(np.int64) * self._moves.num_events + part.event[part.edge[product.col]]
            yield row, part.pair[product.col], product.data


@dataclass(frozen=True, eq=False)
class Automaton:
    """A memory that was made from a policy on other pairs, and `weights[t][node, pair]`: which of these lie in each node."""

    memory: GivenGraph
    weights: tuple[sp.csr_array, ...]

    def moved(self, old: Pairs, tables: Tables, new: AgentProblem) -> list[Float[np.ndarray, "A n"]]:
        """The policy on the pairs of this memory: at each the mean of what it does at the old pairs that lie in it.

        **Arguments:** `old`, `tables`: the policy; `new`, the agent on the pairs that were made of the memory.
        """
        flows = []
        for time, table in enumerate(tables):
            part, keys = sp.coo_array(self.weights[time]), new.pairs.keys(time)
            number = np.full(num_rows(self.weights[time]), -1)  # nodes that no policy reaches are dropped
            number[self.memory.kept[time]] = np.arange(len(self.memory.kept[time]))
            wanted = number[part.row] * old.span + old.states(time)[part.col]
            place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            known = keys[place] == wanted
            place, pair, weight = place[known], part.col[known], part.data[known]
            flows.append(np.stack([np.bincount(place, weight * row[pair], len(keys)) for row in table]))
        return new.tables(flows)


def clustered_graph(
    agent: AgentProblem,
    tables: Tables,
    nodes: int,
    clock: Clock = UNLIMITED,
    memory_bytes: int = DEFAULT_MEMORY,
) -> Automaton:
    """A graph of at most `nodes` nodes a layer: clusters of the beliefs that a policy leads an observer to.

    **Arguments:** `tables`, a policy on the pairs of `agent`. A small share of the uniform policy is mixed in, so that every
    history that some policy makes possible has a belief and a place. `clock` is checked in every loop.

    **Raises:** `TooLargeError` before a table of beliefs is made that does not fit; `OutOfTime`.
    """
    pairs, events, states = agent.pairs, agent.pairs.hidden.num_events, agent.pairs.span
    first = number_true(np.asarray(pairs.hidden.root.any(axis=0)))  # each first event in a node of its own
    following, messages, histories = [], [first_messages(pairs)], _Histories(pairs, clock, memory_bytes)
    for time, table in enumerate(agent.spread(tables, _UNIFORM_SHARE)):
        with histories.children(messages[-1], table, time) as (row, pair, mass):
            rows, number = number_keys(row)
        need = 8 * _COPIES * len(rows) * states
        if need > memory_bytes:
            raise TooLargeError(
                f"the beliefs of {len(rows):,} histories over {states:,} states need {need / 2**30:.2g} GiB, and the budget is"
                f" {memory_bytes / 2**30:.2g} GiB: fewer nodes, or memory_bytes=…"
            )
        place = number.astype(np.int64) * states + pairs.states(time + 1)[pair]
        beliefs = np.bincount(place, weights=mass, minlength=len(rows) * states)
        cluster = cluster_beliefs(beliefs.reshape(len(rows), states), nodes, clock)
        after = np.full(num_rows(messages[-1]) * events, -1, dtype=np.int32)
        after[rows] = cluster
        following.append(after.reshape(-1, events))
        shape = (int(cluster.max()) + 1, len(pairs.layers[time + 1]))
        messages.append(sp.csr_array(sp.coo_array((mass, (cluster[number], pair)), shape=shape)))
    sizes = tuple(num_rows(part) for part in messages)
    graph = PublicGraph(first, tuple(following), sizes, False, f"one of {nodes} clusters of beliefs")
    return Automaton(GivenGraph(graph), tuple(messages))


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
