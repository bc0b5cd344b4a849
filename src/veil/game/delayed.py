"""The game of an agent that learns each observation one step late: its choice at time t does not depend on `o_t`.

Every policy that does not see the observations is among these: stationary and time-dependent ones, and all that remember
their own past states. What a policy does given its state and what the observer saw up to `t − 1` determines the law of
`(x_t, o_{0:t−1})`, and so the opacity; hence the best of them is a game on the pairs (node before the observation, x), with
the observer's memory unchanged. Its value lies between that of policies that do not see the observations and that of all.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from ..common.clock import UNLIMITED, Clock, Pace
from ..common.errors import TooLargeError
from ..engine.hidden import Emitter
from ..engine.moves import Layer, Moves, labelled
from .pairs import DEFAULT_MEMORY, Pairs

_BYTES_A_PRODUCT = 40  # of an entry of a step, while it is made and with its flows
_SECONDS_A_PRODUCT = 1e-7  # to make one: measured on one core


def delayed_pairs(pairs: Pairs, clock: Clock = UNLIMITED, memory_bytes: int = DEFAULT_MEMORY) -> Pairs:
    """The pairs of a graph for an agent that learns each observation one step late.

    Layer t < T has the pairs (node after `o_{t−1}`, `x_t`); the last layer, where nothing is left to decide, is that of
    `pairs`, and so are graph, costs and joint tables. A step shows the observation of x, which leads to the next node,
    and moves to x'; the last one shows that of x' as well: `steps[t] = K_t M_t`, `steps[T−1] = K_{T−1} M_{T−1} K_T`.

    **Arguments:** `pairs`: of an observer that neither sees actions nor is told the state, and whose emissions do not depend
    on the action. Cost: linear in the moves between pairs; the clock is checked before each step.

    **Raises:** `TooLargeError` before a step is made that does not fit; `OutOfTime`.
    """
    hidden, actions = pairs.hidden, pairs.hidden.kernel.num_actions
    assert len(hidden.emitters) == 1, "observations must depend on the state alone"
    assert pairs.graph.told is None
    silent = Emitter(np.ones(actions, dtype=bool), sp.csr_array(np.ones((hidden.num_states, 1))))
    unseen = Moves.of(replace(hidden, emitters=(silent,)))
    begun = np.flatnonzero(hidden.start > 0)
    layer = labelled(hidden, 0, Layer(np.zeros_like(begun), begun, np.full(len(begun), -1)))
    first = sp.csr_array(hidden.root[begun] / hidden.start[begun, None])
    shown = _shown(pairs, 0, layer, pairs.graph.first[None], first)
    start, layers, steps, used, pace = hidden.start[begun], [], [], 0, Pace(clock, _SECONDS_A_PRODUCT)
    for time, table in enumerate(pairs.graph.following):
        layers.append(layer)
        stay = np.arange(pairs.graph.sizes[time])[:, None]
        if time > 1 and pairs.steps[time] is pairs.steps[time - 1] is pairs.steps[time - 2]:
            steps.append(steps[-1])
            continue
        # The moves of all actions from each pair that an observation leads to.
        count = int(unseen.degree.sum(axis=0)[pairs.layers[time].x[shown.indices]].sum())
        used += _BYTES_A_PRODUCT * count
        if used > memory_bytes:
            raise TooLargeError(
                f"the game of an agent that learns observations late needs more than {used / 2**30:.2g} GiB at step {time + 1}"
                f" of {hidden.horizon}, and the budget is {memory_bytes / 2**30:.2g} GiB: memory_bytes=…"
            )
        with pace.step(count):
            layer, moved = unseen.advance(hidden, time, pairs.layers[time], stay)
            steps.append(sp.csr_array(sp.kron(sp.eye_array(actions), shown, format="csr") @ moved))
        emitted = sp.csr_array(hidden.emitters[0].table[layer.x])
        shown = _shown(pairs, time + 1, layer, table, emitted)
    if steps:
        steps[-1] = sp.csr_array(steps[-1] @ shown)
    else:
        start = start @ shown
    return Pairs(hidden, pairs.graph, start, (*layers, pairs.layers[-1]), tuple(steps))


def _shown(
    pairs: Pairs, time: int, before: Layer, table: Int[np.ndarray, "n E"], emitted: sp.csr_array
) -> sp.csr_array:
    """`b(e|x)` from each pair (node before, x), which has a row of `emitted`, to the pair (node after, x) of a time."""
    entries = sp.coo_array(emitted)
    row, node = entries.row, table[before.node[entries.row], entries.col]
    place = np.searchsorted(pairs.keys(time), pairs.keys_of(Layer(node, before.x[row], before.z[row])))
    return sp.csr_array(sp.coo_array((entries.data, (row, place)), shape=(len(before), len(pairs.layers[time]))))
