"""One hidden chain for every problem: the model, times what else is hidden, with what the observer receives of it."""

from dataclasses import dataclass, replace
from functools import cached_property, cmp_to_key

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..common.checks import Defects
from ..common.errors import InputError, TooLargeError
from ..common.memo import memo
from ..common.numbering import ragged
from ..policy.player import Observation
from ..problem.observer import Observer
from ..problem.pairs import OWN
from ..problem.problem import Problem
from ..problem.unrolled import unroll
from .kernel import ALWAYS_DENSE_STATES, Kernel, make_kernel, num_columns, num_rows
from .paid import Afterwards, Paid

_DENSE_NUMBERS = 2**28  # of a dense table: 2 GiB
_SMALL_TABLE = 2**22  # numbers of a table whose columns are taken from a dense copy: 32 MiB


@dataclass(frozen=True, eq=False)
class Emitter:
    """Actions that emit alike: `table[x', e]` is the probability of event e after one of them has led to x'.

    One emitter serves all actions unless the observer sees them or emissions depend on them. This is the paper's
    augmentation of the states by `S × A`, folded into the step instead of into the state.
    """

    actions: Bool[np.ndarray, " A"]
    table: sp.csr_array

    @cached_property
    def emission(self) -> Float[np.ndarray, "N E"]:
        """The table as a dense array, for the backends that work on dense messages."""
        return _dense(self.table, "emissions")

    @cached_property
    def by_event(self) -> Float[np.ndarray, "E N"]:
        """`emission` with a row for each event."""
        return np.ascontiguousarray(self.emission.T)

    @cached_property
    def emits(self) -> Bool[np.ndarray, " E"]:
        """Which events some state emits."""
        return np.bincount(self.table.indices, minlength=num_columns(self.table)) > 0

    @cached_property
    def columns(self) -> "EventColumns":
        """The table by events, for the backends that need some of them at a time."""
        return EventColumns(self.table)


class EventColumns:
    """Columns of a table `(N, E)` as dense arrays: those of a small table at once, else the entries of each."""

    def __init__(self, table: sp.csr_array):
        self._dense = table.toarray() if num_rows(table) * num_columns(table) <= _SMALL_TABLE else None
        self._entries = None if self._dense is not None else sp.csc_array(table)
        self._size = num_rows(table)

    def take(
        self, rows: Int[np.ndarray, " m"], events: Int[np.ndarray, " n"], out: Float[np.ndarray, "m n"]
    ) -> Float[np.ndarray, "m n"]:
        """Some rows of the columns of some events, written over `out`."""
        if self._entries is None:
            assert self._dense is not None
            part = self._dense if len(rows) == len(self._dense) else self._dense[rows]
            # Not a product with a selection matrix: BLAS threads would fight with the threads of the lanes.
            return np.take(part, events, axis=1, mode="clip", out=out)
        begin, degree = self._entries.indptr[events], np.diff(self._entries.indptr)[events]
        position = np.repeat(np.arange(len(events)), degree)
        entry = ragged(begin, degree)
        place = np.full(self._size, -1)
        place[rows] = np.arange(len(rows))
        row = place[self._entries.indices[entry]]
        wanted = row >= 0
        out.fill(0.0)
        out[row[wanted], position[wanted]] = self._entries.data[entry[wanted]]
        return out


