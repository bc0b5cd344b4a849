"""The walker's side of queries: its problem if the observer asks by a known policy, whose memory is a part of the state."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..common.checks import distinct
from ..common.errors import InputError
from ..engine.event_product import Key, with_events
from ..policy.history import HistoryPolicy
from ..policy.memories import Memory
from ..policy.policy import Policy
from ..policy.recall import recall
from ..policy.tabular import TablePolicy
from ..problem.observer import Observer
from ..problem.problem import Problem


def against(problem: Problem, asked: Problem, observer: Observer, policy: Policy) -> Problem:
    """The problem of a walker that is asked about by a known policy.

    **Arguments:** `asked`: the problem of the querying observer; `observer`: its observer over the states of `problem`;
    `policy`: acts in `asked`.
    """
    if isinstance(problem.agent_sees, str) and problem.agent_sees != "state":
        raise InputError(
            "problem",
            [f"agent_sees is {problem.agent_sees!r}: the walker does not receive the answers, expected 'state'"],
        )
    policy = policy.on(asked)
    policy.check(asked)
    asker = _Nodes(policy, asked) if isinstance(policy, HistoryPolicy) else _Rows.of(policy, asked)
    size, queries = observer.num_observations, asked.model.actions.all()
    kinds = [divmod(event, size) for event in range(size * len(queries))]
    names = list(distinct([f"{queries[query]}: {observer.observations[answer]}" for query, answer in kinds]))
    return with_events(problem, asker, observer, lambda table: Observer(table, names))


@dataclass(frozen=True)
class _Rows:
    """A policy given by a table: its key is the newest reading and what it remembers."""

    table: Float[np.ndarray, "T C A"]
    timed: bool
    asked: Problem
    memory: Memory | None

    @classmethod
    def of(cls, policy: Policy, asked: Problem) -> "_Rows":
        """The rows of a policy, which fits the problem."""
        if not isinstance(policy, TablePolicy):
            raise InputError("policy", [f"it is a {type(policy).__name__}, expected a table or a history policy"])
        memory = policy.memory if isinstance(policy.memory, Memory) else None
        return cls(policy.table, policy.timed, asked, memory)

    def begin(self) -> Key:
        """See `Follower`."""
        reading, state, event = self.asked.reading, np.zeros(1, dtype=int), np.full(1, -1)  # nothing is shown yet
        assert reading is not None
        memory = 0 if self.memory is None else int(recall(self.asked, self.memory).register.start(state, event)[0])
        return int(reading.start(state, event)[0]), memory

    def choices(self, time: int, key: Key) -> Iterator[tuple[float, int, int]]:
        """See `Follower`; where the table has no row, since no answer led there, it asks nothing."""
        row, nodes = key[0], 1
        if self.memory is not None:
            rows = recall(self.asked, self.memory)
            found, nodes = rows.find_row(*key), rows.register.nodes
            if found is None:
                yield 1.0, self.asked.num_actions - 1, 0
                return
            row = found
        chances = self.table[time if self.timed else 0, row]
        for choice in np.flatnonzero(chances).tolist():
            yield float(chances[choice]), *divmod(choice, nodes)

    def step(self, time: int, key: Key, event: int, node: int) -> Key:
        """See `Follower`."""
        if self.memory is None:
            return event, 0
        register, none = recall(self.asked, self.memory).register, np.zeros(1, dtype=int)
        if register.nodes > 1:
            return event, node
        return event, int(register.step(np.array([key[1]]), none, none, np.array([event]))[0])


class _Nodes:
    """A history policy: its key is the node of its graph."""

    timed = True

    def __init__(self, policy: HistoryPolicy, asked: Problem):
        self.policy, self.asked = policy, asked
        if not all(rows.by_node for rows in policy.decisions):
            raise InputError("policy", ["it acts on states, which the querying observer does not see"])

    def begin(self) -> Key:
        """See `Follower`."""
        return (int(self.policy.first[0]),)

    def choices(self, time: int, key: Key) -> Iterator[tuple[float, int, int]]:
        """See `Follower`."""
        rows = self.policy.decisions[time]
        place = int(np.searchsorted(rows.node, key[0]))
        if place == len(rows) or rows.node[place] != key[0]:
            yield 1.0, self.asked.num_actions - 1, 0
            return
        for action in np.flatnonzero(rows.probabilities[place]).tolist():
            yield float(rows.probabilities[place, action]), action, 0

    def step(self, time: int, key: Key, event: int, node: int) -> Key:
        """See `Follower`."""
        return (int(self.policy.following[time][key[0], event]),)
