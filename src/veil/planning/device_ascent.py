"""Ascent on sampled gradients with everything on an accelerator: sampling, messages, adjoint, constraint and Adam.

One compiled function makes one step of one start; two numbers come back from it. Gradients, moments and averages are float32:
noise of sampling is larger by orders of magnitude than rounding. Candidates, their returns and their estimates are float64.
Sequences are drawn and worked on in chunks of one size, whose number is an argument, so that larger batches need no other
compilation. With several devices each takes a part of every chunk; parameters are on all of them, and gradients are added up.
"""

import time
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Float

from ..common.clock import Clock
from ..common.errors import InputError
from ..common.logs import device_log, device_log2_or_zero
from ..engine.device_steps import Array, Fixed, Span, backward, forward, gradient_of, no_gradient, place
from .device_layers import DeviceLayers, Rewards, draw_events, return_value, returns_and_gradient
from .device_plan import COMPILE_SECONDS
from .options import SolveOptions
from .sampled_points import LOWEST, Point
from .starts import LEAST_SHARE
from .stochastic import PENALTY, StochasticAscent
from .stochastic_state import DECAYS, Moved, StepPace, StochasticState
from .task import Task

_AXIS = "sequences"
_SHARE_OF_CHECKS = 0.03  # of the sequences of all gradients; checks are float64 and take longer for each than on a CPU
# Seconds for each state, time and sequence of a step on an H200 (measured: 2.2e-11 to 3e-11). Not measured anew, since the
# same seed has to give the same batches.
_PER_MESSAGE = 2.5e-11
# Seconds for each number of a time-dependent table in which the answer comes from the device and is evaluated on the host
# (measured: 12 to 20 s for 250 million numbers).
_PER_NUMBER = 1e-7


class DeviceSetting(NamedTuple):
    """What is fixed for a whole search, and decides what is compiled."""

    span: Span
    chunk: int
    num_first: int
    shape: tuple[int, int, int]
    mesh: Mesh | None


class Given(NamedTuple):
    """The arrays of a search that never change, in float32 but for the sums that sequences are drawn by."""

    fixed: Fixed
    sums: tuple[Array, Array, Array]
    rewards: Rewards
    open: Array  # (R, A) or, where all rows have all actions, (1, A)
    rows: Array | None  # of the table that are parameters; None where all are
    goal: Array  # sign of the objective, threshold, unit of returns


def entropies(posterior: Any) -> Any:
    """`H(Z|Y=y)` in bits for each column of `P(z|y)`."""
    return -jnp.sum(posterior * device_log2_or_zero(posterior), axis=0)


def sampled_slope(given: Given, table: Any, key: Any, chunks: Any, setting: DeviceSetting) -> tuple[Any, Any]:
    """Bits on fresh sequences, and their unbiased gradient in the table with the baseline of all others in a chunk."""

    def work(given: Given, table: Any, key: Any, chunks: Any) -> tuple[Any, Any]:
        def events(number: Any) -> Any:
            return draw_events(
                given.fixed, given.sums, table, key, number, setting.chunk, setting.num_first, setting.span
            )

        return slope_of_chunks(given.fixed, table, events, chunks, setting)

    if setting.mesh is None:
        return work(given, table, key, chunks)
    everywhere = PartitionSpec()
    run = jax.shard_map(work, mesh=setting.mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)
    return run(given, table, key, chunks)


def slope_of_chunks(fixed: Fixed, table: Any, events: Any, chunks: Any, setting: DeviceSetting) -> tuple[Any, Any]:
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
        bits = entropies(posterior)
        whole = total(bits.sum())
        baseline = (whole - bits) / (size - 1)
        share = 1 / (size * chunks).astype(table.dtype)
        slope = jnp.where(posterior > 0, (-device_log2_or_zero(posterior) - baseline) * share, 0.0)
        gathered = backward(fixed, table, kept, sequences, setting.span, slope, carry[1])
        return carry[0] + whole * share, gathered

    begin = jnp.zeros((), table.dtype), no_gradient(fixed, table)
    bits, gathered = jax.lax.fori_loop(0, chunks, add, begin)
    return bits, total(gradient_of(fixed, table, gathered))


