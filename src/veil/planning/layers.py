"""Sampled gradients for a search over a large sparse model: messages over the states that can be reached at each time.

The recursions are those of `engine.columns`, arranged for many policies of one class: the states that are reachable at each
time, the pattern of the transitions between them and the tables to draw from are made once, and an iteration fills in
numbers only. With one start state, most states cannot be reached at most times.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import natural_log, posteriors
from ..engine.chain import Chain, sum_by_cell, sum_over
from ..engine.hidden import Hidden
from ..engine.kernel import Kernel, SparseKernel
from ..engine.sampling import Emissions, RowDraws
from ..engine.sequences import inverse
from .best_returns import time_average

_CACHED = 2**16  # numbers of a gathered piece that stays in the cache
_MOST_ENTRIES = 2**25  # transitions of all times together; beyond, all times share the states that are reached at any
_MESSAGE_BYTES = 2**30  # of messages kept for the adjoint; more sequences are worked on in several lanes


@dataclass(eq=False)
class _Step:
    """The transitions from the states of one time to those of the next, for each channel by source and by target.

    `ahead[c]`, `(n, m)`, and `back[c]`, its transpose, are matrices of one pattern whose numbers `fill` sets; `order` are
    the entries of `back` in the order of `ahead`.
    """

    here: Int[np.ndarray, " n"]
    there: Int[np.ndarray, " m"]
    rows: Int[np.ndarray, " e"]
    columns: Int[np.ndarray, " e"]
    probabilities: Float[np.ndarray, "e A"]
    ahead: list[sp.csr_array]
    back: list[sp.csr_array]
    order: Int[np.ndarray, " e"]
    filled: int = field(default=-1)

    def fill(self, weights: Float[np.ndarray, "n A"], channels: list[np.ndarray]) -> None:
        """Set the transitions of each channel to `Σ_{a in channel} weights(x,a) P(x'|x,a)`."""
        for actions, ahead, back in zip(channels, self.ahead, self.back, strict=True):
            used = weights if actions.all() else weights * actions
            np.einsum("ea,ea->e", self.probabilities, used[self.rows], out=ahead.data)
            np.take(ahead.data, self.order, out=back.data)

    def outer(self, left: Float[np.ndarray, "n k"], right: Float[np.ndarray, "m k"]) -> Float[np.ndarray, " e"]:
        """`Σ_k left(x,k) right(x',k)` for each entry."""
        result = np.empty(len(self.rows))
        step = max(64, _CACHED // left.shape[1])
        for begin in range(0, len(result), step):
            part = slice(begin, begin + step)
            np.einsum("ek,ek->e", left[self.rows[part]], right[self.columns[part]], out=result[part])
        return result

    def contract(self, outer: Float[np.ndarray, " e"]) -> Float[np.ndarray, "n A"]:
        """`Σ_x' P(x'|x,a) outer(x,x')`."""
        return np.add.reduceat(outer[:, None] * self.probabilities, self.ahead[0].indptr[:-1], axis=0)


class Layers:
    """Sampled values and gradients, exact returns and soft policies of one hidden chain.

    A table is `(T, C, A)`, or `(1, C, A)` for all times.

    Cost of making it: the pattern of the transitions between reachable states at all times, once.
    """

    def __init__(self, hidden: Hidden):
        self.hidden, self._kernel = hidden, _as_sparse(hidden.kernel)
        self._reached = _reachable(hidden, self._kernel)
        self._channels = [channel.actions for channel in hidden.channels]
        self._steps = self._make_steps()
        self._emitted = [[channel.emission[step.there] for channel in hidden.channels] for step in self._steps]
        self._label = hidden.label[self._reached[hidden.split_time]]
        self._moves, self._emissions = RowDraws(self._kernel.stacked), Emissions(hidden)
        self._channel_of = np.argmax(self._channels, axis=0)
        self._whole = hidden.num_cells == hidden.num_states and bool(
            np.array_equal(hidden.cell, np.arange(hidden.num_states))
        )

    def rows(self, times: int) -> Int[np.ndarray, " R"]:
        """The rows of a table `(times, C, A)`, numbered `t · C + c`, that are used by some policy at some time."""
        return used_rows(self.hidden, self._reached, times)

    @property
    def num_places(self) -> int:
        """The reachable pairs of state and time: the size of the messages of one sequence."""
        return sum(map(len, self._reached))

    @property
    def num_entries(self) -> int:
        """Transitions between them."""
        return sum(len(step.rows) for step in self._steps)

    def _make_steps(self) -> list[_Step]:
        made: dict[tuple[int, int], _Step] = {}
        result = []
        for here, there in itertools.pairwise(self._reached):  # equal sets are one array
            pair = (id(here), id(there))
            if pair not in made:
                made[pair] = _make_step(self._kernel, here, there, len(self._channels))
            result.append(made[pair])
        return result

    def draw(
        self, table: Float[np.ndarray, "T C A"], count: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "k T+1"]:
        """Event sequences of independent runs under a table."""
        hidden = self.hidden
        events = np.empty((count, hidden.horizon + 1), dtype=np.int64)
        states, events[:, 0] = self._emissions.first(generator.random(count))
        for time in range(hidden.horizon):
            sums = np.cumsum(table[_row(table, time)][hidden.cell[states]], axis=1)
            drawn = generator.random((3, count))
            actions = np.argmax(sums > (drawn[0] * sums[:, -1])[:, None], axis=1)
            states = self._moves.draw(states * self._kernel.num_actions + actions, drawn[1])
            events[:, time + 1] = self._emissions.later(self._channel_of[actions], states, drawn[2])
        return events

    def posteriors(
        self, table: Float[np.ndarray, "T C A"], events: Int[np.ndarray, "k T+1"], clock: Clock = UNLIMITED
    ) -> Float[np.ndarray, "k Z"]:
        """`P(z|y)` of sequences."""
        self._forget()
        parts = []
        for lane in self._lanes(events, kept=4 * max(map(len, self._reached))):
            clock.check()
            parts.append(_Lane(self, table, lane, keep=False).posterior)
        return np.concatenate(parts)

    def gradient(
        self,
        table: Float[np.ndarray, "T C A"],
        events: Int[np.ndarray, "k T+1"],
        cotangent: Callable[[Float[np.ndarray, "k Z"]], Float[np.ndarray, "k Z"]],
        clock: Clock = UNLIMITED,
    ) -> tuple[Float[np.ndarray, "k Z"], Float[np.ndarray, "T C A"]]:
        """Posteriors of sequences, and the gradient in the table whose cotangents are `cotangent(posterior)`, `(k, Z)`.

        A cotangent is `P(y) ∂/∂P(z,y)` of the function of interest. Sequences are worked on in lanes that fit the memory.
        """
        self._forget()
        slope = np.zeros((table.shape[0], self.hidden.num_states, table.shape[2]))
        found = []
        for lane in self._lanes(events, kept=self.num_places):
            clock.check()
            run = _Lane(self, table, lane, keep=True)
            run.pull_back(cotangent(run.posterior) * (len(lane) / len(events)), slope)
            found.append(run.posterior)
        return np.concatenate(found), slope if self._whole else sum_by_cell(self.hidden, slope)

    def _lanes(self, events: np.ndarray, kept: int) -> list[np.ndarray]:
        room = max(2, int(_MESSAGE_BYTES // (8 * kept)))
        return np.array_split(events, -(-len(events) // room))

    def _forget(self) -> None:
        for step in self._steps:
            step.filled = -1

    def step(self, table: np.ndarray, time: int) -> _Step:
        """The transitions at a time, with the numbers of the table."""
        step, key = self._steps[time], _row(table, time)
        if step.filled != key:
            step.fill(table[key][self.hidden.cell[step.here]], self._channels)
            step.filled = key
        return step

    def _spread(self, table: Float[np.ndarray, "T C A"]) -> list[Float[np.ndarray, "n Z"]]:
        """`P(x_t = x, z)` over the reachable states of times 0 … T. Cost: Z products each way."""
        hidden, split = self.hidden, self.hidden.split_time
        self._forget()
        occupied = [hidden.start[self._reached[0]]]
        for time in range(split):
            occupied.append(sum_over(back @ occupied[-1] for back in self.step(table, time).back))
        forecast, result = self._label, [occupied[split][:, None] * self._label]
        for time in range(split - 1, -1, -1):
            forecast = sum_over(ahead @ forecast for ahead in self.step(table, time).ahead)
            result.append(occupied[time][:, None] * forecast)
        result.reverse()
        for time in range(split, hidden.horizon):
            result.append(sum_over(back @ result[-1] for back in self.step(table, time).back))
        return result

    def seen(self, table: Float[np.ndarray, "T C A"]) -> tuple[Float[np.ndarray, " Z"], Float[np.ndarray, "T+1 E Z"]]:
        """`P(z)`, and `P(event at t, z)` of the later events, as if all actions emitted like the first channel."""
        spread = self._spread(table)
        result = np.zeros((len(spread), self.hidden.num_events, self.hidden.num_values))
        for time, emitted in enumerate(self._emitted):
            result[time + 1] = emitted[0].T @ spread[time + 1]
        return spread[self.hidden.split_time].sum(axis=0), result

    def prior(self, table: Float[np.ndarray, "T C A"]) -> Float[np.ndarray, " Z"]:
        """`P(z)`."""
        return Chain(self.hidden, table, stationary=len(table) == 1).prior

    def soft_table(
        self,
        weight: float,
        bonus: Float[np.ndarray, " Z"],
        cost: Float[np.ndarray, "T+1 E"],
        terminal: Float[np.ndarray, " N"],
        available: Bool[np.ndarray, "C A"],
    ) -> Float[np.ndarray, "T C A"]:
        """The time-dependent policy that maximises its entropy in nats plus `weight` times the return, a bonus for each
        value of the secret, less a cost of each event, by soft backward induction over the reachable states.

        Hidden states that the agent cannot tell apart share the mean of their action values. Rows of states that are not
        reachable are uniform.
        """
        hidden, split = self.hidden, self.hidden.split_time
        table = np.tile(available / available.sum(axis=1, keepdims=True), (hidden.horizon, 1, 1))
        values = weight * hidden.discount**hidden.horizon * terminal[self._reached[-1]]
        if split == hidden.horizon:
            values = values + self._label @ bonus
        for time in range(hidden.horizon - 1, -1, -1):
            step = self._steps[time]
            scores = weight * hidden.discount**time * hidden.reward[step.here]
            for actions, emitted in zip(self._channels, self._emitted[time], strict=True):
                ahead = step.contract((values - emitted @ cost[time + 1])[step.columns])
                scores = scores + (ahead if actions.all() else ahead * actions)
            cells = hidden.cell[step.here]
            scores = np.where(available[cells], self._cell_means(scores, cells), -np.inf)
            top = scores.max(axis=1, keepdims=True)
            weights = np.exp(scores - top)
            total = weights.sum(axis=1, keepdims=True)
            table[time, cells] = weights / total
            values = (top + natural_log(total))[:, 0]
            if time == split:
                values = values + self._label @ bonus
        return table

    def _cell_means(self, scores: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """For each state the mean of its cell."""
        if self._whole:
            return scores
        _, index, count = np.unique(cells, return_inverse=True, return_counts=True)
        if len(count) == len(cells):
            return scores
        sums = np.zeros((len(count), scores.shape[1]))
        np.add.at(sums, index, scores)
        return (sums / count[:, None])[index]

    def time_average(
        self, table: Float[np.ndarray, "T C A"], terminal: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, "1 C A"]:
        """The stationary table that takes each action as often as a time-dependent one."""
        return time_average(self.hidden, table, self.returns(table, terminal)[2])[None]

    def value(self, table: Float[np.ndarray, "T C A"], terminal: Float[np.ndarray, " N"]) -> float:
        """The return over the horizon."""
        hidden, values = self.hidden, terminal[self._reached[-1]]
        for time in range(hidden.horizon - 1, -1, -1):
            actions = self._action_values(time, values)
            values = np.sum(table[_row(table, time)][hidden.cell[self._steps[time].here]] * actions, axis=1)
        return float(hidden.start[self._reached[0]] @ values)

    def _action_values(self, time: int, values: np.ndarray) -> Float[np.ndarray, "n A"]:
        step, hidden = self._steps[time], self.hidden
        return hidden.reward[step.here] + hidden.discount * step.contract(values[step.columns])

    def returns(
        self, table: Float[np.ndarray, "T C A"], terminal: Float[np.ndarray, " N"]
    ) -> tuple[float, Float[np.ndarray, "T C A"], Float[np.ndarray, "T N"]]:
        """The return over the horizon, its gradient in the table, and the occupancies `P(x_t = x)` for t < T."""
        hidden = self.hidden
        self._forget()
        occupied = np.zeros((hidden.horizon, hidden.num_states))
        mass = hidden.start[self._reached[0]]
        for time in range(hidden.horizon):
            step = self.step(table, time)
            occupied[time, step.here] = mass
            mass = sum_over(back @ mass for back in step.back)
        slope = np.zeros((table.shape[0], hidden.num_states, table.shape[2]))
        values = terminal[self._reached[-1]]
        for time in range(hidden.horizon - 1, -1, -1):
            step, key = self._steps[time], _row(table, time)
            actions = self._action_values(time, values)
            slope[key, step.here] += hidden.discount**time * occupied[time, step.here][:, None] * actions
            values = np.sum(table[key][hidden.cell[step.here]] * actions, axis=1)
        total = float(hidden.start[self._reached[0]] @ values)
        return total, slope if self._whole else sum_by_cell(hidden, slope), occupied


def _row(table: np.ndarray, time: int) -> int:
    """Which table is used at a time."""
    return 0 if len(table) == 1 else time


def _as_sparse(kernel: Kernel) -> SparseKernel:
    """The transitions as a `SparseKernel`."""
    if isinstance(kernel, SparseKernel):
        return kernel
    states, actions = kernel.num_states, kernel.num_actions
    rows = np.asarray(kernel.stacked).reshape(states, actions, states)
    return SparseKernel([sp.csr_array(rows[:, action]) for action in range(actions)])


def used_rows(hidden: Hidden, reached: list[Int[np.ndarray, " n"]], times: int) -> Int[np.ndarray, " R"]:
    """The rows of a table `(times, C, A)`, numbered `t · C + c`, that are used in states reached at times 0 … T."""
    distinct = {id(states): states for states in reached[: hidden.horizon]}
    cells = {key: np.unique(hidden.cell[states]) for key, states in distinct.items()}
    if not cells:
        return np.zeros(0, dtype=np.int64)
    if times == 1:
        return np.unique(np.concatenate(list(cells.values())))
    used = [time * hidden.num_cells + cells[id(states)] for time, states in enumerate(reached[: hidden.horizon])]
    return np.concatenate(used)


def reachable_sets(hidden: Hidden) -> list[Int[np.ndarray, " n"]]:
    """The states that some policy can reach at times 0 … T; equal sets are one array."""
    return _reachable(hidden, _as_sparse(hidden.kernel))


def _reachable(hidden: Hidden, kernel: SparseKernel) -> list[Int[np.ndarray, " n"]]:
    pattern = sp.csr_array(
        (np.ones(kernel.num_entries, dtype=np.int8), kernel.indices, kernel.indptr), shape=(len(hidden.start),) * 2
    )
    known: dict[bytes, np.ndarray] = {}
    result, reached, lengths = [], hidden.start > 0, np.diff(kernel.indptr)
    for _ in range(hidden.horizon + 1):
        key = np.packbits(reached).tobytes()
        result.append(known.setdefault(key, np.flatnonzero(reached)))
        if len(result) > 1 and result[-1] is result[-2]:  # it stays the same
            continue
        following = np.zeros(len(reached), dtype=bool)
        following[pattern[result[-1]].indices] = True
        reached = following
    distinct = {id(one): one for one in result}
    if sum(int(lengths[one].sum()) for one in distinct.values()) > _MOST_ENTRIES:
        union = np.unique(np.concatenate(result))
        closed = np.unique(np.concatenate([union, pattern[union].indices]))
        return [closed] * len(result)
    return result


def _make_step(kernel: SparseKernel, here: np.ndarray, there: np.ndarray, channels: int) -> _Step:
    local = np.full(kernel.num_states, -1)
    local[there] = np.arange(len(there))
    lengths = np.diff(kernel.indptr)[here]
    ends = np.cumsum(lengths)
    rows = np.repeat(np.arange(len(here)), lengths)
    entries = np.repeat(kernel.indptr[here] - (ends - lengths), lengths) + np.arange(len(rows))
    columns = local[kernel.indices[entries]]
    inside = columns >= 0
    if not inside.all():  # the last states of a union may lead out of it, at a time when they are not reached
        columns, rows, entries = columns[inside], rows[inside], entries[inside]
        ends = np.cumsum(np.bincount(rows, minlength=len(here)))
    indptr, shape = np.concatenate([[0], ends]), (len(here), len(there))
    turned = sp.csr_array((np.arange(len(rows)), columns, indptr), shape=shape).T.tocsr()

    def matrix(indices: np.ndarray, pointers: np.ndarray, size: tuple[int, int]) -> sp.csr_array:
        return sp.csr_array((np.zeros(len(rows)), indices, pointers), shape=size)

    return _Step(
        here=here,
        there=there,
        rows=rows,
        columns=columns,
        probabilities=kernel.probabilities[entries],
        ahead=[matrix(columns, indptr, shape) for _ in range(channels)],
        back=[matrix(turned.indices, turned.indptr, (len(there), len(here))) for _ in range(channels)],
        order=turned.data,
    )


class _Lane:
    """Sequences side by side: forward messages to the secret's time, backward messages to it, and the adjoint of both."""

    def __init__(self, layers: Layers, table: np.ndarray, events: np.ndarray, *, keep: bool):
        self._layers, self._table, self._events, self._keep = layers, table, events, keep
        hidden, reached = layers.hidden, layers._reached
        split, horizon = hidden.split_time, hidden.horizon
        self._forward: list[tuple[np.ndarray, np.ndarray]] = []  # messages and their scales before each step
        self._backward: list[tuple[np.ndarray, np.ndarray]] = []
        alpha = np.ascontiguousarray(hidden.root[reached[0]][:, events[:, 0]])
        for time in range(split):
            alpha = self._ahead(time, alpha)
        beta = None
        if split < horizon:
            beta = np.ones((len(reached[horizon]), len(events)))
            for time in range(horizon - 1, split - 1, -1):
                beta = self._back(time, beta)
        self._alpha, self._beta = alpha, beta
        joint = (alpha if beta is None else alpha * beta).T @ layers._label
        self._total = joint.sum(axis=1)
        self.posterior = posteriors(joint)

    def _factors(self, time: int, scale: np.ndarray) -> list[np.ndarray]:
        """`B_c(x', o_{t+1}) / scale` for each channel, `(m, k)`."""
        events, weight, result = self._events[:, time + 1], inverse(scale), []
        for emission in self._layers._emitted[time]:
            factor = np.take(emission, events, axis=1, mode="clip")
            factor *= weight
            result.append(factor)
        return result

    def _ahead(self, time: int, messages: np.ndarray) -> np.ndarray:
        step, scale, result = self._layers.step(self._table, time), messages.sum(axis=0), None
        if self._keep:
            self._forward.append((messages, scale))
        for back, factor in zip(step.back, self._factors(time, scale), strict=True):
            factor *= back @ messages
            result = factor if result is None else np.add(result, factor, out=result)
        assert result is not None
        return result

    def _back(self, time: int, messages: np.ndarray) -> np.ndarray:
        step, scale = self._layers.step(self._table, time), messages.max(axis=0)
        if self._keep:
            self._backward.append((messages, scale))
        result = None
        for ahead, factor in zip(step.ahead, self._factors(time, scale), strict=True):
            factor *= messages
            part = ahead @ factor
            result = part if result is None else np.add(result, part, out=result)
        assert result is not None
        return result

    def pull_back(self, cotangent: Float[np.ndarray, "k Z"], slope: Float[np.ndarray, "T N A"]) -> None:
        """Add the gradient in the action probabilities of the hidden states."""
        layers, split, horizon = self._layers, self._layers.hidden.split_time, self._layers.hidden.horizon
        spread = layers._label @ (cotangent * inverse(self._total)[:, None]).T
        behind = None if self._beta is None else spread * self._alpha
        if split:
            ahead = spread if self._beta is None else spread * self._beta
            for time in range(split - 1, -1, -1):
                ahead = self._pull_ahead(time, ahead, slope)
        for time in range(split, horizon):
            assert behind is not None
            behind = self._pull_behind(time, behind, slope)

    def _add(self, time: int, channel: int, outer: np.ndarray, slope: np.ndarray) -> None:
        layers = self._layers
        step, actions = layers._steps[time], layers._channels[channel]
        found = step.contract(outer)
        slope[_row(slope, time), step.here] += found if actions.all() else found * actions

    def _pull_ahead(self, time: int, cotangent: np.ndarray, slope: np.ndarray) -> np.ndarray:
        messages, scale = self._forward.pop()
        step, result = self._layers.step(self._table, time), None
        for channel, factor in enumerate(self._factors(time, scale)):
            factor *= cotangent
            self._add(time, channel, step.outer(messages, factor), slope)
            part = step.ahead[channel] @ factor
            result = part if result is None else np.add(result, part, out=result)
        assert result is not None
        return result

    def _pull_behind(self, time: int, cotangent: np.ndarray, slope: np.ndarray) -> np.ndarray:
        messages, scale = self._backward.pop()
        step, result = self._layers.step(self._table, time), None
        for channel, factor in enumerate(self._factors(time, scale)):
            self._add(time, channel, step.outer(cotangent, factor * messages), slope)
            factor *= step.back[channel] @ cotangent
            result = factor if result is None else np.add(result, factor, out=result)
        assert result is not None
        return result
