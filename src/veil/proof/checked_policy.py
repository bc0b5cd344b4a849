"""A policy as its arrays say, for the verifier: what it remembers, and what it chooses.

The verifier relies on the policy room for two things only: the numbers that stand for memories, and the order of a table's
rows. What a policy's arrays hold is read, checked and looked up here once more.
"""

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Float, Int

from ..common.errors import CertificateError
from ..policy.history import HistoryPolicy
from ..policy.memories import Memory
from ..policy.policy import Policy
from ..policy.recall import recall
from ..policy.tabular import TablePolicy
from .arithmetic import group, require
from .checked_problem import CheckedProblem

Numbers = Int[np.ndarray, " n"]


class CheckedPolicy(ABC):
    """A policy in a problem: its memory at first and after a step, and its choices.

    `nodes` is how many next memories it chooses among together with the action; `stationary`: whether it acts alike at
    all times, and so goes on after the horizon; `knows_model`: whether it can go on optimally in every model;
    `used_value`: the last time at which the value of the secret told choices apart.
    """

    nodes = 1
    stationary = False
    knows_model = True
    used_value = -1

    def __init__(self, problem: CheckedProblem):
        self.problem = problem

    @abstractmethod
    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, event: Numbers) -> Numbers:
        """The memory on reaching y at a time, after `before` in x; at time 0 neither is read."""

    @abstractmethod
    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        """The table of a decision, and the row of it in each situation."""

    def choices(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> Float[np.ndarray, "n A"]:
        """The probabilities of the actions, or of the pairs (action, next node), in each situation."""
        table, place = self.row(time, memory, x, z)
        chosen = np.asarray(table, dtype=np.float64)[place]
        require(np.isfinite(chosen) & (chosen >= 0), f"policy: a probability at time {time} is negative or not finite")
        taken = np.repeat(self.problem.available[x], self.nodes, axis=1) | (chosen == 0)
        require(taken, f"policy: it takes an action at time {time} that is not available")
        return chosen


def read_policy(problem: CheckedProblem, policy: Policy, *, since: float = np.inf) -> CheckedPolicy:
    """The agent of a policy; `since`: from which time on `used_value` is wanted.

    **Raises:** `CertificateError` where the policy is of no known kind or its sizes are not those of the problem.
    """
    policy = policy.on(problem.problem)
    if isinstance(policy, HistoryPolicy):
        return _CheckedHistory(problem, policy, since)
    if isinstance(policy, TablePolicy):
        return _CheckedTable(problem, policy)
    raise CertificateError(f"policy: it is a {type(policy).__name__}, which the verifier cannot read")


class _CheckedTable(CheckedPolicy):
    """A table over states, or over pairs (state, memory) in the policy's own numbering."""

    def __init__(self, problem: CheckedProblem, policy: TablePolicy):
        super().__init__(problem)
        self.table, self.stationary = policy.table, not policy.timed
        self.recall = recall(problem.problem, policy.memory) if isinstance(policy.memory, Memory) else None
        self.nodes = 1 if self.recall is None else self.recall.register.nodes
        given = problem.problem
        self.knows_model = given.agent.sees_state and (len(given.models) == 1 or given.agent.knows_model)
        self.states, self.reading = given.num_states, given.reading
        self.size = 1 if self.recall is None else self.recall.register.size
        acts = policy.reads(given) and problem.watched is not None and problem.pairs is not None
        self.heard = policy.heard(problem.pairs) if acts and problem.pairs is not None else None
        self.begins = (given.agent.sees or given.observer).sees_first
        rows = given.num_cells if self.recall is None else self.recall.num_cells
        shape = (1 if self.stationary else problem.horizon, rows, problem.actions * self.nodes)
        require(self.table.shape == shape, f"policy: its table has shape {self.table.shape}, expected {shape}")

    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, event: Numbers) -> Numbers:
        state = self.problem.given_x(y) % self.states
        if self.heard is not None:
            event = self.heard[time > 0][event]
        if not time and not self.begins:
            event = np.full_like(event, -1)
        found = np.zeros_like(state)
        if self.reading is not None:
            found = self.reading.step(found, found, state, event) if time else self.reading.start(state, event)
        return found if self.recall is None else found * self.size + self._remembered(time, before, x, state, event)

    def _remembered(self, time: int, before: Numbers, x: Numbers, state: Numbers, event: Numbers) -> Numbers:
        """The value of the memory's register, beside the newest reading."""
        assert self.recall is not None
        register = self.recall.register
        if time == 0:
            return register.start(state, event)
        if register.nodes > 1:  # which the policy chose
            return before
        return register.step(before % self.size, self.problem.given_x(x) % self.states, state, event)

    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        table = self.table[0 if self.stationary else time]
        given, (behind, state) = self.problem.problem, np.divmod(self.problem.given_x(x), self.states)
        reading, held = np.divmod(memory, self.size)
        seen = () if self.reading is None else (reading,)
        wanted = given.row_of(*np.divmod(behind, given.channels[0].known.shape[1]), state, *seen)
        if self.recall is None:
            return table, wanted
        return table, _found(self.recall.rows[0], wanted * self.size + held, time)


