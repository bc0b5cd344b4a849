"""Acting like a policy with less memory: each row takes over the row of what the smaller memory would hold."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

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
        lifted = _with_nodes(table[:, cell], target.register.choices(held))
    else:
        source = recall(problem, smaller)
        row = np.searchsorted(source.rows[0], cell * source.register.size + _coarser(held, source, target))
        lifted = _with_more_nodes(table[:, row], source.register.nodes, target.register.choices(held))
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


def mixed_table(
    problem: Problem, memory: Memory, tables: Sequence[Float[np.ndarray, "T C A"]], weights: Sequence[float]
) -> Float[np.ndarray, "t c a"]:
    """The table with a `Mixture` whose coin chooses each of some tables of policies without memory with its weight."""
    target = recall(problem, memory)
    cell, held = np.divmod(target.rows[0], target.register.size)
    found = np.zeros((len(tables[0]), len(cell), problem.num_actions, target.register.nodes))
    for number, (table, weight) in enumerate(zip(tables, weights, strict=True), 1):
        found[..., number] = table[:, cell] * np.where(held == 0, weight, held == number)[:, None]
    return found.reshape(*found.shape[:2], -1)


def _with_nodes(table: Float[np.ndarray, "T C A"], open_: Bool[np.ndarray, "C n"]) -> Float[np.ndarray, "T C a"]:
    """The same actions with any next node: each of those that may be chosen with the same probability."""
    if open_.shape[1] == 1:
        return table
    wide = table[..., None] * (open_ / open_.sum(axis=1, keepdims=True))[:, None]
    return wide.reshape(*table.shape[:2], -1)


def _with_more_nodes(
    table: Float[np.ndarray, "T C A"], before: int, open_: Bool[np.ndarray, "C n"]
) -> Float[np.ndarray, "T C a"]:
    """The same choices among pairs (action, next node) where there are more nodes; where one alone may be chosen, that one."""
    steps, rows, pairs = table.shape
    given = table.reshape(steps, rows, pairs // before, before)
    wide = np.zeros((*given.shape[:3], open_.shape[1]))
    wide[..., :before] = given
    forced = open_.sum(axis=1) == 1
    wide[:, forced] = given[:, forced].sum(axis=-1, keepdims=True) * open_[forced][:, None]
    return wide.reshape(steps, rows, -1)