@dataclass(frozen=True, eq=False)
class Hidden:
    """The hidden chain that the observer filters, before a policy is chosen.

    A hidden state x is `(model index, private memory, state)`, restricted to what can be reached within
    the horizon. `first[x, e]` is `P(x_0 = x, first event = e)`, one column where nothing is received at time 0. `cell[x]`
    is what the agent can tell of x, a row of the policy's table. The secret is a split: `labels[x, z]` is the probability of
    value z given the hidden state x at `split_time`, a one for the value of x, or a forecast of a later value; the row is
    empty where x cannot occur then. `reveals_last`: the observer is told `x_T` in the end, as in the lower end of a
    bracket. `paid` are the quantities, the return first, then those of `problem.further`. Where the secret is
    a whole path, `path[x]` is what it shows of x, and `labels` has one value.
    """

    kernel: Kernel
    start: Float[np.ndarray, " N"]
    first: sp.csr_array
    emitters: tuple[Emitter, ...]
    paid: tuple[Paid, ...]
    cell: Int[np.ndarray, " N"]
    num_cells: int
    state: Int[np.ndarray, " N"]
    model_index: Int[np.ndarray, " N"]
    labels: sp.csr_array
    split_time: int
    horizon: int
    reveals_last: bool = False
    path: Int[np.ndarray, " N"] | None = None

    @property
    def num_states(self) -> int:
        """N, the number of hidden states."""
        return len(self.start)

    @cached_property
    def rows_are_states(self) -> bool:
        """Whether the rows of a policy's table are the hidden states, in their order."""
        return self.num_cells == self.num_states and np.array_equal(self.cell, np.arange(self.num_states))

    @property
    def num_events(self) -> int:
        """How many events a step can have."""
        return num_columns(self.emitters[0].table)

    @cached_property
    def root(self) -> Float[np.ndarray, "N F"]:
        """`first` as a dense array, for the backends that work on dense messages."""
        return _dense(self.first, "first events")

    @cached_property
    def first_columns(self) -> EventColumns:
        """`first` by events."""
        return EventColumns(self.first)

    @property
    def num_values(self) -> int:
        """Z, how many values the secret has."""
        return num_columns(self.labels)

    @cached_property
    def label(self) -> Float[np.ndarray, "N Z"]:
        """`labels` as a dense array, for the backends that work on dense messages."""
        return _dense(self.labels, "values of the secret")

    @cached_property
    def value(self) -> Int[np.ndarray, " N"]:
        """The value of each hidden state where its label is a one; -1 where it has none."""
        result = np.full(self.num_states, -1)
        result[np.repeat(np.arange(self.num_states), np.diff(self.labels.indptr))] = self.labels.indices
        return result


def _dense(table: sp.csr_array, what: str) -> np.ndarray:
    """A sparse table as a dense array; raises `TooLargeError` beyond 2 GiB."""
    rows, columns = num_rows(table), num_columns(table)
    if rows * columns > _DENSE_NUMBERS:
        raise TooLargeError(
            f"{rows:,} hidden states with {columns:,} {what} need {rows * columns * 8 / 2**30:.1f} GiB as dense messages:"
            " method='exact' on few possible sequences works without them"
        )
    return table.toarray()


def build(problem: Problem) -> Hidden:
    """The hidden chain of a problem: product of the models, the secret's private memory and the states.

    Cost: linear in the number of transitions of the product; problems are immutable, so it is built once for each.
    """
    return memo(problem, build, lambda: _build_at_times(problem) if problem.observer.varies else _build(problem))


def _build_at_times(problem: Problem) -> Hidden:
    """The chain of a problem whose observer depends on time: its states carry the time, the policy's rows do not."""
    unrolled, state = unroll(problem.only(OWN))
    found = _build(unrolled)
    shown = state[found.state]
    known = found.cell // unrolled.num_states  # what the agent knows beside the state
    cell = known * problem.num_states + shown
    paid = tuple(replace(one, after=_after(problem, found.model_index, shown)) for one in found.paid)
    return replace(found, cell=cell, num_cells=problem.num_cells, state=shown, paid=paid)


def _build(problem: Problem) -> Hidden:
    table = problem.secret_table
    _, num_memories, num_states = table.label.shape
    matrices, start = _product(problem)
    kept = _carried(problem, matrices, start)
    if len(kept) < len(start):
        matrices, start = [sp.csr_array(matrix[kept][:, kept]) for matrix in matrices], start[kept]
    model_index, rest = np.divmod(kept, num_memories * num_states)
    memory, state = np.divmod(rest, num_states)
    first, emitters = emission_tables(problem.observer, state, problem.num_actions)
    values = table.label[model_index, memory, state]
    return Hidden(
        kernel=make_kernel(matrices),
        start=start,
        first=scaled_rows(start, first),
        emitters=emitters,
        paid=paid_on(problem, model_index, memory, state),
        cell=problem.channels[0].known[model_index, memory] * num_states + state,
        num_cells=problem.num_cells,
        state=state,
        model_index=model_index,
        labels=one_hot(values, len(table.value_names)),
        split_time=table.time,
        horizon=problem.horizon,
        path=None if table.path is None else table.path[state],
    )


