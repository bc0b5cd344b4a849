"""Entropies of event sequences: the chain whose observer also sees the path, and Shannon's formula where events tell the state.

`H(R|Y) = H(R,Y) − H(Y)` for a path R: both are entropies of event sequences, the first of an observer who is shown R too.
Where an event, after a known state, leaves one next state possible (the chain is unifilar), the states are a function of
the events, and `H(E_0 … E_T) = H(E_0) + Σ_t Σ_x P(x_t = x) H(E_{t+1} | x_t = x)`: a sum over times instead of a tree.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from ..common.logs import entropy_bits, log2_or_zero
from ..common.memo import memo
from ..common.numbering import ragged
from .chain import Chain, sum_by_cell
from .compile import one_hot
from .hidden import Emitter, Hidden
from .kernel import num_columns, num_rows


@dataclass(frozen=True, eq=False)
class Shown:
    """A hidden chain whose observer is also shown the path: an event is a pair (event before, what the path shows).

    `first_event` and `event`: the event before of each new one, at time 0 and later.
    """

    hidden: Hidden
    first_event: Int[np.ndarray, " F"]
    event: Int[np.ndarray, " E"]

    def chain(self, chain: Chain) -> Chain:
        """The chain of the same policy."""
        return chain.on(self.hidden)

    def before(self, events: Int[np.ndarray, "k T+1"]) -> Int[np.ndarray, "k T+1"]:
        """What the observer who is not shown the path receives."""
        return np.concatenate([self.first_event[events[:, :1]], self.event[events[:, 1:]]], axis=1)

    @cached_property
    def entropy(self) -> "UnifilarEntropy | None":
        """The entropy of the events as a sum over times; None unless the chain is unifilar.

        For an observer without a clock, also None unless the path tells at which times the string was written.
        """
        written = self.hidden.written
        told = written is None or written.is_aligned
        return UnifilarEntropy(self.hidden) if told and self.is_unifilar else None

    @cached_property
    def is_unifilar(self) -> bool:
        """Whether the first event tells the state, and every later one the next state where the state is known.

        Only states that can be reached within the horizon count.
        """
        hidden = self.hidden
        if np.any(np.bincount(hidden.first.indices, minlength=1) > 1):
            return False
        moves, actions = sp.csr_array(hidden.kernel.stacked), hidden.kernel.num_actions
        by_state = one_hot(np.arange(hidden.num_states * actions) // actions, hidden.num_states).T
        possible, backward = hidden.start > 0, sp.csr_array((by_state @ moves).T)
        for _ in range(hidden.horizon):
            before, possible = possible, possible | (backward @ possible.astype(float) > 0)
            if np.array_equal(before, possible):
                break
        found = []
        for emitter in hidden.emitters:
            reached = sp.csr_array(by_state @ _taken(emitter, hidden.num_states) @ moves)
            reached.eliminate_zeros()
            reached = sp.coo_array(reached)
            inside = possible[reached.row] & possible[reached.col]
            row, column, table = reached.row[inside], reached.col[inside], emitter.table
            degree = np.diff(table.indptr)[column]
            entry = ragged(table.indptr[column], degree)
            places = (np.repeat(row, degree), table.indices[entry], np.repeat(column, degree))
            found.append(np.stack(places, axis=1).reshape(-1, 3))
        triples = np.unique(np.concatenate(found), axis=0)
        return len(np.unique(triples[:, :2], axis=0)) == len(triples)


def show_path(hidden: Hidden, *, alone: bool = False) -> Shown:
    """The chain whose observer is also shown the path; `alone`: and nothing else."""
    return memo(hidden, (show_path, alone), lambda: _show(hidden, alone))


def _show(hidden: Hidden, alone: bool) -> Shown:
    assert hidden.path is not None
    emitters = hidden.emitters
    first = hidden.first
    if alone:
        nothing = sp.csr_array(np.ones((hidden.num_states, 1)))
        emitters = (Emitter(np.ones(hidden.kernel.num_actions, dtype=bool), nothing),)
        first = sp.csr_array(hidden.start[:, None])
    (first,), first_event, first_path = _paired([first], hidden.path)
    tables, event, path = _paired([emitter.table for emitter in emitters], hidden.path)
    made = tuple(Emitter(emitter.actions, table) for emitter, table in zip(emitters, tables, strict=True))
    written = None
    if hidden.written is not None and not alone:  # the path is shown with its times
        written = hidden.written.shown(first_event, first_path, event, path)
    return Shown(replace(hidden, first=first, emitters=made, written=written), first_event, event)


def _paired(
    tables: list[sp.csr_array], path: Int[np.ndarray, " N"]
) -> tuple[list[sp.csr_array], np.ndarray, np.ndarray]:
    """Tables whose columns are the pairs (column, path of the row) that occur, and the two parts of each pair."""
    size = int(path.max()) + 1
    codes = [table.indices * np.int64(size) + np.repeat(path, np.diff(table.indptr)) for table in tables]
    pairs = np.unique(np.concatenate(codes))
    made = [
        sp.csr_array((table.data, np.searchsorted(pairs, code), table.indptr), shape=(num_rows(table), len(pairs)))
        for table, code in zip(tables, codes, strict=True)
    ]
    return made, *np.divmod(pairs, size)


def _taken(emitter: Emitter, num_states: int) -> sp.dia_array:
    """Selects the pairs (state, action) whose action is of a emitter."""
    return sp.diags_array(np.tile(emitter.actions, num_states).astype(float))


class UnifilarEntropy:
    """The entropy of the events of a unifilar chain for many policies at once, and its gradient in their tables.

    The next event has the law `P(e|x) = Σ_a π(a|x) Q(e|x,a)`, with `Q(e|x,a) = Σ_x' P(x'|x,a) B_a(e|x')` the same for all
    policies.

    Cost: for each policy and time a product with Q and one with the transitions; with a gradient twice that.
    """

    def __init__(self, hidden: Hidden):
        self.hidden = hidden
        first = np.bincount(hidden.first.indices, hidden.first.data, minlength=num_columns(hidden.first))
        self._first_bits = float(entropy_bits(first))
        self._moves, actions = sp.csr_array(hidden.kernel.stacked), hidden.kernel.num_actions
        events = 0
        for emitter in hidden.emitters:
            events = events + sp.csr_array(_taken(emitter, hidden.num_states) @ self._moves @ emitter.table)
        law = sp.coo_array(events)
        pairs, place = np.unique(
            (law.row // actions).astype(np.int64) * hidden.num_events + law.col, return_inverse=True
        )
        self._state = pairs // hidden.num_events
        shape = (len(pairs), hidden.num_states * actions)
        self._law = sp.csr_array((law.data, (place.ravel(), law.row)), shape=shape)  # row (x, e), column (x, a)
        self._sums = one_hot(self._state, hidden.num_states).T

    def evaluate(
        self, tables: Float[np.ndarray, "B T C A"], *, stationary: bool, gradient: bool = True
    ) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B T C A"]]:
        """Bits, and their gradient in the tables up to a constant in each row, which changes no softmax parameters.

        Without `gradient` the second array is zero.
        """
        hidden, (batch, steps, _, actions) = self.hidden, tables.shape
        shape = (hidden.num_states, actions, batch)
        # (T|1, N · A, B): one column a policy
        weights = np.moveaxis(tables[:, :, hidden.cell], 0, -1).reshape(steps, hidden.num_states * actions, batch)
        laws = [self._step(weight, gradient) for weight in weights]
        ahead, behind = np.zeros((hidden.num_states, batch)), []
        for time in range(hidden.horizon - 1, -1, -1):
            now = 0 if stationary else time
            following = self._moves @ ahead
            behind.append(following)
            ahead = laws[now][0] + (weights[now] * following).reshape(shape).sum(axis=1)
        bits = self._first_bits + hidden.start @ ahead
        found = np.zeros(weights.shape)
        occupied = np.repeat(hidden.start[:, None], batch, axis=1)
        for time in range(hidden.horizon if gradient else 0):
            now = 0 if stationary else time
            here = np.repeat(occupied, actions, axis=0)
            found[now] += here * (laws[now][1] + behind[hidden.horizon - 1 - time])
            occupied = self._moves.T @ (here * weights[now])
        by_state = np.moveaxis(found.reshape(steps, *shape), -1, 0)
        return bits, sum_by_cell(hidden, by_state)

    def _step(
        self, weight: Float[np.ndarray, "N*A B"], gradient: bool
    ) -> tuple[Float[np.ndarray, "N B"], Float[np.ndarray, "N*A B"]]:
        """The mean of `−log2 P(e|x)` in each state, and that after each action."""
        chance = self._law @ weight
        surprisal = -log2_or_zero(chance)
        after = self._law.T @ surprisal if gradient else np.zeros(weight.shape)
        return self._sums @ (chance * surprisal), after
