"""A policy as its arrays say, for the verifier: what it remembers, and what it chooses.

The numbers that stand for memories and the order of a table's rows come from the policy room, which defines what a policy
is and plays it; nothing else does.
"""

from typing import Any

import numpy as np

from ..policy.recall import recall
from .world import World, demand, group


class Agent:
    """A policy as its arrays say: what it remembers at first and after a step, and what it chooses."""

    def __init__(self, world: World, policy: Any, *, since: float = np.inf):
        self.since, self.used_value = since, -1  # the last time, from `since` on, at which the value told choices apart
        self.world, self.policy, self.on_graph = world, policy, hasattr(policy, "decisions")
        memory = getattr(policy, "memory", None)
        self.recall = None if memory is None else recall(world.problem, memory)  # the policy's own numbering of rows
        self.nodes = 1 if self.recall is None else self.recall.record.nodes
        self.stationary = not getattr(policy, "timed", False)
        if self.on_graph:
            demand(len(policy.decisions) == len(policy.following) == world.horizon, "policy: not one decision a step")
        else:
            rows = world.problem.num_cells if self.recall is None else self.recall.num_cells
            shape = (1 if self.stationary else world.horizon, rows, world.actions * self.nodes)
            demand(policy.table.shape == shape, f"policy: its table has shape {policy.table.shape}, expected {shape}")

    def remembers(self, time: int, before: Any, x: Any, y: np.ndarray, event: np.ndarray) -> np.ndarray:
        """The memory on reaching y at a time, after `before` in x; at time 0 there is no before."""
        if self.on_graph:
            node = self.policy.following[time - 1][before, event] if time else self.policy.first[event]
            node = np.where(node >= 0, self.policy.told[node, y], -1) if time == self.policy.told_at else node
            demand(node >= 0, f"policy: it has no node for something that it reaches at time {time}")
            return node.astype(np.int64)
        if self.recall is None:
            return np.zeros_like(y)
        state, record = y % self.world.states, self.recall.record
        if time:
            return record.following(before, x % self.world.states, state, event)
        return record.first(state, event if self.world.problem.observer.sees_first else np.full_like(event, -1))

    def choices(self, time: int, memory: np.ndarray, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The probabilities of the actions, or of the pairs (action, next node), in each row."""
        world = self.world
        if self.on_graph:
            rows, open_still = self.policy.decisions[time], time < world.problem.secret_table.time
            codes, wanted = (
                (node.astype(np.int64) * world.size + situation) * (world.values + 1) + value + 1
                for node, situation, value in ((rows.node, rows.situation, rows.value), (memory, x, z - open_still))
            )
            table = rows.probabilities
        else:
            table = self.policy.table[0 if self.stationary else time]
            wanted = x if world.problem.secret_table.agent_knows else x % world.states
            codes = np.arange(len(table))
            if self.recall is not None:
                codes, wanted = self.recall.rows[0], wanted * self.recall.record.size + memory
        order = np.argsort(codes, kind="stable")
        place = order[np.minimum(np.searchsorted(codes, wanted, sorter=order), len(codes) - 1)]
        demand(codes[place] == wanted, f"policy: it has no row for a situation that it reaches at time {time}")
        chosen = np.asarray(table, dtype=np.float64)[place]
        demand(np.isfinite(chosen) & (chosen >= 0), f"policy: a probability at time {time} is negative or not finite")
        taken = np.repeat(world.available[x], self.nodes, axis=1) | (chosen == 0)
        demand(taken, f"policy: it takes an action at time {time} that is not available")
        if self.on_graph and time >= self.since:
            index, number = group(memory, x)
            self.used_value = self.used_value if (chosen == chosen[index[number]]).all() else time
        return chosen
