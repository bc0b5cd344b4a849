"""What the observer believes of the secret after each event of many given sequences, in one pass forward."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from ..common.logs import posteriors
from .chain import Chain
from .sequences import Trie, TrieSide
from .strings import StringSide
from .written import StringTrie


def posteriors_over_time(chain: Chain, events: Int[np.ndarray, "n T+1"]) -> Iterator[Float[np.ndarray, "n Z"]]:
    """`P(z | o_0 … o_t)` of each sequence, for t = 0 … T in turn: a forecast before the secret's time, knowledge after.

    For an observer without a clock it is `P(z | w_t)`, with `w_t` the string of what was written up to time t: what the
    observer would believe if the run were watched up to time t only.

    A sequence that the chain makes impossible has rows of zeros from its first impossible event on. Sequences that begin
    alike share their messages. From the secret's time on there is one message for each of its values.

    Cost: `O(T · n · nnz(P))` at most, times Z after the secret's time; memory `O(n · Z · N)`.
    """
    for time, (messages, node) in enumerate(_messages(chain, events)):
        seen = time >= chain.hidden.split_time
        joint = messages.sum(axis=2) if seen else messages[:, 0] @ chain.forecasts[time]
        yield posteriors(joint)[node]


def beliefs_over_time(chain: Chain, events: Int[np.ndarray, "n T+1"]) -> Iterator[Float[np.ndarray, "n N"]]:
    """`P(x_t | o_0 … o_t)` of each sequence over hidden states, for t = 0 … T in turn; see `posteriors_over_time`."""
    for messages, node in _messages(chain, events):
        yield posteriors(messages.sum(axis=1))[node]


def _messages(
    chain: Chain, events: Int[np.ndarray, "k T+1"]
) -> Iterator[tuple[Float[np.ndarray, "n V N"], Int[np.ndarray, " k"]]]:
    """For each time the messages of all histories up to it, `(nodes, 1 or Z, N)`, and the node of each sequence.

    For an observer without a clock a node is a string.
    """
    hidden, written = chain.hidden, chain.hidden.written
    if written is None:
        trie = Trie.of(events)
        side, nodes = TrieSide(chain, trie), trie.nodes()
    else:
        strings, index = written.strings(events).distinct()
        side = StringSide(chain, StringTrie(strings), hidden.horizon)
        nodes = [side.trie.node[index, letters] for letters in written.letters_until(events).T]
    for time, (messages, _) in enumerate(side.walk(hidden.split_time)):
        yield messages, nodes[time]
