"""Acting like a policy with less memory: each row takes over the row of what the smaller memory would hold."""

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..problem.problem import Problem
from .memories import Controller, Memory, ObservationMemory, StateMemory, ZoneMemory
from .policy import Policy
from .recall import Recall, recall
from .tabular import table_policy


def lifted_table(problem: Problem, memory: Memory, policy: Policy) -> Float[np.ndarray, "T C A"]:
    """The table `(T|1, C', A')` of the policy with this memory that acts like `policy`.

    **Raises:** `InputError` where the policy has no table or does not fit the problem, or where the memory does not
    determine what it depends on.
    """
    policy, target = table_policy(policy, problem), recall(problem, memory)
    policy.check(problem)
    table, smaller = policy.table, policy.memory
    if policy.timed and not memory.clock:
        raise InputError("policy", [f"it depends on the time, and {memory.name} does not hold it: use clock=True"])
    cell, held = np.divmod(target.rows[0], target.record.size)
    if not isinstance(smaller, Memory):
        lifted = table[:, cell]
        if target.record.nodes > 1:
            lifted = np.repeat(lifted, target.record.nodes, axis=2) / target.record.nodes
    else:
        source = recall(problem, smaller)
        row = np.searchsorted(source.rows[0], cell * source.record.size + _coarser(held, source, target))
        lifted = _with_more_nodes(table[:, row], source.record.nodes, target.record.nodes)
    return np.tile(lifted, (problem.horizon, 1, 1)) if memory.clock and not policy.timed else lifted


def _coarser(held: Int[np.ndarray, " C"], source: Recall, target: Recall) -> Int[np.ndarray, " C"]:
    """What the source's memory holds where the target's holds `held`."""
    small, large = source.memory, target.memory
    if isinstance(small, Controller) and isinstance(large, Controller) and small.nodes <= large.nodes:
        return held % small.nodes  # nodes beyond the source's are never entered; they act as copies
    if type(small) is type(large) and isinstance(small, ObservationMemory | StateMemory):
        length = large.k if isinstance(large, ObservationMemory | StateMemory) else 0
        # A window longer than the run is cut to its length, so that sizes can tell what k does not.
        if small.k <= length or source.record.size <= target.record.size:
            return held % source.record.size  # the newest digits
    if isinstance(small, ZoneMemory) and isinstance(large, ZoneMemory) and set(small.members) <= set(large.members):
        bits = [(held >> large.members.index(zone) & 1) << number for number, zone in enumerate(small.members)]
        return np.sum(bits, axis=0)
    raise InputError("policy", [f"it has {small.name}, which {large.name} does not determine: use a larger memory"])


def _with_more_nodes(table: Float[np.ndarray, "T C A"], before: int, after: int) -> Float[np.ndarray, "T C a"]:
    """The same choices among pairs (action, next node) where there are more nodes to choose from."""
    if before == after:
        return table
    steps, rows, pairs = table.shape
    wide = np.zeros((steps, rows, pairs // before, after))
    wide[..., :before] = table.reshape(steps, rows, pairs // before, before)
    return wide.reshape(steps, rows, -1)
