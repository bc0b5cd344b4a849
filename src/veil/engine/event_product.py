"""A problem whose states also hold the newest event of its observer, and what the observer remembers of all of them.

The memory is not a register of the chain: what is emitted, or what is paid at the end, may depend on it. The agent sees none
of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.checks import distinct
from ..common.errors import TooLargeError
from ..problem.constraints import Constraint
from ..problem.lifted import Lift, lifted
from ..problem.model import Model
from ..problem.observer import Observer
from ..problem.problem import Problem
from .chain import sum_over

_MOST_TRANSITIONS = 2**27  # of pairs of a state and what the observer remembers, before those out of reach are left out
Key = tuple[int, ...]
Ending = Callable[[Key], float]


def with_events(
    problem: Problem,
    follower: "Follower",
    observer: Observer,
    own: Callable[[sp.csr_array], Observer],
    ending: Mapping[str, Ending] | None = None,
    constraints: Sequence[Constraint] = (),
) -> Problem:
    """The problem over pairs of a state and what the observer remembers.

    **Arguments:** `observer`: over the states, with a table for each query of the follower; `own`: the observer of the new
    problem from the table `(N, queries · answers)` of the event that each pair holds; `ending`: terminal rewards by name,
    which depend on what is remembered; `constraints`: further ones.

    **Raises:** `TooLargeError` beyond 2^27 transitions.
    """
    after = Configurations(follower, observer, problem.horizon + 1)
    product = _Product(problem, after, observer, ending or {})
    table = product.shown(len(observer.matrices) * observer.num_observations)
    same = np.arange(problem.num_actions)
    lift = Lift(
        product.state,
        same,
        product.model,
        own=lambda _: own(table),
        other=lambda one: one.over(product.state, same),
    )
    seeing = problem
    if problem.agent_sees == "state":
        eyes = Observer(sp.eye_array(problem.num_states, format="csr"), problem.model.states.all())
        seeing = problem.replace(agent_sees=eyes)
    return lifted(seeing, lift, constraints)


class Follower(Protocol):
    """What an observer remembers of its events, as keys; `timed`: whether what it does depends on the time."""

    @property
    def timed(self) -> bool:
        """See above."""
        ...

    def begin(self) -> Key:
        """The key before the first event."""
        ...

    def choices(self, time: int, key: Key) -> Iterator[tuple[float, int, int]]:
        """Each choice: its probability, the query, and the next node of a controller."""
        ...

    def step(self, time: int, key: Key, event: int, node: int) -> Key | None:
        """The key after an event, a query with its answer; None if it cannot come."""
        ...


@dataclass
class Configurations:
    """Every pair of a newest event and what the observer remembers after it, and the queries that lead on.

    `edges`: before, after, probability of the query, and its event; before the first query it is -1.
    """

    follower: Follower
    observer: Observer
    times: int
    event: list[int] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    edges: list[tuple[int, int, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = self.observer.num_observations
        shown = [np.unique(table.indices).tolist() for table in self.observer.matrices]
        numbers: dict[tuple[int, int, Key], int] = {}
        edge: list[tuple[int, Key]] = [(-1, self.follower.begin())]
        for time in range(self.times):
            fresh: list[tuple[int, Key]] = []
            for number, key in edge:
                for chance, query, node in self.follower.choices(time, key):
                    for answer in shown[query]:
                        event = query * size + answer
                        after = self.follower.step(time, key, event, node)
                        if after is None:
                            continue
                        place = time if self.follower.timed else 0, event, after
                        if place not in numbers:
                            numbers[place] = len(self.event)
                            self.event.append(event)
                            self.keys.append(after)
                            fresh.append((numbers[place], after))
                        self.edges.append((number, numbers[place], chance, event))
            edge = fresh
        self.edges += [(number, number, 1.0, -1) for number, _ in edge]  # whose steps no run takes in time


class _Product:
    """The states of a walker with the configurations of its observer, as far as some walker can reach them."""

    def __init__(self, problem: Problem, after: Configurations, observer: Observer, ending: Mapping[str, Ending]):
        self.problem, self._ending = problem, ending
        self._events, self._keys = np.array(after.event), after.keys
        before, then, chance, event = map(np.array, zip(*after.edges, strict=True))
        emissions = np.stack([table.toarray() for table in observer.matrices])
        query, answer = np.divmod(np.maximum(event, 0), observer.num_observations)
        shown = np.where(event[:, None] < 0, 1.0, emissions[query, :, answer])
        first = before < 0
        weight = chance[:, None] * shown
        self._opening, self._edges = (then[first], weight[first]), (before[~first], then[~first], weight[~first])
        self._count = len(after.event)
        entries = sum(one.nnz for model in problem.models for one in model.matrices) * int((~first).sum())
        if entries > _MOST_TRANSITIONS:
            raise TooLargeError(
                f"the queries and the walker have {entries:,} transitions or more, expected at most"
                f" {_MOST_TRANSITIONS:,}: let the observer remember less"
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
        rewards = {name: one[self.state] for name, one in model.all_rewards.items()}
        terminal = {name: one[self.state] for name, one in model.all_terminal_rewards.items()}
        for name, paid in self._ending.items():
            rewards[name] = np.zeros((len(self.state), model.num_actions))
            terminal[name] = np.array([paid(key) for key in self._keys])[self.configuration]
        return Model(
            matrices,
            rewards,
            self._initial(model.initial)[self.kept],
            model.discount,
            terminal_rewards=terminal,
            state_names=self._labels(model),
            action_names=model.actions.all(),
            available=model.available[self.state],
        )

    def shown(self, num_events: int) -> sp.csr_array:
        """Which event each pair holds."""
        places = (np.arange(len(self.state)), self._events[self.configuration])
        return sp.csr_array((np.ones(len(self.state)), places), shape=(len(self.state), num_events))

    def _labels(self, model: Model) -> list[str]:
        pairs = zip(self.state.tolist(), self.configuration.tolist(), strict=True)
        return list(distinct([f"{model.states[s]}/{c}" for s, c in pairs]))
