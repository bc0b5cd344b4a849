"""What the observer believes of the secret after each event of many given sequences, in one pass forward."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from ..common.logs import posteriors
from .chain import Chain
from .sequences import Trie, inverse
from .step import Step
from .threads import one_blas_thread


def posteriors_over_time(chain: Chain, events: Int[np.ndarray, "n T+1"]) -> Iterator[Float[np.ndarray, "n Z"]]:
    """`P(z | o_0 … o_t)` of each sequence, for t = 0 … T in turn: a forecast before the secret's time, knowledge after.

    A sequence that the chain makes impossible has rows of zeros from its first impossible event on. Sequences that begin
    alike share their messages. From the secret's time on there is one message for each of its values.

    Cost: `O(T · n · nnz(P))` at most, times Z after the secret's time; memory `O(n · Z · N)`.
    """
    trie, hidden = Trie.of(events), chain.hidden
    nodes = _nodes(trie)
    messages = hidden.root[:, trie.event[0]].T[:, None]  # (nodes, 1 or Z, N)
    for time in range(hidden.horizon + 1):
        if time:
            messages = one_blas_thread(Step.of(chain, time - 1).forward)(messages, trie.level(time))
        messages = messages * inverse(messages.sum(axis=(1, 2)))[:, None, None]
        if time == hidden.split_time:
            messages = messages * hidden.label.T
        seen = time >= hidden.split_time
        joint = messages.sum(axis=2) if seen else messages[:, 0] @ chain.forecasts[time]
        yield posteriors(joint)[nodes[time]]


def _nodes(trie: Trie) -> list[Int[np.ndarray, " n"]]:
    """For each level the node that each sequence passes."""
    nodes = [trie.leaf]
    for parent in trie.parent[:0:-1]:
        nodes.append(parent[nodes[-1]])
    return nodes[::-1]
