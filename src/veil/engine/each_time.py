"""A secret with a value at every time: the times at which it is read, and one chain for each time.

Passes along samples read all times off the messages of one pass, as `readings` says. What works on all sequences takes the
chain of each time, whose secret is the value at time t and whose observations end there.

With `ahead` the value lies in the future: its label is then the forecast `P(z | x_t)`, which depends on the policy. To carry
the gradient of a measure back through a forecast, the chain gets one step more, in which "actions" choose the value: the row
of a hidden state in that step is its forecast, and the gradient in this row is that in the forecast.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..common.memo import memo
from .chain import Chain
from .compile import one_hot
from .hidden import Emitter, Hidden
from .kernel import make_kernel, num_columns

Gradient = Float[np.ndarray, "T C A"]


@dataclass(frozen=True, eq=False)
class AtTime:
    """One time of a chain whose secret has a value at every time.

    **Attributes:** `whole`: that chain; `chain`: whose secret is the value at `time`, and which ends there; `weight` of that
    time.
    """

    whole: Chain
    time: int
    weight: float
    chain: Chain

    @property
    def is_forecast(self) -> bool:
        """Whether the value lies in the future, so that its label depends on the policy."""
        each = self.whole.hidden.each
        return each is not None and each.ahead > 0 and self.time < self.whole.hidden.horizon

    @cached_property
    def with_slopes(self) -> Chain:
        """The chain of which a gradient is taken: with one step more if the value is a forecast."""
        if not self.is_forecast:
            return self.chain
        hidden, table = with_choice(self.whole.hidden), self.whole.table
        states, actions = self.whole.hidden.num_states, self.whole.hidden.kernel.num_actions
        rows = np.zeros((self.time + 1, hidden.num_states, hidden.kernel.num_actions))
        for time in range(self.time):
            rows[time, :states, :actions] = table[0 if self.whole.stationary else time][self.whole.hidden.cell]
        rows[self.time, :states, actions:] = self.chain.hidden.label
        rows[:, states:, actions] = 1.0  # which no run enters before the end
        return Chain(replace(hidden, split_time=self.time + 1, horizon=self.time + 1), rows, stationary=False)

    def in_table(self, slope: Gradient) -> Gradient:
        """The gradient in the table of the whole chain from that in the table of `with_slopes`."""
        whole, result = self.whole, np.zeros(self.whole.table.shape)
        if not self.is_forecast:
            result[: len(slope)] = slope
            return result
        states, actions = whole.hidden.num_states, whole.hidden.kernel.num_actions
        for time in range(self.time):
            np.add.at(result[0 if whole.stationary else time], whole.hidden.cell, slope[time, :states, :actions])
        last = slope[self.time, :states, actions:]
        _pull_visits(whole, self.time, last[:, 1] - last[:, 0], result)
        return result


@dataclass(frozen=True, eq=False)
class Reading:
    """A time at which the secret is read off the messages: `label`, `(N, Z)`, is `P(z | x_t)`."""

    time: int
    label: Float[np.ndarray, "N Z"]


def readings(chain: Chain, *, every: bool = False) -> list[Reading]:
    """The times at which a chain's secret has a value, in order: one, or those that count (all of them with `every`)."""
    hidden, each = chain.hidden, chain.hidden.each
    if each is None:
        return [Reading(hidden.split_time, hidden.label)]
    times = range(hidden.horizon + 1) if every else np.flatnonzero(each.weights).tolist()
    if each.ahead == 0:
        label = memo(hidden, readings, lambda: _value_labels(hidden).toarray())
        return [Reading(time, label) for time in times]
    plain = _plain(chain)
    return [Reading(time, _forecast(plain, time)) for time in times]


def weights_that_count(hidden: Hidden) -> Float[np.ndarray, " R"]:
    """The weights of the times of `readings`."""
    return np.ones(1) if hidden.each is None else hidden.each.weights[hidden.each.weights > 0]


def last_reading(chain: Chain) -> int:
    """The last of the times of `readings`."""
    each = chain.hidden.each
    return chain.hidden.split_time if each is None else int(np.flatnonzero(each.weights)[-1])


def pull_labels(chain: Chain, slopes: Mapping[int, Float[np.ndarray, "N Z"]], result: Gradient) -> None:
    """Add to a gradient in the table that through the labels of `readings`, from the slopes in those of each time."""
    each = chain.hidden.each
    if each is not None and each.ahead > 0:
        for time, slope in slopes.items():
            _pull_visits(_plain(chain), time, slope[:, 1] - slope[:, 0], result)


def times_of(chain: Chain, *, every: bool = False) -> list[AtTime]:
    """The times of a chain whose secret has a value at every time, those of weight 0 left out unless `every`.

    Of a secret that has its value at one time it is that time, and the chain itself.
    """
    hidden, each = chain.hidden, chain.hidden.each
    if each is None:
        return [AtTime(chain, hidden.split_time, 1.0, chain)]
    plain, found = _plain(chain), []
    for time in range(hidden.horizon + 1) if every else np.flatnonzero(each.weights).tolist():
        labels = _value_labels(hidden) if each.ahead == 0 else sp.csr_array(_forecast(plain, time))
        here = plain.during(0, time, labels=labels, split_time=time, each=None)
        found.append(AtTime(plain, time, float(each.weights[time]), here))
    return found


