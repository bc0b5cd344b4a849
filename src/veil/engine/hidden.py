"""The hidden chain that the observer filters: the form of every problem that the engine reads."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..common.checks import Defects
from ..common.errors import InputError, TooLargeError
from ..common.memo import kept, memo
from ..common.numbering import ragged
from ..policy.player import Observation
from ..problem.problem import Problem
from ..problem.secrets.secret import EachTime
from .kernel import Kernel, num_columns, num_rows
from .paid import Paid
from .written import Written

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

    @property
    def dense(self) -> Float[np.ndarray, "N E"] | None:
        """All columns, if the table is small."""
        return self._dense

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

    A hidden state x is the model that runs (`model_index`), what the channel remembers (`held`), the state (`state`) and the
    values of further registers, restricted to what can be reached within the horizon. `first[x, e]` is
    `P(x_0 = x, first event = e)`, one column if nothing is received at time 0. `cell[x]` is what the agent can tell of x, a row
    of the policy's table. The secret is a split: `labels[x, z]` is the probability of value z given the hidden state x at
    `split_time`, a one for the value of x, or a forecast of a later value; the row is empty if x cannot occur then.
    `reveals_last`: the observer is told `x_T` in the end, as in the lower end of a bracket. `paid` are
    `problem.quantities`, the return first. If the secret is a whole path, `path[x]` is what it shows of x, and `labels`
    has one value. If it has a value at every time, that is `each`, over hidden states. `written` is what an observer without
    a clock holds of the events; None if the observer has one.
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
    held: Int[np.ndarray, " N"]
    labels: sp.csr_array
    split_time: int
    horizon: int
    reveals_last: bool = False
    path: Int[np.ndarray, " N"] | None = None
    written: Written | None = None
    each: EachTime | None = None

    @property
    def num_states(self) -> int:
        """N, the number of hidden states."""
        return len(self.start)

    def at(self, x: Int[np.ndarray, " n"], **changes: Any) -> "Hidden":
        """The chain of other hidden states, each of which shows as one of these, with all that is not the same."""
        own: dict[str, Any] = {name: getattr(self, name)[x] for name in ("state", "model_index", "held", "cell")}
        own |= {"paid": tuple(one.at(x) for one in self.paid), "path": None if self.path is None else self.path[x]}
        own |= {"each": None if self.each is None else self.each.at(x)}
        return replace(self, **(own | changes))

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


def keep_observed(hidden: Hidden, smaller: Hidden) -> None:
    """Let `observed` find the chain of the same problem without what only its constraints follow."""
    memo(hidden, observed, lambda: smaller)


def observed(hidden: Hidden) -> Hidden:
    """The chain that messages need: without the formulas of constraints, if neither the agent nor the secret follows them.

    What is known of the secret after any events is the same, and so are the rows of a policy's table and the gradients in them.
    Only sums of rewards need the larger chain. Itself if nothing is left out, and for a chain that was made from another one.
    """
    return kept(hidden, observed) or hidden


def _dense(table: sp.csr_array, what: str) -> np.ndarray:
    """A sparse table as a dense array; raises `TooLargeError` beyond 2 GiB."""
    rows, columns = num_rows(table), num_columns(table)
    if rows * columns > _DENSE_NUMBERS:
        raise TooLargeError(
            f"{rows:,} hidden states with {columns:,} {what} need {rows * columns * 8 / 2**30:.1f} GiB as dense messages:"
            " method='exact' on few possible sequences works without them"
        )
    return table.toarray()


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