def paid_on(
    problem: Problem, model: Int[np.ndarray, " N"], memory: Int[np.ndarray, " N"], state: Int[np.ndarray, " N"]
) -> tuple[Paid, ...]:
    """The quantities on hidden states, given by their parts: the return, and those of `problem.further`."""
    models = problem.models
    reward = np.stack([one.rewards for one in models])[model, state]
    terminal = np.stack([one.terminal_rewards for one in models])[model, state]
    further = (
        Paid(one.paid[model, state], one.terminal[model, memory, state], one.discount) for one in problem.further
    )
    return Paid(reward, terminal, problem.discount, _after(problem, model, state)), *further


def _after(problem: Problem, model: Int[np.ndarray, " N"], state: Int[np.ndarray, " N"]) -> Afterwards | None:
    """What follows the horizon in each hidden state; None if nothing is paid for it."""
    if problem.return_over == "horizon":
        return None
    return Afterwards(problem.models, model, state, len(problem.models) == 1 or problem.agent.knows_model)


def _product(problem: Problem) -> tuple[list[sp.csr_array], np.ndarray]:
    """Transitions, one matrix an action, and start over all triples (model, memory, state), model-major."""
    table, models = problem.secret_table, problem.models
    num_models, num_memories, size = len(models), len(table.memory_names), problem.num_states
    weights = np.ones(1) if table.weights is None else table.weights
    if num_models == num_memories == 1:
        return list(models[0].matrices), models[0].initial
    total = num_models * num_memories * size
    start = np.zeros(total)
    matrices = []
    for k, model in enumerate(models):
        start[(k * num_memories + table.memory_start) * size + np.arange(size)] += weights[k] * model.initial
    for action in range(problem.num_actions):
        rows, columns, data = [], [], []
        for k, model in enumerate(models):
            entries = model.matrices[action].tocoo()
            for m in range(num_memories):
                rows.append((k * num_memories + m) * size + entries.row)
                columns.append((k * num_memories + table.memory_step[m, entries.col]) * size + entries.col)
                data.append(entries.data)
        places = (np.concatenate(rows), np.concatenate(columns))
        matrices.append(sp.csr_array((np.concatenate(data), places), shape=(total, total)))
    return matrices, start


def _carried(problem: Problem, matrices: list[sp.csr_array], start: np.ndarray) -> np.ndarray:
    """The hidden states of the chain, in order: those that some policy can reach within the horizon.

    An infinite horizon of returns reaches further than that of the observer. Of a small product those are kept that can
    be reached at any time, and of a small model all: fewer would not be faster, and sums over them round otherwise.
    """
    small = len(start) <= ALWAYS_DENSE_STATES
    if small and len(problem.secret_table.memory_names) == 1:
        return np.arange(len(start))
    limited = not small and problem.return_over == "horizon"
    return reachable_states(matrices, start, problem.horizon if limited else None)


def reachable_states(
    matrices: list[sp.csr_array], start: np.ndarray, steps: int | None = None
) -> Int[np.ndarray, " n"]:
    """The states that some policy can reach within so many steps (None: any number), in order."""
    reached = start > 0
    edge, made = np.flatnonzero(reached), 0
    while len(edge) and made != steps and not reached.all():
        before = reached.copy()
        for matrix in matrices:
            reached[matrix[edge].indices] = True
        edge, made = np.flatnonzero(reached & ~before), made + 1
    return np.flatnonzero(reached)


