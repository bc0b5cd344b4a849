"""The parameters of a search on an accelerator: logits, moments and averages stay there, in float32, tables in float64."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..common.errors import InputError
from ..common.logs import device_log
from .device_layers import DeviceLayers
from .device_layout import COMPILE_SECONDS
from .iteration import Iteration
from .objective import Objective
from .options import SolveOptions
from .parameters import LOWEST, Parameters, least_share
from .sampled_ascent import MOST_BATCH, SampledAscent
from .schedule import first_batch, sampled_schedule
from .starts import sampled_starts

_PER_MESSAGE = 2.5e-11  # seconds for each state, time and sequence of a step on an H200 (measured: 2.2e-11 to 3e-11)


@partial(jax.jit, static_argnames="shape")
def _filled(theta: Any, open_actions: Any, rows: Any, base: Any, shape: tuple[int, int, int]) -> Any:
    """A table of its rows; those that cannot be used are the base's."""
    theta = theta.astype(jnp.float64)
    weights = jnp.where(open_actions, jnp.exp(theta - theta.max(axis=1, keepdims=True)), 0.0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    if rows is None:
        return weights.reshape(shape)
    return base.reshape(-1, shape[2]).at[rows].set(weights).reshape(shape)


@jax.jit
def _logits(rows: Any, open_actions: Any, share: Any) -> Any:
    mixed = (1 - share) * rows + share / open_actions.sum(axis=1, keepdims=True)
    return jnp.where(open_actions, device_log(jnp.where(open_actions, mixed, 1.0)), 0.0).astype(jnp.float32)


@jax.jit
def _pulled(rows: Any, gradient: Any) -> Any:
    return (rows * (gradient - jnp.sum(rows * gradient, axis=-1, keepdims=True))).astype(jnp.float32)


class DeviceParameters(Parameters):
    """`TableParameters` on the device of JAX.

    **Arguments:** `objective`, whose space is on the device; `base`: a table `(T, C, A)`.
    """

    def __init__(self, objective: Objective, base: Float[np.ndarray, "T C A"]):
        space = objective.space
        layers, self._least_share = space.layers, least_share(space)
        assert isinstance(layers, DeviceLayers)
        self._layers, self._shape = layers, space.shape
        rows = layers.rows(space.shape[0])
        whole = len(rows) == space.shape[0] * space.shape[1]
        opened = space.available[rows % space.shape[1]]
        self._rows = None if whole else jax.device_put(rows)
        self._open = jax.device_put(np.ones((1, space.shape[2]), bool) if opened.all() else opened)
        self._base = layers.send(base)

    def _used(self, values: Any) -> Any:
        flat = values.reshape(*values.shape[:-3], self._shape[0] * self._shape[1], self._shape[2])
        return flat if self._rows is None else flat[..., self._rows, :]

    def tables(self, theta: Any) -> Any:
        """See `Parameters`; one at a time."""
        return _filled(theta[0], self._open, self._rows, self._base, self._shape)[None]

    def pull_back(self, theta: Any, tables: Any, gradient: Any) -> Any:
        """See `Parameters`."""
        rows = self._used(tables)
        gradient = jnp.asarray(gradient)
        rows = rows.reshape(len(rows), *(1,) * (gradient.ndim - tables.ndim), *rows.shape[1:])
        return _pulled(rows, self._used(gradient))

    def bounded(self, theta: Any) -> Any:
        """See `Parameters`."""
        return jnp.maximum(theta - theta.max(axis=-1, keepdims=True), LOWEST).astype(jnp.float32)

    def restored(self, array: np.ndarray) -> Any:
        """See `Parameters`."""
        return jnp.asarray(array, dtype=jnp.float32)

    def of(self, table: Any, share: float | None = None) -> Any:
        """See `Parameters`."""
        share = self._least_share if share is None else share
        return _logits(self._used(self._layers.send(table)), self._open, share)


def on_device(
    objective: Objective, safe: Float[np.ndarray, "T C A"], options: SolveOptions, given: list[np.ndarray]
) -> Iteration[Any]:
    """The default method on the device of JAX, for an objective whose space is there."""
    clock, space = objective.clock, objective.space
    if jax.process_count() > 1 and np.isfinite(clock.time_limit):
        remedy = "set iterations instead of time_limit"
        raise InputError(
            "solve", [f"several processes of JAX have to take the same steps, not the same time: {remedy}"]
        )
    clock.check(ahead=COMPILE_SECONDS)
    layers = space.layers
    assert isinstance(layers, DeviceLayers)
    per_sequence = _PER_MESSAGE * space.hidden.horizon * space.hidden.num_states
    batch = first_batch(per_sequence, layers.layout.chunk, max(layers.layout.chunk, MOST_BATCH // 2))
    starts = sampled_starts(objective, safe, options, given)[: layers.layout.starts]
    schedule = sampled_schedule(len(starts), per_sequence * batch, clock.time_limit, options.iterations)
    known = [layers.send(table) for table in [safe, *given]]
    return SampledAscent(objective, DeviceParameters(objective, safe), starts, known, schedule, options, batch)
