"""The reference of all passes: messages along one given sequence of events, scaled, with exact zeros."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from veil.common.logs import natural_log
from veil.engine.chain import Chain


def first_message(chain: Chain, event: int) -> Float[np.ndarray, " N"]:
    """`α_0(x) = μ_0(x) b_x(o_0)`, not scaled."""
    return chain.hidden.root[:, event]


def next_messages(chain: Chain, rows: Float[np.ndarray, "*n N"], event: int, time: int) -> Float[np.ndarray, "*n N"]:
    """`α_{t+1}(x') = Σ_c Σ_x α_t(x) K_t^c(x,x') B_c(x',e)`, not scaled: one step for an event at time + 1."""
    result = np.zeros_like(rows)
    for matrix, emitter in zip(chain.matrices(time), chain.hidden.emitters, strict=True):
        emission = emitter.emission[:, event]
        if emission.any():
            result += (rows @ matrix) * emission
    return result


def forward(chain: Chain, events: Sequence[int]) -> tuple[Float[np.ndarray, "T+1 N"], float]:
    """The beliefs `P(x_t | o_0 … o_t)` and the natural logarithm of the probability of the sequence.

    **Arguments:** `events`: T+1 events, the first being that of time 0 (0 where nothing is received then).

    Cost: `O(T · nnz(P))`. From the first impossible event on, all beliefs are zero and the logarithm is -inf.
    """
    beliefs = np.zeros((len(events), chain.hidden.num_states))
    scales = np.zeros(len(events))
    row = first_message(chain, events[0])
    for time in range(len(events)):
        if time:
            row = next_messages(chain, beliefs[time - 1], events[time], time - 1)
        scales[time] = row.sum()
        if scales[time] == 0:
            break
        beliefs[time] = row / scales[time]
    return beliefs, float(natural_log(scales).sum())


def backward(chain: Chain, events: Sequence[int]) -> tuple[Float[np.ndarray, "T+1 N"], Float[np.ndarray, " T+1"]]:
    """Scaled `β_t(x) ∝ P(o_{t+1} … o_T | x_t = x)` and the natural logarithm of each row's scale.

    `β_T = 1`; each row is divided by its largest entry. `P(x_0 = x, y) = root(x, o_0) · exp(scale_0) · β_0(x)`.
    """
    hidden = chain.hidden
    last = len(events) - 1
    messages = np.zeros((len(events), hidden.num_states))
    scales = np.full(len(events), -np.inf)
    messages[last], scales[last] = 1.0, 0.0
    for time in range(last - 1, -1, -1):
        row = np.zeros(hidden.num_states)
        for matrix, emitter in zip(chain.matrices(time), hidden.emitters, strict=True):
            row += matrix @ (emitter.emission[:, events[time + 1]] * messages[time + 1])
        top = row.max()
        if top == 0:
            break
        messages[time] = row / top
        scales[time] = scales[time + 1] + natural_log(np.array(top))
    return messages, scales
