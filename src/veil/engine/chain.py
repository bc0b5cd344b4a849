"""The chain that a policy induces, with gradients back to the policy's table."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float

from ..common.errors import InputError
from ..common.memo import memo
from ..policy.history import HistoryPolicy
from ..policy.policy import Policy, check_call
from ..policy.tabular import TablePolicy
from ..problem.pairs import OWN
from ..problem.problem import Problem
from .buffers import keep_pages
from .compile import build
from .followed import Followed, follow
from .hidden import Hidden, observed
from .kernel import Matrix, narrowed
from .products import add_product
from .written import Written

_SMALL_LABEL = 2**22  # a dense label of this size costs nothing; beyond, the values are counted
_MOST_NUMBERS = 2**26  # of mixed transitions kept for a time-dependent policy: 512 MiB


class Chain:
    """A `Hidden` chain driven by one table of action probabilities.

    **Arguments:** `hidden`; `table`, `(T, C, A)`, or `(1, C, A)` for all times.
    """

    followed: Followed | None = None  # the same time by time, for a history policy

    def __init__(self, hidden: Hidden, table: Float[np.ndarray, "T C A"], *, stationary: bool):
        self.stationary = stationary
        self._parts = hidden, table
        self._matrices: dict[int, tuple[Matrix, ...]] = {}

    @property
    def hidden(self) -> Hidden:
        """The chain before a policy is chosen."""
        return self._parts[0]

    @property
    def written(self) -> Written | None:
        """What an observer without a clock holds of the events; None if the observer has one."""
        return self.hidden.written

    @property
    def table(self) -> Float[np.ndarray, "T C A"]:
        """The action probabilities of each cell."""
        return self._parts[1]

    def on(self, hidden: Hidden) -> "Chain":
        """The chain of the same table on another hidden chain."""
        return Chain(hidden, self.table, stationary=self.stationary)

    def during(self, begin: int, end: int, **changes: Any) -> "Chain":
        """The same chain from one time to another, with further changes of its hidden chain."""
        hidden = replace(self.hidden, horizon=end - begin, **changes)
        return Chain(hidden, self.table if self.stationary else self.table[begin:end], stationary=self.stationary)

    def weights(self, time: int) -> Float[np.ndarray, "N A"]:
        """`π_t(a|x)` on hidden states."""
        return self.table[0 if self.stationary else time][self.hidden.cell]

    def matrices(self, time: int) -> tuple[Matrix, ...]:
        """For each emitter `K_t(x,x') = Σ_{a in emitter} π_t(a|x) P(x'|x,a)`."""
        key = 0 if self.stationary else time
        found = self._matrices.get(key)
        if found is None:
            weights = self.weights(time)
            found = tuple(self.hidden.kernel.mix(weights * emitter.actions) for emitter in self.hidden.emitters)
            numbers = len(self.hidden.emitters) * self.hidden.kernel.num_entries
            if len(self._matrices) * numbers > _MOST_NUMBERS:
                self._matrices.clear()  # a long time-dependent policy: rebuild rather than hoard
            self._matrices[key] = found
        return found

    def push(self, rows: Float[np.ndarray, "*n N"], time: int) -> Float[np.ndarray, "*n N"]:
        """Distributions one step on, over all events: `row @ P_t`."""
        return sum_over(rows @ matrix for matrix in self.matrices(time))

    def pull(self, columns: Float[np.ndarray, "N *k"], time: int) -> Float[np.ndarray, "N *k"]:
        """Expectations one step back: `P_t @ column`."""
        return sum_over(matrix @ columns for matrix in self.matrices(time))

    @cached_property
    def occupancies(self) -> Float[np.ndarray, "T+1 N"]:
        """`P(x_t = x)` for t = 0 … T. Cost: T vector products."""
        result = np.empty((self.hidden.horizon + 1, self.hidden.num_states))
        result[0] = self.hidden.start
        for time in range(self.hidden.horizon):
            result[time + 1] = self.push(result[time], time)
        return result

    @property
    def prior(self) -> Float[np.ndarray, " Z"]:
        """`P(z)`, what is known of the secret before anything is seen."""
        occupied = self.hidden.start
        for time in range(self.hidden.split_time):
            occupied = self.push(occupied, time)
        hidden = self.hidden
        if hidden.num_states * hidden.num_values <= _SMALL_LABEL:
            return occupied @ hidden.label
        return occupied @ hidden.labels

    @cached_property
    def forecasts(self) -> list[Float[np.ndarray, "N Z"]]:
        """`P(z | x_t = x)` for t = 0 … τ: the label carried back from the secret's time; `P(z_t | x_t = x)` of a secret that
        has a value at every time."""
        if self.hidden.each is not None:
            from .each_time import readings

            return [reading.label for reading in readings(self, every=True)]
        labels = [self.hidden.label]
        for time in range(self.hidden.split_time - 1, -1, -1):
            labels.append(self.pull(labels[-1], time))
        return labels[::-1]


class FollowedChain(Chain):
    """The chain of a history policy: its states are the situations of all times that the policy reaches.

    They are laid side by side only when something asks for the chain; `followed` has them time by time.
    """

    def __init__(self, followed: Followed):
        self.followed = self._followed = followed
        self.stationary, self._matrices = True, {}

    @property
    def written(self) -> Written | None:
        """See `Chain`."""
        return self._followed.written

    @cached_property
    def _parts(self) -> tuple[Hidden, Float[np.ndarray, "1 C A"]]:
        return self._followed.chain_parts()


def make_chain(problem: Problem, policy: Policy, *, pair: str = OWN) -> Chain:
    """The chain that a policy induces in a problem; every measure works on it.

    For a history policy it is a `FollowedChain`, whose `followed` lets measures work time by time instead.

    **Arguments:** `pair`: whose secret and observer count.

    If the secret is a whole path, `chain.hidden.path` says what it shows of each hidden state, and the chain with a value for
    each path is `veil.engine.listed.value_chain(chain)`.

    **Raises:** `InputError` if the policy does not fit the problem.
    """
    check_call(problem, policy)
    keep_pages()
    alone = problem.only(pair)
    acting = policy.on(alone)
    if isinstance(acting, HistoryPolicy):
        return FollowedChain(follow(problem, acting, pair))
    if not isinstance(acting, TablePolicy):
        found = f"it is {acting.describe()}, expected one with a table or a graph of histories"
        raise InputError("policy", [f"{found}: veil.MarkovPolicy(probabilities)"])
    acting.check(alone)
    return Chain(build(alone, acting.memory), acting.table, stationary=not acting.timed)


def with_clock(chain: Chain) -> Chain:
    """The same chain for an observer with a clock, who knows at least as much; itself if the observer has one."""
    if chain.written is None:
        return chain
    if chain.followed is not None:
        return FollowedChain(replace(chain.followed, written=None))
    return chain.on(replace(chain.hidden, written=None))


def observed_chain(chain: Chain) -> Chain:
    """The chain that messages need, whose sums of rewards are not those of the problem; see `veil.engine.hidden.observed`."""
    if chain.followed is not None or observed(chain.hidden) is chain.hidden:
        return chain
    return chain.on(observed(chain.hidden))


class Slopes:
    """Collects `∂/∂K_t` over a tree or sequences and turns it into the gradient with respect to the policy's table."""

    def __init__(self, chain: Chain):
        self.chain = chain
        self._outer: dict[tuple[int, int], np.ndarray] = {}

    def add(self, time: int, emitter: int, left: np.ndarray, right: np.ndarray) -> None:
        """Add `Σ_n left(n,x) right(n,x')` to the gradient with respect to `K_t(x,x')` of a emitter."""
        self.add_outer(time, emitter, self.chain.hidden.kernel.outer(left, right))

    def add_outer(self, time: int, emitter: int, outer: np.ndarray) -> None:
        """Add a gradient with respect to `K_t` that the kernel's `outer` has made."""
        total = self._outer.setdefault((0 if self.chain.stationary else time, emitter), outer)
        if total is not outer:
            total += outer

    def table(self) -> Float[np.ndarray, "T C A"]:
        """The gradient with respect to each entry of the policy's table."""
        hidden = self.chain.hidden
        result = np.zeros(self.chain.table.shape)
        for (time, emitter), outer in self._outer.items():
            slope = hidden.kernel.contract(outer) * hidden.emitters[emitter].actions
            np.add.at(result[time], hidden.cell, slope)
        return result


def sum_by_cell(hidden: Hidden, values: Float[np.ndarray, "*B N A"]) -> Float[np.ndarray, "*B C A"]:
    """Sums over the hidden states that the agent cannot tell apart."""
    if hidden.rows_are_states:
        return values
    gather = memo(hidden, sum_by_cell, lambda: _gather(hidden))
    turned = np.ascontiguousarray(np.moveaxis(values, -2, 0))
    found = np.zeros((hidden.num_cells, *turned.shape[1:]))
    columns = turned.reshape(hidden.num_states, -1), found.reshape(hidden.num_cells, -1)
    add_product(gather.indptr, gather.indices, gather.data, *columns)
    return np.moveaxis(found, 0, -2)


def _gather(hidden: Hidden) -> sp.csr_array:
    """A one for each hidden state, in the row of its cell."""
    places = (hidden.cell, np.arange(hidden.num_states))
    return narrowed(sp.csr_array((np.ones(hidden.num_states), places), shape=(hidden.num_cells, hidden.num_states)))


def sum_over(terms):
    """The sum of arrays, without a zero to begin with (most chains have one emitter)."""
    iterator = iter(terms)
    total = next(iterator)
    for term in iterator:
        total = total + term
    return total