def emission_tables(
    observer: Observer, state: np.ndarray, num_actions: int
) -> tuple[sp.csr_array, tuple[Emitter, ...]]:
    """The first emission and the emitters, over hidden states that show as the model's states `state`."""
    whole = np.array_equal(state, np.arange(observer.shape[-2]))
    tables = list(observer.matrices) if whole else [sp.csr_array(matrix[state]) for matrix in observer.matrices]
    first = tables[0] if observer.sees_first else sp.csr_array(np.ones((len(state), 1)))
    every = np.ones(num_actions, dtype=bool)
    if observer.sees_actions:
        return first, tuple(
            Emitter(
                np.arange(num_actions) == action, _seen_with(action, tables[min(action, len(tables) - 1)], num_actions)
            )
            for action in range(num_actions)
        )
    if len(tables) == 1:
        return first, (Emitter(every, tables[0]),)
    alike: dict[bytes, list[int]] = {}
    for action, table in enumerate(tables):
        content = b"".join(part.tobytes() for part in (table.indptr, table.indices, table.data))
        alike.setdefault(content, []).append(action)
    groups = sorted(alike.values(), key=lambda actions: cmp_to_key(_compare)(tables[actions[0]]))
    return first, tuple(Emitter(np.isin(np.arange(num_actions), actions), tables[actions[0]]) for actions in groups)


def _compare(one: sp.csr_array, two: sp.csr_array) -> int:
    """The order of two non-negative tables, row by row: the sign of the first entry in which they differ."""
    difference = sp.csr_array(one - two)
    difference.eliminate_zeros()
    difference.sort_indices()
    return int(np.sign(difference.data[0])) if difference.nnz else 0


def _seen_with(action: int, table: sp.csr_array, num_actions: int) -> sp.csr_array:
    """Emission of the pairs (action, observation), pair `(a, o)` being event `a · O + o`."""
    observations = num_columns(table)
    shape = (num_rows(table), num_actions * observations)
    return sp.csr_array((table.data, table.indices + action * observations, table.indptr), shape=shape)


def one_hot(value: Int[np.ndarray, " N"], num_values: int) -> sp.csr_array:
    """A row with a one at each state's value; an empty row for -1."""
    known = value >= 0
    indptr = np.concatenate([[0], np.cumsum(known)])
    return sp.csr_array((np.ones(indptr[-1]), value[known], indptr), shape=(len(value), num_values))


def scaled_rows(factor: Float[np.ndarray, " N"], table: sp.csr_array) -> sp.csr_array:
    """Each row of a table times its factor, without stored zeros."""
    data = table.data * np.repeat(factor, np.diff(table.indptr))
    result = sp.csr_array((data, table.indices, table.indptr), shape=table.shape, copy=True)
    result.eliminate_zeros()
    return result


def event_name(problem: Problem, event: int, time: int) -> str | tuple[str, str]:
    """How the observer would write an event down: an observation, or a pair (action, observation)."""
    observer = problem.observer
    if time == 0 or not observer.sees_actions:
        return observer.observations[event]
    action, observation = divmod(event, observer.num_observations)
    return problem.model.actions[action], observer.observations[observation]


def event_number(problem: Problem, observation: Observation, time: int) -> int:
    """The number of an observation as the event of a time.

    **Arguments:** `observation`: its name or index; a pair (action, observation) where the observer sees actions (the first
    observation, at time 0, comes alone).

    **Raises:** `InputError` where there is no such observation.
    """
    observer, defects = problem.observer, Defects("observation")
    action, seen = None, observation
    if observer.sees_actions and time > 0:
        if not isinstance(observation, tuple) or len(observation) != 2:
            raise InputError(
                "observation",
                [f"{observation!r} at time {time}: the observer sees actions, expected (action, observation)"],
            )
        action = problem.model.actions.find_or_note(observation[0], f"time {time}", defects)
        seen = observation[1]
    found = observer.observations.find_or_note(seen, f"time {time}", defects)
    defects.raise_if_any()
    assert found is not None
    return found if action is None else action * observer.num_observations + found
