"""Expected sums of rewards on a hidden chain: values, gradients, and the best policies for a weighted sum of them.

Every quantity (`Paid`) is linear in the occupancies `P(x_t = x, a_t = a)`, which all quantities share. The gradient is that
of the policy-gradient theorem, `∂V/∂π_t(a|c) = Σ_{x in c} d^t P(x_t = x) Q_t(x,a)`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from ..common.clock import UNLIMITED, Clock
from .chain import Chain, sum_by_cell
from .hidden import Hidden
from .kernel import Matrix
from .paid import Paid, solve_discounted

Tables = Float[np.ndarray, "B T C A"]

_FEW_ACTIONS = 7  # NumPy's own sum adds as many in the same order
_SMALL = 2**22  # numbers of a policy on hidden states that are kept for all times: 32 MiB


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

    Cost: three times that of the values; over an infinite horizon, two linear solves for each table.
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


def expected_values(hidden: Hidden, paid: Paid, values: Float[np.ndarray, "B N"]) -> Float[np.ndarray, "B N A"]:
    """`Q(x,a) = R(x,a) + d Σ_x' P(x'|x,a) v(x')`."""
    ahead = _times(values, hidden.kernel.stacked.T).reshape(len(values), hidden.num_states, -1)
    ahead *= paid.discount
    ahead += paid.reward
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
    """Forward and backward passes of some tables. Weights and occupancies are found once for all quantities."""

    def __init__(self, hidden: Hidden, tables: Tables, stationary: bool, starts: np.ndarray | None):
        self.hidden, self.stationary = hidden, stationary
        self.starts = np.broadcast_to(hidden.start, (len(tables), hidden.num_states)) if starts is None else starts
        self._tables = tables
        fits = self.stationary or tables[..., 0].size // max(1, hidden.num_cells) * self.starts.size <= _SMALL
        self._weights = tables if hidden.rows_are_states else tables[:, :, hidden.cell] if fits else None

    def weights(self, time: int) -> Float[np.ndarray, "B N A"]:
        """`π_t(a|x)` on hidden states."""
        row = 0 if self.stationary else time
        return self._tables[:, row][:, self.hidden.cell] if self._weights is None else self._weights[:, row]

    def values(self, paid: Sequence[Paid]) -> Float[np.ndarray, "K B"]:
        """The sum of each quantity for each table."""
        found = np.empty((len(paid), len(self._tables)))
        for number, one in enumerate(paid):
            plain, offset = one.centred(self.hidden.horizon)
            if plain.after is not None and self.stationary:
                found[number] = [start @ self._endless(plain, row)[0] for row, start in enumerate(self.starts)]
            else:
                values = self._last(plain, offset)
                for time in range(self.hidden.horizon - 1, -1, -1):
                    actions = expected_values(self.hidden, plain, values)
                    actions *= self.weights(time)
                    values = _over_actions(actions)
                found[number] = np.sum(self.starts * values, axis=1)
            found[number] += offset
        return found

    def values_and_gradients(self, paid: Sequence[Paid]) -> tuple[np.ndarray, np.ndarray]:
        """The sums and their gradients in the tables."""
        endless = [one.after is not None and self.stationary for one in paid]
        occupied = [] if all(endless) else self._occupancies()
        values, gradients = np.empty((len(paid), len(self._tables))), []
        for number, one in enumerate(paid):
            plain, offset = one.centred(self.hidden.horizon)
            if endless[number]:
                values[number], gradient = self._endless_gradient(plain)
            else:
                values[number], gradient = self._gradient(plain, self._last(plain, offset), occupied)
            values[number] += offset
            gradients.append(gradient)
        return values, gradients[0][None] if len(gradients) == 1 else np.stack(gradients)

    def _last(self, plain: Paid, offset: float) -> Float[np.ndarray, "B N"]:
        """What the states of time T are worth, less the offset of rewards that are centred."""
        return np.broadcast_to(plain.terminal if plain.after is None else plain.last - offset, self.starts.shape)

    def _occupancies(self) -> list[Float[np.ndarray, "B N"]]:
        """`P(x_t = x)` for t < T."""
        found, batch = [self.starts], len(self._tables)
        for time in range(self.hidden.horizon - 1):
            taken = found[-1][:, :, None] * self.weights(time)
            found.append(_times(taken.reshape(batch, -1), self.hidden.kernel.stacked))
        return found

    def _gradient(
        self, plain: Paid, values: np.ndarray, occupied: list[np.ndarray]
    ) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B T C A"]]:
        """The sums over the horizon, from what the states of time T are worth, and their gradients."""
        hidden, gradient = self.hidden, np.zeros(self._tables.shape)
        always = np.zeros((len(self._tables), hidden.num_states, self._tables.shape[3])) if self.stationary else None
        for time in range(hidden.horizon - 1, -1, -1):
            actions = expected_values(hidden, plain, values)
            gained = (plain.discount**time * occupied[time])[:, :, None] * actions
            if always is None:
                gradient[:, time] = sum_by_cell(hidden, gained)
            else:
                always += gained
            actions *= self.weights(time)
            values = _over_actions(actions)
        if always is not None:
            gradient[:, 0] = sum_by_cell(hidden, always)
        return np.sum(self.starts * values, axis=1), gradient

    def _endless_gradient(self, plain: Paid) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, "B 1 C A"]]:
        """The same for stationary policies over an infinite horizon."""
        totals, gained = np.empty(len(self._tables)), []
        for row, start in enumerate(self.starts):
            values, transitions = self._endless(plain, row)
            occupied = solve_discounted(transitions.T, plain.discount, start)
            totals[row] = start @ values
            gained.append(occupied[:, None] * expected_values(self.hidden, plain, values[None])[0])
        return totals, sum_by_cell(self.hidden, np.stack(gained))[:, None]

    def _endless(self, plain: Paid, row: int) -> tuple[Float[np.ndarray, " N"], Matrix]:
        """What each state is worth to a stationary policy over an infinite horizon, and the transitions under it."""
        weights = self.weights(0)[row]
        transitions = self.hidden.kernel.mix(weights)
        return solve_discounted(transitions, plain.discount, np.sum(weights * plain.reward, axis=1)), transitions


def _over_actions(values: Float[np.ndarray, "B N A"]) -> Float[np.ndarray, "B N"]:
    """Sums over the actions: of few, one after the other, the same numbers in a fifth of the time."""
    if values.shape[2] > _FEW_ACTIONS:
        return np.sum(values, axis=2)
    total = values[:, :, 0].copy()
    for action in range(1, values.shape[2]):
        total += values[:, :, action]
    return total


def _times(rows: Float[np.ndarray, "B n"], matrix: Matrix) -> Float[np.ndarray, "B m"]:
    """`row @ matrix` for each row by itself: a product of all rows together would round otherwise than that of one."""
    if isinstance(matrix, np.ndarray):
        return np.matmul(np.ascontiguousarray(rows)[:, None], matrix)[:, 0]
    found = [row @ matrix for row in rows]
    return found[0][None] if len(found) == 1 else np.stack(found)
