"""Drawing runs and observation sequences from the chain: all runs at once, one vectorised step at a time."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from .chain import Chain
from .hidden import Hidden
from .kernel import Matrix, num_columns


@dataclass(frozen=True, eq=False)
class Runs:
    """Independent runs of a chain.

    **Attributes:** `states`, `(n, T+1)`, the hidden states `x_0 … x_T`; `actions`, `(n, T)`, indices of the chain's
    actions (of a controller: its pairs of action and next node); `events`, `(n, T+1)`, what the observer receives, in
    column 0 the first event (0 where nothing is received then).
    """

    states: Int[np.ndarray, "n T+1"]
    actions: Int[np.ndarray, "n T"]
    events: Int[np.ndarray, "n T+1"]

    def __len__(self) -> int:
        return len(self.states)


class RowDraws:
    """Draws from the rows of a non-negative matrix by inverting one running sum over all of its entries."""

    def __init__(self, matrix: Matrix):
        rows = sp.csr_array(matrix)
        if not rows.data.all():
            rows = rows.copy()  # the arrays may be the chain's own
            rows.eliminate_zeros()
        self._columns = rows.indices
        self._first, self._end = rows.indptr[:-1], rows.indptr[1:]
        self._sums = np.concatenate([[0.0], np.cumsum(rows.data)])

    def draw(self, rows: Int[np.ndarray, " n"], uniform: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """A column for each of the rows given, by one uniform number each."""
        first, end = self._first[rows], self._end[rows]
        low, high = self._sums[first], self._sums[end]
        entry = np.searchsorted(self._sums, low + uniform * (high - low), side="right") - 1
        # Rounding in the running sum may step over the edge of the row.
        return self._columns[np.clip(entry, first, end - 1)]

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The first entries of the rows and their ends; the columns of the entries; the running sum before each entry."""
        return self._first, self._end, self._columns, self._sums


class Emissions:
    """Draws events: the first one together with the state, later ones from the emitter of the action."""

    def __init__(self, hidden: Hidden):
        self._root = RowDraws(hidden.first.reshape((1, -1)))
        self._num_first = num_columns(hidden.first)
        self.emitters = [RowDraws(emitter.table) for emitter in hidden.emitters]

    def first(self, uniform: Float[np.ndarray, " n"]) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """Start states and first events."""
        states, events = np.divmod(self._root.draw(np.zeros(len(uniform), dtype=np.int64), uniform), self._num_first)
        return states, events

    def later(
        self, emitter: Int[np.ndarray, " n"], states: Int[np.ndarray, " n"], uniform: Float[np.ndarray, " n"]
    ) -> Int[np.ndarray, " n"]:
        """The event on entering a state by an action of a emitter."""
        if len(self.emitters) == 1:
            return self.emitters[0].draw(states, uniform)
        events = np.empty(len(states), dtype=np.int32)
        for number, emission in enumerate(self.emitters):
            here = np.flatnonzero(emitter == number)
            events[here] = emission.draw(states[here], uniform[here])
        return events


def draw_events(
    chain: Chain, num_sequences: int, generator: np.random.Generator, clock: Clock = UNLIMITED
) -> Int[np.ndarray, "n T+1"]:
    """Event sequences of independent runs; column 0 is the first event (0 where nothing is received then).

    Cost: `O(T · n · log nnz)`. The same generator state gives the same sequences (not those of `draw_runs`, which draws
    the actions too). `clock` is checked at each step.
    """
    hidden = chain.hidden
    events = np.empty((num_sequences, hidden.horizon + 1), dtype=np.int32)
    emissions = Emissions(hidden)
    states, events[:, 0] = emissions.first(generator.random(num_sequences))
    rows: RowDraws | None = None
    for time in range(hidden.horizon):
        clock.check()
        if rows is None or not chain.stationary:
            rows = RowDraws(sp.csr_array(sp.hstack([sp.csr_array(matrix) for matrix in chain.matrices(time)])))
        drawn = rows.draw(states, generator.random(num_sequences))
        emitter, states = np.divmod(drawn, hidden.num_states)
        events[:, time + 1] = emissions.later(emitter, states, generator.random(num_sequences))
    return events


def told_apart(chain: Chain, events: Int[np.ndarray, "n T+1"]) -> Int[np.ndarray, "n T+1"]:
    """The sequences as far as the observer tells them apart: without a clock, one for each string that it writes."""
    written = chain.written
    return events if written is None else written.sequences(written.strings(events))


def draw_runs(chain: Chain, num_runs: int, generator: np.random.Generator, clock: Clock = UNLIMITED) -> Runs:
    """Independent runs with all that is hidden in them: states, actions and events.

    Each step draws `a_t ~ π_t(·|cell(x_t))`, `x_{t+1} ~ P(·|x_t,a_t)` and the event from the emitter of `a_t`.

    **Arguments:** `chain`: any, also with memory in it; `num_runs`: n; `generator`: the same state gives the same runs.

    Cost: `O(T · n · log nnz)`. `clock` is checked at each step.
    """
    hidden = chain.hidden
    states = np.empty((num_runs, hidden.horizon + 1), dtype=np.int64)
    actions = np.empty((num_runs, hidden.horizon), dtype=np.int64)
    events = np.empty((num_runs, hidden.horizon + 1), dtype=np.int32)
    emissions = Emissions(hidden)
    states[:, 0], events[:, 0] = emissions.first(generator.random(num_runs))
    moves = RowDraws(hidden.kernel.stacked)
    emitter_of = np.argmax([emitter.actions for emitter in hidden.emitters], axis=0)
    choices: RowDraws | None = None
    for time in range(hidden.horizon):
        clock.check()
        if choices is None or not chain.stationary:
            choices = RowDraws(chain.table[time])
        here = states[:, time]
        taken = choices.draw(hidden.cell[here], generator.random(num_runs))
        there = moves.draw(here * hidden.kernel.num_actions + taken, generator.random(num_runs))
        events[:, time + 1] = emissions.later(emitter_of[taken], there, generator.random(num_runs))
        actions[:, time], states[:, time + 1] = taken, there
    return Runs(states, actions, events)