class _CheckedHistory(CheckedPolicy):
    """Decisions on a graph of histories."""

    def __init__(self, problem: CheckedProblem, policy: HistoryPolicy, since: float):
        super().__init__(problem)
        self.policy, self.since = policy, since
        given = problem.problem
        self.size = len(given.models) * len(given.secret_table.memory_step) * given.num_states
        self.heard = None if problem.watched is None or problem.pairs is None else policy.heard(problem.pairs)
        require(self.heard is not None or not policy.views, "policy: it acts on what several observers see")
        steps = len(policy.decisions) == len(policy.following) == problem.horizon
        require(steps, "policy: its decisions are not one for each step")
        for time, rows in enumerate(policy.decisions):
            low, high = (-1, 0) if time < problem.secret_time else (0, problem.values)
            inside = (rows.situation >= 0) & (rows.situation < self.size) & (low <= rows.value) & (rows.value < high)
            require(inside, f"policy: a row at time {time} is for a situation or value that does not exist")

    def remembers(self, time: int, before: Numbers, x: Numbers, y: Numbers, event: Numbers) -> Numbers:
        policy = self.policy
        if self.heard is not None:
            event = self.heard[time > 0][event]
            require(event >= 0, f"policy: it does not know an event that it reaches at time {time}")
        node = policy.following[time - 1][before, event] if time else policy.first[event]
        if policy.told is not None and time == policy.told_at:
            node = np.where(node >= 0, policy.told[node, self.problem.given_x(y)], -1)
        require(node >= 0, f"policy: it has no node for something that it reaches at time {time}")
        return node.astype(np.int64)

    def row(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> tuple[Float[np.ndarray, "k A"], Numbers]:
        rows, is_open = self.policy.decisions[time], time < self.problem.secret_time
        here = self.problem.given_x(x)
        codes, wanted = (
            (node.astype(np.int64) * self.size + situation) * (self.problem.values + 1) + value + 1
            for node, situation, value in ((rows.node, rows.situation, rows.value), (memory, here, z - is_open))
        )
        return rows.probabilities, _found(codes, wanted, time)

    def choices(self, time: int, memory: Numbers, x: Numbers, z: Numbers) -> Float[np.ndarray, "n A"]:
        chosen = super().choices(time, memory, x, z)
        if time >= self.since:
            index, number = group(memory, x)
            self.used_value = self.used_value if (chosen == chosen[index[number]]).all() else time
        return chosen


def _found(codes: Numbers, wanted: Numbers, time: int) -> Numbers:
    """The place of each wanted code among codes that must increase strictly, so that no two rows stand for one."""
    require(np.diff(codes) > 0, f"policy: the rows at time {time} are out of order, or two are for the same situation")
    place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    require(
        len(codes) > 0 and codes[place] == wanted,
        f"policy: it has no row for a situation that it reaches at time {time}",
    )
    return place
