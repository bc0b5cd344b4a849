"""How a solver evaluates the loss of an observer who may be wrong: a fixed cost for each pair of secret and observations.

The observer's rule q does not depend on the policy that acts, so that `E[−log2 q(Z|Y)] = Σ P(z,y) c(z,y)` is linear in the
joint table, hence in the occupancies of histories; within a class of tables it is a polynomial, whose gradient is exact.
"""

import numpy as np
from jaxtyping import Bool, Float

from ..common.clock import Clock
from ..common.errors import TooLargeError
from ..engine.batch import BatchTree
from ..engine.size import tree_size
from ..engine.string_walk import StringBatch
from ..measure.loss import Rule
from ..problem.belief import Belief
from .policy_class import Space, all_strings, any_table
from .sampled_values import ruled_out

_BATCH_NUMBERS = 2**24  # of the joint table of one policy: 128 MiB
_SECONDS = 10.0  # of a gradient over all strings

Slopes = Float[np.ndarray, "B T C A"]


def _tree(space: Space) -> BatchTree | StringBatch:
    """All sequences, or all strings of an observer without a clock."""
    hidden, count = space.hidden, "those"
    if hidden.written is not None:
        strings = all_strings(space, _SECONDS, None)
        if strings is not None and strings.cost_seconds <= _SECONDS:
            return strings
    elif not hidden.kernel.is_sparse:
        size = tree_size(space.chain(any_table(space)))
        if size.exact and size.num_sequences * hidden.label.shape[1] <= _BATCH_NUMBERS:
            return BatchTree(hidden, space.available, stationary=space.stationary)
        count = size.text()
    raise TooLargeError(
        f"the loss of an observer who may be wrong is evaluated on all sequences, and {count} over"
        f" {hidden.num_states:,} hidden states are too many: use evaluation='sampled', or shorten the horizon"
    )


class LossSecrecy:
    """The loss of an observer, over all sequences, for all policies side by side.

    **Raises:** `InputError` where the observer would rule out what some policy brings about, so that the loss has no largest
    value; `TooLargeError`.
    """

    kind = "exact"

    def __init__(self, space: Space, belief: Belief):
        self._tree = _tree(space)
        costs = Rule(space.problem, belief).costs_bits(self._tree.events())
        possible = self._possible(any_table(space))
        if np.isinf(costs[possible]).any():
            raise ruled_out()
        self._costs = np.where(possible, costs, 0.0)
        self.reason = f"all {self._tree.num_sequences:,.0f} possible sequences, policies side by side"
        self.at_once, self.cost_seconds = self._tree.at_once, self._tree.cost_seconds

    def _possible(self, table: Float[np.ndarray, "T C A"]) -> Bool[np.ndarray, "Y Z"]:
        """Which pairs of observations and secret have a positive probability under a table that takes every action."""
        found: list[np.ndarray] = []

        def note(joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found.append(joint[0] > 0)
            return np.zeros(len(joint)), np.zeros(joint.shape)

        self._tree.evaluate(table[None], note)
        return found[0]

    def _measure(self, joint: Float[np.ndarray, "B Y Z"]) -> tuple[np.ndarray, np.ndarray]:
        return np.einsum("byz,yz->b", joint, self._costs), np.broadcast_to(self._costs, joint.shape)

    def __call__(self, tables: Slopes, clock: Clock) -> tuple[np.ndarray, Slopes]:
        """See `planning.values.Secrecy`."""
        return self._tree.evaluate(tables, self._measure, clock)
