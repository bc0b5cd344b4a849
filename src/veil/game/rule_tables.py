"""What the observer's rule is a table of: values of the secret at nodes at time T or at every time, or states before arrivals.

A secret with one value has one row of probabilities `q(·|m)` for each node m at time T. One with a value at every time has a
row `q_t(·|m)` for each node of each time t that counts: `Σ_t w_t H(Z_t|M_t) ≤ Σ_t w_t E[−log2 q_t(Z_t|M_t)]`. A whole path
has a row `q_t(·|m',x')` for each arrival in x' at node m', over what the path shows of the state before, and a row `q_T(·|m)`
for each last node: `H(X_0 … X_T|Y) ≤ Σ_t E[−log2 q_t] + E[−log2 q_T]` for all such rows. The joint table of a policy has an
entry for each entry of the rule; it is linear in the flows, and the entropy is that of each entry within its row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..common.logs import conditional_entropy_bits, entropy_bits, log2_or_zero, posteriors, surprisal_bits
from ..engine.event_entropy import show_path
from .pairs import Pairs


class ValueTable:
    """A rule over the values of the secret: tables `(n, Z)`, a row for each node at time T."""

    steps: Sequence["PathStep"] = ()
    by_node = True  # whether each row is that of a node

    def __init__(self, pairs: Pairs):
        self._pairs, self.reachable = pairs, pairs.reachable

    def joint(self, masses: Sequence[np.ndarray], arrived: Sequence[np.ndarray]) -> Float[np.ndarray, "n Z"]:
        """`P(M_T = m, Z = z)` from the masses of the pairs of all layers."""
        size, values = self.reachable.shape
        return np.bincount(self._pairs.leaf, weights=masses[-1], minlength=size * values).reshape(size, values)

    def at(self, costs: Float[np.ndarray, "n Z"], time: int) -> Float[np.ndarray, " n"] | None:
        """Costs read at each pair of a layer; None before the last, where nothing is paid."""
        return costs.ravel()[self._pairs.leaf] if time == self._pairs.hidden.horizon else None

    def on_arrival(self, costs: Float[np.ndarray, "n Z"], time: int) -> None:
        """Nothing is paid on the way."""

    def totals(self, table: Float[np.ndarray, "n Z"]) -> Float[np.ndarray, "n 1"]:
        """The sum of each row."""
        return table.sum(axis=1, keepdims=True)

    def everywhere(self, row: Float[np.ndarray, " Z"]) -> Float[np.ndarray, "n Z"]:
        """The rule of an observer who holds the values for as likely as this at every node."""
        return np.repeat(row[None], len(self.reachable), axis=0)

    def even_odds(self) -> Float[np.ndarray, "n Z"]:
        """The rule that holds all that can be reached for equally likely."""
        return self.reachable / np.maximum(1, self.reachable.sum(axis=1, keepdims=True))

    def posteriors(self, joint: Float[np.ndarray, "n Z"]) -> Float[np.ndarray, "n Z"]:
        """`P(z|m)`."""
        return posteriors(joint)

    def surprisals(self, joint: Float[np.ndarray, "n Z"]) -> Float[np.ndarray, "n Z"]:
        """`−log2 P(z|m)`, the derivative of the entropy."""
        return surprisal_bits(joint)

    def entropy(self, joint: Float[np.ndarray, "n Z"]) -> float:
        """`H(Z|M_T)`."""
        return conditional_entropy_bits(joint)

    def prior_bits(self, joint: Float[np.ndarray, "n Z"]) -> float:
        """`H(Z)`."""
        return float(entropy_bits(joint.sum(axis=0)))


@dataclass(frozen=True, eq=False)
class PathStep:
    """The arrivals of a step, each a pair left and a pair reached, and the entries of the rule that they read.

    `step` has a row for each (action, pair of layer t) and a column for each arrival, `pair` is the pair of layer t + 1 that
    an arrival is, `entry` the entry of the rule: (node reached, what the path shows there, what it showed before).
    `key[k] = (node · C + shown) · C + shown before` of entry k, in order, with C codes of what the path shows.
    """

    step: sp.csr_array
    pair: Int[np.ndarray, " m"]
    entry: Int[np.ndarray, " m"]
    key: Int[np.ndarray, " k"]


class EntryTable:
    """A rule as one vector of entries in rows: `keys[j]`, sorted, of part j; those of a row share `key // width`."""

    by_node = False
    steps: Sequence["PathStep"] = ()

    def __init__(self, keys: list[Int[np.ndarray, " k"]], width: int):
        self.keys = keys
        self._ends = np.cumsum([len(key) for key in keys])
        rows = [np.flatnonzero(np.diff(key // width, prepend=-1)) for key in keys]
        begins = np.concatenate([part + end - len(key) for part, end, key in zip(rows, self._ends, keys, strict=True)])
        self._row = np.repeat(np.arange(len(begins)), np.diff(begins, append=self._ends[-1]))

    @cached_property
    def reachable(self) -> Bool[np.ndarray, " k"]:
        """All entries: only what some policy can reach has one."""
        return np.ones(len(self._row), dtype=bool)

    def parts(self, table: Float[np.ndarray, " k"]) -> list[Float[np.ndarray, " j"]]:
        """The entries of each part."""
        return np.split(table, self._ends[:-1])

    def totals(self, table: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """The sum of the row of each entry."""
        return np.bincount(self._row, table)[self._row]

    def even_odds(self) -> Float[np.ndarray, " k"]:
        """The rule that holds all that can be reached for equally likely."""
        return 1.0 / self.totals(np.ones(len(self._row)))

    def posteriors(self, joint: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """The share of each entry in its row; a row of zeros stays zero."""
        total = self.totals(joint)
        return joint / np.where(total > 0, total, 1.0)

    def surprisals(self, joint: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
        """`−log2` of the posteriors, the derivative of the entropy."""
        return -log2_or_zero(self.posteriors(joint))

    def entropy(self, joint: Float[np.ndarray, " k"]) -> float:
        """The entropy of each entry within its row: `H(X_T|M_T) + Σ_t H(X_t|X_{t+1},M_{t+1})`, or the same of what the path
        shows; of a secret with a value at every time `Σ_t w_t H(Z_t|M_t)`.
        """
        return float(np.vdot(joint, self.surprisals(joint)))


class EachTable(EntryTable):
    """A rule over the values of the secret at every time: the entries (node, value) of each time that counts.

    The masses of a time are multiplied by its weight, and so are the costs where they are paid.
    """

    def __init__(self, pairs: Pairs):
        each = pairs.hidden.each
        assert each is not None
        self.values, self.weights = pairs.hidden.num_values, each.weights
        self.times = np.flatnonzero(each.weights).tolist()
        layers = [pairs.layers[time] for time in self.times]
        numbered = [_numbered(one.node.astype(np.int64) * self.values + each.value[one.x]) for one in layers]
        self._entry = dict(zip(self.times, (entry for _, entry in numbered), strict=True))
        super().__init__([key for key, _ in numbered], self.values)

    def joint(self, masses: Sequence[np.ndarray], arrived: Sequence[np.ndarray]) -> Float[np.ndarray, " k"]:
        """`w_t P(M_t = m, Z_t = z)` of all times from the masses of the pairs of all layers."""
        found = [self.weights[time] * np.bincount(self._entry[time], masses[time]) for time in self.times]
        return np.concatenate(found)

    def at(self, costs: Float[np.ndarray, " k"], time: int) -> Float[np.ndarray, " n"] | None:
        """`w_t` times the costs read at each pair of a layer; None where the time does not count."""
        if time not in self._entry:
            return None
        return self.weights[time] * self.parts(costs)[self.times.index(time)][self._entry[time]]

    def on_arrival(self, costs: Float[np.ndarray, " k"], time: int) -> None:
        """Nothing is paid on the way."""

    def prior_bits(self, joint: Float[np.ndarray, " k"]) -> float:
        """`Σ_t w_t H(Z_t)`."""
        parts = zip(self.keys, self.parts(joint), strict=True)
        return float(sum(conditional_entropy_bits(np.bincount(key % self.values, part)[None]) for key, part in parts))


class PathTable(EntryTable):
    """A rule over the states before: one vector of the entries of all steps, then those of the last nodes.

    `codes[x]` numbers what a row tells apart: the hidden states where path and observations together tell them (the sum over
    times is then the entropy of the path), else what the path shows (the sum is then an upper bound on it).
    """

    def __init__(self, pairs: Pairs):
        hidden = pairs.hidden
        assert hidden.path is not None
        self.is_exact = show_path(hidden).is_unifilar
        self.codes = np.arange(hidden.num_states) if self.is_exact else hidden.path
        self.num_codes = int(self.codes.max()) + 1
        made: dict[int, PathStep] = {}  # steps that repeat are stored once
        for time, step in enumerate(pairs.steps):
            if id(step) not in made:
                made[id(step)] = self._step(pairs, time)
        self.steps = tuple(made[id(step)] for step in pairs.steps)
        last = pairs.layers[-1]
        keys = last.node.astype(np.int64) * self.num_codes**2 + self.codes[last.x]
        self._last_key, self._last_entry = _numbered(keys)
        super().__init__([*(one.key for one in self.steps), self._last_key], self.num_codes)

    def _step(self, pairs: Pairs, time: int) -> PathStep:
        step, layer, after = pairs.steps[time], pairs.layers[time], pairs.layers[time + 1]
        rows = len(step.indptr) - 1
        row = np.repeat(np.arange(rows, dtype=np.int64) % len(layer), np.diff(step.indptr))
        found, column = _numbered(row * len(after) + step.indices)
        left, pair = np.divmod(found, len(after))
        shown = after.node[pair].astype(np.int64) * self.num_codes + self.codes[after.x[pair]]
        key, entry = _numbered(shown * self.num_codes + self.codes[layer.x[left]])
        shape = (rows, len(found))
        return PathStep(sp.csr_array((step.data, column.astype(np.int32), step.indptr), shape=shape), pair, entry, key)

    def joint(self, masses: Sequence[np.ndarray], arrived: Sequence[np.ndarray]) -> Float[np.ndarray, " k"]:
        """The masses of all entries from those of the last pairs and of the arrivals of each step."""
        found = [np.bincount(one.entry, mass, len(one.key)) for one, mass in zip(self.steps, arrived, strict=True)]
        return np.concatenate([*found, np.bincount(self._last_entry, masses[-1], len(self._last_key))])

    def at(self, costs: Float[np.ndarray, " k"], time: int) -> Float[np.ndarray, " n"] | None:
        """Costs read at each pair of the last layer; None before it, where arrivals are paid for."""
        return costs[len(costs) - len(self._last_key) :][self._last_entry] if time == len(self.steps) else None

    def on_arrival(self, costs: Float[np.ndarray, " k"], time: int) -> Float[np.ndarray, " m"]:
        """Costs read at each arrival of a step."""
        end = self._ends[time]
        return costs[end - len(self.keys[time]) : end][self.steps[time].entry]


RuleTable = ValueTable | EachTable | PathTable


def rule_table(pairs: Pairs) -> RuleTable:
    """What the rule of an observer on these pairs is a table of."""
    if pairs.hidden.path is not None:
        return PathTable(pairs)
    return ValueTable(pairs) if pairs.hidden.each is None else EachTable(pairs)


def _numbered(keys: Int[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " k"], Int[np.ndarray, " n"]]:
    found, number = np.unique(keys, return_inverse=True)
    return found, number.ravel()