def _rows_of(values: Any, given: Given) -> Any:
    flat = values.reshape(-1, values.shape[2])
    return flat if given.rows is None else flat[given.rows]


def _softmax(theta: Any, given: Given) -> Any:
    weights = jnp.where(given.open, jnp.exp(theta - theta.max(axis=1, keepdims=True)), 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _filled(rows: Any, given: Given, base: Any) -> Any:
    """A table of its rows; those that cannot be used are the base's."""
    if given.rows is None:
        return rows.reshape(base.shape)
    return base.reshape(-1, base.shape[2]).at[given.rows].set(rows).reshape(base.shape)


@partial(jax.jit, static_argnames="setting")
def _moved(
    given: Given,
    state: tuple[Any, Any, Any, Any],
    multiplier: Any,
    key: Any,
    chunks: Any,
    pace: Any,
    setting: DeviceSetting,
) -> Any:
    """Parameters, moments and average after a step, the bits of its sequences and the return where it was taken."""
    theta, mean, square, average = state
    rows = _softmax(theta, given)
    table = _filled(rows, given, jnp.zeros(setting.shape, theta.dtype))
    bits, slope = sampled_slope(given, table, key, chunks, setting)
    sign, wanted, unit = given.goal
    slope = sign * _rows_of(slope, given)
    if multiplier.shape[0]:
        value, earned, _ = returns_and_gradient(given.fixed, table, given.rewards)
        price = jnp.maximum(0.0, multiplier[0] - PENALTY * (value - wanted) / unit)
        slope = slope + (price / unit) * _rows_of(earned, given)
    else:
        value = return_value(given.fixed, table, given.rewards)
    gradient = rows * (slope - jnp.sum(rows * slope, axis=1, keepdims=True))
    rate, mean_scale, square_scale, weight = pace
    first, second = DECAYS
    mean = first * mean + (1 - first) * gradient
    square = second * square + (1 - second) * gradient**2
    theta = theta + rate * (mean / mean_scale) / (jnp.sqrt(square / square_scale) + 1e-12)
    theta = jnp.maximum(theta - theta.max(axis=1, keepdims=True), LOWEST)
    return (theta, mean, square, average + weight * (theta - average)), bits, value


@jax.jit
def _tabled(given: Given, theta: Any, base: Any) -> Any:
    return _filled(_softmax(theta.astype(base.dtype), given), given, base)


@jax.jit
def _logits(given: Given, table: Any, share: Any) -> Any:
    rows, count = _rows_of(table, given), given.open.sum(axis=1, keepdims=True)
    mixed = (1 - share) * rows + share / count
    return jnp.where(given.open, device_log(jnp.where(given.open, mixed, 1.0)), 0.0).astype(jnp.float32)


class DeviceAscent(StochasticAscent):
    """`StochasticAscent` whose parameters stay on JAX's devices between iterations.

    **Arguments:** see `StochasticAscent`; the task's space is on the device, has at most one constraint, on the return over
    the horizon, and the objective is the entropy.
    """

    def __init__(self, task: Task, safe: Float[np.ndarray, "T C A"], options: SolveOptions):
        super().__init__(task, safe, options)
        if jax.process_count() > 1 and np.isfinite(task.clock.time_limit):
            remedy = "set iterations instead of time_limit"
            raise InputError(
                "solve", [f"several processes of JAX have to take the same steps, not the same time: {remedy}"]
            )
        layers, space = task.space.layers, task.space
        assert isinstance(layers, DeviceLayers)
        self._layers = layers
        whole = len(self._rows) == space.shape[0] * space.shape[1]
        threshold = 0.0 if task.threshold is None else task.aim
        given = Given(
            fixed=place(space.hidden, np.float32),
            sums=layers.draws.arrays,
            rewards=layers.rewards(self._terminal, np.float32),
            open=np.ones((1, space.shape[2]), bool) if self._open.all() else self._open,
            rows=None if whole else self._rows,
            goal=np.array([task.sign, threshold, task.unit], np.float32),
        )
        devices = jax.devices()[: 2 ** (len(jax.devices()).bit_length() - 1)]
        mesh = Mesh(np.array(devices), (_AXIS,)) if len(devices) > 1 else None
        self._given: Given = jax.device_put(given)
        self._setting = DeviceSetting(layers.span, layers.plan.chunk, layers.draws.num_first, space.shape, mesh)
        self._safe = self._base = layers.send(safe)
        self._most_starts, self._most_restarts = layers.plan.starts, 0
        per_sequence = _PER_MESSAGE * space.hidden.horizon * space.hidden.num_states
        self._first_batch = self._batch_of(per_sequence, least=layers.plan.chunk)
        self._share_of_checks = _SHARE_OF_CHECKS
        # Of a time limit, seconds that the answer takes after its last check, and that and the last check.
        self._answering = _PER_NUMBER * space.hidden.horizon * space.hidden.paid[0].reward.size
        self._reserved = self._closing = self._closing + self._answering if self._closing else 0.0

    def begin(self, known: Float[np.ndarray, "n T C A"] | None = None) -> StochasticState:
        """The state before the first iteration; first, a step is compiled and timed, unless there is no time for it."""
        self.task.clock.check(ahead=COMPILE_SECONDS)
        self._seconds = self._timed()
        return super().begin(known)

    def _timed(self) -> float:
        """Seconds of a step with the first batch, measured; rounds of a search with a time limit depend on them."""
        theta, count = self._parameters(self._safe), self.task.num_constraints
        state, pace = (theta, 0 * theta, 0 * theta, theta), StepPace(0, 0.1, 0.1, 0.01, 0.5)
        self._move(state, np.zeros(count), 0, self._setting.chunk, pace)  # which compiles it
        begin = time.perf_counter()
        self._move(state, np.zeros(count), 1, self._first_batch, pace)
        return time.perf_counter() - begin

    def _move(self, state: tuple[Any, ...], multiplier: np.ndarray, seed: int, batch: int, pace: StepPace) -> Any:
        numbers = np.array([pace.rate, pace.mean_scale, pace.square_scale, pace.weight], np.float32)
        chunks = np.int32(-(-batch // self._setting.chunk))
        key = jax.random.key(seed)
        state, bits, value = _moved(
            self._given, state, multiplier.astype(np.float32), key, chunks, numbers, self._setting
        )
        return state, float(bits), float(value)

    def _step(self, state: StochasticState, number: int, pace: StepPace) -> Moved:
        task = self.task
        before = tuple(part[number] for part in (state.theta, state.mean, state.square, state.average))
        moved, bits, value = self._move(before, state.multiplier[number], self._seed(pace, number), state.batch, pace)
        slack = np.zeros(0)
        if task.num_constraints and task.threshold is not None:
            slack = np.array([(value - task.aim) / task.unit])
        point = Point(bits, value, task.sign * bits, slack)
        theta, mean, square, average = moved
        multiplier, worth = self._priced(state, number, point)
        return Moved(theta, mean, square, average, multiplier, worth, point)

    def _parameters(self, table: Any, share: float = LEAST_SHARE) -> Any:
        return _logits(self._given, self._layers.send(table), share)

    def _mended(self, table: Any, towards: Any = None) -> Any:
        return super()._mended(self._layers.send(table), towards)

    def _table(self, theta: Any) -> Any:
        return _tabled(self._given, theta, self._base)

    def unpack(self, arrays: dict[str, np.ndarray]) -> StochasticState:
        """The state of the arrays in a checkpoint."""
        state = super().unpack(arrays)
        names = ("theta", "mean", "square", "average")
        sent = {name: [jnp.asarray(one, jnp.float32) for one in getattr(state, name)] for name in names}
        return replace(state, **sent)

    def _checking_clock(self) -> Clock:
        clock = self.task.clock
        return clock.within(max(0.0, clock.left - self._reserved)) if self._reserved else clock

    def candidates(self, state: StochasticState) -> Float[np.ndarray, "1 T C A"]:
        """The best answer so far, the newest parameters among the contenders; back from the device."""
        self._reserved = self._answering if self._closing else 0.0
        return np.asarray(super().candidates(state))

    def describe(self) -> dict[str, object]:
        """How the gradients are made, and on which device."""
        kinds = jax.devices()
        where = (
            f"{kinds[0].device_kind} (JAX, float32)" if len(kinds) == 1 else f"{len(kinds)} × {kinds[0].device_kind}"
        )
        return super().describe() | {"device": where}
