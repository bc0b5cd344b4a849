"""The walker's side of queries: its problem if the observer asks by a known policy, whose memory is a part of the state."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.checks import distinct
from ..common.errors import InputError, TooLargeError
from ..policy.history import HistoryPolicy
from ..policy.memories import Memory
from ..policy.policy import Policy
from ..policy.recall import recall
from ..policy.tabular import TablePolicy
from ..problem.lifted import Lift, lifted
from ..problem.model import Model
from ..problem.observer import Observer
from ..problem.problem import Problem
from .chain import sum_over

_MOST_TRANSITIONS = 2**25  # of the walker's problem: 400 MB
Key = tuple[int, ...]


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
    after = _Configurations(asker, observer, problem.horizon + 1)
    product = _Product(problem, after, observer)
    own = _observer(product, observer, asked.model.actions.all())
    same = np.arange(problem.num_actions)
    lift = Lift(
        product.state,
        same,
        product.model,
        own=lambda _: own,
        other=lambda one: one.over(product.state, same),
    )
    seeing = problem
    if problem.agent_sees == "state":
        eyes = Observer(sp.eye_array(problem.num_states, format="csr"), problem.model.states.all())
        seeing = problem.replace(agent_sees=eyes)
    return lifted(seeing, lift)


class _Asker(Protocol):
    """What a policy of queries remembers, as keys; `timed`: whether what it does depends on the time."""

    @property
    def timed(self) -> bool:
        """See above."""
        ...

    def begin(self) -> Key:
        """The key before the first query."""
        ...

    def choices(self, time: int, key: Key) -> Iterator[tuple[float, int, int]]:
        """Each choice: its probability, the query, and the next node of a controller."""
        ...

    def step(self, time: int, key: Key, event: int, node: int) -> Key:
        """The key after an event, a query with its answer."""
        ...


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
        """See `_Asker`."""
        reading, state, event = self.asked.reading, np.zeros(1, dtype=int), np.full(1, -1)  # nothing is shown yet
        assert reading is not None
        memory = 0 if self.memory is None else int(recall(self.asked, self.memory).register.start(state, event)[0])
        return int(reading.start(state, event)[0]), memory

    def choices(self, time: int, key: Key) -> Iterator[tuple[float, int, int]]:
        """See `_Asker`; where the table has no row, since no answer led there, it asks nothing."""
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
        """See `_Asker`."""
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
        for rows in policy.decisions:
            first = np.searchsorted(rows.node, rows.node)
            if not np.array_equal(rows.probabilities, rows.probabilities[first]):
                raise InputError("policy", ["it acts on states, which the querying observer does not see"])

    def begin(self) -> Key:
        """See `_Asker`."""
        return (int(self.policy.first[0]),)

    def choices(self, time: int, key: Key) -> Iterator[tuple[float, int, int]]:
        """See `_Asker`."""
        rows = self.policy.decisions[time]
        place = int(np.searchsorted(rows.node, key[0]))
        if place == len(rows) or rows.node[place] != key[0]:
            yield 1.0, self.asked.num_actions - 1, 0
            return
        for action in np.flatnonzero(rows.probabilities[place]).tolist():
            yield float(rows.probabilities[place, action]), action, 0

    def step(self, time: int, key: Key, event: int, node: int) -> Key:
        """See `_Asker`."""
        return (int(self.policy.following[time][key[0], event]),)


@dataclass
class _Configurations:
    """Every pair of a newest event and what the observer remembers after it, and the queries that lead on.

    `edges`: before, after, probability of the query, and its event; before the first query it is -1.
    """

    asker: _Asker
    observer: Observer
    queries: int
    event: list[int] = field(default_factory=list)
    edges: list[tuple[int, int, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = self.observer.num_observations
        shown = [np.unique(table.indices).tolist() for table in self.observer.matrices]
        numbers: dict[tuple[int, int, Key], int] = {}
        edge: list[tuple[int, Key]] = [(-1, self.asker.begin())]
        for time in range(self.queries):
            fresh: list[tuple[int, Key]] = []
            for number, key in edge:
                for chance, query, node in self.asker.choices(time, key):
                    for answer in shown[query]:
                        event = query * size + answer
                        after = self.asker.step(time, key, event, node)
                        place = time if self.asker.timed else 0, event, after
                        if place not in numbers:
                            numbers[place] = len(self.event)
                            self.event.append(event)
                            fresh.append((numbers[place], after))
                        self.edges.append((number, numbers[place], chance, event))
            edge = fresh
        self.edges += [(number, number, 1.0, -1) for number, _ in edge]  # whose steps no run takes in time


class _Product:
    """The states of a walker with the configurations of its observer, as far as some walker can reach them."""

    def __init__(self, problem: Problem, after: _Configurations, observer: Observer):
        self.problem, self.names = problem, after
        before, then, chance, event = map(np.array, zip(*after.edges, strict=True))
        emissions = np.stack([table.toarray() for table in observer.matrices])
        query, answer = np.divmod(np.maximum(event, 0), observer.num_observations)
        shown = np.where(event[:, None] < 0, 1.0, emissions[query, :, answer])
        first = before < 0
        weight = chance[:, None] * shown
        self._opening, self._edges = (then[first], weight[first]), (before[~first], then[~first], weight[~first])
        self._count = len(after.event)
        entries = sum(one.nnz for model in problem.models for one in model.matrices) * int((~first).sum())
        if entries > 4 * _MOST_TRANSITIONS:
            raise TooLargeError(
                f"the queries and the walker have {entries:,} transitions or more, expected at most"
                f" {4 * _MOST_TRANSITIONS:,}: let the observer remember less"
            )
        self.kept = self._reachable()
        self.state, self.configuration = np.divmod(self.kept, self._count)

    def _reachable(self) -> Int[np.ndarray, " N"]:
        models = self.problem.models
        total = sum_over(self._moved(sp.coo_array(one)) for model in models for one in model.matrices)
        reached = edge = np.any([self._initial(model.initial) > 0 for model in models], axis=0)
        for _ in range(self.problem.horizon):
            edge = ((edge.astype(float) @ total) > 0) & ~reached
            reached = reached | edge
        self._at_end = edge[reached]  # first reached at time T, so that no run goes on from there
        return np.flatnonzero(reached)

    def _initial(self, initial: Float[np.ndarray, " S"]) -> Float[np.ndarray, " n"]:
        then, weight = self._opening
        found = np.zeros((len(initial), self._count))
        np.add.at(found.T, then, weight * initial)
        return found.ravel()

    def _moved(self, matrix: sp.coo_array) -> sp.csr_array:
        """The transitions of one action over all pairs."""
        before, then, weight = self._edges
        data = (matrix.data[:, None] * weight[:, matrix.col].T).ravel()
        row = (matrix.row[:, None].astype(np.int64) * self._count + before).ravel()
        column = (matrix.col[:, None].astype(np.int64) * self._count + then).ravel()
        kept, size = data > 0, self.problem.num_states * self._count
        return sp.csr_array(sp.coo_array((data[kept], (row[kept], column[kept])), shape=(size, size)))

    def model(self, model: Model) -> Model:
        """A model over the pairs. The steps of pairs that only the end reaches are left out: they stay."""
        matrices = []
        for action, matrix in enumerate(model.matrices):
            found = self._moved(sp.coo_array(matrix))[self.kept][:, self.kept]
            found = sp.csr_array(sp.diags_array((~self._at_end).astype(float)) @ found)
            left_out = model.available[self.state, action] & (np.asarray(found.sum(axis=1)).ravel() < 0.5)
            matrices.append(sp.csr_array(found + sp.diags_array(left_out.astype(float), format="csr")))
        return Model(
            matrices,
            {name: one[self.state] for name, one in model.all_rewards.items()},
            self._initial(model.initial)[self.kept],
            model.discount,
            terminal_rewards={name: one[self.state] for name, one in model.all_terminal_rewards.items()},
            state_names=self._labels(model),
            action_names=model.actions.all(),
            available=model.available[self.state],
        )

    def _labels(self, model: Model) -> list[str]:
        pairs = zip(self.state.tolist(), self.configuration.tolist(), strict=True)
        return list(distinct([f"{model.states[s]}/{c}" for s, c in pairs]))


def _observer(product: _Product, observer: Observer, queries: tuple[str, ...]) -> Observer:
    """The observer that receives each query and its answer, which the configuration holds."""
    events = np.array(product.names.event)
    kinds, column = np.unique(events, return_inverse=True)
    names = []
    for event in kinds.tolist():
        query, answer = divmod(event, observer.num_observations)
        names.append(f"{queries[query]}: {observer.observations[answer]}")
    shape = (len(product.state), len(kinds))
    places = (np.arange(shape[0]), column.ravel()[product.configuration])
    return Observer(sp.csr_array((np.ones(shape[0]), places), shape=shape), list(distinct(names)))
