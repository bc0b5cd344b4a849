"""What the observer believes of the secret after each event of many given sequences, in one pass forward."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int

from ..common.logs import natural_log, posteriors
from .chain import Chain
from .sequences import Trie, inverse
from .step import Step
from .strings import Prefixes
from .threads import one_blas_thread
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


def _messages(chain: Chain, events: Int[np.ndarray, "n T+1"]) -> "Messages":
    return _forward(chain, events) if chain.written is None else _written(chain, events)


Messages = Iterator[tuple[Float[np.ndarray, "n V N"], Int[np.ndarray, " k"]]]


def _forward(chain: Chain, events: Int[np.ndarray, "k T+1"]) -> Messages:
    """For each time the messages of all histories up to it, `(nodes, 1 or Z, N)`, and the node of each sequence."""
    trie, hidden = Trie.of(events), chain.hidden
    nodes = trie.nodes()
    messages = hidden.root[:, trie.event[0]].T[:, None]
    for time in range(hidden.horizon + 1):
        if time:
            messages = one_blas_thread(Step.of(chain, time - 1).forward)(messages, trie.level(time))
        messages = messages * inverse(messages.sum(axis=(1, 2)))[:, None, None]
        if time == hidden.split_time:
            messages = messages * hidden.label.T
        yield messages, nodes[time]


def _written(chain: Chain, events: Int[np.ndarray, "k T+1"]) -> Messages:
    """The same for the strings of an observer without a clock: a node is a string."""
    hidden, written = chain.hidden, chain.hidden.written
    assert written is not None
    strings, index = written.strings(events).distinct()
    trie = StringTrie(strings)
    prefixes = Prefixes(chain, trie, hidden.horizon)
    letters = written.letters_until(events)
    messages, scale = prefixes.root()
    messages, logs = messages[:, None], natural_log(scale)
    for time in range(hidden.horizon + 1):
        if time:
            messages, logs, _ = one_blas_thread(prefixes.expand)(messages, logs, time - 1)
        if time == hidden.split_time:
            messages = messages * hidden.label.T
        yield messages, trie.node[index, letters[:, time]]
