"""Messages along strings of letters without their times: silent steps keep a position in the string, a letter moves on.

`α_t(j,x) = P(x_t = x, the first j letters are what was written up to time t)` is a sum over the times at which the letters
came: `α_{t+1}(j) = α_t(j) K B_silent + α_t(j−1) K B_{e_j}`. Positions of strings that begin alike are shared (a trie), so a
level of messages has a node for each prefix. Suffixes are treated alike backward in time, and `P(z,w)` is the sum over the
positions at the time of the secret. Every message is scaled, with the logarithm of its scale beside it: the terms of a sum
may differ by any factor.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import natural_log
from .chain import Chain, Slopes
from .each_time import last_reading
from .sequences import TINY, Posteriors, PrefixReader, PullBack, Side, Sweep, inverse
from .step import Extension
from .threads import one_blas_thread
from .written import Strings, StringTrie

_LARGEST = 700.0  # whose exponential is finite


def ratio(log: np.ndarray, top: np.ndarray) -> np.ndarray:
    """`exp(log − top)`, finite; 0 if `log` is that of zero."""
    return np.exp(np.minimum(log - np.where(np.isneginf(top), 0.0, top), _LARGEST))


@dataclass(frozen=True, eq=False)
class _Edges(Extension):
    """Edge i leads by an event to the node `target[i]`, out of `size`: `stays` to the same one, `moves` to a longer one."""

    size: int
    target: Int[np.ndarray, " m"]
    stays: Int[np.ndarray, " k"]
    moves: Int[np.ndarray, " l"]


class StringSide(Side):
    """Messages of the prefixes of strings, or of their suffixes, which are the prefixes of the reversed strings."""

    def __init__(
        self, chain: Chain, trie: StringTrie, levels: int, slopes: Slopes | None = None, *, backward: bool = False
    ):
        written = chain.hidden.written
        assert written is not None
        self.trie, self._written = trie, written
        self._early = 0 if backward else int(written.starts)  # letters at the root
        super().__init__(chain, levels, self.count(levels), slopes, backward=backward)

    def count(self, level: int) -> int:
        """How many nodes, from the first on, can be reached at a level."""
        return self.trie.up_to(level + self._early)

    def root(self) -> tuple[np.ndarray, np.ndarray]:
        """Messages at time 0 and their probabilities; at the horizon, where nothing is left to write, ones."""
        trie, nodes = self.trie, np.arange(self.count(0))
        if self.backward:
            return np.ones((len(nodes), self.chain.hidden.num_states)), np.ones(len(nodes))
        event = self._written.events(0, trie.stamp_rows[trie.stamps[nodes], 0], trie.letter[nodes])
        messages = np.where(event[:, None] >= 0, self.chain.hidden.root[:, event].T, 0.0)
        scale = messages.sum(axis=1)
        return messages * inverse(scale)[:, None], scale

    def edges(self, level: int) -> _Edges:
        """See `Side`."""
        trie, before, after = self.trie, self.count(level), self.count(level + 1)
        loud = np.arange(trie.begin[1], after)  # all but the empty strings
        loud = loud[trie.parent[loud] < before]
        stay = np.arange(before)
        parent, target = np.concatenate([stay, trie.parent[loud]]), np.concatenate([stay, loud])
        letter = np.concatenate([np.full(before, -1), trie.letter[loud]])
        time = self.chain.hidden.horizon - level if self.backward else level + 1
        event = self._written.events(time, trie.stamp_rows[trie.stamps[target], time], letter)
        order = np.argsort(event, kind="stable")
        order = order[np.searchsorted(event[order], 0) :]  # what no event can be is left out
        ways = np.flatnonzero(order < before), np.flatnonzero(order >= before)
        return _Edges(parent[order], event[order], after, target[order], *ways)

    def scaled(self, rows: np.ndarray, edges: _Edges, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, PullBack]:
        """See `Side`: the messages of the edges to a node are summed."""
        scale, target = self.size(rows), edges.target
        scale = np.where(scale < TINY, 0.0, scale)
        edge_logs = logs[edges.parent] + natural_log(scale)
        top = np.full(edges.size, -np.inf)
        np.maximum.at(top, target, edge_logs)
        weight, wide = inverse(scale) * ratio(edge_logs, top[target]), (-1, *(1,) * (rows.ndim - 1))
        found = np.zeros((len(top), *rows.shape[1:]))
        for part in (edges.stays, edges.moves):  # within each, all targets are distinct
            found[target[part]] += rows[part] * weight[part].reshape(wide)
        total = self.size(found)
        found *= inverse(total).reshape(wide)
        weight *= inverse(total)[target]
        return found, top + natural_log(total), lambda slope: slope[target] * weight[:, None]


class StringPass:
    """Posteriors of the secret along strings, and the gradient of any function of them; as `SequencePass` for sequences.

    **Arguments:** `chain`, of an observer without a clock (`chain.hidden.written`); `strings`, each once, or the sequences of
    events that they are written from, `(k, T+1)`; `gradient`, `memory_bytes`, `clock`: as for `SequencePass`;
    `apart`: whether the result keeps equal strings apart.

    Cost: `O(T · nodes · nnz(P))`, with a node for each distinct prefix and suffix; three products a step with the gradient.
    """

    @one_blas_thread
    def __init__(
        self,
        chain: Chain,
        strings: Strings | Int[np.ndarray, "k T+1"],
        *,
        gradient: bool,
        memory_bytes: int,
        clock: Clock = UNLIMITED,
        apart: bool = False,
    ):
        hidden = chain.hidden
        assert hidden.written is not None
        index = np.arange(len(strings))
        if isinstance(strings, Strings):
            self.strings = strings
        else:
            self.strings, index = hidden.written.strings(strings).distinct()
        self.slopes, self.label = Slopes(chain) if gradient else None, hidden.label
        before, last = self.strings.prefixes, last_reading(chain)
        prefixes = StringSide(chain, before, last, self.slopes)
        kept = {"memory_bytes": memory_bytes // 2, "keep": gradient, "clock": clock}
        self._reader = None
        if hidden.each is not None:  # what was written up to a time depends on when, so that equal strings differ
            assert isinstance(strings, np.ndarray)
            letters = hidden.written.letters_until(strings)
            nodes = [before.node[index, letters[:, time]] for time in range(last + 1)]
            self._reader = PrefixReader(chain, nodes)
            self._forward = Sweep(prefixes, **kept, reader=self._reader)
            logs, every = self._forward.logs[nodes[last]], np.arange(len(index))
            self.result = Posteriors(logs, self._reader.posterior, np.ones(len(index)), every)
            return
        after = self.strings.suffixes
        suffixes = StringSide(chain, after, hidden.horizon - hidden.split_time, self.slopes, backward=True)
        self._forward, self._backward = Sweep(prefixes, **kept), Sweep(suffixes, **kept)
        self._nodes = before.node, after.node
        joint, top = self._meet()
        self._total, self._top = joint.sum(axis=1), top
        likelihood, posterior = top + natural_log(self._total), joint * inverse(self._total)[:, None]
        self._apart = index if apart else None
        if apart:
            likelihood, posterior, index = likelihood[index], posterior[index], np.arange(len(index))
        count = np.bincount(index, minlength=len(posterior)).astype(float)
        self.result = Posteriors(likelihood, posterior, count, index)

    def _cuts(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """For each number of letters before the time of the secret: strings, their prefixes and their suffixes."""
        length, (before, after) = self.strings.length, self._nodes
        sizes = len(self._forward.leaves), len(self._backward.leaves)
        for letters in range(before.shape[1]):
            string = np.flatnonzero(length >= letters)
            prefix, suffix = before[string, letters], after[string, length[string] - letters]
            fits = (prefix < sizes[0]) & (suffix < sizes[1])
            if fits.any():
                yield string[fits], prefix[fits], suffix[fits]

    def _meet(self) -> tuple[Float[np.ndarray, "i Z"], Float[np.ndarray, " i"]]:
        """`P(z,w)` up to a scale, and the logarithm of that."""
        parts = []
        top = np.full(len(self.strings), -np.inf)
        for string, prefix, suffix in self._cuts():
            both = self._forward.leaves[prefix] * self._backward.leaves[suffix]
            scale = both.sum(axis=1)
            logs = self._forward.logs[prefix] + self._backward.logs[suffix] + natural_log(scale)
            top[string] = np.maximum(top[string], logs)
            parts.append((string, logs, (both @ self.label) * inverse(scale)[:, None]))
        joint = np.zeros((len(self.strings), self.label.shape[1]))
        for string, logs, rows in parts:
            joint[string] += rows * ratio(logs, top[string])[:, None]
        return joint, top

    @one_blas_thread
    def pull_back(self, slope: Float[np.ndarray, "i *R Z"]) -> Float[np.ndarray, "T C A"]:
        """The gradient in the policy's table from `P(w) · ∂/∂P(z,w)` of each string; it can be called once."""
        assert self.slopes is not None
        if self._reader is not None:
            self._reader.start(slope)
            self._forward.pull_back()
            return self._reader.finish(self.slopes.table())
        if self._apart is not None:
            slope = _sums(self._apart, slope, len(self.strings))
        spread = (slope @ self.label.T) * inverse(self._total)[:, None]
        alpha, beta = np.zeros_like(self._forward.leaves), np.zeros_like(self._backward.leaves)
        for string, prefix, suffix in self._cuts():
            logs = self._forward.logs[prefix] + self._backward.logs[suffix]
            inside = spread[string] * ratio(logs, self._top[string])[:, None]
            alpha += _sums(prefix, inside * self._backward.leaves[suffix], len(alpha))
            beta += _sums(suffix, inside * self._forward.leaves[prefix], len(beta))
        self._forward.pull_back(alpha)
        self._backward.pull_back(beta)
        return self.slopes.table()


def _sums(target: Int[np.ndarray, " k"], rows: Float[np.ndarray, "k N"], size: int) -> Float[np.ndarray, "m N"]:
    """The sums of the rows of each target."""
    return sp.csr_array((np.ones(len(target)), (target, np.arange(len(target)))), shape=(size, len(target))) @ rows
