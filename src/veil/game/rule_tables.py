"""What a rule of inference is a table of: rows of probabilities, one for each thing that the observer knows when it guesses.

All rules are one vector of entries in rows. A part of it is read at the pairs of one time, or at the arrivals of one step:

- a secret with one value: a row `q(·|m)` for each node m at time T;
- one with a value at every time: a row `q_t(·|m)` for each node of each time t that counts, with the weight of that time,
  since `Σ_t w_t H(Z_t|M_t) ≤ Σ_t w_t E[−log2 q_t(Z_t|M_t)]`;
- a whole path: a row `q_t(·|m',x')` for each arrival in x' at node m', over what the path shows of the state before, and a row
  for each last node: `H(X_0 … X_T|Y) ≤ Σ_t E[−log2 q_t] + E[−log2 q_T]`;
- several channels: a part for each, with a row for each record of its observer, and with the weight of its bits.

The joint table of a policy has the entries of the rule and is linear in the flows. Its entropy is that of each entry within its
row, weighted. With a negative weight for what is forgotten it bounds the opacity against every observer (`charged_table`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from ..common.logs import conditional_entropy_bits, log2_or_zero
from ..common.numbering import number_keys
from ..engine.event_entropy import show_path
from .arrivals import Apart, Arrivals, kept_apart
from .pairs import Pairs

Entries = Float[np.ndarray, " k"]
"""A number for each entry of a rule: a joint table, a rule, or its costs."""


@dataclass(frozen=True, eq=False)
class Part:
    """Entries of a rule that are read together.

    **Attributes:** `entry[i]`: which of them pair i of the layer of `time` reads or, if `arrives`, arrival i of the step to it;
    `key[k] = row · width + column` of each, in order; `weight` of their bits, and which `channel` these are about.
    """

    time: int
    key: Int[np.ndarray, " k"]
    entry: Int[np.ndarray, " m"]
    width: int
    weight: float = 1.0
    arrives: bool = False
    channel: int = 0

    @classmethod
    def of(
        cls,
        time: int,
        keys: Int[np.ndarray, " m"],
        width: int,
        weight: float = 1.0,
        *,
        arrives: bool = False,
        channel: int = 0,
    ) -> "Part":
        """The part of the keys that pairs or arrivals read."""
        return cls(time, *number_keys(keys), width, weight, arrives, channel)

    @cached_property
    def _apart(self) -> bool:
        """Whether each pair or arrival reads an entry that no other does, in order."""
        return len(self.entry) == len(self.key) and bool(np.all(np.diff(self.entry) > 0))

    def read(self, values: Entries) -> Float[np.ndarray, " m"]:
        """The value of the entry of each pair or arrival."""
        return values if self._apart else values[self.entry]

    def sums(self, masses: Float[np.ndarray, " m"]) -> Entries:
        """The mass of each entry from those of pairs or arrivals."""
        return masses if self._apart else np.bincount(self.entry, masses, len(self.key))

    def dense(self, values: Entries, rows: int, fill: float = np.inf) -> Float[np.ndarray, "n Z"]:
        """The values of the entries as a table with so many rows, filled where nothing can be reached."""
        table = np.full((rows, self.width), fill)
        table.ravel()[self.key] = values
        return table


class RuleTable:
    """The parts of a rule, and the steps whose arrivals they read, if there are such."""

    def __init__(self, parts: Sequence[Part], apart: Sequence[Apart] = ()):
        self.parts, self.apart = tuple(parts), tuple(apart)
        sizes = [len(part.key) for part in parts]
        self._ends = np.cumsum(sizes)
        self.size = int(self._ends[-1])
        new = np.concatenate([np.diff(part.key // part.width, prepend=-1) != 0 for part in parts])
        self._begin = np.flatnonzero(new)  # of each row
        self._length = np.diff(self._begin, append=self.size)
        self._weight = np.repeat([part.weight for part in parts], sizes)
        self._read: dict[tuple[int, bool], list[tuple[Part, slice]]] = {}
        for part, end in zip(parts, self._ends.tolist(), strict=True):
            self._read.setdefault((part.time, part.arrives), []).append((part, slice(end - len(part.key), end)))

    @property
    def is_concave(self) -> bool:
        """Whether the entropy is a concave function of the joint table."""
        return bool(np.all(self._weight >= 0))

    def weighted(self, weights: Sequence[float]) -> "RuleTable":
        """The same with the bits of each channel weighted; those without a weight are left out."""
        if all(weight == 1 for weight in weights):
            return self
        parts = [replace(part, weight=part.weight * weights[part.channel]) for part in self.parts]
        return RuleTable([part for part in parts if part.weight], self.apart)

    def split(self, table: Entries) -> list[Entries]:
        """The entries of each part."""
        return np.split(table, self._ends[:-1])

    def joint(self, masses: Sequence[np.ndarray], arrived: Sequence[np.ndarray]) -> Entries:
        """The masses of all entries from those of the pairs of all layers, and of the arrivals of all steps."""
        read = [arrived[part.time - 1] if part.arrives else masses[part.time] for part in self.parts]
        return np.concatenate([part.sums(mass) for part, mass in zip(self.parts, read, strict=True)])

    def paid(self, costs: Entries, time: int, *, arrives: bool = False) -> Float[np.ndarray, " n"] | None:
        """The weighted costs that are read at each pair of a layer, or at each arrival of the step to it; None if none are."""
        total = None
        for part, place in self._read.get((time, arrives), ()):
            paid = part.read(costs[place])
            paid = paid if part.weight == 1 else part.weight * paid
            total = paid if total is None else total + paid
        return total

    def totals(self, table: Entries) -> Entries:
        """The sum of the row of each entry."""
        return np.repeat(np.add.reduceat(table, self._begin), self._length)

    def even_odds(self) -> Entries:
        """The rule that holds all that can be reached for equally likely."""
        return 1.0 / self.totals(np.ones(self.size))

    def posteriors(self, joint: Entries) -> Entries:
        """The share of each entry in its row; a row of zeros stays zero."""
        total = self.totals(joint)
        return joint / np.where(total > 0, total, 1.0)

    def surprisals(self, joint: Entries) -> Entries:
        """`−log2` of the posteriors: times the weights, the derivative of the entropy."""
        return -log2_or_zero(self.posteriors(joint))

    def entropy(self, joint: Entries) -> float:
        """The weighted sum of the entropies of all rows: `H(Z|M_T)` of a secret with one value."""
        return float(np.vdot(self._weight * joint, self.surprisals(joint)))

    def bits(self, joint: Entries) -> Float[np.ndarray, " J"]:
        """The same for each channel by itself."""
        terms = np.split(self._weight * joint * self.surprisals(joint), self._ends[:-1])
        return np.bincount([part.channel for part in self.parts], [float(term.sum()) for term in terms])

    def prior_bits(self, joint: Entries) -> float:
        """The entropy before anything is seen: `H(Z)`, or `Σ_t w_t H(Z_t)`."""
        total = 0.0
        for part, masses in zip(self.parts, self.split(joint), strict=True):
            total += part.weight * conditional_entropy_bits(np.bincount(part.key % part.width, masses)[None])
        return total


def rule_table(pairs: Pairs) -> RuleTable:
    """What the rule of one observer, whose memory the pairs have, is a table of."""
    hidden = pairs.hidden
    if hidden.path is not None:
        return _path_table(pairs)
    if hidden.each is None:
        return RuleTable([_last_part(pairs)])
    weights, value = hidden.each.weights, hidden.each.value
    times = [(time, pairs.layers[time]) for time in np.flatnonzero(weights).tolist()]
    values = hidden.num_values
    return RuleTable(
        [Part.of(time, one.node.astype(np.int64) * values + value[one.x], values, weights[time]) for time, one in times]
    )


def _last_part(pairs: Pairs) -> Part:
    last, values = pairs.layers[-1], pairs.hidden.num_values
    return Part.of(pairs.hidden.horizon, last.node.astype(np.int64) * values + last.z, values)


def _path_table(pairs: Pairs) -> RuleTable:
    """A rule over the states before.

    What a row tells apart are the hidden states where path and observations together tell them (the sum over times is then the
    entropy of the path), else what the path shows (the sum is then an upper bound on it).
    """
    hidden, last, parts = pairs.hidden, pairs.layers[-1], list[Part]()
    assert hidden.path is not None
    codes = np.arange(hidden.num_states) if show_path(hidden).is_unifilar else hidden.path
    count = int(codes.max()) + 1
    made: dict[int, tuple[Apart, Part]] = {}  # steps that repeat are stored once
    for time, step in enumerate(pairs.steps):
        if id(step) not in made:
            apart, left = kept_apart(step, len(pairs.layers[time]), len(pairs.layers[time + 1]))
            after, before = pairs.layers[time + 1], codes[pairs.layers[time].x[left]]
            shown = after.node[apart.pair].astype(np.int64) * count + codes[after.x[apart.pair]]
            made[id(step)] = apart, Part.of(time + 1, shown * count + before, count, arrives=True)
        parts.append(replace(made[id(step)][1], time=time + 1))
    parts.append(Part.of(hidden.horizon, last.node.astype(np.int64) * count**2 + codes[last.x], count))
    return RuleTable(parts, [made[id(step)][0] for step in pairs.steps])


def charged_table(pairs: Pairs, arrivals: Sequence[Arrivals]) -> RuleTable:
    """The table whose entropy is `L = H(Z|C_T) − Σ_t (H(X_{t+1}|C_{t+1}) − H(X_{t+1}|C_t, O_{t+1}))`.

    Against an observer who remembers everything a policy on the nodes C hides at least L (`clusters.py`).
    """
    parts, span = [_last_part(pairs)], pairs.hidden.num_states * pairs.hidden.num_values
    for time, one in enumerate(arrivals, 1):
        state = pairs.states(time)
        parts.append(Part.of(time, pairs.layers[time].node.astype(np.int64) * span + state, span, -1.0))
        parts.append(Part.of(time, one.edge.astype(np.int64) * span + state[one.pair], span, arrives=True))
    return RuleTable(parts, arrivals)