def until_each_time(chain: Chain) -> list[Chain]:
    """For each time the chain that ends there: with the secret, if it is settled then, or its forecast.

    Of a secret with a value at every time, the value at that time.
    """
    if chain.hidden.each is not None:
        return [one.chain for one in times_of(chain, every=True)]
    labels, last = chain.forecasts, chain.hidden.split_time
    seen = [min(time, last) for time in range(chain.hidden.horizon + 1)]
    return [chain.during(0, time, split_time=at, labels=sp.csr_array(labels[at])) for time, at in enumerate(seen)]


def _plain(chain: Chain) -> Chain:
    return chain if chain.followed is None else chain.on(chain.hidden)


def _value_labels(hidden: Hidden) -> sp.csr_array:
    each = hidden.each
    assert each is not None
    return memo(hidden, _value_labels, lambda: one_hot(each.value, num_columns(hidden.labels)))


def _forecast(chain: Chain, time: int) -> Float[np.ndarray, "N 2"]:
    """`P(visits the states with value 1 between t and t + ahead | x_t)` as labels."""
    visits = _visits(chain, time)[0]
    return np.column_stack([1 - visits, visits])


def _visits(chain: Chain, time: int) -> list[Float[np.ndarray, " N"]]:
    """The probability of a visit from each time t, t + 1, … to the last one that counts."""
    hidden, each = chain.hidden, chain.hidden.each
    assert each is not None
    inside = each.value == 1
    found = [inside.astype(float)]
    for step in range(min(time + each.ahead, hidden.horizon) - 1, time - 1, -1):
        found.append(np.where(inside, 1.0, np.clip(chain.pull(found[-1], step), 0.0, 1.0)))
    return found[::-1]


def _pull_visits(chain: Chain, time: int, slope: Float[np.ndarray, " N"], result: Gradient) -> None:
    """Add to a gradient in the table that through the probability of a visit, from the `slope` in it."""
    hidden, each = chain.hidden, chain.hidden.each
    assert each is not None
    outside: Bool[np.ndarray, " N"] = each.value != 1
    stacked, actions = hidden.kernel.stacked, hidden.kernel.num_actions
    for number, after in enumerate(_visits(chain, time)[1:]):
        slope = slope * outside
        step = time + number
        each_action = np.asarray(stacked @ after).reshape(-1, actions)
        np.add.at(result[0 if chain.stationary else step], hidden.cell, slope[:, None] * each_action)
        slope = chain.push(slope, step)


def with_choice(hidden: Hidden) -> Hidden:
    """The chain with a state and an action for each value of the secret; each hidden state has a row of its own.

    The new action of a value leads to its state, from everywhere, and always shows the first event.
    """
    return memo(hidden, with_choice, lambda: _with_choice(hidden))


def _with_choice(hidden: Hidden) -> Hidden:
    states, actions, values = hidden.num_states, hidden.kernel.num_actions, hidden.num_values
    size, events = states + values, hidden.num_events
    stacked = sp.csr_array(hidden.kernel.stacked)
    stay: Int[np.ndarray, " Z"] = np.arange(states, size)
    matrices = []
    for action in range(actions):
        own = sp.coo_array(stacked[action::actions])
        places = (np.concatenate([own.row, stay]), np.concatenate([own.col, stay]))
        matrices.append(sp.csr_array((np.concatenate([own.data, np.ones(values)]), places), shape=(size, size)))
    for state in stay.tolist():
        column = (np.arange(size), np.full(size, state))
        matrices.append(sp.csr_array((np.ones(size), column), shape=(size, size)))
    quiet = sp.csr_array((np.ones(values), (stay, np.zeros(values, dtype=int))), shape=(size, events))
    emitters = []
    for one in hidden.emitters:
        table = sp.csr_array(sp.vstack([one.table, quiet[states:]]))
        emitters.append(Emitter(np.concatenate([one.actions, np.zeros(values, dtype=bool)]), table))
    emitters.append(Emitter(np.arange(actions + values) >= actions, quiet))
    first = sp.csr_array(sp.vstack([hidden.first, sp.csr_array((values, num_columns(hidden.first)))]))
    marks = one_hot(np.concatenate([np.full(states, -1), np.arange(values)]), values)
    return hidden.at(
        np.concatenate([np.arange(states), np.zeros(values, dtype=int)]),
        kernel=make_kernel(matrices),
        start=np.concatenate([hidden.start, np.zeros(values)]),
        first=first,
        emitters=tuple(emitters),
        paid=(),
        cell=np.arange(size),
        num_cells=size,
        labels=marks,
        each=None,
    )
