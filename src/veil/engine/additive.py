"""Expected sums of rewards on a hidden chain: values, gradients, and the best policies for a weighted sum of them.

Every quantity (`Paid`) is linear in the occupancies `P(x_t = x, a_t = a)`, which all quantities share. The gradient is that
of the policy-gradient theorem, `∂V/∂π_t(a|c) = Σ_{x in c} d^t P(x_t = x) Q_t(x,a)`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.clock import UNLIMITED, Clock
from .chain import Chain, sum_by_cell
from .hidden import Hidden
from .kernel import Matrix
from .paid import Paid, solve_discounted
from .products import add_turned_product

Tables = Float[np.ndarray, "B T C A"]

_SMALL = 2**18  # numbers of a policy on hidden states, without the actions, that are kept for all times


def expected_sums(
    hidden: Hidden,
    tables: Tables,
    paid: Sequence[Paid],
    *,
    stationary: bool,
    starts: Float[np.ndarray, "B N"] | None = None,
) -> Float[np.ndarray, "K B"]:
    """The expected sum of each quantity for each table, to the last bit what it is for one quantity and one table alone.

    **Arguments:** `tables`, `(B, T, C, A)`, or `(B, 1, C, A)` if `stationary`; `starts`: where each policy begins, the start
    of the chain by default.

    Cost: `O(K B T · nnz(P))`; over an infinite horizon a linear solve for each stationary table.

    **Raises:** `InputError` if a time-dependent policy would have to continue in a model that the agent does not know.
    """
    return _Passes(hidden, tables, stationary, starts).values(paid)


def sums_and_gradients(
    hidden: Hidden,
    tables: Tables,
    paid: Sequence[Paid],
    *,
    stationary: bool,
    starts: Float[np.ndarray, "B N"] | None = None,
) -> tuple[Float[np.ndarray, "K B"], Float[np.ndarray, "K B T C A"]]:
    """`expected_sums`, to the last bit, and their gradients in the tables.

    Cost: that of the values, and twice as much for each quantity; over an infinite horizon, two linear solves for each table.
    """
    return _Passes(hidden, tables, stationary, starts).values_and_gradients(paid)


def chain_sums(chain: Chain, which: slice = slice(None)) -> Float[np.ndarray, " K"]:
    """The expected sums of the policy of a chain; those of a history policy are summed time by time.

    **Arguments:** `which` of the problem's quantities, all by default.
    """
    followed = chain.followed
    if followed is None:
        hidden = chain.hidden
        return expected_sums(hidden, chain.table[None], hidden.paid[which], stationary=chain.stationary)[:, 0]
    occupied, layers = followed.occupancies(), followed.layers
    flows = [here[:, None] * layer.choice for here, layer in zip(occupied, layers[:-1], strict=False)]
    return sums_of_flows(followed.hidden.paid[which], [*flows, occupied[-1]], [layer.x for layer in layers])


def sums_of_flows(
    paid: Sequence[Paid], flows: Sequence[np.ndarray], places: Sequence[Int[np.ndarray, " n"]] | None = None
) -> Float[np.ndarray, " K"]:
    """The expected sums of given flows: `P(place at t, a_t = a)` for each decision, `(n, A)`, and last `P(place at T)`.

    **Arguments:** `places`: the hidden state of each place, for each time; by default places are the hidden states.
    """
    found = []
    for one in paid:
        reward, last = one.reward, one.last
        total = 0.0
        for time, flow in enumerate(flows[:-1]):
            here = reward if places is None else reward[places[time]]
            total += one.discount**time * float(np.vdot(here, flow))
        last = last if places is None else last[places[-1]]
        found.append(total + one.discount ** (len(flows) - 1) * float(last @ flows[-1]))
    return np.array(found)


def expected_values(hidden: Hidden, paid: Paid, values: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "B A N"]:
    """`Q(x,a) = R(x,a) + d Σ_x' P(x'|x,a) v(x')`."""
    ahead = hidden.kernel.pull(values)
    if paid.discount != 1:
        ahead *= paid.discount
    ahead += paid.reward.T
    return ahead


@dataclass(frozen=True, eq=False)
class Play:
    """Deterministic policies on hidden states that maximise weighted sums of quantities, by backward induction.

    **Attributes:** `hidden`; `paid`; `available`: the actions that can be taken in each hidden state.
    """

    hidden: Hidden
    paid: tuple[Paid, ...]
    available: Bool[np.ndarray, "N A"]

    def best(
        self, weights: Float[np.ndarray, " K"], clock: Clock = UNLIMITED
    ) -> tuple[Int[np.ndarray, "T N"], Float[np.ndarray, " K"]]:
        """The actions that maximise `Σ_k weights_k V_k`, and the values `V` that they reach."""
        hidden, blocked = self.hidden, np.where(self.available, 0.0, -np.inf)
        actions = np.empty((hidden.horizon, hidden.num_states), dtype=np.int32)
        value = self._weighted(weights, hidden.horizon, last=True)
        for time in range(hidden.horizon - 1, -1, -1):
            clock.check()
            scores = (hidden.kernel.stacked @ value).reshape(hidden.num_states, -1)
            scores = scores + self._weighted(weights, time) + blocked
            actions[time] = np.argmax(scores, axis=1)
            value = np.take_along_axis(scores, actions[time][:, None], axis=1)[:, 0]
        return actions, sums_of_flows(self.paid, list(self.flows(actions)))

    def flows(self, actions: Int[np.ndarray, "T N"]) -> Iterator[np.ndarray]:
        """`P(x_t = x, a_t = a)` for each decision, `(N, A)`, and last `P(x_T = x)`."""
        hidden, here = self.hidden, self.hidden.start
        states = np.arange(hidden.num_states)
        for chosen in actions:
            flow = np.zeros(self.available.shape)
            flow[states, chosen] = here
            yield flow
            here = flow.ravel() @ hidden.kernel.stacked
        yield here

    def _weighted(self, weights: np.ndarray, time: int, *, last: bool = False) -> np.ndarray:
        """`Σ_k weights_k d_k^t` times what is paid for a decision, or at the end."""
        total = np.zeros(self.hidden.num_states if last else self.available.shape)
        for weight, one in zip(weights.tolist(), self.paid, strict=True):
            if weight:
                total += weight * one.discount**time * (one.terminal if last else one.reward)
        return total


class _Passes:
    """Forward and backward passes of some tables; what is found for an action lies together, since a sum over few actions of
    many states is a fifth faster then. Occupancies are found once for all quantities.
    """

    def __init__(self, hidden: Hidden, tables: Tables, stationary: bool, starts: np.ndarray | None):
        self.hidden, self.stationary = hidden, stationary
        self.starts = np.broadcast_to(hidden.start, (len(tables), hidden.num_states)) if starts is None else starts
        self._tables, self._kept = tables, None
        if stationary or tables[..., 0].size // max(1, hidden.num_cells) * self.starts.size <= _SMALL:
            self._kept = self._on_states(tables)

    def _on_states(self, tables: Float[np.ndarray, "*B C A"]) -> Float[np.ndarray, "*B A N"]:
        """`π(a|x)` on hidden states."""
        turned = np.ascontiguousarray(tables.swapaxes(-1, -2))
        return turned if self.hidden.rows_are_states else np.take(turned, self.hidden.cell, axis=-1)

    def weights(self, time: int) -> Float[np.ndarray, "B A N"]:
        """`π_t(a|x)` on hidden states."""
        row = 0 if self.stationary else time
        return self._on_states(self._tables[:, row]) if self._kept is None else self._kept[:, row]

    def values(self, paid: Sequence[Paid]) -> Float[np.ndarray, "K B"]:
        """The sum of each quantity for each table."""
        found, centred = np.empty((len(paid), len(self._tables))), [one.centred(self.hidden.horizon) for one in paid]
        endless = [self._is_endless(one) for one in paid]
        within = [one for one, ever in zip(centred, endless, strict=True) if not ever]
        if within:
            found[~np.array(endless)] = self._forward(within)[1]
        for number, (plain, offset) in enumerate(centred):
            if endless[number]:
                found[number] = [start @ self._endless(plain, row)[0] for row, start in enumerate(self.starts)]
            found[number] += offset
        return found

    def values_and_gradients(self, paid: Sequence[Paid]) -> tuple[np.ndarray, np.ndarray]:
        """The sums and their gradients in the tables."""
        centred = [one.centred(self.hidden.horizon) for one in paid]
        values, gradients = np.empty((len(paid), len(self._tables))), np.zeros((len(paid), *self._tables.shape))
        within = [number for number, one in enumerate(paid) if not self._is_endless(one)]
        if within:
            occupied, values[within] = self._forward([centred[number] for number in within])
            self._backward([centred[number] for number in within], occupied, [gradients[number] for number in within])
        for number, (plain, offset) in enumerate(centred):
            if number not in within:
                values[number], gradients[number] = self._endless_gradient(plain)
            values[number] += offset
        return values, gradients

    def _is_endless(self, one: Paid) -> bool:
        return one.after is not None and self.stationary

    def _last(self, plain: Paid, offset: float) -> Float[np.ndarray, " N"]:
        """What the states of time T are worth, less the offset of rewards that are centred."""
        return plain.terminal if plain.after is None else plain.last - offset

    def _forward(self, paid: Sequence[tuple[Paid, float]]) -> tuple[list[np.ndarray], Float[np.ndarray, "K B"]]:
        """`P(x_t = x)` at times 0 … T, and the sums that are paid on the way."""
        rewards = [np.ascontiguousarray(plain.reward.T) for plain, _ in paid]
        occupied, values = [np.ascontiguousarray(self.starts)], np.zeros((len(paid), len(self._tables)))
        mixed = self._mixed() if self.stationary else None
        if mixed is None:
            rewards = [one.reshape(-1, 1) for one in rewards]
        else:  # what a policy is paid in a state, instead of what it is paid for each action there
            rewards = [np.sum(self.weights(0) * one, axis=1)[:, :, None] for one in rewards]
        for time in range(self.hidden.horizon):
            here = occupied[-1][:, None, :]
            flows = here if mixed is not None else here * self.weights(time)
            rows = flows.reshape(len(flows), 1, -1)
            for number, (plain, _) in enumerate(paid):
                values[number] += plain.discount**time * np.matmul(rows, rewards[number])[:, 0, 0]
            occupied.append(self.hidden.kernel.push(flows) if mixed is None else mixed(occupied[-1]))
        for number, (plain, offset) in enumerate(paid):
            last = self._last(plain, offset)[:, None]
            values[number] += plain.discount**self.hidden.horizon * np.matmul(occupied[-1][:, None, :], last)[:, 0, 0]
        return occupied, values

    def _mixed(self) -> Callable[[Float[np.ndarray, "B N"]], Float[np.ndarray, "B N"]]:
        """The step of stationary policies: the transitions under each are found once, and have no actions any more."""
        matrices: list[Any] = [self.hidden.kernel.mix(one.T) for one in self.weights(0)]
        if isinstance(matrices[0], np.ndarray):
            stacked = np.stack(matrices)
            return lambda here: np.matmul(here[:, None, :], stacked)[:, 0]

        def step(here: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "B N"]:
            found = np.zeros(here.shape)
            for row, matrix, out in zip(here, matrices, found, strict=True):
                add_turned_product(matrix.indptr, matrix.indices, matrix.data, row, out)
            return found

        return step

    def _backward(
        self, paid: Sequence[tuple[Paid, float]], occupied: list[np.ndarray], gradients: list[Tables]
    ) -> None:
        """Write the gradients of the sums over the horizon."""
        hidden, values = self.hidden, [np.broadcast_to(self._last(*one), self.starts.shape) for one in paid]
        always = [np.zeros((len(self._tables), hidden.kernel.num_actions, hidden.num_states)) for _ in paid]
        for time in range(hidden.horizon - 1, -1, -1):
            weights = self.weights(time)
            for number, (plain, _) in enumerate(paid):
                actions = expected_values(hidden, plain, values[number])
                gained = (plain.discount**time * occupied[time])[:, None, :] * actions
                if self.stationary:
                    always[number] += gained
                else:
                    gradients[number][:, time] = _by_cell(hidden, gained)
                actions *= weights
                values[number] = np.add.reduce(actions, axis=1)
        if self.stationary:
            for gradient, total in zip(gradients, always, strict=True):
                gradient[:, 0] = _by_cell(hidden, total)

    def _endless_gradient(self, plain: Paid) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B 1 C A"]]:
        """The same for stationary policies over an infinite horizon."""
        totals, gained = np.empty(len(self._tables)), []
        for row, start in enumerate(self.starts):
            values, transitions = self._endless(plain, row)
            occupied = solve_discounted(transitions.T, plain.discount, start)
            totals[row] = start @ values
            gained.append(occupied * expected_values(self.hidden, plain, values[None])[0])
        return totals, _by_cell(self.hidden, np.stack(gained))[:, None]

    def _endless(self, plain: Paid, row: int) -> tuple[Float[np.ndarray, " N"], Matrix]:
        """What each state is worth to a stationary policy over an infinite horizon, and the transitions under it."""
        weights = self.weights(0)[row].T
        transitions = self.hidden.kernel.mix(weights)
        return solve_discounted(transitions, plain.discount, np.sum(weights * plain.reward, axis=1)), transitions


def _by_cell(hidden: Hidden, values: Float[np.ndarray, "B A N"]) -> Float[np.ndarray, "B C A"]:
    """Sums over the hidden states that the agent cannot tell apart, as rows of a table."""
    return sum_by_cell(hidden, values.swapaxes(1, 2))
