"""All moves of the hidden chain with their events, and the layers of (node, hidden state) that they lead through."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.numbering import number_keys, ragged
from ..problem.problem import Problem
from .hidden import Hidden
from .kernel import DenseKernel, SparseKernel


@dataclass(frozen=True, eq=False)
class Layer:
    """The pairs of one time: pair p is (`node[p]`, `x[p]`), and `z[p]` the value of the secret, -1 while it is open."""

    node: Int[np.ndarray, " n"]
    x: Int[np.ndarray, " n"]
    z: Int[np.ndarray, " n"]

    def __len__(self) -> int:
        return len(self.node)

    def equals(self, other: "Layer") -> bool:
        """Whether the pairs are the same."""
        return len(self) == len(other) and all(
            np.array_equal(mine, theirs)
            for mine, theirs in ((self.x, other.x), (self.node, other.node), (self.z, other.z))
        )


def labelled(hidden: Hidden, time: int, layer: Layer) -> Layer:
    """The layer with the secret's value read off where it is settled at this time, open before."""
    if time < hidden.split_time:
        return Layer(layer.node, layer.x, np.full(len(layer), -1, dtype=np.int32))
    if time > hidden.split_time:
        return layer
    value = hidden.value[layer.x].astype(np.int32)
    assert (value >= 0).all(), "a hidden state without a value of the secret"
    return Layer(layer.node, layer.x, value)


@dataclass(frozen=True, eq=False)
class Moves:
    """All `(x, a) -> (x', event)` with their probability, in the order of action, then x.

    Those of (a, x) are the entries from `begin[a, x]` up to `begin[a, x] + degree[a, x]`.
    """

    begin: Int[np.ndarray, "A N"]
    degree: Int[np.ndarray, "A N"]
    target: Int[np.ndarray, " m"]
    event: Int[np.ndarray, " m"]
    probability: Float[np.ndarray, " m"]
    num_events: int

    @staticmethod
    def of(hidden: Hidden) -> "Moves":
        """The moves of a hidden chain."""
        action, source, target, probability = transitions(hidden)
        parts = []
        for emitter in hidden.emitters:
            chosen, table = np.flatnonzero(emitter.actions[action]), emitter.table
            degree = np.diff(table.indptr)[target[chosen]]
            kept = np.repeat(chosen, degree)
            entry = ragged(table.indptr[target[chosen]], degree)
            event, chance = table.indices[entry], probability[kept] * table.data[entry]
            parts.append((action[kept], source[kept], target[kept], event, chance))
        action, source, target, event, probability = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.lexsort((event, target, source, action))
        shape = hidden.kernel.num_actions, hidden.num_states
        degree = np.bincount(action * shape[1] + source, minlength=shape[0] * shape[1])
        return Moves(
            begin=(np.cumsum(degree) - degree).reshape(shape),
            degree=degree.reshape(shape),
            target=target[order].astype(np.int32),
            event=event[order].astype(np.int32),
            probability=probability[order],
            num_events=hidden.num_events,
        )

    def count(self, layer: Layer) -> int:
        """How many entries the step from a layer has."""
        return int(self.degree.sum(axis=0)[layer.x].sum())

    def possible(self, layer: Layer, num_nodes: int) -> np.ndarray:
        """Which events can follow in each node of a layer, `(n, E)`."""
        seen = np.zeros((self.degree.shape[1], self.num_events), dtype=bool)
        source = np.repeat(np.tile(np.arange(self.degree.shape[1]), len(self.degree)), self.degree.ravel())
        seen[source, self.event] = True
        result = np.zeros((num_nodes, self.num_events), dtype=bool)
        for event in range(self.num_events):
            result[layer.node[seen[layer.x, event]], event] = True
        return result

    def entries(self, layer: Layer, action: int) -> tuple[np.ndarray, np.ndarray]:
        """For each entry of an action's rows the pair it leaves from and the move it makes."""
        degree = self.degree[action, layer.x]
        pair = np.repeat(np.arange(len(layer), dtype=np.int32), degree)
        return pair, ragged(self.begin[action, layer.x], degree)

    def advance(self, hidden: Hidden, time: int, layer: Layer, table: np.ndarray) -> tuple[Layer, sp.csr_array]:
        """The next layer and the step to it."""
        actions, states = self.degree.shape
        settled = hidden.split_time <= time  # from here on the value is carried along
        values = hidden.label.shape[1] if settled else 1
        keys, data, degrees = [], [], []
        for action in range(actions):
            pair, move = self.entries(layer, action)
            key = table[layer.node[pair], self.event[move]].astype(np.int64) * states + self.target[move]
            keys.append(key * values + layer.z[pair] if settled else key)
            data.append(self.probability[move])
            degrees.append(self.degree[action, layer.x])
        found, columns = number_keys(np.concatenate(keys))
        rest, z = np.divmod(found, values)
        node, x = np.divmod(rest, states)
        after = Layer(node.astype(np.int32), x.astype(np.int32), z.astype(np.int32))
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(degrees))]).astype(np.int32)
        step = sp.csr_array(
            (np.concatenate(data), columns.astype(np.int32), indptr), shape=(actions * len(layer), len(found))
        )
        step.sum_duplicates()
        return labelled(hidden, time + 1, after), step


def transitions(hidden: Hidden) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Action, source, target and probability of every transition."""
    kernel = hidden.kernel
    if isinstance(kernel, SparseKernel):
        entry, action = np.nonzero(kernel.probabilities > 0)
        return action, kernel.rows[entry], kernel.indices[entry], kernel.probabilities[entry, action]
    assert isinstance(kernel, DenseKernel)
    action, source, target = np.nonzero(kernel.array > 0)
    return action, source, target, kernel.array[action, source, target]


def situations(problem: Problem, hidden: Hidden) -> Int[np.ndarray, " N"]:
    """`(k · M + m) · S + s` of each hidden state: the model that runs, the private memory of the secret, the state."""
    memories = len(problem.secret_table.memory_names)
    return (hidden.model_index * memories + hidden.held) * problem.num_states + hidden.state
