"""What `layers` computes, in JAX: a search on fresh samples works on an accelerator with the same calls.

Tables are float64 arrays on the device and stay there; values, posteriors and statistics of the secret come back. Messages
run over all states of the chain at all times. Sequences are worked on in chunks of one size, so that each function is
compiled once.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Float, Int

from ..common.clock import UNLIMITED, Clock
from ..common.logs import device_log, device_log2_or_zero
from ..common.workers import ALONE, Team
from ..engine.backends.column_steps import reachable_sets
from ..engine.device_steps import (
    Array,
    Fixed,
    Near,
    Span,
    backward,
    by_cell,
    by_state,
    divided,
    expect,
    forward,
    gradient_of,
    jit_forward,
    mix_rows,
    no_gradient,
    place,
    pull,
    push,
)
from ..engine.hidden import Hidden
from ..engine.kernel import num_columns
from .backend import Draw
from .device_layout import Layout
from .layers import Measure
from .parameters import TableParameters, least_share, softmax
from .policy_class import Space

_AXIS = "sequences"


class Setting(NamedTuple):
    """What is fixed for a whole search, and decides what is compiled."""

    span: Span
    chunk: int
    num_first: int
    mesh: Mesh | None


class DeviceLayers:
    """Sampled values, exact returns and soft policies of one hidden chain on the device of JAX; the interface of `Layers`.

    A table is `(T, C, A)`, or `(1, C, A)` for all times, of NumPy or of JAX.
    """

    def __init__(self, hidden: Hidden, layout: Layout):
        self.hidden, self.layout = hidden, layout
        self.fixed = place(hidden)
        first = hidden.first.tocoo()
        self._num_first = num_columns(hidden.first)
        places = first.row * np.int64(self._num_first) + first.col
        emitter_of = np.argmax([emitter.actions for emitter in hidden.emitters], axis=0)
        # Running sums from which start states and first events are drawn, float64 whatever the search uses.
        self._draws = jax.device_put((np.cumsum(first.data), places, emitter_of))
        self.span = Span(hidden.split_time, hidden.horizon, layout.every)
        self._sent: tuple[Any, Any] | None = None

    @property
    def num_entries(self) -> int:
        """Transitions at all times."""
        return self.hidden.kernel.num_entries * self.hidden.horizon

    def send(self, table: Any) -> Any:
        """A table on the device in float64; the newest that came from NumPy is remembered."""
        if isinstance(table, jax.Array):
            return table
        if self._sent is None or self._sent[0] is not table:
            self._sent = table, jnp.asarray(table, dtype=jnp.float64)
        return self._sent[1]

    def draw(self, table: Any, count: int, generator: np.random.Generator) -> Int[np.ndarray, "k T+1"]:
        """Event sequences of independent runs under a table."""
        key, table = jax.random.key(int(generator.integers(2**63))), self.send(table)

        def drawn(number: int) -> Any:
            return _draw(self.fixed, self._draws, table, key, number, self._setting)

        return self._in_chunks(count, UNLIMITED, drawn)

    def posteriors(
        self, table: Any, events: Int[np.ndarray, "k T+1"], clock: Clock = UNLIMITED
    ) -> Float[np.ndarray, "k Z"]:
        """`P(z|y)` of sequences."""
        size, table, count = self.layout.chunk, self.send(table), len(events)
        filled = np.pad(events, ((0, -count % size), (0, 0)), mode="edge")

        def found(number: int) -> Any:
            part = filled[number * size : (number + 1) * size]
            return jit_forward(self.fixed, table, part.T, self.span, keep=False)[0]

        return self._in_chunks(count, clock, found)

    def _in_chunks(self, count: int, clock: Clock, work: Callable[[int], Any]) -> np.ndarray:
        """What is found for each of so many sequences, `(count, …)`, from `work(number)`, `(…, chunk)`, of each chunk."""
        parts = list[np.ndarray]()
        for number in range(-(-count // self.layout.chunk)):
            clock.check()
            parts.append(np.asarray(work(number)).T)
        return np.concatenate(parts)[:count]

    def estimate(
        self, table: Any, draw: Draw, measure: Measure, clock: Clock, team: Team = ALONE, *, gradient: bool
    ) -> tuple[float, float, Any]:
        """See `Layers.estimate`, of the entropy of the posterior, in float32; with `gradient` without an error.

        Noise of sampling is larger by orders of magnitude than rounding.
        """
        table, key = self.send(table).astype(np.float32), jax.random.key(draw.seed)
        if gradient:
            clock.check()
            chunks = np.int32(-(-draw.sequences // self.layout.chunk))
            mean, slope = _sampled_gradient(self._single, self._draws, table, key, chunks, self._setting)
            return float(mean), 0.0, slope

        def found(number: int) -> Any:
            return _sampled_bits(self._single, self._draws, table, key, number, self._setting)

        bits = self._in_chunks(draw.sequences, clock, found).astype(float)
        return float(bits.mean()), float(bits.std(ddof=1) / len(bits) ** 0.5), None

    @cached_property
    def _single(self) -> Fixed:
        """The chain in float32."""
        return jax.device_put(place(self.hidden, np.float32))

    @cached_property
    def _setting(self) -> Setting:
        devices = jax.devices()[: 2 ** (len(jax.devices()).bit_length() - 1)]
        mesh = Mesh(np.array(devices), (_AXIS,)) if len(devices) > 1 else None
        return Setting(self.span, self.layout.chunk, self._num_first, mesh)

    @cached_property
    def _rewards(self) -> "Rewards":
        """What the return depends on beside the transitions."""
        paid, hidden = self.hidden.paid[0], self.hidden
        discounts = paid.discount ** np.arange(hidden.horizon + 1)
        found = Rewards(paid.reward, paid.last, hidden.start, discounts, np.array(paid.discount))
        return jax.device_put(Rewards(*(part.astype(np.float64) for part in found)))

    def summed(
        self, tables: Any, numbers: Sequence[int], *, gradient: bool = True
    ) -> tuple[Float[np.ndarray, "1 B"], list[Any]]:
        """The return of each table, with its gradient that of one table; a search on a device has no other quantity."""
        assert tuple(numbers) == (0,)
        if not gradient:
            return np.array([[float(_value(self.fixed, self.send(table), self._rewards)) for table in tables]]), [None]
        assert len(tables) == 1
        value, slope, _ = _returns(self.fixed, self.send(tables[0]), self._rewards)
        return np.array([[float(value)]]), [slope[None]]

    def seen(self, table: Any) -> tuple[Float[np.ndarray, " Z"], Float[np.ndarray, "T+1 E Z"]]:
        """See `Layers.seen`."""
        prior, seen = _seen(self.fixed, self.send(table), self._rewards.start, self.span)
        return np.asarray(prior), np.asarray(seen)

    def prior(self, table: Any) -> Float[np.ndarray, " Z"]:
        """`P(z)`."""
        return self.seen(table)[0]

    def soft_table(self, weight: float, prize: Any, cost: Any, terminal: Any, available: Any) -> Any:
        """See `Layers.soft_table`; rows of states that are not reachable are those of the induction too."""
        return _soft_table(self.fixed, self._rewards, self._masks, weight, prize, cost, available, self.span)

    @cached_property
    def _masks(self) -> Any:
        """`(T, N)`, 1 where a state is reachable; None where every state is a row of its own."""
        if self.fixed.cell is None:
            return None
        masks = np.zeros((self.hidden.horizon, self.hidden.num_states))
        for time, reached in enumerate(reachable_sets(self.hidden)[:-1]):
            masks[time, reached] = 1.0
        return jax.device_put(masks)

    def time_average(self, table: Any) -> Any:
        """The stationary table `(1, C, A)` that takes each action as often as a time-dependent one."""
        return _time_average(self.fixed, self.send(table), _returns(self.fixed, self.send(table), self._rewards)[2])


def pick(weights: Any, uniform: Any) -> Any:
    """For each row the index that a uniform number draws from its weights, summed in float64."""
    sums = jnp.cumsum(weights.astype(jnp.float64), axis=1)
    return jnp.argmax(sums > (uniform * sums[:, -1])[:, None], axis=1)


def draw_events(
    fixed: Fixed,
    sums: tuple[Any, Any, Any],
    table: Any,
    key: Any,
    number: Any,
    setting: "Setting",
) -> Any:
    """Event sequences `(T+1, n)` of independent runs: those of one number, by a key for all."""
    key, count, span = jax.random.fold_in(key, number), setting.chunk, setting.span
    first_sums, first_places, emitter_of = sums
    uniform = jax.random.uniform(key, (3 * span.horizon + 1, count), dtype=jnp.float64)
    entry = jnp.searchsorted(first_sums, uniform[-1] * first_sums[-1], side="right")
    states, first = jnp.divmod(first_places[jnp.minimum(entry, len(first_places) - 1)], setting.num_first)

    def step(states: Any, given: Any) -> tuple[Any, Any]:
        time, drawn = given
        cells = states if fixed.cell is None else fixed.cell[states]
        actions = pick(table[time if table.shape[0] != 1 else 0][cells], drawn[0])
        if isinstance(fixed.transitions, Near):
            near = fixed.transitions
            slot = pick(near.probability[states, :, actions], drawn[1])
            states = near.out_column[states, slot].astype(states.dtype)
        else:
            states = pick(fixed.transitions[actions, states], drawn[1])
        return states, pick(fixed.emissions[emitter_of[actions], states], drawn[2])

    times = np.arange(span.horizon, dtype=np.int32)
    _, later = jax.lax.scan(step, states, (times, uniform[:-1].reshape(span.horizon, 3, count)))
    return jnp.concatenate([first[None], later]).astype(jnp.int32)


_draw = jax.jit(draw_events, static_argnames="setting")


@partial(jax.jit, static_argnames="setting")
def _sampled_gradient(
    fixed: Fixed, sums: tuple[Any, Any, Any], table: Any, key: Any, chunks: Any, setting: Setting
) -> tuple[Any, Any]:
    """Bits on fresh sequences, and their unbiased gradient in the table with a baseline of all others in a chunk."""

    def work(fixed: Fixed, sums: tuple[Any, Any, Any], table: Any, key: Any, chunks: Any) -> tuple[Any, Any]:
        def events(number: Any) -> Any:
            return draw_events(fixed, sums, table, key, number, setting)

        return gradient_of_chunks(fixed, table, events, chunks, setting)

    if setting.mesh is None:
        return work(fixed, sums, table, key, chunks)
    everywhere = PartitionSpec()
    run = jax.shard_map(work, mesh=setting.mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
    return run(fixed, sums, table, key, chunks)


@partial(jax.jit, static_argnames="setting")
def _sampled_bits(fixed: Fixed, sums: tuple[Any, Any, Any], table: Any, key: Any, number: Any, setting: Setting) -> Any:
    """The entropy of the posterior of each fresh sequence of a chunk."""
    events = draw_events(fixed, sums, table, key, number, setting)
    posterior = forward(fixed, table, events, setting.span, keep=False)[0]
    return -jnp.sum(posterior * device_log2_or_zero(posterior), axis=0)


def gradient_of_chunks(fixed: Fixed, table: Any, events: Any, chunks: Any, setting: Setting) -> tuple[Any, Any]:
    """Mean bits and their gradient over chunks of sequences, `events(number)` being `(T+1, chunk)`."""
    mesh, size = setting.mesh, setting.chunk

    def total(value: Any) -> Any:
        return value if mesh is None else jax.lax.psum(value, _AXIS)

    def mine(sequences: Any) -> Any:
        if mesh is None:
            return sequences
        part = size // mesh.size
        return jax.lax.dynamic_slice_in_dim(sequences, jax.lax.axis_index(_AXIS) * part, part, axis=1)

    def add(number: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        sequences = mine(events(number))
        posterior, _, kept = forward(fixed, table, sequences, setting.span)
        bits = -jnp.sum(posterior * device_log2_or_zero(posterior), axis=0)
        whole = total(bits.sum())
        costs, baseline = -device_log2_or_zero(posterior), (whole - bits) / (size - 1)
        if setting.span.split == 0:  # see `bits.advantages`
            paid = posterior * costs
            cost, count = (total(one.sum(axis=1, keepdims=True)) for one in (paid, posterior))
            baseline = (baseline + cost - paid) / (1 + count - posterior)
        share = 1 / (size * chunks).astype(table.dtype)
        slope = jnp.where(posterior > 0, (costs - baseline) * share, 0.0)
        gathered = backward(fixed, table, kept, sequences, setting.span, slope, carry[1])
        return carry[0] + whole * share, gathered

    begin = jnp.zeros((), table.dtype), no_gradient(fixed, table)
    bits, gathered = jax.lax.fori_loop(0, chunks, add, begin)
    return bits, total(gradient_of(fixed, table, gathered))


def _at(table: Any, time: Any) -> Any:
    return table[0 if table.shape[0] == 1 else time]


class Rewards(NamedTuple):
    """What the return depends on beside the transitions."""

    reward: Array  # (N, A)
    terminal: Array
    start: Array
    discounts: Array  # (T+1,), γ^t
    discount: Array

    @property
    def times(self) -> np.ndarray:
        """Times of the decisions."""
        return np.arange(self.discounts.shape[0] - 1, dtype=np.int32)

    def actions(self, fixed: Fixed, values: Any) -> Any:
        """`R(x,a) + γ Σ_x' P(x'|x,a) values(x')`."""
        return self.reward + self.discount * expect(fixed, values)


def returns_and_gradient(fixed: Fixed, table: Any, rewards: Rewards) -> tuple[Any, Any, Any]:
    """The return over the horizon, its gradient in the table, and the occupancies `P(x_t = x)` for t < T."""

    def ahead(mass: Any, time: Any) -> tuple[Any, Any]:
        matrix = mix_rows(fixed, by_state(fixed, _at(table, time)))
        return push(fixed, matrix, mass[:, None])[:, 0], mass

    def back(state: Any, given: Any) -> tuple[Any, None]:
        (values, slope), (time, mass) = state, given
        actions = rewards.actions(fixed, values)
        found = by_cell(fixed, rewards.discounts[time] * mass[:, None] * actions, table.shape[1])
        slope = slope.at[0 if table.shape[0] == 1 else time].add(found)
        return (jnp.sum(by_state(fixed, _at(table, time)) * actions, axis=1), slope), None

    _, occupied = jax.lax.scan(ahead, rewards.start, rewards.times)
    begin = rewards.terminal, jnp.zeros_like(table)
    (values, slope), _ = jax.lax.scan(back, begin, (rewards.times, occupied), reverse=True)
    return rewards.start @ values, slope, occupied


_returns = jax.jit(returns_and_gradient)


@jax.jit
def _value(fixed: Fixed, table: Any, rewards: Rewards) -> Any:
    """The return alone: what only its gradient needs is not computed."""
    return returns_and_gradient(fixed, table, rewards)[0]


@partial(jax.jit, static_argnames="span")
def _seen(fixed: Fixed, table: Any, start: Any, span: Span) -> tuple[Any, Any]:
    """`P(z)` and `P(event at t, z)` of the later events, as if all actions emitted like the first emitter."""
    emission, label = fixed.emissions[0], fixed.label

    def matrix(time: Any) -> Any:
        return mix_rows(fixed, by_state(fixed, _at(table, time)))

    def told(spread: Any) -> Any:
        return jnp.matmul(emission.T, spread, precision="highest")

    def occupy(mass: Any, time: Any) -> tuple[Any, Any]:
        mass = push(fixed, matrix(time), mass[:, None])[:, 0]
        return mass, mass

    def forecast(ahead: Any, given: Any) -> tuple[Any, Any]:
        time, mass = given
        return pull(fixed, matrix(time), ahead), told(mass[:, None] * ahead)

    def follow(spread: Any, time: Any) -> tuple[Any, Any]:
        spread = push(fixed, matrix(time), spread)
        return spread, told(spread)

    mass, occupied = jax.lax.scan(occupy, start, span.before)
    spread = mass[:, None] * label
    _, before = jax.lax.scan(forecast, label, (span.before, occupied), reverse=True)
    _, after = jax.lax.scan(follow, spread, span.after[::-1])
    return spread.sum(axis=0), jnp.concatenate([jnp.zeros_like(told(spread))[None], before, after])


@partial(jax.jit, static_argnames="span")
def _soft_table(
    fixed: Fixed, rewards: Rewards, masks: Any, weight: Any, prize: Any, cost: Any, available: Any, span: Span
) -> Any:
    open_actions = by_state(fixed, available)

    def step(values: Any, given: Any) -> tuple[Any, Any]:
        time, mask = given
        scores = weight * rewards.discounts[time] * rewards.reward
        for actions, emission in zip(fixed.actions, fixed.emissions, strict=True):
            scores = scores + expect(fixed, values - emission @ cost[time + 1]) * actions
        if mask is not None:
            # Of states that are not reachable no other one depends.
            scores = by_state(fixed, _cell_means(fixed, scores, mask, available)[0])
        scores = jnp.where(open_actions, scores, -jnp.inf)
        top = scores.max(axis=1, keepdims=True)
        weights = jnp.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        values = (top + device_log(total))[:, 0] + jnp.where(time == span.split, 1.0, 0.0) * prize
        rows = weights / total
        if mask is not None:  # the same for all states of a cell; uniform where none of them is reachable
            rows, is_reached = _cell_means(fixed, rows, mask, available)
            rows = jnp.where(is_reached, rows, available / available.sum(axis=1, keepdims=True))
        return values, rows

    last = weight * rewards.discounts[-1] * rewards.terminal + (prize if span.split == span.horizon else 0.0)
    _, table = jax.lax.scan(step, last, (np.arange(span.horizon, dtype=np.int32), masks), reverse=True)
    return table


def _cell_means(fixed: Fixed, values: Any, mask: Any, available: Any) -> tuple[Any, Any]:
    """The means `(C, A)` over the reachable hidden states of each cell, and which cells have one."""
    sums, counts = (by_cell(fixed, one, available.shape[0]) for one in (values * mask[:, None], mask[:, None]))
    return divided(sums, counts), counts > 0


@jax.jit
def _time_average(fixed: Fixed, table: Any, occupied: Any) -> Any:
    def step(sums: Any, given: Any) -> tuple[Any, None]:
        rows, mass = given
        weight = by_cell(fixed, mass[:, None], table.shape[1])
        return (sums[0] + weight * rows, sums[1] + weight), None

    begin = jnp.zeros_like(table[0]), jnp.zeros_like(table[0][:, :1])
    (sums, total), _ = jax.lax.scan(step, begin, (table, occupied))
    return jnp.where(total > 0, divided(sums, total), table[0])[None]


# Parameters.


class DeviceParameters(TableParameters):
    """`TableParameters` on the device: the parameters in float32, tables in float64, one at a time."""

    def __init__(self, space: Space, base: Float[np.ndarray, "T C A"]):
        super().__init__(space, base)
        self._sent, self._shape, self._share = space.layers.send(base), space.shape, least_share(space)
        self._send = space.layers.send
        self.open = jax.device_put(np.ones((1, space.shape[2]), bool) if self.open.all() else self.open)
        self.rows = None if self._whole else jax.device_put(self.rows)

    def tables(self, theta: Any) -> Any:
        """See `Parameters`."""
        return _filled(theta[0], self.open, self.rows, self._sent, self._shape)[None]

    def pull_back(self, theta: Any, tables: Any, gradient: Any) -> Any:
        """See `Parameters`."""
        rows, gradient = self.used(tables), self.used(jnp.asarray(gradient))
        return _pulled(rows.reshape(len(rows), *(1,) * (gradient.ndim - rows.ndim), *rows.shape[1:]), gradient)

    def of(self, table: Any, share: float | None = None) -> Any:
        """See `Parameters`."""
        return _logits(self.used(self._send(table)), self.open, self._share if share is None else share)

    def restored(self, array: np.ndarray) -> Any:
        """See `Parameters`."""
        return jnp.asarray(array, dtype=jnp.float32)


@partial(jax.jit, static_argnames="shape")
def _filled(theta: Any, opened: Any, rows: Any, base: Any, shape: tuple[int, int, int]) -> Any:
    """A table of its rows; those that cannot be used are the base's."""
    weights = softmax(theta.astype(jnp.float64), opened)
    return weights.reshape(shape) if rows is None else base.reshape(-1, shape[2]).at[rows].set(weights).reshape(shape)


@jax.jit
def _logits(rows: Any, opened: Any, share: Any) -> Any:
    mixed = (1 - share) * rows + share / opened.sum(axis=1, keepdims=True)
    return jnp.where(opened, device_log(jnp.where(opened, mixed, 1.0)), 0.0).astype(jnp.float32)


@jax.jit
def _pulled(rows: Any, gradient: Any) -> Any:
    return (rows * (gradient - jnp.sum(rows * gradient, axis=-1, keepdims=True))).astype(jnp.float32)
