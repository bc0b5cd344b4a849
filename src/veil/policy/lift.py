"""Acting like a policy with less memory: each row takes over the row of what the smaller memory would hold."""

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import InputError
from ..problem.problem import Problem
from .memories import Memory
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
    cell, held = np.divmod(target.rows[0], target.register.size)
    if not isinstance(smaller, Memory):
        lifted = table[:, cell]
        if target.register.nodes > 1:
            lifted = np.repeat(lifted, target.register.nodes, axis=2) / target.register.nodes
    else:
        source = recall(problem, smaller)
        row = np.searchsorted(source.rows[0], cell * source.register.size + _coarser(held, source, target))
        lifted = _with_more_nodes(table[:, row], source.register.nodes, target.register.nodes)
    return np.tile(lifted, (problem.horizon, 1, 1)) if memory.clock and not policy.timed else lifted


def _coarser(held: Int[np.ndarray, " C"], source: Recall, target: Recall) -> Int[np.ndarray, " C"]:
    """What the source's memory holds if the target's holds `held`."""
    small, large = source.memory, target.memory
    found = target.register.coarser(held, source.register)
    if found is None and small.content() | {"clock": large.clock} == large.content():
        return held
    if found is None:
        raise InputError("policy", [f"it has {small.name}, which {large.name} does not determine: use a larger memory"])
    return found


def _with_more_nodes(table: Float[np.ndarray, "T C A"], before: int, after: int) -> Float[np.ndarray, "T C a"]:
    """The same choices among pairs (action, next node) where there are more nodes to choose from."""
    if before == after:
        return table
    steps, rows, pairs = table.shape
    wide = np.zeros((steps, rows, pairs // before, after))
    wide[..., :before] = table.reshape(steps, rows, pairs // before, before)
    return wide.reshape(steps, rows, -1)
